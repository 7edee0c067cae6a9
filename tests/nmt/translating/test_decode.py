"""Greedy and beam search."""

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from headrace.nmt.model import Batch, Seq2Seq
from headrace.nmt.text.special import EOS, SOS
from headrace.nmt.translating.decode import beam_search, greedy_search, longest_translations, translate
from tests.nmt.conftest import MakeBatch, MakeModel


def log_probs(model: Seq2Seq, src: Tensor, src_len: Tensor, words: list[int]) -> list[float]:
    """Returns the log-probability of each of these words after those before it."""
    return all_log_probs(model, src, src_len, [words])[0]


def all_log_probs(model: Seq2Seq, src: Tensor, src_len: Tensor, many: list[list[int]]) -> list[list[float]]:
    """Does the same for many translations of one source."""
    n, longest = len(many), max(map(len, many))
    target = torch.tensor([[SOS, *words, *[EOS] * (longest - len(words))] for words in many])
    with torch.no_grad():
        logits = model(Batch(src.expand(n, -1), src_len.expand(n), target, torch.tensor([len(w) for w in many])))
    found = logits.log_softmax(2).gather(2, target[:, 1:].t()[:, :, None])[:, :, 0].t().tolist()
    return [row[: len(words)] for row, words in zip(found, many, strict=True)]


@pytest.mark.parametrize("length_weight", [0.0, 1.0])
@pytest.mark.parametrize("settings", [{}, {"attention": "scaled_luong", "encoder_type": "bi"}])
def test_a_beam_that_holds_everything_finds_the_best(
    make_batch: MakeBatch, make_model: MakeModel, settings: dict[str, object], length_weight: float
) -> None:
    model, batch = make_model(**settings), make_batch([2, 4], [1, 1])
    words = range(11)
    everything = [[w] for w in words if w == EOS]
    everything += [[a, EOS] for a in words if a != EOS]
    everything += [[a, b, c] for a, b, c in itertools.product(words, repeat=3) if EOS not in (a, b)]
    found = beam_search(model, batch.src_BS, batch.src_len_B, torch.tensor([3, 3]), 1111, length_weight)
    for row in range(2):
        one = batch.src_BS[row : row + 1, : int(batch.src_len_B[row])], batch.src_len_B[row : row + 1]
        totals = [sum(row) for row in all_log_probs(model, *one, everything)]
        scores = {tuple(w): t / ((5 + len(w)) / 6) ** length_weight for w, t in zip(everything, totals, strict=True)}
        best = sorted(everything, key=lambda w: -scores[tuple(w)])
        for k in range(3):
            ids = found.ids_BKT[row, k].tolist()
            assert ids[: len(best[k])] == best[k]
            assert found.scores_BK[row, k].item() == pytest.approx(scores[tuple(best[k])])
            assert found.words(row, k) == [w for w in best[k] if w != EOS]


def test_a_beam_of_one_is_greedy(make_batch: MakeBatch, make_model: MakeModel) -> None:
    model, batch = make_model(attention="luong"), make_batch([4, 6, 1, 3], [1] * 4)
    limits = longest_translations(batch.src_len_B)
    greedy = greedy_search(model, batch.src_BS, batch.src_len_B, limits)
    beam = beam_search(model, batch.src_BS, batch.src_len_B, limits, 1)
    for a, b in zip(greedy, beam, strict=True):
        torch.testing.assert_close(a, b)


def test_greedy_takes_the_likeliest_word(make_batch: MakeBatch, make_model: MakeModel) -> None:
    model, batch = make_model(attention="luong", seed=2), make_batch([4], [1])
    found = greedy_search(model, batch.src_BS, batch.src_len_B, torch.tensor([8]))
    words = found.ids_BKT[0, 0].tolist()
    written = words[: words.index(EOS) + 1] if EOS in words else words
    for t in range(len(written)):
        others = [log_probs(model, batch.src_BS, batch.src_len_B, [*written[:t], w])[-1] for w in range(11)]
        assert max(range(11), key=others.__getitem__) == written[t]
    total = sum(log_probs(model, batch.src_BS, batch.src_len_B, written))
    assert found.log_probs_BK.item() == pytest.approx(total)


@pytest.mark.parametrize("width", [0, 4])
def test_the_batch_changes_no_translation(make_batch: MakeBatch, make_model: MakeModel, width: int) -> None:
    model = make_model(attention="scaled_luong", seed=4)
    batch = make_batch([5, 2, 7, 1, 3, 7], [1] * 6)
    hparams = model.hparams.replace(beam_width=width, length_penalty_weight=0.6, coverage_penalty_weight=0.2)
    together = translate(model, batch.src_BS, batch.src_len_B, hparams)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    shuffled = translate(model, batch.src_BS[order], batch.src_len_B[order], hparams)
    for row in range(6):
        length = batch.src_len_B[row : row + 1]
        alone = translate(model, batch.src_BS[row : row + 1, : int(length)], length, hparams)
        place = order.tolist().index(row)
        for k in range(max(1, width)):
            assert together.words(row, k) == alone.words(0, k) == shuffled.words(place, k)
        torch.testing.assert_close(together.scores_BK[row], alone.scores_BK[0])
        assert len(together.words(row)) <= 2 * int(length)


