"""Finding translations: greedy search, samples and beam search, for a batch of sentences at once.

Letters of shapes beyond those of `model.py`: K hypotheses kept for a sentence, R = B K rows of the decoder.

A translation depends on its sentence alone: each has its own longest length, and is left alone once it is done,
whatever the rest of its batch needs (but for `whole_batch_limit`, the original's rule of the longest length). On a CPU
this holds to the last bit of every number: see `layers/steady.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headrace.nmt.hparams import HParams
from headrace.nmt.layers.steady import log, pad_steps
from headrace.nmt.model import Seq2Seq
from headrace.nmt.text.special import EOS, SOS
from headrace.nmt.translating.ensemble import Ensemble
from headrace.nmt.translating.helpers import GreedyEmbeddingHelper, Helper, SampleEmbeddingHelper, seed_of

__all__ = [
    *("Translations", "beam_search", "dynamic_decode", "greedy_search", "longest_translations"),
    *("sample", "translate"),
]

Model = Seq2Seq | Ensemble
ROWS_AT_ONCE = 128  # their logits should stay within the cache
GROUPS_OF_WORDS = 384  # what the search for the likeliest words begins with


class Translations(NamedTuple):
    """What a search found, the best hypothesis of each sentence first."""

    ids_BKT: Tensor  # words, then eos to the end
    lengths_BK: Tensor  # words before the first eos
    log_probs_BK: Tensor
    scores_BK: Tensor  # log_probs after penalties: what they are ordered by
    alignments_BKTS: Tensor | None  # attention of each word to the source; none without attention

    def cpu(self) -> Translations:
        """Returns the same in the computer's own memory."""
        return Translations(*(None if part is None else part.cpu() for part in self))  # type: ignore[arg-type]

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


def translate(model: Model, src_BS: Tensor, src_len_B: Tensor, hparams: HParams | None = None) -> Translations:
    """Translates a batch with the search that the settings ask for.

    Args:
        model: The model, or several as one.
        src_BS: Source word ids, padded.
        src_len_B: Their lengths.
        hparams: Settings of the search; none: the model's own.
    """
    hparams = hparams or model.hparams
    limits_B = longest_translations(src_len_B, hparams.tgt_max_len_infer, hparams.whole_batch_limit)
    if hparams.search == "greedy":
        return greedy_search(model, src_BS, src_len_B, limits_B)
    if hparams.search == "sample":
        return sample(model, src_BS, src_len_B, limits_B, hparams)
    penalties = hparams.length_penalty_weight, hparams.coverage_penalty_weight
    return beam_search(model, src_BS, src_len_B, limits_B, hparams.beam_width, *penalties)


def greedy_search(model: Model, src_BS: Tensor, src_len_B: Tensor, limits_B: Tensor) -> Translations:
    """Takes the likeliest word at each step, until eos or the limit."""
    return dynamic_decode(model, GreedyEmbeddingHelper(), src_BS, src_len_B, limits_B)


def sample(model: Model, src_BS: Tensor, src_len_B: Tensor, limits_B: Tensor, hparams: HParams) -> Translations:
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
    rows = (order_BK + _column(order_BK) * count).flatten()
    return Translations(
        *(None if part is None else part[rows].view(len(src_BS), count, *part.shape[2:]) for part in found)  # type: ignore[arg-type]
    )


@torch.no_grad()
def dynamic_decode(model: Model, helper: Helper, src_BS: Tensor, src_len_B: Tensor, limits_B: Tensor) -> Translations:
    """Writes a translation of each sentence, a word at each step, until eos or the limit.

    Args:
        model: The model.
        helper: Chooses the words.
        src_BS: Source word ids, padded.
        src_len_B: Their lengths.
        limits_B: After how many steps each sentence ends.
    """
    source_steps = max(1, src_BS.shape[1])
    src_BS = _pad(src_BS, model)
    memory, state = model.encode(src_BS, src_len_B)
    batch, longest = len(src_BS), int(limits_B.max()) if len(limits_B) else 0
    ids_BT = src_BS.new_full((batch, longest), EOS)
    log_probs_B = src_BS.new_zeros(batch, dtype=model.dtype)
    alignments_BTS = src_BS.new_zeros(batch, longest, src_BS.shape[1], dtype=model.dtype)
    rows_R = torch.arange(
        batch, device=src_BS.device
    )  # the sentences still being written, by their number in the batch
    words_R = src_BS.new_full((batch,), SOS)
    for t in range(longest + 1):
        open_R = (limits_B[rows_R] > t) & ((words_R != EOS) | (t == 0))
        if not open_R.all():
            kept = open_R.nonzero().squeeze(1)
            rows_R, words_R, (memory, state) = rows_R[kept], words_R[kept], _take((memory, state), kept)
        if not len(rows_R):
            break
        output_RU, state, weights_RS = model.step(words_R, state, memory)  # type: ignore[arg-type]
        words_R, best_R = helper.choose(model.logits(output_RU), rows_R)  # type: ignore[arg-type]
        ids_BT[rows_R, t] = words_R
        log_probs_B[rows_R] += best_R
        if weights_RS is not None:
            alignments_BTS[rows_R, t] = weights_RS
    lengths_B = (ids_BT == EOS).cumsum(1).eq(0).sum(1)
    alignments = alignments_BTS[:, None, :, :source_steps] if model.attends else None
    return Translations(ids_BT[:, None], lengths_B[:, None], log_probs_B[:, None], log_probs_B[:, None], alignments)


