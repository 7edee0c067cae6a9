"""Attention mechanisms, by the tutorial's names: how much of each source step to take. Shapes as in `model.py`."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from headrace.nmt.hparams import HParams
from headrace.nmt.layers.cells import States
from headrace.nmt.layers.steady import multiply, tanh

__all__ = [
    "AttentionMechanism",
    "BahdanauAttention",
    "LuongAttention",
    "Memory",
    "State",
    "make_attention",
    "never_empty",
]


class Memory(NamedTuple):
    """What the decoder may look back at."""

    values_BSD: Tensor
    keys_BSU: Tensor
    real_BS: Tensor


class State(NamedTuple):
    """The decoder between two steps: its cells, and the last attention vector, which is fed to the next step."""

    cells: States
    attention_BA: Tensor | None


def never_empty(real_SB: Tensor) -> Tensor:
    """Counts the first step of each sentence as real: an empty source has one, of zeros, for weights to sum to 1."""
    return real_SB | (torch.arange(len(real_SB), device=real_SB.device)[:, None] == 0)


class AttentionMechanism(nn.Module):
    """What all mechanisms have: keys of the memory, and the attention vector made of query and context.

    Args:
        memory_depth: Width of the memory.
        units: Width of queries and keys.
        mixes: Whether the attention vector is a projection of query and context; else it is the context.
    """

    CONSTANTS: ClassVar[dict[str, float]] = {}

    def __init__(self, memory_depth: int, units: int, mixes: bool) -> None:
        super().__init__()
        self.size = units if mixes else memory_depth  # width of the attention vector
        self.memory_layer_DU = nn.Parameter(torch.empty(memory_depth, units))
        # No tanh on what this gives, unlike the formula in the tutorial's text: its code has always been linear.
        self.layer_CU = nn.Parameter(torch.empty(units + memory_depth, units)) if mixes else None

    def keys(self, values_BSD: Tensor) -> Tensor:
        """Returns what queries are compared with, once for all steps."""
        return multiply(values_BSD, self.memory_layer_DU)

    def scores(self, query_BQU: Tensor, keys_BSU: Tensor) -> Tensor:
        """Compares queries with keys: (B, Q, S)."""
        raise NotImplementedError

    def forward(self, query_BU: Tensor, memory: Memory) -> Tensor:
        """Returns how much of each source step to take: (B, queries of a sentence, S), summing to 1 over S."""
        query_BQU = query_BU.view(len(memory.keys_BSU), -1, query_BU.shape[1])
        scores_BQS = self.scores(query_BQU, memory.keys_BSU)
        weights_BQS: Tensor = scores_BQS.masked_fill(~memory.real_BS[:, None], -math.inf).softmax(dim=2)
        return weights_BQS

    def vector(self, query_BU: Tensor, context_BD: Tensor) -> Tensor:
        """Returns the attention vector."""
        if self.layer_CU is None:
            return context_BD
        return multiply(torch.cat([query_BU, context_BD], dim=1), self.layer_CU)


class LuongAttention(AttentionMechanism):
    """`luong`: the product of key and query; `scaled_luong`: times a learned scale."""

    CONSTANTS: ClassVar[dict[str, float]] = {"scale": 1.0}

    def __init__(self, memory_depth: int, units: int, mixes: bool, scaled: bool) -> None:
        super().__init__(memory_depth, units, mixes)
        self.scale = nn.Parameter(torch.ones(())) if scaled else None

    def keys(self, values_BSD: Tensor) -> Tensor:
        """Returns the keys, which bring the scale along."""
        keys_BSU = super().keys(values_BSD)
        return keys_BSU if self.scale is None else keys_BSU * self.scale

    def scores(self, query_BQU: Tensor, keys_BSU: Tensor) -> Tensor:
        """Compares queries with keys."""
        return query_BQU @ keys_BSU.transpose(1, 2)


class BahdanauAttention(AttentionMechanism):
    """`bahdanau`: v · tanh(query W + key); `normed_bahdanau`: v of a learned length g, and a bias under the tanh.

    Unlike in the paper the query is the decoder's present output, not its last one, as in the tutorial.
    """

    def __init__(self, memory_depth: int, units: int, mixes: bool, normed: bool) -> None:
        super().__init__(memory_depth, units, mixes)
        self.query_layer_UU = nn.Parameter(torch.empty(units, units))
        self.v_U = nn.Parameter(torch.empty(units))
        self.length = nn.Parameter(torch.empty(())) if normed else None
        self.bias_U = nn.Parameter(torch.empty(units)) if normed else None
        self.CONSTANTS = {"length": math.sqrt(1.0 / units), "bias_U": 0.0}  # type: ignore[misc]

    def scores(self, query_BQU: Tensor, keys_BSU: Tensor) -> Tensor:
        """Compares queries with keys."""
        sum_BQSU = multiply(query_BQU, self.query_layer_UU)[:, :, None] + keys_BSU[:, None]
        v_U: Tensor = self.v_U
        if self.length is not None and self.bias_U is not None:
            sum_BQSU, v_U = sum_BQSU + self.bias_U, v_U * (self.length / v_U.norm())
        return multiply(tanh(sum_BQSU), v_U[:, None]).squeeze(3)


def make_attention(hparams: HParams) -> AttentionMechanism | None:
    """Makes the mechanism that `attention` names, or none."""
    name, depth, units = hparams.attention, hparams.memory_depth, hparams.num_units
    if not name:
        return None
    mixes = hparams.attention_architecture == "standard"
    if name.endswith("luong"):
        return LuongAttention(depth, units, mixes, scaled=name.startswith("scaled"))
    return BahdanauAttention(depth, units, mixes, normed=name.startswith("normed"))
