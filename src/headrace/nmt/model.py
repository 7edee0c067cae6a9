"""The translation model: a recurrent encoder reads the source, a recurrent decoder writes the target and may look back.

The Transformer's encoder and decoder, which may take their places, are in `layers/transformer.py`.

Names of tensors end in their shape, one letter a dimension:

    B sentences of a batch    S source steps    U units of a layer     G gates of a layer, 4 U
    V words of a vocabulary   T target steps    D depth of the memory, U or 2 U (both directions)
    Q queries of a sentence: 1, or in beam search its hypotheses      I inputs of a layer, C = U + D
    A width of the attention vector: U, or D with the gnmt architectures
    R rows that step together: B, or B times the hypotheses of a sentence      N words of a batch, T times B

and a 1 for a dimension of one: `real_B1` is (B, 1). Only in `tgt_BT1` it is added: (B, T + 1), the words with both sos
and eos. Time comes first, so that `x_TBU[t]` is one contiguous step. Matrices are (inputs, outputs), as in `y = x @ W`.

What happens to a batch one reads in `Seq2Seq.outputs`: `embed`, then `Encoder.read`, then `Decoder.step` for each word;
`Seq2Seq.loss` compares. docs/nmt-tutorial.md goes through it by hand.

The cells are in `layers/cells.py`, ways to look back in `layers/attention.py`. This is the model as one would explain
it; `speed/fast.py` computes the same loss and gradients of the common variants in less time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from headrace.nmt.hparams import HParamError, HParams
from headrace.nmt.layers.attention import Memory, State, make_attention, never_empty
from headrace.nmt.layers.cells import Stack, States
from headrace.nmt.layers.chars import CharEncoder
from headrace.nmt.layers.sampled import Candidates, draw_candidates, sampled_cross_entropy
from headrace.nmt.layers.steady import multiply
from headrace.nmt.layers.transformer import TransformerDecoder, TransformerEncoder

__all__ = ["Batch", "Decoder", "Encoder", "Masks", "Memory", "Seq2Seq", "State"]


class Batch(NamedTuple):
    """Sentence pairs, padded with eos: `tgt_BT1` starts with sos, and `tgt_len_B` counts the words and one eos."""

    src_BS: Tensor
    src_len_B: Tensor
    tgt_BT1: Tensor
    tgt_len_B: Tensor

    def to(self, device: torch.device) -> Batch:
        """Returns the batch on a device."""
        return Batch(*(part.to(device, non_blocking=True) for part in self))

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
    """What is drawn for one update: for each layer a factor on its inputs at every step, 0 or 1 / (1 - dropout).

    A Transformer has its own widths and places, and sentences before steps.
    """

    encoder: list[list[Tensor]] | None  # of each stack, of each layer: (S, B, width of the input)
    decoder: list[Tensor] | None  # of each layer: (T, B, width of the input)
    candidates: Candidates | None = None  # with sampled softmax: the wrong words


def steps(n: int, lengths_B: Tensor) -> Tensor:
    """Says which of `n` steps lie within each length: (n, B), true within."""
    return torch.arange(n, device=lengths_B.device)[:, None] < lengths_B


class Encoder(nn.Module):
    """Reads the source.

    uni: from left to right. bi: from both ends, with a stack for each direction. gnmt: one layer from both ends, and
    above it layers from left to right.
    """

    stacks: Sequence[Stack]

    def __init__(self, hparams: HParams) -> None:
        super().__init__()
        units, layers = hparams.num_units, hparams.encoder_layers
        gnmt, directions = hparams.encoder_type == "gnmt", 1 if hparams.encoder_type == "uni" else 2
        below = 1 if gnmt else layers // directions
        self.stacks = nn.ModuleList(  # type: ignore[assignment]
            Stack(units, units, below, 0 if gnmt else hparams.encoder_residuals, hparams) for _ in range(directions)
        )
        self.top = Stack(2 * units, units, layers - 1, hparams.encoder_residuals, hparams) if gnmt else None

    def forward(self, x_SBU: Tensor, real_SB: Tensor, masks: list[list[Tensor]] | None) -> tuple[Tensor, States]:
        """Returns the outputs, zero past each sentence's end, and the states at its end."""
        outputs, states = [], []
        for direction, stack in enumerate(self.stacks):
            flip = [0] if direction == 1 else []
            dropped = None if masks is None else [mask.flip(flip) for mask in masks[direction]]
            output_SBU, state = self.read(stack, x_SBU.flip(flip), real_SB.flip(flip), dropped)
            outputs.append(output_SBU.flip(flip))
            states.append(state)
        memory_SBD = torch.cat(outputs, dim=2)
        if self.top is None:
            # Both directions in turn: the decoder's layer 0 starts from forward 0, its layer 1 from backward 0.
            return memory_SBD, tuple(state for layer in zip(*states, strict=True) for state in layer)
        memory_SBU, above = self.read(self.top, memory_SBD, real_SB, None if masks is None else masks[2])
        return memory_SBU, states[1] + above  # of the bottom layer, what it read last: the beginning

    def draw_masks(self, n: int, batch: int, dropout: float, generator: Generator | None) -> list[list[Tensor]]:
        """Draws the dropout of `n` steps for each stack."""
        stacks = [*self.stacks, *([self.top] if self.top else [])]
        return [stack.draw_masks(n, batch, dropout, generator) for stack in stacks]

    @staticmethod
    def read(stack: Stack, x_SBU: Tensor, real_SB: Tensor, masks: list[Tensor] | None) -> tuple[Tensor, States]:
        """Runs one stack over all steps; where a sentence has ended, or not begun, its state stays."""
        state = stack.zero_state(x_SBU[0])
        outputs = []
        for t, real_B1 in enumerate(real_SB.unsqueeze(2)):
            output_BU, after = stack(x_SBU[t], state, None if masks is None else [mask[t] for mask in masks])
            state = tuple(
                tuple(torch.where(real_B1, new, old) for new, old in zip(*layer, strict=True))
                for layer in zip(after, state, strict=True)
            )
            outputs.append(output_BU * real_B1)
        return torch.stack(outputs), state


