"""Several models that translate together: the probability of a word is the mean of theirs.

An `Ensemble` has what the searches of `decode.py` and the scoring of pairs need of a model. What a model calls memory,
state and output is here a tuple of what each of the models has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from headrace.nmt.hparams import HParams
from headrace.nmt.layers.steady import add_up, exp, log
from headrace.nmt.model import Batch, Memory, Seq2Seq, State

__all__ = ["Ensemble"]


class Ensemble:
    """Several models as one.

    Args:
        models: Models over the same vocabularies; their sizes and kinds may differ.

    Raises:
        ValueError: There is none, or they do not write the same number of words.

    Example:
        >>> models = [Seq2Seq(HParams(num_units=4, attention="luong"), 9, 7) for _ in range(2)]
        >>> batch = Batch(torch.tensor([[5, 6]]), torch.tensor([2]), torch.tensor([[1, 3, 2]]), torch.tensor([2]))
        >>> Ensemble(models)(batch).shape
        torch.Size([2, 1, 7])
    """

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        sizes = sorted({model.projection_UV.shape[1] for model in models})
        if len(sizes) != 1:
            raise ValueError(f"expected models that write the same words, got vocabularies of the sizes {sizes}")
        self.models = tuple(models)

    @property
    def hparams(self) -> HParams:
        """The settings of the first model, which are those of the search."""
        return self.models[0].hparams

    @property
    def parts(self) -> tuple[Seq2Seq, ...]:
        """The models."""
        return self.models

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.models[0].device

    @property
    def dtype(self) -> torch.dtype:
        """The type of probabilities."""
        return self.models[0].dtype

    @property
    def attends(self) -> bool:
        """Whether one of the models looks back at the source."""
        return any(model.attends for model in self.models)

    def encode(self, src_BS: Tensor, src_len_B: Tensor) -> tuple[tuple[Memory | None, ...], tuple[State, ...]]:
        """Reads source sentences with each model."""
        memories, states = zip(*(model.encode(src_BS, src_len_B) for model in self.models), strict=True)
        return memories, states

    def step(
        self, words_R: Tensor, states: Sequence[State], memories: Sequence[Memory | None]
    ) -> tuple[tuple[Tensor, ...], tuple[State, ...], Tensor | None]:
        """Goes one step with each; the attention is the mean of those that have it."""
        each = zip(self.models, states, memories, strict=True)
        steps = [model.step(words_R, state, memory) for model, state, memory in each]
        outputs, after, weights = zip(*steps, strict=True)
        looked = [weights_RS for weights_RS in weights if weights_RS is not None]
        return outputs, after, add_up(looked) / len(looked) if looked else None

    def logits(self, outputs: Sequence[Tensor]) -> Tensor:
        """Returns the log-probabilities of the words."""
        return self._mean([model.logits(output) for model, output in zip(self.models, outputs, strict=True)])

    def __call__(self, batch: Batch) -> Tensor:
        """Returns the log-probabilities of every target word given the right words before it: (T, B, V)."""
        return self._mean([model(batch) for model in self.models])

    def _mean(self, logits: Sequence[Tensor]) -> Tensor:
        """Returns the logarithm of the mean of the probabilities."""
        log_p = [part.log_softmax(dim=-1) for part in logits]
        most = reduce(torch.maximum, log_p)
        return most + log(add_up([exp(part - most) for part in log_p])) - math.log(len(log_p))
