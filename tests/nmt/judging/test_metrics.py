"""Scores, on small cases and on the tutorial's own fixtures."""

import gzip
import random

import pytest

from headrace.nmt.judging.metrics import SACRE, bleu, rouge_l, sacre, sacre_bleu, score, signature, undo_subwords
from headrace.nmt.text.detokenize import detokenize
from tests.nmt.conftest import shared_data


def lines(name: str) -> list[str]:
    path = shared_data("nmt-testdata") / name
    data = path.read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    return text.removesuffix("\n").split("\n")


@pytest.mark.parametrize("subwords", ["bpe", "spm"])
def test_the_tutorials_fixture(subwords: str) -> None:
    references, hypotheses = lines(f"deen_ref_{subwords}.gz"), lines("deen_output.gz")
    assert score("bleu", references, hypotheses, subwords) == pytest.approx(22.5855084573, abs=1e-10)
    assert score("rouge", references, hypotheses, subwords) == pytest.approx(50.8429782599, abs=1e-10)


def test_the_tutorials_labels() -> None:
    assert score("accuracy", lines("label_ref"), lines("pred_output")) == 60.0
    assert score("word_accuracy", lines("label_ref"), lines("pred_output")) == 60.0


def test_bleu_by_hand() -> None:
    assert bleu(["a b c d e"], ["a b c d e"]) == 100.0
    # 4 of 5 words, 2 of 4 pairs, 1 of 3 triples, and no four in a row
    assert bleu(["a b c d e"], ["a b c x e"]) == 0.0
    assert bleu(["a b c d e f g h"], ["a b c d"]) == pytest.approx(100 * 2.718281828459045**-1)
    assert bleu([], []) == 0.0
    assert bleu(["a"], [""]) == 0.0


def test_bleu_is_that_of_sacrebleu_on_words() -> None:
    rng = random.Random(1)
    references = [" ".join(rng.choices("abcdefg", k=rng.randint(4, 12))) for _ in range(50)]
    hypotheses = [" ".join(w if rng.random() < 0.8 else "x" for w in r.split()) for r in references]
    value, signature = sacre_bleu(references, hypotheses, tokenize="none")
    assert bleu(references, hypotheses) == pytest.approx(value, rel=1e-6)
    assert "tok:none" in signature


def test_rouge_is_by_the_longest_common_subsequence() -> None:
    def slow(a: list[str], b: list[str]) -> int:
        table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
        return table[-1][-1]

    rng = random.Random(2)
    for _ in range(200):
        a, b = (rng.choices("abcd", k=rng.randint(1, 9)) for _ in range(2))
        common = slow(a, b)
        r, p = common / len(a), common / len(b)
        beta = p / r if r else 0.0
        expected = 100 * (1 + beta**2) * r * p / (r + beta**2 * p) if common else 0.0
        assert rouge_l([" ".join(a)], [" ".join(b)]) == pytest.approx(expected, abs=1e-6)


def test_word_accuracy_is_by_place() -> None:
    assert score("word_accuracy", ["a b c d", "e"], ["a x c", "e"]) == 75.0
    assert score("accuracy", ["a b ", "c"], ["a b", "d"]) == 50.0


def test_subwords() -> None:
    assert undo_subwords("a be@@ au@@ tiful", "bpe") == "a beautiful"
    assert undo_subwords("a beau@@", "bpe") == "a beau"
    assert undo_subwords("a be@@ au", "") == "a be@@ au"
    assert score("accuracy", ["be@@ au"], ["beau"], "bpe") == 100.0


def test_refuses() -> None:
    with pytest.raises(ValueError, match="a hypothesis for each reference, got 2 references and 1 hypotheses"):
        score("bleu", ["a", "b"], ["a"])
    with pytest.raises(ValueError, match=r"expected one of the metrics bleu, .*, got 'blue'"):
        score("blue", [], [])


def test_sacrebleu_tokenises() -> None:
    assert score("sacrebleu", ["Hello, world, again!"], ["Hello , world , again !"]) == pytest.approx(100.0)


METRICS = ("bleu", "rouge", "accuracy", "word_accuracy", *SACRE)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("pair", [([], []), ([""], [""]), (["a b"], [""]), ([""], ["a"]), (["a b", ""], ["", "c"])])
def test_nothing_is_no_reason_to_fail(metric: str, pair: tuple[list[str], list[str]]) -> None:
    assert 0.0 <= score(metric, *pair) <= (150.0 if metric == "ter" else 100.0)
    assert score(metric, *pair, "spm", True) >= 0.0


def test_chrf_and_ter_by_hand() -> None:
    # all 3 letters of "abc" and 1 of "abd" less: 1-grams 2/3, 2-grams 1/2, 3-grams 0; the orders beyond do not exist
    assert score("chrf", ["abc"], ["abd"]) == pytest.approx(100 * (2 / 3 + 1 / 2) / 3, abs=1e-4)
    assert score("chrf", ["a mill"], ["a mill"]) == pytest.approx(100.0)
    assert score("ter", ["a b c d"], ["a c d"]) == 25.0
    assert score("ter", ["a b c d"], ["c d a b"]) == 25.0  # one shift
    assert score("ter", ["a"], ["x y z"]) == 300.0
    assert signature("chrf").startswith("nrefs:1|case:mixed|eff:yes|nc:6|")
    assert "tok:tercom" in signature("ter")
    assert sacre("chrf", ["abc"], ["abc"], word_order=2)[1].split("nw:")[1][0] == "2"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("a man , who is there , sits .", "a man, who is there, sits."),
        ("it &apos;s ( very ) good !", "it's (very) good!"),
        ('" so " they say &amp; " go "', '"so" they say & "go"'),
        ("l&apos; eau d&apos; or", "l'eau d'or"),
        ("a T @-@ shirt at 5 %", "a T-shirt at 5%"),
        ("Running text, as it (always) was: 3.5 km!", "Running text, as it (always) was: 3.5 km!"),
        ("", ""),
    ],
)
def test_running_text(words: str, text: str) -> None:
    assert detokenize(words) == text


def test_scores_of_running_text() -> None:
    words, raw = ["it &apos;s a mill , he said ."], ["it's a mill, he said."]
    assert score("sacrebleu", raw, words, detokenize=True) == pytest.approx(100.0)
    assert score("sacrebleu", raw, words) < 90.0
    assert score("bleu", raw, words, detokenize=True) == score("bleu", raw, words)  # is of the words as they are