def _pad(src_BS: Tensor, model: Model) -> Tensor:
    """Pads sources so that sums over them do not depend on how many steps there are."""
    return pad_steps(src_BS, EOS, min(part.hparams.head_width for part in model.parts))


def _take(parts: Any, rows: Tensor) -> Any:
    """Chooses rows of every tensor of a memory or a state, that is of nested tuples."""
    if parts is None or isinstance(parts, Tensor):
        return None if parts is None else parts[rows]
    chosen = [_take(part, rows) for part in parts]
    return type(parts)(*chosen) if hasattr(parts, "_fields") else tuple(chosen)


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
    model: Model,
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
    source_steps, device = max(1, src_BS.shape[1]), src_BS.device
    src_BS = _pad(src_BS, model)
    memory, state = model.encode(src_BS, src_len_B)
    batch, longest = len(src_BS), int(limits_B.max()) if len(limits_B) else 0
    state = _take(state, torch.arange(batch, device=device).repeat_interleave(beam_width))
    beam = _first(model, src_BS, beam_width)
    # A table: the last bit of a power depends on where in a tensor it is computed, that is on the rest of the batch.
    lengths_T = torch.arange(longest + 2, dtype=torch.float64)
    penalties_T = (((5.0 + lengths_T) / 6.0) ** length_penalty_weight).to(device, model.dtype)
    done = replace(beam)  # the last state of each sentence, filled in as they end
    trace: list[tuple[Tensor, Tensor, Tensor, Tensor | None]] = []  # sentences, words, parents, attention
    for t in range(longest + 1):
        open_B = (limits_B[beam.sentences_B] > t) & ~beam.finished_BK.all(dim=1)
        if not open_B.all():
            _put(done, beam, ~open_B)
            kept = open_B.nonzero().squeeze(1)
            memory = _take(memory, kept)
            state = _take(state, _rows(kept[:, None], torch.arange(beam_width, device=device), beam_width))
            beam = beam.take(kept)
        if not len(beam.sentences_B):
            break
        output_RU, state, weights_RS = model.step(beam.words_BK.flatten(), state, memory)  # type: ignore[arg-type]
        going_R = (~beam.finished_BK & (beam.log_probs_BK > -torch.inf)).flatten().nonzero().squeeze(1)
        candidates = _candidates(model, output_RU, going_R, beam.words_BK.shape)
        weights_BKS = None if weights_RS is None else weights_RS.view(-1, beam_width, src_BS.shape[1])
        beam, parents_BK = _extend(beam, candidates, weights_BKS, penalties_T, coverage_penalty_weight)
        rows_R = _rows(_column(parents_BK), parents_BK, beam_width)
        state = _take(state, rows_R)
        trace.append((beam.sentences_B, beam.words_BK, parents_BK, weights_BKS))
    _put(done, beam, torch.ones_like(beam.sentences_B, dtype=torch.bool))
    ids_BKT, alignments = _read_back(trace, done, longest, src_BS.shape[1] if model.attends else None)
    alignments = None if alignments is None else alignments[..., :source_steps]
    lengths_BK = (ids_BKT == EOS).cumsum(2).eq(0).sum(2)
    return Translations(ids_BKT, lengths_BK, done.log_probs_BK, done.scores_BK, alignments)


def _rows(sentences: Tensor, hypotheses: Tensor, beam_width: int) -> Tensor:
    return (sentences * beam_width + hypotheses).flatten()


def _first(model: Model, src_BS: Tensor, beam_width: int) -> _Beam:
    shape = len(src_BS), beam_width
    log_probs_BK = src_BS.new_full(shape, -torch.inf, dtype=model.dtype)
    log_probs_BK[:, 0] = 0.0  # all hypotheses are equal at first: go on from one of them
    return _Beam(
        sentences_B=torch.arange(len(src_BS), device=src_BS.device),
        words_BK=src_BS.new_full(shape, SOS),
        log_probs_BK=log_probs_BK,
        scores_BK=log_probs_BK.clone(),
        lengths_BK=src_BS.new_zeros(shape),
        finished_BK=torch.zeros(shape, dtype=torch.bool, device=src_BS.device),
        coverage_BKS=log_probs_BK.new_zeros(*shape, src_BS.shape[1]) if model.attends else None,
    )


class _Candidates(NamedTuple):
    """The words that may continue each hypothesis: C of them, the last one eos."""

    words_BKC: Tensor
    log_probs_BKC: Tensor


