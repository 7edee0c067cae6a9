"""Finding translations: greedy search, samples and beam search, for a batch of sentences at once.

Letters of shapes beyond those of `model.py`: K hypotheses kept for a sentence, R = B K rows of the decoder.

A translation depends on its sentence alone: each has its own longest length, and is left alone once it is done,
whatever the rest of its batch needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from headrace.nmt.helpers import GreedyEmbeddingHelper, Helper, SampleEmbeddingHelper, seed_of
from headrace.nmt.hparams import HParams
from headrace.nmt.model import Memory, Seq2Seq, State

__all__ = [
    *("EOS", "SOS", "UNK", "Translations", "beam_search", "dynamic_decode", "greedy_search", "longest_translations"),
    *("sample", "translate"),
]

UNK, SOS, EOS = 0, 1, 2  # ids of the special words in every vocabulary


class Translations(NamedTuple):
    """What a search found, the best hypothesis of each sentence first."""

    ids_BKT: Tensor  # words, then eos to the end
    lengths_BK: Tensor  # words before the first eos
    log_probs_BK: Tensor
    scores_BK: Tensor  # log_probs after penalties: what they are ordered by
    alignments_BKTS: Tensor | None  # attention of each word to the source; none without attention

    def words(self, sentence: int, hypothesis: int = 0) -> list[int]:
        """Returns the word ids of one hypothesis, without eos."""
        n = int(self.lengths_BK[sentence, hypothesis])
        ids: list[int] = self.ids_BKT[sentence, hypothesis, :n].tolist()
        return ids


def longest_translations(src_len_B: Tensor, tgt_max_len_infer: int | None = None, whole_batch: bool = False) -> Tensor:
    """Returns after how many steps each sentence's search ends: the setting, else twice the length of its source.

    An empty source has an empty translation.

    Args:
        src_len_B: Lengths of the sources.
        tgt_max_len_infer: The setting of that name.
        whole_batch: Go by the longest source of the batch, as tensorflow/nmt does.
    """
    if tgt_max_len_infer is not None:
        return torch.where(src_len_B > 0, tgt_max_len_infer, 0)
    return (src_len_B.max().expand_as(src_len_B) if whole_batch else src_len_B) * 2


def translate(model: Seq2Seq, src_BS: Tensor, src_len_B: Tensor, hparams: HParams | None = None) -> Translations:
    """Translates a batch with the search that the settings ask for.

    Args:
        model: The model.
        src_BS: Source word ids, padded.
        src_len_B: Their lengths.
        hparams: Settings of the search; none: the model's own.
    """
    hparams = hparams or model.hparams
    limits_B = longest_translations(src_len_B, hparams.tgt_max_len_infer)
    if hparams.search == "greedy":
        return greedy_search(model, src_BS, src_len_B, limits_B)
    if hparams.search == "sample":
        return sample(model, src_BS, src_len_B, limits_B, hparams)
    penalties = hparams.length_penalty_weight, hparams.coverage_penalty_weight
    return beam_search(model, src_BS, src_len_B, limits_B, hparams.beam_width, *penalties)


def greedy_search(model: Seq2Seq, src_BS: Tensor, src_len_B: Tensor, limits_B: Tensor) -> Translations:
    """Takes the likeliest word at each step, until eos or the limit."""
    return dynamic_decode(model, GreedyEmbeddingHelper(), src_BS, src_len_B, limits_B)


def sample(model: Seq2Seq, src_BS: Tensor, src_len_B: Tensor, limits_B: Tensor, hparams: HParams) -> Translations:
    """Draws `num_translations_per_input` translations of each sentence, the likeliest first.

    What is drawn for a sentence depends on `random_seed` and on the sentence alone.
    """
    count, seed = hparams.num_translations_per_input, hparams.random_seed
    seed = int(torch.randint(2**31, ())) if seed is None else seed
    sources = [row[:n] for row, n in zip(src_BS.tolist(), src_len_B.tolist(), strict=True)]
    seeds = [seed_of(seed, words, number) for words in sources for number in range(count)]
    cuts = hparams.sampling_temperature, hparams.sampling_top_k, hparams.sampling_top_p
    repeated = (part.repeat_interleave(count, dim=0) for part in (src_BS, src_len_B, limits_B))
    found = dynamic_decode(model, SampleEmbeddingHelper(seeds, *cuts), *repeated)
    order_BK = found.log_probs_BK.view(-1, count).argsort(dim=1, descending=True, stable=True)
    rows = (order_BK + torch.arange(len(order_BK))[:, None] * count).flatten()
    return Translations(
        *(None if part is None else part[rows].view(len(src_BS), count, *part.shape[2:]) for part in found)  # type: ignore[arg-type]
    )


@torch.no_grad()
def dynamic_decode(model: Seq2Seq, helper: Helper, src_BS: Tensor, src_len_B: Tensor, limits_B: Tensor) -> Translations:
    """Writes a translation of each sentence, a word at each step, until eos or the limit.

    Args:
        model: The model.
        helper: Chooses the words.
        src_BS: Source word ids, padded.
        src_len_B: Their lengths.
        limits_B: After how many steps each sentence ends.
    """
    src_BS = src_BS if src_BS.shape[1] else F.pad(src_BS, (0, 1), value=EOS)
    memory, state = model.encode(src_BS, src_len_B)
    batch, longest = len(src_BS), int(limits_B.max()) if len(limits_B) else 0
    ids_BT = src_BS.new_full((batch, longest), EOS)
    log_probs_B = model.projection_UV.new_zeros(batch)
    alignments_BTS = model.projection_UV.new_zeros(batch, longest, src_BS.shape[1])
    rows_R = torch.arange(batch)  # the sentences still being written, by their number in the batch
    words_R = src_BS.new_full((batch,), SOS)
    for t in range(longest + 1):
        open_R = (limits_B[rows_R] > t) & ((words_R != EOS) | (t == 0))
        if not open_R.all():
            kept = open_R.nonzero().squeeze(1)
            rows_R, words_R, (memory, state) = rows_R[kept], words_R[kept], _take(memory, state, kept, kept)
        if not len(rows_R):
            break
        output_RU, state, weights_RS = model.decoder.step(F.embedding(words_R, model.tgt_embedding_VU), state, memory)
        words_R, best_R = helper.choose(output_RU @ model.projection_UV, rows_R)
        ids_BT[rows_R, t] = words_R
        log_probs_B[rows_R] += best_R
        if weights_RS is not None:
            alignments_BTS[rows_R, t] = weights_RS
    lengths_B = (ids_BT == EOS).cumsum(1).eq(0).sum(1)
    alignments = None if memory is None else alignments_BTS[:, None]
    return Translations(ids_BT[:, None], lengths_B[:, None], log_probs_B[:, None], log_probs_B[:, None], alignments)


def _take(memory: Memory | None, state: State, sentences: Tensor, rows: Tensor) -> tuple[Memory | None, State]:
    """Chooses some sentences of the memory and some rows of the state."""
    cells = tuple(tuple(part[rows] for part in layer) for layer in state.cells)
    state = State(cells, None if state.attention_BA is None else state.attention_BA[rows])
    return None if memory is None else Memory(*(part[sentences] for part in memory)), state


@dataclass(frozen=True)
class _Beam:
    """The hypotheses of the sentences still being searched; the lists grow by one entry a step."""

    sentences_B: Tensor  # their numbers in the whole batch
    words_BK: Tensor  # the last word of each hypothesis
    log_probs_BK: Tensor
    scores_BK: Tensor
    lengths_BK: Tensor  # words, and eos where there is one
    finished_BK: Tensor
    coverage_BKS: Tensor | None  # attention that each source word has had

    def take(self, kept: Tensor) -> _Beam:
        """Chooses some of the sentences."""
        parts = {name: part[kept] for name, part in vars(self).items() if part is not None}
        return replace(self, **parts)


@torch.no_grad()
def beam_search(
    model: Seq2Seq,
    src_BS: Tensor,
    src_len_B: Tensor,
    limits_B: Tensor,
    beam_width: int,
    length_penalty_weight: float = 0.0,
    coverage_penalty_weight: float = 0.0,
) -> Translations:
    """Keeps the `beam_width` best beginnings of each sentence at each step, until all are finished or at the limit.

    A hypothesis scores log_prob / ((5 + length) / 6) ** length_penalty_weight. Once finished, it also loses
    coverage_penalty_weight times the sum over source words of -log(attention had), where that is below 1. A finished
    hypothesis goes on competing, and can be pushed out.
    """
    src_BS = src_BS if src_BS.shape[1] else F.pad(src_BS, (0, 1), value=EOS)
    memory, state = model.encode(src_BS, src_len_B)
    batch, longest = len(src_BS), int(limits_B.max()) if len(limits_B) else 0
    state = _take(None, state, *[torch.arange(batch).repeat_interleave(beam_width)] * 2)[1]
    beam = _first(model, src_BS, memory is not None, beam_width)
    done = replace(beam)  # the last state of each sentence, filled in as they end
    trace: list[tuple[Tensor, Tensor, Tensor, Tensor | None]] = []  # sentences, words, parents, attention
    for t in range(longest + 1):
        open_B = (limits_B[beam.sentences_B] > t) & ~beam.finished_BK.all(dim=1)
        if not open_B.all():
            _put(done, beam, ~open_B)
            kept = open_B.nonzero().squeeze(1)
            memory, state = _take(memory, state, kept, _rows(kept[:, None], torch.arange(beam_width), beam_width))
            beam = beam.take(kept)
        if not len(beam.sentences_B):
            break
        x_RU = F.embedding(beam.words_BK.flatten(), model.tgt_embedding_VU)
        output_RU, state, weights_RS = model.decoder.step(x_RU, state, memory)
        weights_BKS = None if weights_RS is None else weights_RS.view(-1, beam_width, src_BS.shape[1])
        beam, parents_BK = _extend(
            beam, output_RU @ model.projection_UV, weights_BKS, length_penalty_weight, coverage_penalty_weight
        )
        rows_R = _rows(torch.arange(len(parents_BK))[:, None], parents_BK, beam_width)
        state = _take(None, state, rows_R, rows_R)[1]
        trace.append((beam.sentences_B, beam.words_BK, parents_BK, weights_BKS))
    _put(done, beam, torch.ones_like(beam.sentences_B, dtype=torch.bool))
    ids_BKT, alignments = _read_back(trace, done, longest, src_BS.shape[1] if memory is not None else None)
    lengths_BK = (ids_BKT == EOS).cumsum(2).eq(0).sum(2)
    return Translations(ids_BKT, lengths_BK, done.log_probs_BK, done.scores_BK, alignments)


def _rows(sentences: Tensor, hypotheses: Tensor, beam_width: int) -> Tensor:
    return (sentences * beam_width + hypotheses).flatten()


def _first(model: Seq2Seq, src_BS: Tensor, attends: bool, beam_width: int) -> _Beam:
    shape = len(src_BS), beam_width
    log_probs_BK = model.projection_UV.new_full(shape, float("-inf"))
    log_probs_BK[:, 0] = 0.0  # all hypotheses are equal at first: go on from one of them
    return _Beam(
        sentences_B=torch.arange(len(src_BS)),
        words_BK=src_BS.new_full(shape, SOS),
        log_probs_BK=log_probs_BK,
        scores_BK=log_probs_BK.clone(),
        lengths_BK=src_BS.new_zeros(shape),
        finished_BK=torch.zeros(shape, dtype=torch.bool),
        coverage_BKS=log_probs_BK.new_zeros(*shape, src_BS.shape[1]) if attends else None,
    )


def _extend(
    beam: _Beam, logits_RV: Tensor, weights_BKS: Tensor | None, length_weight: float, coverage_weight: float
) -> tuple[_Beam, Tensor]:
    """Goes one step: the best continuations of all hypotheses of a sentence together, and which one each continues."""
    width = beam.words_BK.shape[1]
    going_BK1 = ~beam.finished_BK[:, :, None]
    # All words but eos make a hypothesis equally long, so only its `width` likeliest words can win; eos apart.
    log_total_R1 = logits_RV.logsumexp(dim=1, keepdim=True)
    eos_R1 = logits_RV[:, EOS : EOS + 1].clone()
    logits_RV[:, EOS] = float("-inf")
    best_RN, words_RN = logits_RV.topk(min(width, logits_RV.shape[1]), dim=1)
    step_RC = torch.cat([best_RN, eos_R1], dim=1) - log_total_R1
    words_RC = torch.cat([words_RN, torch.full_like(words_RN[:, :1], EOS)], dim=1)
    words_BKC = words_RC.view(*beam.words_BK.shape, -1)
    step_BKC = step_RC.view(*beam.words_BK.shape, -1).masked_fill(~going_BK1, float("-inf"))
    step_BKC[:, :, -1:].masked_fill_(~going_BK1, 0.0)  # a finished hypothesis repeats eos at no cost

    log_probs_BKC = beam.log_probs_BK[:, :, None] + step_BKC
    lengths_BKC = beam.lengths_BK[:, :, None] + going_BK1 * (words_BKC != EOS)
    scores_BKC = log_probs_BKC / ((5.0 + lengths_BKC) / 6.0) ** length_weight
    coverage_BKS = beam.coverage_BKS
    if coverage_BKS is not None and weights_BKS is not None:
        coverage_BKS = coverage_BKS + weights_BKS * going_BK1
        had_BKS = torch.where(coverage_BKS == 0.0, 1.0, coverage_BKS).clamp(max=1.0)
        penalty_BK = coverage_weight * had_BKS.log().sum(dim=2) * beam.finished_BK
        scores_BKC = scores_BKC + penalty_BK[:, :, None]

    scores_BK, best_BK = scores_BKC.flatten(1).topk(width, dim=1)
    parents_BK = best_BK // words_BKC.shape[2]
    words_BK = words_BKC.flatten(1).gather(1, best_BK)
    finished_BK = beam.finished_BK.gather(1, parents_BK)
    after = _Beam(
        sentences_B=beam.sentences_B,
        words_BK=words_BK,
        log_probs_BK=log_probs_BKC.flatten(1).gather(1, best_BK),
        scores_BK=scores_BK,
        lengths_BK=beam.lengths_BK.gather(1, parents_BK) + ~finished_BK,
        finished_BK=finished_BK | (words_BK == EOS),
        coverage_BKS=None if coverage_BKS is None else coverage_BKS[torch.arange(len(parents_BK))[:, None], parents_BK],
    )
    return after, parents_BK


def _put(done: _Beam, beam: _Beam, ended_B: Tensor) -> None:
    """Files the sentences that have ended."""
    rows = beam.sentences_B[ended_B]
    done.log_probs_BK[rows] = beam.log_probs_BK[ended_B]
    done.scores_BK[rows] = beam.scores_BK[ended_B]


def _read_back(
    trace: list[tuple[Tensor, Tensor, Tensor, Tensor | None]], done: _Beam, longest: int, source_steps: int | None
) -> tuple[Tensor, Tensor | None]:
    """Follows each hypothesis from its last word to its first one."""
    batch, width = done.words_BK.shape
    ids_BKT = done.words_BK.new_full((batch, width, longest), EOS)
    alignments_BKTS = None
    if source_steps is not None:
        alignments_BKTS = done.log_probs_BK.new_zeros(batch, width, longest, source_steps)
    at_BK = torch.arange(width).expand(batch, width).clone()
    for t in range(len(trace) - 1, -1, -1):
        sentences_B, words_BK, parents_BK, weights_BKS = trace[t]
        beams_BK = at_BK[sentences_B]
        ids_BKT[sentences_B, :, t] = words_BK.gather(1, beams_BK)
        at_BK[sentences_B] = parents_BK.gather(1, beams_BK)
        if alignments_BKTS is not None and weights_BKS is not None:
            alignments_BKTS[sentences_B, :, t] = weights_BKS[torch.arange(len(beams_BK))[:, None], at_BK[sentences_B]]
    ended_BKT = (ids_BKT == EOS).cumsum(dim=2).bool()
    ids_BKT.masked_fill_(ended_BKT, EOS)
    return ids_BKT, alignments_BKTS
