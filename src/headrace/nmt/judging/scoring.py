"""Scoring translations that are given, in place of finding some: how likely does the model find them?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.nmt.infer import Translator
from headrace.nmt.judging.evaluate import exp
from headrace.nmt.text.files import SEPARATORS, read_lines, write_lines

__all__ = ["PairScore", "score_file", "score_pairs", "total"]


class PairScore(NamedTuple):
    """How likely a translation is.

    Example:
        >>> pair = PairScore(log_prob=-3.0, words=2)
        >>> pair.per_word, round(pair.perplexity, 2)
        (-1.5, 4.48)
    """

    log_prob: float  # the natural logarithm, summed over words and eos
    words: int  # with eos

    @property
    def per_word(self) -> float:
        """The mean log-probability of a word."""
        return self.log_prob / self.words if self.words else 0.0

    @property
    def perplexity(self) -> float:
        """Among how many equally likely words the model might as well have guessed."""
        return exp(-self.per_word)


def score_pairs(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> list[PairScore]:
    """Scores a translation of each source; both as in the training files. Words are those that the model reads.

    Raises:
        DataError: There are not as many of one as of the other.
    """
    log_probs = translator.score(sources, targets)
    lengths = [sum(1 for word in line.split(SEPARATORS) if word) for line in translator.cut(targets)]
    return [PairScore(log_prob, length + 1) for log_prob, length in zip(log_probs, lengths, strict=True)]


def score_file(translator: Translator, source: str | Path, target: str | Path, output: str | Path) -> list[PairScore]:
    """Scores a file of translations; writes log-probability, its mean over the words, and perplexity of each line.

    The three numbers of a line are separated by tabs.

    Raises:
        OSError: A file cannot be read or written.
        DataError: The files differ in length.
    """
    scores = score_pairs(translator, read_lines(source), read_lines(target))
    write_lines(Path(output), [f"{pair.log_prob:.6f}\t{pair.per_word:.6f}\t{pair.perplexity:.6g}" for pair in scores])
    return scores


def total(scores: Sequence[PairScore]) -> PairScore:
    """Returns the score of all pairs together."""
    return PairScore(math.fsum(pair.log_prob for pair in scores), sum(pair.words for pair in scores))
