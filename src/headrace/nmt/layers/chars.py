"""Character input: a source word's vector is made of its bytes.

Words that share parts then share what is learned of these. Which words there are is still the vocabulary's: those that
it lacks are all `<unk>`.

Letters of shapes beyond those of `model.py`: W different words, L bytes of a word with its marks, E width of a byte's
vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headrace.nmt.layers.steady import multiply, tanh

__all__ = ["CharEncoder", "word_bytes"]

LONGEST = 50  # bytes of a word, its two marks included
BEGIN, END, PAD = 256, 257, 258
_SYMBOLS = 259
_WIDTH = 32  # of a byte's vector
_SPAN = 5  # bytes that are looked at together


def word_bytes(words: Sequence[str]) -> Tensor:
    """Returns the bytes of words between marks, cut and padded to 50: (words, 50).

    Example:
        >>> word_bytes(["ü"])[0, :5].tolist()
        [256, 195, 188, 257, 258]
    """
    found = torch.full((len(words), LONGEST), PAD, dtype=torch.int16)
    for row, word in enumerate(words):
        symbols = [BEGIN, *word.encode("utf-8", "surrogateescape")[: LONGEST - 2], END]
        found[row, : len(symbols)] = torch.tensor(symbols, dtype=torch.int16)
    return found


class CharEncoder(nn.Module):
    """Makes word vectors: a convolution over the bytes, of which the largest value anywhere in the word counts.

    Args:
        vocab_size: How many words there are.
        units: Width of a word's vector.
    """

    CONSTANTS: ClassVar[dict[str, float]] = {"bias_U": 0.0}
    bytes_VL: Tensor

    def __init__(self, vocab_size: int, units: int) -> None:
        super().__init__()
        self.register_buffer("bytes_VL", torch.full((vocab_size, LONGEST), PAD, dtype=torch.int16))
        self.embedding = nn.Parameter(torch.empty(_SYMBOLS, _WIDTH))
        self.kernel = nn.Parameter(torch.empty(_SPAN * _WIDTH, units))
        self.bias_U = nn.Parameter(torch.zeros(units))

    def set_words(self, words: Sequence[str]) -> None:
        """Says which words the vocabulary has."""
        self.bytes_VL.copy_(word_bytes(words))

    def forward(self, words: Tensor) -> Tensor:
        """Looks up words of any shape: their vectors."""
        different_W, place = torch.unique(words, return_inverse=True)
        symbols_WL = self.bytes_VL[different_W].long()
        pad_WLE = F.embedding(symbols_WL, self.embedding) * (symbols_WL != PAD).unsqueeze(2)
        around = F.pad(pad_WLE, (0, 0, _SPAN // 2, _SPAN // 2)).unfold(1, _SPAN, 1)  # (W, L, E, span)
        values_WLU = multiply(around.flatten(2), self.kernel, self.bias_U)
        values_WLU = values_WLU.masked_fill((symbols_WL == PAD).unsqueeze(2), float("-inf"))
        vectors_WU = tanh(values_WLU.amax(dim=1).nan_to_num(neginf=0.0))
        return vectors_WU[place]
