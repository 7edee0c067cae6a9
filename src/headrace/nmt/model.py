"""The translation model: an LSTM encoder reads the source, an LSTM decoder writes the target and may look back.

Names of tensors end in their shape, one letter a dimension:

    B sentences of a batch    S source steps    U units of a layer     G gates of a layer, 4 U
    V words of a vocabulary   T target steps    D depth of the memory, U or 2 U (both directions)
    Q queries of a sentence: 1, or in beam search its hypotheses      I inputs of a layer, C = U + D

Time comes first, so that `x_TBU[t]` is one contiguous step. Matrices are (inputs, outputs), as in `y = x @ W`.

This is the model as one would explain it; `fast.py` computes the same loss and gradients in less time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from headrace.nmt.hparams import HParams

__all__ = ["Batch", "LSTMCell", "Masks", "Memory", "Seq2Seq", "State"]

Cells = tuple[tuple[Tensor, Tensor], ...]  # for each layer its cell state c_BU and its output h_BU


class Batch(NamedTuple):
    """Sentence pairs, padded with eos: `tgt_BT1` starts with sos, and `tgt_len_B` counts the words and one eos."""

    src_BS: Tensor
    src_len_B: Tensor
    tgt_BT1: Tensor
    tgt_len_B: Tensor

    @property
    def tgt_in_TB(self) -> Tensor:
        """The words that the decoder reads: sos, then each right word."""
        return self.tgt_BT1[:, :-1].t()

    @property
    def tgt_out_TB(self) -> Tensor:
        """The words that it should predict at these steps: each right word, then eos."""
        return self.tgt_BT1[:, 1:].t()

    @property
    def real_TB(self) -> Tensor:
        """Which of these predictions count."""
        return steps(self.tgt_BT1.shape[1] - 1, self.tgt_len_B)


class Masks(NamedTuple):
    """Dropout of one update: for each layer a factor on its inputs at every step, 0 or 1 / (1 - dropout)."""

    encoder: list[list[Tensor]] | None  # of each direction, of each layer: (S, B, width of the input)
    decoder: list[Tensor] | None  # of each layer: (T, B, width of the input)


class Memory(NamedTuple):
    """What the decoder may look back at."""

    values_BSD: Tensor
    keys_BSU: Tensor
    real_BS: Tensor


class State(NamedTuple):
    """The decoder between two steps: its cells, and the last attention vector, which is fed to the next step."""

    cells: Cells
    attention_BU: Tensor | None


def steps(n: int, lengths_B: Tensor) -> Tensor:
    """Says which of `n` steps lie within each length: (n, B), true within."""
    return torch.arange(n, device=lengths_B.device)[:, None] < lengths_B


def draw_mask(shape: tuple[int, ...], dropout: float, generator: Generator | None, device: torch.device) -> Tensor:
    """Draws factors for dropout: 0 with the probability `dropout` (to a 65,536th), else 1 / (1 - dropout)."""
    # Four 16-bit numbers out of each draw take a fifth of the time of `bernoulli_`, which would be a tenth of training.
    size = math.prod(shape)
    draws = torch.empty(-(-size // 4), dtype=torch.int64, device=device).random_(-(2**63), None, generator=generator)
    kept = draws.view(torch.int16)[:size] >= round(dropout * 65536) - 32768
    return kept.view(shape) * (1.0 / (1.0 - dropout))


class LSTMCell(nn.Module):
    """One step of an LSTM layer; the gates in the kernel's columns are input, candidate, forget, output."""

    def __init__(self, input_size: int, units: int, forget_bias: float) -> None:
        super().__init__()
        self.forget_bias = forget_bias
        self.kernel_IG = nn.Parameter(torch.empty(input_size + units, 4 * units))
        self.bias_G = nn.Parameter(torch.zeros(4 * units))

    def forward(self, x_BI: Tensor, c_BU: Tensor, h_BU: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the next c and h."""
        gates_BG = torch.cat([x_BI, h_BU], dim=1) @ self.kernel_IG + self.bias_G
        i, j, f, o = gates_BG.chunk(4, dim=1)
        c_BU = c_BU * torch.sigmoid(f + self.forget_bias) + torch.sigmoid(i) * torch.tanh(j)
        return c_BU, torch.tanh(c_BU) * torch.sigmoid(o)


class Stack(nn.Module):
    """LSTM layers, each reading the output of the one below; `residual` adds a layer's input to its output."""

    cells: Sequence[LSTMCell]

    def __init__(self, input_size: int, units: int, layers: int, hparams: HParams) -> None:
        super().__init__()
        widths = [input_size] + [units] * (layers - 1)
        self.units, self.residual = units, hparams.residual
        self.cells = nn.ModuleList(LSTMCell(width, units, hparams.forget_bias) for width in widths)  # type: ignore[assignment]

    def zero_state(self, x_BI: Tensor) -> Cells:
        """Returns the state before the first step."""
        return tuple((x_BI.new_zeros(len(x_BI), self.units),) * 2 for _ in self.cells)

    def forward(self, x_BI: Tensor, state: Cells, masks: Sequence[Tensor] | None) -> tuple[Tensor, Cells]:
        """Goes one step; returns the top layer's output and the next state."""
        after = []
        for layer, (cell, (c_BU, h_BU)) in enumerate(zip(self.cells, state, strict=True)):
            dropped_BI = x_BI if masks is None else x_BI * masks[layer]
            c_BU, h_BU = cell(dropped_BI, c_BU, h_BU)
            x_BI = h_BU + x_BI if self.residual and layer > 0 else h_BU  # the bottom layer's width may differ
            after.append((c_BU, h_BU))
        return x_BI, tuple(after)

    def draw_masks(self, n: int, batch: int, dropout: float, generator: Generator | None) -> list[Tensor]:
        """Draws the masks of `n` steps for each layer."""
        widths = [cell.kernel_IG.shape[0] - self.units for cell in self.cells]
        return [draw_mask((n, batch, width), dropout, generator, self.cells[0].bias_G.device) for width in widths]


class Encoder(nn.Module):
    """Reads the source from left to right (uni), or from both ends with a stack for each direction (bi)."""

    stacks: Sequence[Stack]

    def __init__(self, hparams: HParams) -> None:
        super().__init__()
        directions = 2 if hparams.encoder_type == "bi" else 1
        units, layers = hparams.num_units, hparams.encoder_layers // directions
        self.stacks = nn.ModuleList(Stack(units, units, layers, hparams) for _ in range(directions))  # type: ignore[assignment]

    def forward(self, x_SBU: Tensor, real_SB: Tensor, masks: list[list[Tensor]] | None) -> tuple[Tensor, Cells]:
        """Returns the outputs, zero past each sentence's end, and the states at its end."""
        outputs, states = [], []
        for direction, stack in enumerate(self.stacks):
            flip = [0] if direction == 1 else []
            dropped = None if masks is None else [mask.flip(flip) for mask in masks[direction]]
            output_SBU, state = self.read(stack, x_SBU.flip(flip), real_SB.flip(flip), dropped)
            outputs.append(output_SBU.flip(flip))
            states.append(state)
        # Both directions in turn: the decoder's layer 0 starts from forward 0, its layer 1 from backward 0.
        return torch.cat(outputs, dim=2), tuple(state for layer in zip(*states, strict=True) for state in layer)

    @staticmethod
    def read(stack: Stack, x_SBU: Tensor, real_SB: Tensor, masks: list[Tensor] | None) -> tuple[Tensor, Cells]:
        """Runs one stack over all steps; where a sentence has ended, or not begun, its state stays."""
        state = stack.zero_state(x_SBU[0])
        outputs = []
        for t, real_B1 in enumerate(real_SB.unsqueeze(2)):
            output_BU, after = stack(x_SBU[t], state, None if masks is None else [mask[t] for mask in masks])
            state = tuple(
                (torch.where(real_B1, new_c, c), torch.where(real_B1, new_h, h))
                for (new_c, new_h), (c, h) in zip(after, state, strict=True)
            )
            outputs.append(output_BU * real_B1)
        return torch.stack(outputs), state


class LuongAttention(nn.Module):
    """Scores each source step by the product of its key with the query, times a learned scale if `scaled`."""

    def __init__(self, memory_depth: int, units: int, scaled: bool) -> None:
        super().__init__()
        self.memory_layer_DU = nn.Parameter(torch.empty(memory_depth, units))
        # Mixes query and context. No tanh, unlike the formula in the tutorial's text: its code has always been linear.
        self.layer_CU = nn.Parameter(torch.empty(units + memory_depth, units))
        self.scale = nn.Parameter(torch.ones(())) if scaled else None

    def keys(self, values_BSD: Tensor) -> Tensor:
        """Returns what queries are compared with, once for all steps."""
        keys_BSU = values_BSD @ self.memory_layer_DU
        return keys_BSU if self.scale is None else keys_BSU * self.scale

    def forward(self, query_BU: Tensor, memory: Memory) -> Tensor:
        """Returns how much of each source step to take: (B, queries of a sentence, S), summing to 1 over S."""
        query_BQU = query_BU.view(len(memory.keys_BSU), -1, query_BU.shape[1])
        scores_BQS = query_BQU @ memory.keys_BSU.transpose(1, 2)
        weights_BQS: Tensor = scores_BQS.masked_fill(~memory.real_BS[:, None], -math.inf).softmax(dim=2)
        return weights_BQS


class Decoder(nn.Module):
    """Writes the target: a stack of LSTM layers, and attention fed back to its input."""

    def __init__(self, hparams: HParams) -> None:
        super().__init__()
        units, depth = hparams.num_units, hparams.memory_depth
        attends = hparams.attention != ""
        self.output_attention, self.passes_state = hparams.output_attention, hparams.passes_state
        self.stack = Stack(2 * units if attends else units, units, hparams.decoder_layers, hparams)
        self.attention = LuongAttention(depth, units, hparams.attention == "scaled_luong") if attends else None

    def start(self, memory_SBD: Tensor, real_SB: Tensor, encoded: Cells) -> tuple[Memory | None, State]:
        """Prepares the memory and the state before the first step."""
        cells = encoded if self.passes_state else self.stack.zero_state(memory_SBD[0])
        if self.attention is None:
            return None, State(cells, None)
        real_SB = torch.cat([torch.ones_like(real_SB[:1]), real_SB[1:]])  # an empty source has one step of zeros
        values_BSD = memory_SBD.transpose(0, 1)
        memory = Memory(values_BSD, self.attention.keys(values_BSD), real_SB.t())
        return memory, State(cells, torch.zeros_like(encoded[0][1]))

    def step(
        self, x_BU: Tensor, state: State, memory: Memory | None, masks: list[Tensor] | None = None
    ) -> tuple[Tensor, State, Tensor | None]:
        """Goes one step; returns what predicts the word, the next state, and the attention weights.

        Beam search steps through several hypotheses for each sentence of the memory: the hypotheses of one sentence
        follow each other in `x_BU`.
        """
        if memory is None or self.attention is None or state.attention_BU is None:
            output_BU, cells = self.stack(x_BU, state.cells, masks)
            return output_BU, State(cells, None), None
        fed_BI = torch.cat([x_BU, state.attention_BU], dim=1)
        query_BU, cells = self.stack(fed_BI, state.cells, masks)
        weights_BQS = self.attention(query_BU, memory)
        context_BD = (weights_BQS @ memory.values_BSD).flatten(0, 1)
        attention_BU = torch.cat([query_BU, context_BD], dim=1) @ self.attention.layer_CU
        output_BU = attention_BU if self.output_attention else query_BU
        return output_BU, State(cells, attention_BU), weights_BQS.flatten(0, 1)


class Seq2Seq(nn.Module):
    """The whole model: embeddings, encoder, decoder, and the projection to the target words.

    Args:
        hparams: The settings.
        src_vocab_size: Number of source words.
        tgt_vocab_size: Number of target words; with `share_vocab` the same.
        generator: Where the first weights are drawn from; none: PyTorch's own.

    Example:
        >>> model = Seq2Seq(HParams(num_units=8, attention="luong"), src_vocab_size=20, tgt_vocab_size=30)
        >>> batch = Batch(torch.tensor([[5, 6, 7]]), torch.tensor([3]), torch.tensor([[1, 8, 9, 2]]), torch.tensor([3]))
        >>> round(model.loss(batch).item(), 1)  # 3 words, each nearly log(30)
        10.2
    """

    def __init__(
        self, hparams: HParams, src_vocab_size: int, tgt_vocab_size: int, generator: Generator | None = None
    ) -> None:
        super().__init__()
        if hparams.share_vocab and src_vocab_size != tgt_vocab_size:
            raise ValueError(
                f"share_vocab needs equal vocabularies, got {src_vocab_size} source and {tgt_vocab_size} target words"
            )
        self.hparams = hparams
        self.src_embedding_VU = nn.Parameter(torch.empty(src_vocab_size, hparams.num_units))
        self.tgt_embedding_VU = (
            self.src_embedding_VU
            if hparams.share_vocab
            else nn.Parameter(torch.empty(tgt_vocab_size, hparams.num_units))
        )
        self.encoder = Encoder(hparams)
        self.decoder = Decoder(hparams)
        self.projection_UV = nn.Parameter(torch.empty(hparams.num_units, tgt_vocab_size))
        self.reset_parameters(generator)

    @torch.no_grad()
    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Draws new matrices; biases start at 0 and attention scales at 1."""
        for weight in self.parameters():
            if weight.dim() < 2:
                weight.fill_(1.0 if weight.dim() == 0 else 0.0)
                continue
            variance = 2.0 / (weight.shape[0] + weight.shape[1])
            match self.hparams.init_op:
                case "uniform":
                    bound = self.hparams.init_weight
                    weight.uniform_(-bound, bound, generator=generator)
                case "glorot_uniform":
                    bound = math.sqrt(3.0 * variance)
                    weight.uniform_(-bound, bound, generator=generator)
                case "glorot_normal":
                    std = math.sqrt(variance) / 0.87962566103423978  # cutting at two std takes this share away
                    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std, generator=generator)

    def draw_masks(self, batch: Batch, generator: Generator | None = None) -> Masks:
        """Draws the dropout of one update, or nothing when evaluating."""
        dropout = self.hparams.dropout if self.training else 0.0
        if dropout == 0.0:
            return Masks(None, None)
        n, source, target = len(batch.src_BS), batch.src_BS.shape[1], batch.tgt_BT1.shape[1] - 1
        return Masks(
            [stack.draw_masks(source, n, dropout, generator) for stack in self.encoder.stacks],
            self.decoder.stack.draw_masks(target, n, dropout, generator),
        )

    def embed(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Looks up the words that encoder and decoder read: (S, B, U) and (T, B, U)."""
        src_SB, tgt_TB = batch.src_BS.t(), batch.tgt_in_TB
        if self.hparams.share_vocab:  # one look-up, so that the sparse gradient lists each occurrence, as documented
            both = F.embedding(torch.cat([src_SB, tgt_TB]), self.src_embedding_VU, sparse=True)
            return both[: len(src_SB)], both[len(src_SB) :]
        return (
            F.embedding(src_SB, self.src_embedding_VU, sparse=True),
            F.embedding(tgt_TB, self.tgt_embedding_VU, sparse=True),
        )

    def encode(self, src_BS: Tensor, src_len_B: Tensor) -> tuple[Memory | None, State]:
        """Reads source sentences to translate; returns what the decoder starts from."""
        real_SB = steps(src_BS.shape[1], src_len_B)
        memory_SBD, encoded = self.encoder(F.embedding(src_BS.t(), self.src_embedding_VU), real_SB, None)
        return self.decoder.start(memory_SBD, real_SB, encoded)

    def forward(self, batch: Batch, masks: Masks | None = None) -> Tensor:
        """Returns the logits of every target word given the right words before it: (T, B, V)."""
        x_SBU, y_TBU = self.embed(batch)
        real_SB = steps(len(x_SBU), batch.src_len_B)
        memory_SBD, encoded = self.encoder(x_SBU, real_SB, masks and masks.encoder)
        memory, state = self.decoder.start(memory_SBD, real_SB, encoded)
        outputs = []
        for t, y_BU in enumerate(y_TBU):
            dropped = [mask[t] for mask in masks.decoder] if masks and masks.decoder else None
            output_BU, state, _ = self.decoder.step(y_BU, state, memory, dropped)
            outputs.append(output_BU)
        return torch.stack(outputs) @ self.projection_UV

    def loss(self, batch: Batch, masks: Masks | None = None) -> Tensor:
        """Returns the cross-entropy summed over all words that count, divided by the number of sentences."""
        losses_TB = F.cross_entropy(
            self(batch, masks).flatten(0, 1), batch.tgt_out_TB.flatten(), reduction="none"
        ).view_as(batch.tgt_out_TB)
        return (losses_TB * batch.real_TB).sum() / len(batch.src_BS)
