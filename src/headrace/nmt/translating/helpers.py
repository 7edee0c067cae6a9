"""Helpers, by the tutorial's name: how the next word is chosen when translations are written word by word."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from headrace.nmt.layers.steady import log

__all__ = ["GreedyEmbeddingHelper", "Helper", "SampleEmbeddingHelper", "seed_of"]


class Helper(Protocol):
    """Chooses words."""

    def choose(self, logits_RV: Tensor, rows_R: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the next word of each row and its log-probability; `rows_R` are their numbers in the batch."""


class GreedyEmbeddingHelper:
    """Takes the likeliest word."""

    def choose(self, logits_RV: Tensor, rows_R: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the likeliest words."""
        best_R, words_R = F.log_softmax(logits_RV, dim=1).max(dim=1)
        return words_R, best_R


class SampleEmbeddingHelper:
    """Draws words by their probability.

    Every row has a stream of random numbers of its own, so what is drawn for it doesn't depend on its neighbours.

    Args:
        seeds: One for each row of the batch.
        temperature: Logits are divided by it: below 1 likely words are favoured, above 1 unlikely ones.
        top_k: Draw among so many of the likeliest words; 0: among all.
        top_p: Draw among the likeliest words that together have this probability.

    Example:
        >>> helper = SampleEmbeddingHelper([1, 2], temperature=1.0, top_k=1)
        >>> words, _ = helper.choose(torch.tensor([[0.0, 3.0], [5.0, 0.0]]), torch.tensor([0, 1]))
        >>> words.tolist()
        [1, 0]
    """

    def __init__(self, seeds: Sequence[int], temperature: float, top_k: int = 0, top_p: float = 1.0) -> None:
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p

    def choose(self, logits_RV: Tensor, rows_R: Tensor) -> tuple[Tensor, Tensor]:
        """Returns drawn words; their log-probabilities are the model's, without temperature and cuts."""
        scaled_RV = self.cut(logits_RV / self.temperature)
        # The largest of log-probabilities with Gumbel noise is a draw from their distribution.
        waits = [
            torch.empty(logits_RV.shape[1]).exponential_(generator=self.generators[row]) for row in rows_R.tolist()
        ]
        noise_RV = -log(torch.stack(waits).to(logits_RV))
        words_R = (scaled_RV + noise_RV).argmax(dim=1)
        return words_R, F.log_softmax(logits_RV, dim=1).gather(1, words_R[:, None])[:, 0]

    def cut(self, logits_RV: Tensor) -> Tensor:
        """Makes the words impossible that are not to be drawn."""
        if 0 < self.top_k < logits_RV.shape[1]:
            least_R1 = logits_RV.topk(self.top_k, dim=1).values[:, -1:]
            logits_RV = logits_RV.masked_fill(logits_RV < least_R1, float("-inf"))
        if self.top_p < 1.0:
            sorted_RV, order_RV = logits_RV.sort(dim=1, descending=True)
            p_RV = sorted_RV.softmax(dim=1)
            beyond_RV = p_RV.cumsum(dim=1) - p_RV >= self.top_p  # the words before it are enough; the first one stays
            logits_RV = logits_RV.masked_fill(
                torch.zeros_like(beyond_RV).scatter(1, order_RV, beyond_RV), float("-inf")
            )
        return logits_RV


def seed_of(seed: int, words: Sequence[int], number: int) -> int:
    """Returns a seed for one of the samples of a sentence: it depends on the sentence alone.

    Args:
        seed: The setting.
        words: The source's words.
        number: Which of the sentence's samples it is for.
    """
    text = f"{seed} {number} {' '.join(map(str, words))}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "little")
