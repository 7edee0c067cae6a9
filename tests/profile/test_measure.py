"""Profiling of pipelines that were made to be slow at one place. Time goes by only where the test says so."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as hr
from tests.clocks import FakeTime


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    return FakeTime(monkeypatch)


def loader_of(action: Callable[[], None], batches: int = 10) -> hr.Loader:
    """Each batch takes one call of an action to read."""

    def fn(batch: Any) -> Any:
        action()
        return batch

    return hr.Loader(hr.from_arrays(np.arange(2 * batches)).batch(2).map(fn))


def test_slow_reading_leaves_head_room(clock: FakeTime) -> None:
    found = loader_of(lambda: clock.work(0.3)).profile(batches=5, step=lambda _: clock.work(0.1))
    assert [found.alone, found.together, found.cached] == pytest.approx([1 / 0.3, 2.5, 10])
    assert found.gain == pytest.approx(4)
    assert found.stats.batches == 5
    assert found.stats.bound == "map batches"
    assert found.recommendation.startswith(
        "The loop makes 2.5 batches/s, and 10.0 with a batch that is there already: better loading can make it up to "
        "4.00 times as fast. The data bounds the run"
    )


def test_a_slow_step_leaves_none(clock: FakeTime) -> None:
    found = loader_of(lambda: clock.work(0.001)).profile(batches=5, step=lambda _: clock.work(1.0))
    assert found.gain == pytest.approx(1.001)
    assert found.recommendation.startswith(
        "Loading costs this loop nothing: 1.0 batches/s, 1.0 without it. The consumer"
    )


def test_the_loader_alone(clock: FakeTime) -> None:
    found = loader_of(lambda: clock.work(0.25)).profile(batches=5)
    assert found.together == 4
    assert (found.alone, found.cached, found.gain) == (None, None, None)


def test_a_step_that_is_in_its_workers_way() -> None:
    stats = hr.Stats(10, 0, 10.0, 8.0, 2, {}, 0.0)
    found = hr.Profile("it", stats, together=2.0, alone=6.0, cached=4.0)
    assert "The loader alone gives 6.0, more than the step takes: they are in each other's way." in found.recommendation
    slow = hr.Profile("it", stats, together=2.0, alone=2.5, cached=4.0)
    assert "times as fast. The loader alone gives 2.5. The data" in slow.recommendation


def test_of_a_watched_program_the_gain_is_computed() -> None:
    found = hr.Profile("it", hr.Stats(10, 0, 10.0, 8.0, 2, {}, 0.0))
    assert found.gain == 5
    assert found.recommendation.startswith("With a loader that costs nothing this loop would be at most 5.00 times")
    assert hr.Profile("it", hr.Stats(0, 0, 0.0, 0.0, 2, {}, 0.0)).gain is None


def test_what_is_slow_ends_in_time(clock: FakeTime) -> None:
    found = loader_of(lambda: clock.work(1.0), batches=50).profile(batches=50, seconds=3)
    assert found.stats.batches == 4


def test_the_loader_is_afterwards_where_it_was() -> None:
    loader = hr.Loader(hr.from_arrays(np.arange(10)).batch(2), workers=2)
    first = next(iter(loader)).tolist()
    for _ in range(2):
        loader.profile(batches=7, step=len)
    assert first == [0, 1]
    assert loader.stats().batches == 0
    assert [batch.tolist() for batch in loader] == [[2, 3], [4, 5], [6, 7], [8, 9]]


def test_streams_are_profiled_too() -> None:
    def numbers() -> Iterator[int]:
        yield from range(6)

    loader = hr.Loader(hr.from_iterable(numbers).batch(2))
    assert loader.profile(batches=5).stats.records == 10
    assert len(list(loader)) == 3


def test_mistakes() -> None:
    loader = hr.Loader(hr.from_arrays(np.arange(10)).batch(2))
    with pytest.raises(hr.PlanError, match="batches is at least 1, got 0"):
        loader.profile(batches=0)
    with pytest.raises(hr.PlanError, match="seconds is above 0, got -1"):
        loader.profile(seconds=-1)
    with pytest.raises(hr.PlanError, match="step is a function of a batch, got 3"):
        loader.profile(step=3)  # type: ignore[arg-type]
    with pytest.raises(hr.PlanError, match=r"saved as \.html, \.png or \.json, got 'x\.pdf'"):
        loader.profile().save("x.pdf")
    with pytest.raises(hr.DataError, match="the loader gives no batch"):
        hr.Loader(hr.from_arrays(np.arange(3)).batch(4, drop_remainder=True)).profile()


def test_an_error_of_the_step_leaves_the_loader_as_it_was() -> None:
    loader = hr.Loader(hr.from_arrays(np.arange(10)).batch(2), workers=1)
    with pytest.raises(ZeroDivisionError):
        loader.profile(step=lambda batch: 1 // 0)
    assert len(list(loader)) == 5


def test_saved_as_a_document(tmp_path: pathlib.Path) -> None:
    found = hr.Loader(hr.from_arrays(np.arange(10)).batch(2), workers=1).profile(batches=5, step=len)
    found.save(tmp_path / "it.json")
    document = json.loads((tmp_path / "it.json").read_text())
    assert document["stats"]["records"] == 10
    assert [span["number"] for span in document["pieces"][0]][:3] == [0, 1, 2]
    assert document["recommendation"] == found.recommendation


def test_printed(clock: FakeTime) -> None:
    text = str(loader_of(lambda: clock.work(0.3)).profile(batches=5, step=lambda _: clock.work(0.1)))
    lines = text.splitlines()
    assert lines[0].startswith("Loader(arrays()")
    assert "  loader alone                                      3.3 batches/s" in lines
    assert "  step alone, the same batch over and over         10.0 batches/s" in lines
    assert lines[-1].startswith("The loop makes 2.5 batches/s")