@pytest.mark.parametrize("width", [0, 3])
def test_alignments_are_those_of_the_words(make_batch: MakeBatch, make_model: MakeModel, width: int) -> None:
    model = make_model(attention="scaled_luong", seed=1)
    batch = make_batch([5, 3], [1, 1])
    found = translate(model, batch.src_BS, batch.src_len_B, model.hparams.replace(beam_width=width))
    assert found.alignments_BKTS is not None
    for row, k in itertools.product(range(2), range(max(1, width))):
        words, n = found.words(row, k), int(batch.src_len_B[row])
        memory, state = model.encode(batch.src_BS[row : row + 1, :n], batch.src_len_B[row : row + 1])
        for t, word in enumerate([SOS, *words][: len(words)]):
            x_BU = model.tgt_embedding_VU[torch.tensor([word])]
            _, state, weights_BS = model.decoder.step(x_BU, state, memory)
            torch.testing.assert_close(found.alignments_BKTS[row, k, t, :n], weights_BS[0].detach())  # type: ignore[index]
        assert not found.alignments_BKTS[row, k, :, n:].any()


def test_limits() -> None:
    lengths = torch.tensor([3, 0, 5])
    assert longest_translations(lengths).tolist() == [6, 0, 10]
    assert longest_translations(lengths, whole_batch=True).tolist() == [10, 10, 10]
    assert longest_translations(lengths, tgt_max_len_infer=4).tolist() == [4, 0, 4]


@pytest.mark.parametrize("width", [0, 3])
def test_an_empty_source_becomes_an_empty_line(make_batch: MakeBatch, make_model: MakeModel, width: int) -> None:
    for settings in ({}, {"attention": "luong"}):
        model = make_model(**settings)
        batch = make_batch([0, 3], [1, 1])
        hparams = model.hparams.replace(beam_width=width)
        assert translate(model, batch.src_BS, batch.src_len_B, hparams).words(0) == []
        alone = translate(model, torch.zeros(1, 0, dtype=torch.int64), torch.tensor([0]), hparams)
        assert alone.words(0) == []


def test_no_log_prob_is_lost_when_finished_hypotheses_compete(make_batch: MakeBatch, make_model: MakeModel) -> None:
    model, batch = make_model(seed=3), make_batch([3], [1])
    found = beam_search(model, batch.src_BS, batch.src_len_B, torch.tensor([6]), 5, 1.0)
    for k in range(5):
        words = found.ids_BKT[0, k].tolist()
        words = words[: words.index(EOS) + 1] if EOS in words else words
        total = sum(log_probs(model, batch.src_BS, batch.src_len_B, words))
        assert found.log_probs_BK[0, k].item() == pytest.approx(total)
        assert found.scores_BK[0, k].item() == pytest.approx(total / ((5 + len(words)) / 6))
    assert found.scores_BK[0].tolist() == sorted(found.scores_BK[0].tolist(), reverse=True)
    assert all(math.isfinite(value) for value in found.scores_BK[0].tolist())


@pytest.mark.parametrize("seed", range(6))
def test_no_order_size_or_padding_changes_a_translation(
    make_batch: MakeBatch, make_model: MakeModel, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=generator))

    searches: list[dict[str, Any]] = [
        {},
        {"beam_width": draw(1, 6), "length_penalty_weight": 0.7},
        {"beam_width": 5, "coverage_penalty_weight": 0.3},
        {"infer_mode": "sample", "sampling_temperature": 1.1, "random_seed": 3, "num_translations_per_input": 2},
    ]
    attention = ("", "luong", "normed_bahdanau")[seed % 3]
    model = make_model(attention=attention, encoder_type=("uni", "bi")[seed % 2], seed=seed)
    batch = make_batch([draw(0, 9) for _ in range(11)], [1] * 11, seed)
    for settings in searches:
        hparams = model.hparams.replace(**settings)
        expected = translate(model, batch.src_BS, batch.src_len_B, hparams)
        order = torch.randperm(11, generator=generator)
        for rows in order.split(draw(1, 8)):  # type: ignore[no-untyped-call]
            longest = int(batch.src_len_B[rows].max())
            src_BS = torch.randint(0, 13, (len(rows), longest + draw(0, 4)), generator=generator)  # any padding
            for place, row in enumerate(rows.tolist()):
                n = int(batch.src_len_B[row])
                src_BS[place, :n] = batch.src_BS[row, :n]
            found = translate(model, src_BS, batch.src_len_B[rows], hparams)
            for place, row in enumerate(rows.tolist()):
                for k in range(found.ids_BKT.shape[1]):
                    assert found.words(place, k) == expected.words(row, k), (settings, row, k)
            torch.testing.assert_close(found.scores_BK, expected.scores_BK[rows])
