"""Scores, on small cases and on the tutorial's own fixtures."""

import gzip
import random

import pytest

from headrace.nmt.metrics import bleu, rouge_l, sacre_bleu, score, undo_subwords
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
