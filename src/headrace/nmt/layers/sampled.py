"""Sampled softmax: training against some wrong words instead of all of them.

Letters of shapes beyond those of `model.py`: N rows, each a word to predict; M candidates.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

__all__ = ["Candidates", "draw_candidates", "sampled_cross_entropy"]


class Candidates(NamedTuple):
    """Wrong words of one update, all different.

    Frequent words, which have low numbers, come more often: word k with the probability
    log((k + 2) / (k + 1)) / log(V + 1).
    """

    words_M: Tensor
    tries: int  # draws that it took until there were M different ones
    vocabulary: int

    def log_expected(self, words: Tensor) -> Tensor:
        """Returns the logarithm of how often each word was to be expected among so many draws."""
        words = words.to(torch.float64)
        p = ((words + 2.0).log() - (words + 1.0).log()) / math.log(self.vocabulary + 1.0)
        return (-torch.expm1(self.tries * torch.log1p(-p))).log()


def draw_candidates(
    count: int, vocabulary: int, generator: Generator | None = None, device: torch.device | None = None
) -> Candidates:
    """Draws until there are `count` different words, with the generator where it is, for the device."""
    where = None if generator is None else generator.device
    seen: dict[int, None] = {}
    tries = 0
    while True:
        draws = torch.rand(4 * count, generator=generator, dtype=torch.float64, device=where)
        for word in (draws * math.log(vocabulary + 1.0)).exp().long().sub(1).clamp(0, vocabulary - 1).tolist():
            tries += 1
            seen.setdefault(word)
            if len(seen) == count:
                return Candidates(torch.tensor(list(seen), device=device), tries, vocabulary)


def sampled_cross_entropy(output_NU: Tensor, projection_UV: Tensor, words_N: Tensor, candidates: Candidates) -> Tensor:
    """Returns for each row the cross-entropy of its right word among itself and the candidates, (N,).

    Logits are corrected for how often their words were to be expected; a candidate that is the right word is left out.
    """
    drawn_M = candidates.words_M.to(output_NU.device)
    right_N = (output_NU * projection_UV[:, words_N].t()).sum(dim=1) - candidates.log_expected(words_N)
    wrong_NM = output_NU @ projection_UV[:, drawn_M] - candidates.log_expected(drawn_M)
    wrong_NM = wrong_NM.masked_fill(words_N[:, None] == drawn_M, -math.inf)
    logits = torch.cat([right_N[:, None], wrong_NM], dim=1).to(output_NU.dtype)
    return F.cross_entropy(logits, torch.zeros_like(words_N), reduction="none")
