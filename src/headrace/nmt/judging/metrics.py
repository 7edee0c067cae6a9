"""Scores of translations: those of the tutorial, digit by digit, and those of sacreBLEU with their signatures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from headrace.nmt.text.detokenize import detokenize as running_text

__all__ = [
    *("SACRE", "accuracy", "better", "bleu", "rouge_l", "sacre", "sacre_bleu", "score", "signature", "undo_subwords"),
    "word_accuracy",
]

SACRE = ("sacrebleu", "chrf", "ter")  # the metrics of the package sacrebleu

Lines = Sequence[str]


def score(
    metric: str, references: Lines, hypotheses: Lines, subword_option: str = "", detokenize: bool = False
) -> float:
    """Scores translations, from 0 to 100; only ter, the share of words to edit, may exceed that.

    Args:
        metric: bleu, rouge, accuracy, word_accuracy, sacrebleu, chrf or ter.
        references: The right translations, a line each; subwords in them are joined first.
        hypotheses: The translations to score, already joined.
        subword_option: How the references are cut: "" not at all, bpe or spm.
        detokenize: Make running text of both sides for sacrebleu, chrf and ter, which are meant for that.

    Raises:
        ValueError: The two sides are not of the same number of lines, or the metric is unknown.

    Example:
        >>> score("bleu", ["the cat sat on the mat"], ["the cat sat on a mat"])
        53.7284965911771
    """
    if metric not in _METRICS:
        raise ValueError(f"expected one of the metrics {', '.join(_METRICS)}, got {metric!r}")
    if len(references) != len(hypotheses):
        raise ValueError(
            f"expected a hypothesis for each reference, got {len(references)} references "
            f"and {len(hypotheses)} hypotheses"
        )
    joined = [undo_subwords(line.strip(), subword_option) for line in references]
    found = [line.strip() for line in hypotheses]
    if detokenize and metric in SACRE:
        joined, found = [running_text(line) for line in joined], [running_text(line) for line in found]
    return _METRICS[metric](joined, found)


def better(metric: str, value: float, before: float) -> bool:
    """Says whether a score is better than another; of ter and perplexities (ppl) the lower one is.

    Example:
        >>> better("bleu", 31.0, 30.0), better("ter", 31.0, 30.0)
        (True, False)
    """
    return value < before if metric in ("ter", "ppl") else value > before


def undo_subwords(line: str, subword_option: str) -> str:
    """Joins the pieces of words.

    Example:
        >>> undo_subwords("a be@@ au@@ tiful day", "bpe")
        'a beautiful day'
        >>> undo_subwords("▁a ▁beau tiful ▁day", "spm")
        'a beautiful day'
    """
    if subword_option == "bpe":
        return line.replace("@@ ", "").removesuffix("@@")
    if subword_option == "spm":
        return "".join(line.split()).replace("\u2581", " ").lstrip()
    return line


def bleu(references: Lines, hypotheses: Lines, max_order: int = 4) -> float:
    """Corpus BLEU over words as given: one reference, no smoothing; the number of multi-bleu.perl.

    An empty line counts as one empty word, as in the tutorial.
    """
    matches, possible = [0] * max_order, [0] * max_order
    reference_length = hypothesis_length = 0
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        right, ours = reference.split(" "), hypothesis.split(" ")
        reference_length += len(right)
        hypothesis_length += len(ours)
        for n in range(1, max_order + 1):
            matches[n - 1] += (_ngrams(right, n) & _ngrams(ours, n)).total()
            possible[n - 1] += max(0, len(ours) - n + 1)
    if min(matches) == 0:
        return 0.0
    precision = math.exp(sum(math.log(m / p) for m, p in zip(matches, possible, strict=True)) / max_order)
    brevity = min(1.0, math.exp(1.0 - reference_length / hypothesis_length))
    return 100.0 * precision * brevity


def _ngrams(words: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[k:] for k in range(n)), strict=False))


def rouge_l(references: Lines, hypotheses: Lines) -> float:
    """Mean over the lines of ROUGE-L's F: by the longest common subsequence, weighted by precision over recall."""
    total, tiny = 0.0, 1e-12
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        right, ours = reference.split(" "), hypothesis.split(" ")
        common = _common_subsequence(right, ours)
        recall, precision = common / len(right), common / len(ours)
        beta = precision / (recall + tiny)
        total += (1 + beta**2) * recall * precision / (recall + beta**2 * precision + tiny)
    return 100.0 * total / len(references) if references else 0.0


