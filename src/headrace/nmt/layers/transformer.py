"""The Transformer: an encoder and a decoder that look at all words at once, and pass no state along.

They take the places of `Encoder` and `Decoder` of `model.py`, and shapes are named as there, with

    H heads    E width of a head, U / H    F width of the feed-forward layer    L layers    P steps already written

Within this file sentences come first: `x_BSU[b]` is one sentence. A layer adds to what it reads, and normalises what
it reads, not what it gives (pre-norm): a deep stack then learns without a warm-up as careful as the paper's.

In training all target words are read at once, and a mask hides from each the words after it. In translating, one
comes after the other: the keys and values of those before are the decoder's state, so that each is read once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from headrace.nmt.hparams import HParams
from headrace.nmt.layers.attention import Memory, State, never_empty
from headrace.nmt.layers.cells import CellState, States, draw_mask
from headrace.nmt.layers.steady import add_up, multiply

__all__ = ["DecoderLayer", "EncoderLayer", "MultiHeadAttention", "TransformerDecoder", "TransformerEncoder"]

Drop = Callable[[Tensor], Tensor]


def dropper(masks: Sequence[Tensor] | None) -> Drop:
    """Returns what applies dropout: with each call the next of the masks; without masks nothing."""
    if masks is None:
        return lambda x: x
    following = iter(masks)
    return lambda x: x * next(following)


def place(x_BTU: Tensor, first: int = 0) -> Tensor:
    """Adds to word vectors where they are: sines and cosines of the step, of wave lengths from 2 pi to 20,000 pi.

    The vectors are scaled up to the waves' size, as theirs is that of weights.

    Args:
        x_BTU: The vectors.
        first: The step of the first of them.
    """
    units = x_BTU.shape[2]
    step_T1 = torch.arange(first, first + x_BTU.shape[1], dtype=torch.float64, device=x_BTU.device)[:, None]
    rate_U = 10000.0 ** (-torch.arange(0, units, 2, dtype=torch.float64, device=x_BTU.device) / units)
    waves_TU = torch.cat([torch.sin(step_T1 * rate_U), torch.cos(step_T1 * rate_U)], dim=1)
    return x_BTU * math.sqrt(units) + waves_TU.to(x_BTU.dtype)


class Norm(nn.LayerNorm):
    """Layer normalisation."""

    CONSTANTS: ClassVar[dict[str, float]] = {"weight": 1.0, "bias": 0.0}


class Linear(nn.Module):
    """A matrix product and a bias."""

    CONSTANTS: ClassVar[dict[str, float]] = {"bias_O": 0.0}

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel_IO = nn.Parameter(torch.empty(inputs, outputs))
        self.bias_O = nn.Parameter(torch.empty(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Applies it to the last dimension."""
        return multiply(x, self.kernel_IO, self.bias_O)


