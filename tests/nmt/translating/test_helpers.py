"""Choosing words: likeliest, or drawn."""

from __future__ import annotations

import math

import pytest
import torch

from headrace.nmt.translating.decode import greedy_search, sample, translate
from headrace.nmt.translating.helpers import GreedyEmbeddingHelper, SampleEmbeddingHelper, seed_of
from tests.nmt.conftest import MakeBatch, MakeModel

LOGITS = torch.tensor([math.log(p) for p in (0.5, 0.3, 0.15, 0.05)])
DRAWS = 4000


def shares(**settings: float) -> list[float]:
    """How often each word is drawn."""
    helper = SampleEmbeddingHelper(range(DRAWS), **{"temperature": 1.0, **settings})  # type: ignore[arg-type]
    words, log_probs = helper.choose(LOGITS.expand(DRAWS, -1), torch.arange(DRAWS))
    torch.testing.assert_close(log_probs, LOGITS[words])
    return (words.bincount(minlength=4) / DRAWS).tolist()


def test_greedy_takes_the_likeliest() -> None:
    words, log_probs = GreedyEmbeddingHelper().choose(LOGITS[None], torch.tensor([0]))
    assert words.tolist() == [0]
    assert log_probs.item() == pytest.approx(math.log(0.5))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0.5, 0.3, 0.15, 0.05]),
        ({"temperature": 0.5}, [p / 0.365 for p in (0.25, 0.09, 0.0225, 0.0025)]),
        ({"top_k": 2}, [0.625, 0.375, 0, 0]),
        ({"top_k": 9}, [0.5, 0.3, 0.15, 0.05]),
        ({"top_p": 0.79}, [0.625, 0.375, 0, 0]),
        ({"top_p": 0.81}, [p / 0.95 for p in (0.5, 0.3, 0.15)] + [0.0]),
        ({"top_p": 0.01}, [1, 0, 0, 0]),
    ],
)
def test_words_come_as_often_as_they_are_likely(settings: dict[str, float], expected: list[float]) -> None:
    assert shares(**settings) == pytest.approx(expected, abs=0.03)


def test_a_row_has_its_own_random_numbers() -> None:
    seeds = list(range(50))
    together, _ = SampleEmbeddingHelper(seeds, 1.0).choose(LOGITS.expand(50, -1), torch.arange(50))
    some, _ = SampleEmbeddingHelper(seeds, 1.0).choose(LOGITS.expand(3, -1), torch.tensor([7, 30, 2]))
    assert some.tolist() == together[[7, 30, 2]].tolist()


def test_seeds_differ_by_all_that_they_are_made_of() -> None:
    assert (
        len({seed_of(*args) for args in ((1, [2, 3], 0), (2, [2, 3], 0), (1, [2], 0), (1, [2, 3], 1), (1, [23], 0))})
        == 5
    )


def test_samples_of_sentences(make_batch: MakeBatch, make_model: MakeModel) -> None:
    settings = {"infer_mode": "sample", "sampling_temperature": 1.0, "num_translations_per_input": 3, "random_seed": 4}
    model, batch = make_model(attention="luong", **settings), make_batch([3, 7, 5], [1, 1, 1])
    found = translate(model, batch.src_BS, batch.src_len_B)
    assert found.ids_BKT.shape == (3, 3, 14)
    assert (found.log_probs_BK.diff(dim=1) <= 0).all()
    assert found.alignments_BKTS is not None
    assert found.alignments_BKTS.shape == (3, 3, 14, 7)
    assert len({tuple(found.words(1, k)) for k in range(3)}) > 1
    alone = translate(model, batch.src_BS[2:, :5], batch.src_len_B[2:])
    assert [alone.words(0, k) for k in range(3)] == [found.words(2, k) for k in range(3)]
    other = translate(model, batch.src_BS, batch.src_len_B, model.hparams.replace(random_seed=5))
    assert not torch.equal(other.ids_BKT, found.ids_BKT)


def test_cold_samples_are_greedy(make_batch: MakeBatch, make_model: MakeModel) -> None:
    model, batch = make_model(), make_batch([3, 7, 5], [1, 1, 1])
    hparams = model.hparams.replace(infer_mode="sample", sampling_temperature=1e-8)
    limits = torch.tensor([6, 6, 6])
    drawn = sample(model, batch.src_BS, batch.src_len_B, limits, hparams)
    assert torch.equal(drawn.ids_BKT, greedy_search(model, batch.src_BS, batch.src_len_B, limits).ids_BKT)