def _common_subsequence(a: list[str], b: list[str]) -> int:
    """Returns the length of the longest common subsequence.

    Bit k of `row` is 0 where the table of the usual algorithm rises from column k to k + 1, so that one addition of
    long integers does a whole row of it.
    """
    places: dict[str, int] = {}
    for k, word in enumerate(a):
        places[word] = places.get(word, 0) | 1 << k
    everything = (1 << len(a)) - 1
    row = everything
    for word in b:
        found = row & places.get(word, 0)
        row = ((row + found) | (row - found)) & everything
    return len(a) - row.bit_count()


def accuracy(references: Lines, hypotheses: Lines) -> float:
    """Share of lines that are exactly right."""
    right = sum(r == h for r, h in zip(references, hypotheses, strict=True))
    return 100.0 * right / len(references) if references else 0.0


def word_accuracy(references: Lines, hypotheses: Lines) -> float:
    """Mean over the lines of the share of words that are right and in their place, of the longer side's words."""
    total = 0.0
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        right, ours = reference.split(" "), hypothesis.split(" ")
        total += sum(r == h for r, h in zip(right, ours, strict=False)) / max(len(right), len(ours))
    return 100.0 * total / len(references) if references else 0.0


def sacre_bleu(references: Lines, hypotheses: Lines, tokenize: str = "13a") -> tuple[float, str]:
    """Returns sacreBLEU, which tokenises by itself, and the signature that makes it comparable.

    Args:
        references: The right translations, as running text.
        hypotheses: The translations to score, as running text.
        tokenize: sacreBLEU's tokeniser; "none" for text that is tokenised already.
    """
    return sacre("sacrebleu", references, hypotheses, tokenize=tokenize)


def sacre(metric: str, references: Lines, hypotheses: Lines, **settings: Any) -> tuple[float, str]:
    """Returns a score of the package sacrebleu, and its signature. Nothing to score gives 0.

    Args:
        metric: sacrebleu, chrf (character n-grams) or ter (words to edit, a share of the reference's: less is better).
        references: The right translations, as running text.
        hypotheses: The translations to score, as running text.
        settings: Options of sacrebleu's own class.

    Example:
        >>> value, _ = sacre("ter", ["a b c d"], ["a b x d"])
        >>> value
        25.0
    """
    from sacrebleu import BLEU, CHRF, TER  # needed by those who ask for it alone

    kinds: dict[str, Callable[..., Any]] = {
        "sacrebleu": lambda **given: BLEU(force=True, **given),
        "chrf": CHRF,
        "ter": TER,
    }
    scorer = kinds[metric](**settings)
    pairs = (list(hypotheses), list(references)) if references else ([""], [""])  # it cannot do without a line
    return float(scorer.corpus_score(pairs[0], [pairs[1]]).score), str(scorer.get_signature())


def signature(metric: str) -> str:
    """Returns the signature of a metric of sacrebleu with the settings of `score`."""
    return sacre(metric, [""], [""])[1]


_METRICS: dict[str, Callable[[Lines, Lines], float]] = {
    "bleu": bleu,
    "rouge": rouge_l,
    "accuracy": accuracy,
    "word_accuracy": word_accuracy,
    "sacrebleu": lambda references, hypotheses: sacre("sacrebleu", references, hypotheses)[0],
    "chrf": lambda references, hypotheses: sacre("chrf", references, hypotheses)[0],
    "ter": lambda references, hypotheses: sacre("ter", references, hypotheses)[0],
}