class MultiHeadAttention(nn.Module):
    """Several heads, each of which looks with its share of the units.

    Args:
        units: Width of queries, keys and values.
        heads: How many heads share it.
    """

    def __init__(self, units: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (Linear(units, units) for _ in range(4))

    def keys_values(self, x_BSU: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what queries are compared with, and what is taken of it."""
        return self.key(x_BSU), self.value(x_BSU)

    def forward(self, x_BQU: Tensor, keys_BSU: Tensor, values_BSU: Tensor, seen_BQS: Tensor) -> tuple[Tensor, Tensor]:
        """Looks; returns what was taken, and how much of each step every head took, (B, H, Q, S).

        Args:
            x_BQU: Who looks.
            keys_BSU: What queries are compared with.
            values_BSU: What is taken.
            seen_BQS: What each may see; sizes of 1 stand for all.
        """
        parts = self.query(x_BQU), keys_BSU, values_BSU
        # Contiguous also where there is one sentence, for the products to be made by the same code.
        q_BHQE, k_BHSE, v_BHSE = (part.unflatten(2, (self.heads, -1)).transpose(1, 2).contiguous() for part in parts)
        scores_BHQS = q_BHQE @ k_BHSE.transpose(2, 3) * q_BHQE.shape[3] ** -0.5
        weights_BHQS = scores_BHQS.masked_fill(~seen_BQS[:, None], -math.inf).softmax(dim=3)
        taken_BQU = (weights_BHQS @ v_BHSE).transpose(1, 2).flatten(2)
        return self.output(taken_BQU), weights_BHQS


class FeedForward(nn.Module):
    """Two matrix products, the same at every step, and what is negative between them set to 0."""

    def __init__(self, units: int, inner: int) -> None:
        super().__init__()
        self.inner, self.outer = Linear(units, inner), Linear(inner, units)

    def forward(self, x_BTU: Tensor, drop: Drop) -> Tensor:
        """Applies it."""
        y_BTU: Tensor = self.outer(drop(self.inner(x_BTU).relu()))
        return y_BTU


class EncoderLayer(nn.Module):
    """Every word looks at all words of its sentence; then a feed-forward layer."""

    def __init__(self, hparams: HParams) -> None:
        super().__init__()
        units = hparams.num_units
        self.attention, self.attention_norm = MultiHeadAttention(units, hparams.num_heads), Norm(units)
        self.feed_forward, self.feed_forward_norm = FeedForward(units, hparams.ffn_width), Norm(units)

    def forward(self, x_BSU: Tensor, real_BS: Tensor, drop: Drop) -> Tensor:
        """Reads all words; those that are not real are seen by none."""
        normed_BSU = self.attention_norm(x_BSU)
        taken_BSU, _ = self.attention(normed_BSU, *self.attention.keys_values(normed_BSU), real_BS[:, None])
        x_BSU = x_BSU + drop(taken_BSU)
        return x_BSU + drop(self.feed_forward(self.feed_forward_norm(x_BSU), drop))


class DecoderLayer(nn.Module):
    """Every word looks at itself and the words before it, then at the source; then a feed-forward layer."""

    def __init__(self, hparams: HParams) -> None:
        super().__init__()
        units, heads = hparams.num_units, hparams.num_heads
        self.attention, self.attention_norm = MultiHeadAttention(units, heads), Norm(units)
        looks = not hparams.language_model
        self.cross: MultiHeadAttention | None = MultiHeadAttention(units, heads) if looks else None
        self.cross_norm = Norm(units) if looks else None
        self.feed_forward, self.feed_forward_norm = FeedForward(units, hparams.ffn_width), Norm(units)

    def forward(
        self, x_RTU: Tensor, past: CellState, memory: Memory | None, drop: Drop
    ) -> tuple[Tensor, CellState, Tensor | None]:
        """Reads some words that follow those of the past; returns also the past then, and the attention, (B, H, Q, S).

        Args:
            x_RTU: The words. In beam search R, the rows, are the hypotheses of the B sentences in turn.
            past: Keys and values of the words before, (R, P, U).
            memory: Keys and values of the source, for this layer.
            drop: Applies dropout.
        """
        steps = x_RTU.shape[1]
        normed_RTU = self.attention_norm(x_RTU)
        new = self.attention.keys_values(normed_RTU)
        keys_RPU, values_RPU = (torch.cat([old, part], dim=1) for old, part in zip(past, new, strict=True))
        seen_TP = torch.ones(steps, keys_RPU.shape[1], dtype=torch.bool, device=x_RTU.device)
        seen_TP = seen_TP.tril(keys_RPU.shape[1] - steps)
        taken_RTU, _ = self.attention(normed_RTU, keys_RPU, values_RPU, seen_TP[None])
        x_RTU = x_RTU + drop(taken_RTU)
        weights_BHQS = None
        if self.cross is not None and self.cross_norm is not None and memory is not None:
            query_BQU = self.cross_norm(x_RTU).reshape(len(memory.keys_BSU), -1, x_RTU.shape[2])
            seen_B1S = memory.real_BS[:, None]
            taken_BQU, weights_BHQS = self.cross(query_BQU, memory.keys_BSU, memory.values_BSD, seen_B1S)
            x_RTU = x_RTU + drop(taken_BQU.view_as(x_RTU))
        x_RTU = x_RTU + drop(self.feed_forward(self.feed_forward_norm(x_RTU), drop))
        return x_RTU, (keys_RPU, values_RPU), weights_BHQS


class TransformerEncoder(nn.Module):
    """Reads the source."""

    layers: Sequence[EncoderLayer]

    def __init__(self, hparams: HParams) -> None:
        super().__init__()
        self.widths = [hparams.num_units, hparams.ffn_width, hparams.num_units]
        self.layers = nn.ModuleList(  # type: ignore[assignment]
            EncoderLayer(hparams) for _ in range(hparams.encoder_layers)
        )
        self.norm = Norm(hparams.num_units)

    def forward(self, x_SBU: Tensor, real_SB: Tensor, masks: list[list[Tensor]] | None) -> tuple[Tensor, States]:
        """Returns the outputs, zero past each sentence's end, and no states."""
        drop = dropper(None if masks is None else masks[0])
        x_BSU, real_BS = drop(place(x_SBU.transpose(0, 1))), real_SB.t()
        seen_BS = never_empty(real_SB).t()
        for layer in self.layers:
            x_BSU = layer(x_BSU, seen_BS, drop)
        return (self.norm(x_BSU) * real_BS[:, :, None]).transpose(0, 1), ()

    def draw_masks(self, n: int, batch: int, dropout: float, generator: Generator | None) -> list[list[Tensor]]:
        """Draws dropout in the order in which it is applied: on the words, then three times in each layer."""
        widths, device = [self.widths[0], *self.widths * len(self.layers)], self.norm.weight.device
        return [[draw_mask((batch, n, width), dropout, generator, device) for width in widths]]


class TransformerDecoder(nn.Module):
    """Writes the target, by the interface of the recurrent `Decoder`.

    The memory has keys and values of all layers side by side; the state, what each layer keeps of the words before.
    """

    layers: Sequence[DecoderLayer]

    def __init__(self, hparams: HParams) -> None:
        super().__init__()
        self.units, looks = hparams.num_units, 0 if hparams.language_model else 1
        self.widths = [self.units] * (1 + looks) + [hparams.ffn_width, self.units]
        self.layers = nn.ModuleList(  # type: ignore[assignment]
            DecoderLayer(hparams) for _ in range(hparams.decoder_layers)
        )
        self.norm = Norm(self.units)

    def start(
        self, batch: int, memory_SBD: Tensor | None, real_SB: Tensor, encoded: States | None
    ) -> tuple[Memory | None, State]:
        """Prepares keys and values of the source, once for all steps, and a past without words."""
        nothing = self.norm.weight.new_empty(batch, 0, self.units)
        state = State(tuple((nothing, nothing) for _ in self.layers), None)
        if memory_SBD is None:
            return None, state
        memory_BSU = memory_SBD.transpose(0, 1)
        each = [layer.cross.keys_values(memory_BSU) for layer in self.layers if layer.cross is not None]
        keys_BSU, values_BSD = (torch.cat(parts, dim=2) for parts in zip(*each, strict=True))
        return Memory(values_BSD, keys_BSU, never_empty(real_SB).t()), state

    def forward(self, y_TBU: Tensor, state: State, memory: Memory | None, masks: list[Tensor] | None) -> Tensor:
        """Reads all right words at once; returns what predicts the words that follow them: (T, B, U)."""
        return self.read(y_TBU.transpose(0, 1), state.cells, memory, dropper(masks))[0].transpose(0, 1)

    def step(
        self, x_BU: Tensor, state: State, memory: Memory | None, masks: list[Tensor] | None = None
    ) -> tuple[Tensor, State, Tensor | None]:
        """Goes one step, as the recurrent decoder does: in beam search for all hypotheses of each sentence.

        The attention weights are those of the top layer, the mean of its heads.
        """
        output_R1U, past, weights_BHQS = self.read(x_BU[:, None], state.cells, memory, dropper(masks))
        weights_RS = (
            None
            if weights_BHQS is None
            else (add_up([*weights_BHQS.unbind(dim=1)]) / weights_BHQS.shape[1]).flatten(0, 1)
        )
        return output_R1U[:, 0], State(past, None), weights_RS

    def read(
        self, x_RTU: Tensor, past: States, memory: Memory | None, drop: Drop
    ) -> tuple[Tensor, States, Tensor | None]:
        """Runs all layers; returns the outputs, the past then, and the attention of the top layer."""
        x_RTU = drop(place(x_RTU, first=past[0][0].shape[1]))
        after, weights_BHQS, units = [], None, self.units
        for number, (layer, before) in enumerate(zip(self.layers, past, strict=True)):
            own = slice(number * units, (number + 1) * units)
            its = None if memory is None else Memory(memory[0][:, :, own], memory[1][:, :, own], memory.real_BS)
            x_RTU, now, weights_BHQS = layer(x_RTU, before, its, drop)
            after.append(now)
        return self.norm(x_RTU), tuple(after), weights_BHQS

    def draw_masks(self, n: int, batch: int, dropout: float, generator: Generator | None) -> list[Tensor]:
        """Draws dropout in the order in which it is applied: on the words, then in each layer."""
        widths, device = [self.widths[-1], *self.widths * len(self.layers)], self.norm.weight.device
        return [draw_mask((batch, n, width), dropout, generator, device) for width in widths]