def _candidates(model: Model, output_RU: Any, going_R: Tensor, shape: torch.Size) -> _Candidates:
    """Finds the words that may win.

    All words but eos make a hypothesis equally long, so only its `beam_width` likeliest words can win, and eos. Only
    the rows that go on need the probabilities of all words, which are most of the work; a finished hypothesis repeats
    eos at no cost.
    """
    width = shape[1]
    words, log_probs = [], []
    for going in torch.split(going_R, ROWS_AT_ONCE):
        logits_NV = model.logits(_take(output_RU, going))
        eos_N1 = logits_NV[:, EOS : EOS + 1].clone()
        logits_NV[:, EOS] = -torch.inf
        best_NC, words_NC = _largest(logits_NV, min(width, logits_NV.shape[1]))
        best_NC = torch.cat([best_NC, eos_N1], dim=1)
        words_NC = torch.cat([words_NC, torch.full_like(words_NC[:, :1], EOS)], dim=1)
        logits_NV[:, EOS : EOS + 1] = eos_N1
        # The same as with `log_softmax`, in less time: the likeliest word's probability says what all add up to.
        most_N1, which_N1 = best_NC.max(dim=1, keepdim=True)
        p_N1 = torch.softmax(logits_NV, dim=1, out=logits_NV).gather(1, words_NC.gather(1, which_N1))
        words.append(words_NC)
        log_probs.append(best_NC - most_N1 + log(p_N1))
    all_words_NC, all_log_probs_NC = torch.cat(words), torch.cat(log_probs)
    count = all_words_NC.shape[1]
    words_RC = all_words_NC.new_full((shape.numel(), count), EOS)
    log_probs_RC = all_log_probs_NC.new_full((shape.numel(), count), -torch.inf)
    log_probs_RC[:, -1] = 0.0
    words_RC[going_R], log_probs_RC[going_R] = all_words_NC, all_log_probs_NC
    return _Candidates(words_RC.view(*shape, count), log_probs_RC.view(*shape, count))


def _largest(x_NV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns the largest of each row, and where they are: what `topk` does, in two thirds of its time.

    The words are laid out in a table. Its columns with the largest words hold all words sought, as each of the other
    columns has at most a word as large as the smallest of `count`.
    """
    columns = max(GROUPS_OF_WORDS, count)
    rows = x_NV.shape[1] // columns
    if rows < 4:
        return x_NV.topk(count, dim=1)
    table_NRC = x_NV[:, : rows * columns].reshape(-1, rows, columns)
    chosen_N1C = table_NRC.amax(dim=1).topk(count, dim=1).indices[:, None]
    first_R1 = torch.arange(0, rows * columns, columns, device=x_NV.device)[:, None]
    rest_V = torch.arange(rows * columns, x_NV.shape[1], device=x_NV.device)
    places_NM = torch.cat([(first_R1 + chosen_N1C).flatten(1), rest_V.expand(len(x_NV), -1)], dim=1)
    best_NC, which_NC = x_NV.gather(1, places_NM).topk(count, dim=1)
    return best_NC, places_NM.gather(1, which_NC)


def _extend(
    beam: _Beam, candidates: _Candidates, weights_BKS: Tensor | None, penalties_T: Tensor, coverage_weight: float
) -> tuple[_Beam, Tensor]:
    """Goes one step: the best continuations of all hypotheses of a sentence together, and which one each continues."""
    width = beam.words_BK.shape[1]
    going_BK1 = ~beam.finished_BK[:, :, None]
    words_BKC, step_BKC = candidates
    log_probs_BKC = beam.log_probs_BK[:, :, None] + step_BKC
    lengths_BKC = beam.lengths_BK[:, :, None] + going_BK1 * (words_BKC != EOS)
    scores_BKC = log_probs_BKC / penalties_T[lengths_BKC]
    coverage_BKS = beam.coverage_BKS
    if coverage_weight and coverage_BKS is not None and weights_BKS is not None:
        coverage_BKS = coverage_BKS + weights_BKS * going_BK1
        had_BKS = torch.where(coverage_BKS == 0.0, 1.0, coverage_BKS).clamp(max=1.0)
        # From left to right: a sum in another order would depend on how much padding there is.
        penalty_BK = coverage_weight * log(had_BKS).cumsum(dim=2)[:, :, -1] * beam.finished_BK
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
        coverage_BKS=None if coverage_BKS is None else coverage_BKS[_column(parents_BK), parents_BK],
    )
    return after, parents_BK


def _column(of: Tensor) -> Tensor:
    """Returns the numbers of the rows of a tensor, one below the other."""
    return torch.arange(len(of), device=of.device)[:, None]


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
    at_BK = torch.arange(width, device=ids_BKT.device).expand(batch, width).clone()
    for t in range(len(trace) - 1, -1, -1):
        sentences_B, words_BK, parents_BK, weights_BKS = trace[t]
        beams_BK = at_BK[sentences_B]
        ids_BKT[sentences_B, :, t] = words_BK.gather(1, beams_BK)
        at_BK[sentences_B] = parents_BK.gather(1, beams_BK)
        if alignments_BKTS is not None and weights_BKS is not None:
            alignments_BKTS[sentences_B, :, t] = weights_BKS[_column(beams_BK), at_BK[sentences_B]]
    ended_BKT = (ids_BKT == EOS).cumsum(dim=2).bool()
    ids_BKT.masked_fill_(ended_BKT, EOS)
    return ids_BKT, alignments_BKTS
