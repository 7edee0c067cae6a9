"""The report is arithmetic on the numbers that the engine gives: here they are given, not measured."""

from __future__ import annotations

import pytest

from headrace.clock import Clock
from headrace.engine import Stats, StatsCollector
from headrace.engine.stats import Stage


def report(
    waited: float, *, workers: int = 1, wall: float = 10.0, batches: int = 5, **stages: tuple[float, float]
) -> Stats:
    return Stats(batches, 160, wall, waited, workers, {name: Stage(*s) for name, s in stages.items()}, 0.5)


def clock(**seconds: tuple[float, float]) -> Clock:
    made = Clock()
    made.seconds.update(seconds)
    return made


@pytest.mark.parametrize(
    ("stats", "verdict"),
    [
        (report(0.0, batches=0), "Nothing has been read yet."),
        (report(0.4), "The consumer bounds the run: it waited for data 4% of the time."),
        (report(5.0), "The data bounds the run: the consumer waited 50% of the time."),
        (
            report(5.0, map=(3.0, 3.0), read=(1.0, 1.0)),
            "The data bounds the run: the consumer waited 50% of the time, and 75% of the workers' time goes to 'map'.",
        ),
        (
            report(9.0, map=(9.0, 9.0)),
            "The data bounds the run: the consumer waited 90% of the time, and 100% of the workers' time goes to "
            "'map'. More workers may help.",
        ),
        (
            report(9.0, workers=0, map=(1.0, 1.0)),
            "The data bounds the run: the consumer waited 90% of the time, and 100% of the workers' time goes to "
            "'map'. More workers may help.",
        ),
        (
            report(5.0, read=(4.0, 1.0)),
            "The data bounds the run: the consumer waited 50% of the time, and 100% of the workers' time goes to "
            "'read', most of it waiting for the disk.",
        ),
    ],
)
def test_the_verdict_follows_from_the_numbers(stats: Stats, verdict: str) -> None:
    assert stats.verdict() == verdict


def test_what_the_collector_is_told_adds_up() -> None:
    stats = StatsCollector(workers=2, capacity=4)
    stats.planned(0.5)
    for ready in (0, 2, 4, 9):
        stats.waited(0.25, ready=ready)
        stats.finished(clock(read=(1.0, 0.5), map=(2.0, 2.0), piece=(4.0, 3.0)), nbytes=10)
    got = stats.report()
    assert (got.batches, got.bytes, got.waited, got.workers) == (4, 40, 1.0, 2)
    assert got.queue_fill == (0 + 0.5 + 1 + 1) / 4
    assert got.stages == {
        "read": Stage(4.0, 2.0),
        "map": Stage(8.0, 8.0),
        "other": Stage(4.0, 2.0),
        "plan": Stage(0.5, 0.5),
    }
    assert str(got).splitlines()[1].split() == ["map", "8.000", "s", "(8.000", "s", "CPU)"]


def test_a_collector_that_was_reset_has_seen_nothing() -> None:
    stats = StatsCollector(workers=0, capacity=0)
    stats.waited(1.0, ready=0)
    stats.finished(clock(read=(1.0, 1.0)), nbytes=1)
    assert stats.report().queue_fill == 0
    stats.reset()
    assert stats.report() == Stats(0, 0, 0.0, 0.0, 0, {}, 0.0)
    assert stats.report().wait_share == 0
