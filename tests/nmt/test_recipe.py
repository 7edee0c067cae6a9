"""What newer recipes add: label smoothing, several batches an update, schedules."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr
from headrace.nmt.data import batches, load_vocabs, read_pairs, to_batch
from headrace.nmt.hparams import HParamError, HParams
from headrace.nmt.train import train
from headrace.nmt.training.optim import learning_rate
from tests.nmt.conftest import MakeBatch, MakeModel, Toy
from tests.nmt.speed.alike import check_the_fast_way


def test_label_smoothing(make_batch: MakeBatch, make_model: MakeModel) -> None:
    model, batch = make_model(label_smoothing=0.1, dropout=0.0), make_batch([3, 4], [5, 2])
    plain = model.loss(batch)
    assert plain == make_model(dropout=0.0).loss(batch)  # not in evaluation
    log_p = model(batch).log_softmax(dim=2)
    everywhere = (-log_p.mean(dim=2) * batch.real_TB).sum() / 2
    torch.testing.assert_close(model.train().loss(batch), 0.9 * plain + 0.1 * everywhere)


def test_the_fast_way_smooths_alike(make_batch: MakeBatch, make_model: MakeModel) -> None:
    check_the_fast_way(make_batch, make_model, attention="luong", label_smoothing=0.2, dropout=0.3)


def test_schedules() -> None:
    settings = HParams(warmup_steps=4, warmup_scheme="linear", decay_scheme="inverse_sqrt", num_train_steps=1000)
    rates = [learning_rate(settings, step) for step in (0, 1, 3, 4, 16, 100)]
    assert rates == pytest.approx([0.2, 0.4, 0.8, 1.0, 0.5, 0.2])


def test_small_batches_together_are_a_large_one(toy: Toy) -> None:
    """An update by batches of 8, twice, is one by a batch of 16, where the order gives the same sentences."""
    settings = {"num_buckets": 1, "dropout": 0.0, "num_train_steps": 4, "optimizer": "sgd", "max_gradient_norm": 1e9}
    results = []
    for size, times in ((16, 1), (8, 2)):
        out_dir = str(toy().out_dir) + str(times)
        result = train(toy(**settings, batch_size=size, accumulate=times, out_dir=out_dir), quiet=True)
        assert result.step == 4
        results.append(result)
    one, two = (result.translator.model.state_dict() for result in results)
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, rtol=1e-4, atol=1e-6, msg=name)
    curves = [np.array(result.curves["train_ppl"]) for result in results]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-4)


def test_batches_by_tokens(toy: Toy) -> None:
    hparams = toy(batch_tokens=40)
    vocabs = load_vocabs(hparams)
    pairs = read_pairs(hparams, "train_prefix").filter_length()
    found = [to_batch(columns) for columns in hr.Loader(batches(pairs, vocabs, hparams, training=True), to="torch")]
    assert sum(len(batch.src_BS) for batch in found) == len(pairs)
    assert all(max(batch.src_BS.numel(), batch.tgt_BT1.numel()) <= 40 for batch in found)
    assert len({len(batch.src_BS) for batch in found}) > 2  # short sentences come by more
    assert train(toy(batch_tokens=40), quiet=True).step == 6
    alike = toy(batch_tokens=40)
    evaluated = hr.Loader(batches(pairs, vocabs, alike, training=False), to="torch")
    assert max(len(to_batch(columns).src_BS) for columns in evaluated) == alike.batch_size


def test_interrupted_between_updates(toy: Toy) -> None:
    """What is saved is a whole number of updates, so that going on gives the same."""
    whole = train(toy(accumulate=3, num_train_steps=8, out_dir=str(toy().out_dir) + "w"), quiet=True)
    train(toy(accumulate=3, num_train_steps=4), quiet=True)
    again = train(toy(accumulate=3, num_train_steps=8), quiet=True)
    for name, weight in whole.translator.model.state_dict().items():
        assert torch.equal(again.translator.model.state_dict()[name], weight), name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_smoothing": 1.0}, "label_smoothing must be at least 0 and below 1, got 1.0"),
        ({"label_smoothing": 0.1, "num_sampled_softmax": 5}, "label_smoothing goes to all words"),
        ({"decay_scheme": "inverse_sqrt"}, "it needs warmup_steps above 0"),
        ({"accumulate": 0}, "accumulate must be at least 1, got 0"),
    ],
)
def test_refuses(settings: dict[str, object], message: str) -> None:
    with pytest.raises(HParamError, match=message):
        HParams().replace(**settings)