class Decoder(nn.Module):
    """Writes the target: a stack of layers, and attention fed back to its input.

    standard: the top layer's output is the query, and the next step's bottom layer takes the attention vector.
    gnmt: the bottom layer's output is the query, and all layers take the context; those above the bottom one take that
    of the last step, or with gnmt_v2 that of the present one.
    """

    def __init__(self, hparams: HParams) -> None:
        super().__init__()
        units = hparams.num_units
        self.output_attention, self.passes_state = hparams.output_attention, hparams.passes_state
        self.architecture = hparams.attention_architecture
        attention = make_attention(hparams)
        fed = attention.size if attention else 0
        extra = 0 if self.architecture == "standard" else fed
        self.stack = Stack(units + fed, units, hparams.decoder_layers, hparams.decoder_residuals, hparams, extra)
        self.attention = attention

    def start(
        self, batch: int, memory_SBD: Tensor | None, real_SB: Tensor, encoded: States | None
    ) -> tuple[Memory | None, State]:
        """Prepares the memory and the state before the first step; a language model has nothing to start from."""
        like = next(self.stack.parameters())
        states = encoded if self.passes_state and encoded else self.stack.zero_state(like.new_empty(batch, 0))
        if self.attention is None or memory_SBD is None:
            return None, State(states, None)
        values_BSD = memory_SBD.transpose(0, 1)
        memory = Memory(values_BSD, self.attention.keys(values_BSD), never_empty(real_SB).t())
        return memory, State(states, like.new_zeros(batch, self.attention.size))

    def forward(self, y_TBU: Tensor, state: State, memory: Memory | None, masks: list[Tensor] | None) -> Tensor:
        """Reads the right words; returns what predicts the words that follow them: (T, B, U)."""
        outputs = []
        for t, y_BU in enumerate(y_TBU):
            output_BU, state, _ = self.step(y_BU, state, memory, None if masks is None else [mask[t] for mask in masks])
            outputs.append(output_BU)
        return torch.stack(outputs)

    def draw_masks(self, n: int, batch: int, dropout: float, generator: Generator | None) -> list[Tensor]:
        """Draws the dropout of `n` steps for each layer."""
        return self.stack.draw_masks(n, batch, dropout, generator)

    def step(
        self, x_BU: Tensor, state: State, memory: Memory | None, masks: list[Tensor] | None = None
    ) -> tuple[Tensor, State, Tensor | None]:
        """Goes one step; returns what predicts the word, the next state, and the attention weights.

        Beam search steps through several hypotheses for each sentence of the memory: the hypotheses of one sentence
        follow each other in `x_BU`.
        """
        if memory is None or state.attention_BA is None:
            output_BU, cells = self.stack(x_BU, state.cells, masks)
            return output_BU, State(cells, None), None
        fed_BI = torch.cat([x_BU, state.attention_BA], dim=1)
        if self.architecture == "standard":
            query_BU, cells = self.stack(fed_BI, state.cells, masks)
            attention_BA, weights_RS = self.attend(query_BU, memory)
            output_BU = attention_BA if self.output_attention else query_BU
            return output_BU, State(cells, attention_BA), weights_RS
        output_BU, bottom = self.stack.layer(0, fed_BI, state.cells[0], masks)
        attention_BA, weights_RS = self.attend(output_BU, memory)
        beside_BA = attention_BA if self.architecture == "gnmt_v2" else state.attention_BA
        after = [bottom]
        for layer in range(1, len(state.cells)):
            fed_BI = torch.cat([output_BU, beside_BA], dim=1)
            output_BU, above = self.stack.layer(layer, fed_BI, state.cells[layer], masks)
            after.append(above)
        return output_BU, State(tuple(after), attention_BA), weights_RS

    def attend(self, query_BU: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Looks back; returns the attention vector and the weights of the source steps."""
        assert self.attention is not None
        weights_BQS = self.attention(query_BU, memory)
        context_BD = (weights_BQS @ memory.values_BSD).flatten(0, 1)
        return self.attention.vector(query_BU, context_BD), weights_BQS.flatten(0, 1)


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

    encoder: Encoder | TransformerEncoder | None
    decoder: Decoder | TransformerDecoder
    projection_UV: Tensor
    src_frozen_V: Tensor | None
    tgt_frozen_V: Tensor | None
    spread = False  # whether parts of it are on different devices

    def __init__(
        self, hparams: HParams, src_vocab_size: int, tgt_vocab_size: int, generator: Generator | None = None
    ) -> None:
        super().__init__()
        if hparams.share_vocab and src_vocab_size != tgt_vocab_size:
            raise HParamError(
                f"share_vocab needs equal vocabularies, got {src_vocab_size} source and {tgt_vocab_size} target words"
            )
        if hparams.num_sampled_softmax >= tgt_vocab_size:
            raise HParamError(
                f"num_sampled_softmax must be below the number of target words, {tgt_vocab_size:,}, "
                f"got {hparams.num_sampled_softmax:,}: leave it out for so few"
            )
        self.hparams = hparams
        vectors = 0 if hparams.use_char_encode else src_vocab_size
        self.src_embedding_VU = nn.Parameter(torch.empty(vectors, hparams.num_units))
        self.tgt_embedding_VU = (
            self.src_embedding_VU
            if hparams.share_vocab
            else nn.Parameter(torch.empty(tgt_vocab_size, hparams.num_units))
        )
        # Which vectors came from elsewhere and stay as they are.
        pretrained = hparams.embed_prefix is not None
        self.register_buffer("src_frozen_V", torch.zeros(src_vocab_size, dtype=torch.bool) if pretrained else None)
        both = pretrained and not hparams.share_vocab
        self.register_buffer("tgt_frozen_V", torch.zeros(tgt_vocab_size, dtype=torch.bool) if both else None)
        self.chars = CharEncoder(src_vocab_size, hparams.num_units) if hparams.use_char_encode else None
        transformer = hparams.architecture == "transformer"
        self.encoder = None
        if not hparams.language_model:
            self.encoder = TransformerEncoder(hparams) if transformer else Encoder(hparams)
        self.decoder = TransformerDecoder(hparams) if transformer else Decoder(hparams)
        if not hparams.tied_embeddings:
            self.projection_UV = nn.Parameter(torch.empty(hparams.num_units, tgt_vocab_size))
        self.reset_parameters(generator)

    def __getattr__(self, name: str) -> Any:
        """Finds what PyTorch keeps elsewhere; with `tied_embeddings`, the projection is the embedding turned over."""
        if name == "projection_UV" and self.hparams.tied_embeddings:
            return self.tgt_embedding_VU.t()
        return super().__getattr__(name)

    @torch.no_grad()
    def reset_parameters(self, generator: Generator | None = None) -> None:
        """Draws new weights, but for those that begin with a constant: biases, scales and gains."""
        for module in self.modules():
            constants: dict[str, float] = getattr(module, "CONSTANTS", {})
            for name, weight in module.named_parameters(recurse=False):
                if name in constants:
                    weight.fill_(constants[name])
                else:
                    self._draw(weight, generator)

    def _draw(self, weight: Tensor, generator: Generator | None) -> None:
        variance = 2.0 / (weight.shape[0] + weight.shape[-1])
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
        """Draws the dropout of one update, and its wrong words with sampled softmax; nothing when evaluating."""
        if not self.training:
            return Masks(None, None)
        count, dropout = self.hparams.num_sampled_softmax, self.hparams.dropout
        candidates = draw_candidates(count, self.projection_UV.shape[1], generator, self.device) if count else None
        if dropout == 0.0:
            return Masks(None, None, candidates)
        n, source, target = len(batch.src_BS), batch.src_BS.shape[1], batch.tgt_BT1.shape[1] - 1
        return Masks(
            [] if self.encoder is None else self.encoder.draw_masks(source, n, dropout, generator),
            self.decoder.draw_masks(target, n, dropout, generator),
            candidates,
        )

    def embed(self, src: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor]:
        """Looks up the words that encoder and decoder read, of any shapes."""
        if self.encoder is None:  # a language model has no source
            return src, self.look_up(tgt, self.tgt_embedding_VU, self.src_frozen_V)
        if self.hparams.share_vocab:  # one look-up, so that the sparse gradient lists each occurrence, as documented
            both = self.look_up(torch.cat([src, tgt]), self.src_embedding_VU, self.src_frozen_V)
            return both[: len(src)], both[len(src) :]
        return self.embed_source(src), self.look_up(tgt, self.tgt_embedding_VU, self.tgt_frozen_V)

    def embed_source(self, src: Tensor) -> Tensor:
        """Looks up source words, or makes their vectors of their bytes."""
        return self.look_up(src, self.src_embedding_VU, self.src_frozen_V) if self.chars is None else self.chars(src)

    @staticmethod
    def look_up(words: Tensor, embedding_VU: Tensor, frozen_V: Tensor | None) -> Tensor:
        """Looks up words of one language; frozen vectors get no gradient."""
        x = F.embedding(words, embedding_VU, sparse=True)
        return x if frozen_V is None else torch.where(frozen_V[words].unsqueeze(-1), x.detach(), x)

    def read(
        self, x_SBU: Tensor, src_len_B: Tensor, real_SB: Tensor, masks: list[list[Tensor]] | None
    ) -> tuple[Tensor, States]:
        """Runs the encoder, with `source_reverse` from each sentence's end; the memory is in the source's order."""
        assert self.encoder is not None
        if not self.hparams.source_reverse:
            memory_SBD, states = self.encoder(x_SBU, real_SB, masks)
            return memory_SBD, states
        at_SB = torch.arange(len(x_SBU), device=x_SBU.device)[:, None].expand(real_SB.shape)
        turned_SB = torch.where(real_SB, src_len_B - 1 - at_SB, at_SB)
        columns_B = torch.arange(len(src_len_B), device=x_SBU.device)
        memory_SBD, states = self.encoder(x_SBU[turned_SB, columns_B], real_SB, masks)
        return memory_SBD[turned_SB, columns_B], states

    def encode(self, src_BS: Tensor, src_len_B: Tensor) -> tuple[Memory | None, State]:
        """Reads source sentences to translate; returns what the decoder starts from."""
        real_SB = steps(src_BS.shape[1], src_len_B)
        memory_SBD = encoded = None
        if self.encoder is not None:
            memory_SBD, encoded = self.read(self.embed_source(src_BS.t()), src_len_B, real_SB, None)
        return self.decoder.start(len(src_BS), memory_SBD, real_SB, encoded)

    @property
    def parts(self) -> tuple[Seq2Seq, ...]:
        """The models that translate, as an `Ensemble` has several."""
        return (self,)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.projection_UV.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights."""
        return self.projection_UV.dtype

    @property
    def attends(self) -> bool:
        """Whether the decoder looks back at the source."""
        return self.hparams.looks_back

    def step(self, words_R: Tensor, state: State, memory: Memory | None) -> tuple[Tensor, State, Tensor | None]:
        """Goes one step of translating from the last words; returns what `Decoder.step` does."""
        return self.decoder.step(F.embedding(words_R, self.tgt_embedding_VU), state, memory)

    def logits(self, output_RU: Tensor) -> Tensor:
        """Returns the logits of the words that outputs of the decoder predict."""
        return multiply(output_RU, self.projection_UV)

    def outputs(self, batch: Batch, masks: Masks | None = None) -> Tensor:
        """Returns what predicts every target word given the right words before it: (T, B, U)."""
        x_SBU, y_TBU = self.embed(batch.src_BS.t(), batch.tgt_in_TB)
        real_SB = steps(batch.src_BS.shape[1], batch.src_len_B)
        memory_SBD = encoded = None
        if self.encoder is not None:
            memory_SBD, encoded = self.read(x_SBU, batch.src_len_B, real_SB, masks and masks.encoder)
        memory, state = self.decoder.start(len(batch.src_BS), memory_SBD, real_SB, encoded)
        output_TBU: Tensor = self.decoder(y_TBU, state, memory, masks and masks.decoder)
        return output_TBU

    def forward(self, batch: Batch, masks: Masks | None = None) -> Tensor:
        """Returns the logits of every target word given the right words before it: (T, B, V)."""
        return self.logits(self.outputs(batch, masks))

    @property
    def smoothing(self) -> float:
        """The share of label smoothing: in training only, for perplexities to be those of the words."""
        return self.hparams.label_smoothing if self.training else 0.0

    def loss(self, batch: Batch, masks: Masks | None = None) -> Tensor:
        """Returns the cross-entropy summed over all words that count, divided by the number of sentences."""
        output_NU, words_N = self.outputs(batch, masks).flatten(0, 1), batch.tgt_out_TB.flatten()
        words_N = words_N.to(self.projection_UV.device)  # may be another: see training/placement.py
        if masks is not None and masks.candidates is not None:
            output_NU = output_NU.to(words_N.device)
            losses_N = sampled_cross_entropy(output_NU, self.projection_UV, words_N, masks.candidates)
        else:
            logits_NV, smoothing = self.logits(output_NU), self.smoothing
            losses_N = F.cross_entropy(logits_NV, words_N, reduction="none", label_smoothing=smoothing)
        return (losses_N * batch.real_TB.flatten().to(words_N.device)).sum() / len(batch.src_BS)
