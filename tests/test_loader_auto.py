"""`workers="auto"` gives what every other number of workers gives."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import headrace as hr
from tests.clocks import FakeTime


def numbers() -> Iterator[int]:
    yield from range(50)


PIPELINES = {
    "shuffled": hr.from_arrays(np.arange(200)).shuffle(seed=4).batch(3),
    "filtered": hr.from_arrays(np.arange(200)).filter(lambda x: x % 3 > 0, block=16).batch(4),
    "streamed": hr.from_iterable(numbers).batch(3),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_the_batches_are_the_same(name: str) -> None:
    auto, inline = hr.Loader(PIPELINES[name], workers="auto"), hr.Loader(PIPELINES[name])
    for _ in range(3):
        assert [batch.tolist() for batch in auto] == [batch.tolist() for batch in inline]
    assert auto.state_dict() == inline.state_dict()
    assert auto.stats().batches == inline.stats().batches


@pytest.mark.parametrize("name", PIPELINES)
def test_states_are_exchanged_in_the_midst_of_trying(name: str) -> None:
    everything = [batch.tolist() for batch in hr.Loader(PIPELINES[name])]
    for stop in (1, 3, 9):
        auto = hr.Loader(PIPELINES[name], workers="auto")
        batches = iter(auto)
        seen = [next(batches).tolist() for _ in range(stop)]
        other = hr.Loader(PIPELINES[name], workers="auto")
        other.load_state_dict(auto.state_dict())
        assert seen + [batch.tolist() for batch in other] == everything


def test_the_choice_is_told_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeTime(monkeypatch)

    def fn(batch: object) -> object:
        clock.work(0.001)
        return batch

    loader = hr.Loader(hr.from_arrays(np.arange(100)).batch(2).map(fn), workers="auto")
    assert loader.stats().choice == ""
    for _ in loader:
        clock.work(1.0)
    stats = loader.stats()
    assert (stats.mode, stats.workers) == ("inline", 0)
    assert stats.choice == "workers='auto' reads inline: reading a batch takes 1 ms, the step 1 s."
    assert stats.choice in str(stats)
    assert repr(loader).endswith("workers='auto', at batch 0 of epoch 1)")
    assert pickle.loads(pickle.dumps(hr.Loader(PIPELINES["shuffled"], workers="auto"))).stats().choice == ""


def test_mistakes() -> None:
    with pytest.raises(hr.PlanError, match="workers is an integer or 'auto', got 'many'"):
        hr.Loader(PIPELINES["shuffled"], workers="many")  # type: ignore[arg-type]
