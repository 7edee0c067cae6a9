"""Sampled softmax: how candidates are drawn, and what is made of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from headrace.nmt.hparams import HParams
from headrace.nmt.layers.sampled import Candidates, draw_candidates, sampled_cross_entropy
from headrace.nmt.model import Seq2Seq
from tests.nmt.conftest import MakeBatch, MakeModel
from tests.nmt.speed.alike import check_the_fast_way


def test_candidates_differ_and_frequent_words_come_more_often() -> None:
    generator = torch.Generator().manual_seed(1)
    counts = np.zeros(20)
    tries = []
    for _ in range(1500):
        found = draw_candidates(5, 20, generator)
        words = found.words_M.tolist()
        assert len(set(words)) == 5
        counts[words] += 1
        tries.append(found.tries)
    assert min(tries) == 5
    # What is expected of so many draws is what comes.
    every = torch.arange(20)
    expected = np.mean([Candidates(every, n, 20).log_expected(every).exp().numpy() for n in tries], axis=0)
    np.testing.assert_allclose(counts / 1500, expected, atol=0.06)
    assert counts[0] > counts[5] > counts[19]


def test_all_words_but_one_can_be_drawn() -> None:
    assert len(draw_candidates(7, 8).words_M) == 7


def test_the_loss_by_hand() -> None:
    rng = np.random.default_rng(0)
    output, projection, right = rng.normal(size=(3, 4)), rng.normal(size=(4, 9)), np.array([2, 5, 0])
    candidates = Candidates(torch.tensor([0, 5, 7]), 6, 9)
    got = sampled_cross_entropy(
        torch.from_numpy(output), torch.from_numpy(projection), torch.from_numpy(right), candidates
    )
    for row in range(3):
        logits = {}
        for word in {int(right[row]), 0, 5, 7}:
            p = math.log((word + 2) / (word + 1)) / math.log(10)
            logits[word] = output[row] @ projection[:, word] - math.log(1 - (1 - p) ** 6)
        loss = math.log(sum(math.exp(x) for x in logits.values())) - logits[int(right[row])]
        assert got[row].item() == pytest.approx(loss, rel=1e-9)


def test_only_training_is_sampled(make_batch: MakeBatch, make_model: MakeModel) -> None:
    model, batch = make_model(num_sampled_softmax=4, dropout=0.0), make_batch([3, 4], [5, 2])
    assert model.draw_masks(batch).candidates is None
    masks = model.train().draw_masks(batch, torch.Generator().manual_seed(2))
    assert masks.candidates is not None
    assert len(masks.candidates.words_M) == 4
    assert model.loss(batch, masks) != model.loss(batch)
    again = model.draw_masks(batch, torch.Generator().manual_seed(2))
    assert torch.equal(model.loss(batch, masks), model.loss(batch, again))


def test_the_fast_way_gives_the_same(make_batch: MakeBatch, make_model: MakeModel) -> None:
    check_the_fast_way(make_batch, make_model, attention="luong", num_sampled_softmax=4, dropout=0.3)


def test_more_candidates_than_words_are_refused() -> None:
    with pytest.raises(ValueError, match="num_sampled_softmax must be below the number of target words, 20, got 20"):
        Seq2Seq(HParams(num_sampled_softmax=20), 30, 20)
