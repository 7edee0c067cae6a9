"""What a loader says of pipelines that were made to be slow at one place. Time goes by only where the test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import headrace as hr
from tests.clocks import FakeTime


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    monkeypatch.setattr("headrace.engine.stats.cpu_pressure", lambda: 0.0)  # whatever else the machine does
    return FakeTime(monkeypatch)


def run(data: hr.Batches, step: Callable[[], None] = lambda: None) -> hr.Stats:
    loader = hr.Loader(data)
    for _ in loader:
        step()
    return loader.stats()


def taking(action: Callable[[], None]) -> Callable[[float], float]:
    def fn(x: float) -> float:
        action()
        return x

    return fn


def test_a_slow_map(clock: FakeTime) -> None:
    stats = run(hr.from_arrays(np.arange(8.0)).map(taking(lambda: clock.work(0.5))).batch(2), lambda: clock.work(0.5))
    assert stats.bound == "map"
    assert (stats.batches, stats.records) == (4, 8)
    # 4 × 1 s of reading; the step after the last batch isn't followed by another one, and doesn't count.
    assert (stats.waited, stats.wall) == (4.0, 5.5)
    assert stats.stages["map"].wall == stats.stages["map"].cpu == 4.0
    assert "up to 1.4 times as fast" in stats.verdict()


def test_a_map_that_waits(clock: FakeTime) -> None:
    stats = run(hr.from_arrays(np.arange(8.0)).map(taking(lambda: clock.wait(0.5))).batch(2))
    assert stats.bound == "map"
    assert stats.stages["map"].wait == 4.0
    assert "most of it waiting, not computing" in stats.verdict()


def test_a_slow_source(clock: FakeTime) -> None:
    class Slow:
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> int:
            clock.wait(1.0)
            return index

    stats = run(hr.from_dataset(Slow()).batch(2))
    assert stats.bound == "read"
    assert "waiting for the disk" in stats.verdict()


def test_a_slow_consumer(clock: FakeTime) -> None:
    data = hr.from_arrays(np.arange(8.0)).map(taking(lambda: clock.work(0.001))).batch(2)
    stats = run(data, lambda: clock.work(1.0))
    assert stats.bound == "consumer"
    assert stats.wall == pytest.approx(3.008)


def test_a_stream_is_read_by_one_at_a_time(clock: FakeTime) -> None:
    def numbers() -> Iterator[int]:
        for number in range(8):
            clock.work(1.0)
            yield number

    stats = run(hr.from_iterable(numbers).batch(2))
    assert stats.in_order == stats.wall
    assert stats.bound == "read"  # the consumer's own thread is the only one anyway


def test_what_a_filter_leaves_counts(clock: FakeTime) -> None:
    def odd(x: float) -> bool:
        clock.work(0.5)
        return x % 2 == 1

    stats = run(hr.from_arrays(np.arange(8.0)).filter(odd, block=4).batch(2))
    assert (stats.bound, stats.batches, stats.records) == ("filter", 2, 4)


@pytest.mark.parametrize("split", ["records", "batches"])
def test_a_rank_counts_its_own_records(split: str) -> None:
    counted = []
    for rank in range(2):
        loader = hr.Loader(hr.from_arrays(np.arange(9)).batch(2), rank=rank, world_size=2, split=split)  # type: ignore[arg-type]
        given = sum(len(batch) for batch in loader)
        assert loader.stats().records == given
        counted.append(given)
    assert sum(counted) == 9


def test_each_worker_is_counted() -> None:
    loader = hr.Loader(hr.from_arrays(np.arange(40)).batch(2), workers=3)
    list(loader)
    stats = loader.stats()
    assert sum(worker.pieces for worker in stats.per_worker.values()) == 20
    assert set(stats.per_worker) <= {0, 1, 2}
    assert stats.mode == "threads"
