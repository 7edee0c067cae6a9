"""The report is arithmetic on the numbers that the engine gives: here they are given, not measured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.clock import Clock
from headrace.engine import Stats, StatsCollector
from headrace.engine.stats import Stage, WorkerStats
from headrace.engine.verdict import Advice
from headrace.runs import ADVICE


def report(waited: float, *, workers: int = 1, batches: int = 40, **more: Any) -> Stats:
    """A report of 10 seconds; what isn't named otherwise is a stage."""
    names = {"mode", "in_order", "cpus", "cpu_pressure", "advice"}
    stages = {name.replace("_", " "): Stage(*s) for name, s in more.items() if name not in names}
    given = {name: value for name, value in more.items() if name in names}
    mode = "threads" if workers else "inline"
    return Stats(batches, 160, 10.0, waited, workers, stages, 0.5, **{"mode": mode, "advice": ADVICE, **given})


def clock(worker: int | None = None, **seconds: tuple[float, float]) -> Clock:
    made = Clock(worker)
    made.seconds.update(seconds)
    return made


WAITED = "The data bounds the run: the consumer waited"
MAP = "Make the function of `map` cheaper, work on whole batches (`.batch(…).map(…)`), or do its work ahead."
READ = "Convert the data once to a form that is read faster, or keep it in memory."


@pytest.mark.parametrize(
    ("stats", "bound", "verdict"),
    [
        (report(0.0, batches=0), "nothing", "Nothing has been read yet."),
        (
            report(0.4, read=(9.0, 9.0)),
            "consumer",
            "The consumer bounds the run: it waited for data 4% of the time. Make the training step faster; a better "
            "data path would change nothing.",
        ),
        (
            report(0.4, workers=8, read=(9.0, 9.0)),
            "consumer",
            "The consumer bounds the run: it waited for data 4% of the time. Make the training step faster; a better "
            "data path would change nothing. 2 of the 8 workers would do.",
        ),
        (report(5.0), "data", f"{WAITED} 50% of the time."),
        (
            report(5.0, map=(6.0, 6.0), read=(2.0, 2.0)),
            "map",
            f"{WAITED} 50% of the time, and 75% of the workers' time goes to 'map'. {MAP}",
        ),
        (
            report(9.0, map=(9.0, 9.0)),
            "map",
            f"{WAITED} 90% of the time, and 100% of the workers' time goes to 'map'. More workers may help. {MAP}",
        ),
        (
            report(9.0, workers=2, map=(18.0, 17.0), cpus=2),
            "map",
            f"{WAITED} 90% of the time, and 100% of the workers' time goes to 'map'; all 2 processors are busy. More "
            f"workers won't help. {MAP}",
        ),
        (
            report(9.0, workers=4, map=(38.0, 9.5), cpus=8),
            "map",
            f"{WAITED} 90% of the time, and 100% of the workers' time goes to 'map': 4 threads keep 0.9 processors "
            "busy between them, as they do when Python code holds the interpreter lock. More threads won't help; "
            f"worker processes would. {MAP}",
        ),
        (  # waiting for the lock between two pieces
            report(9.0, workers=2, map=(9.5, 9.4), cpus=8),
            "map",
            f"{WAITED} 90% of the time, and 100% of the workers' time goes to 'map': 2 threads keep 0.9 processors "
            "busy between them, as they do when Python code holds the interpreter lock. More threads won't help; "
            f"worker processes would. {MAP}",
        ),
        (
            report(9.0, workers=4, mode="processes", map=(38.0, 9.5), cpus=8),
            "map",
            f"{WAITED} 90% of the time, and 100% of the workers' time goes to 'map', most of it waiting, not "
            "computing. More workers would help: they wait at the same time.",
        ),
        (
            report(8.0, read=(8.0, 1.0), cpu_pressure=0.9),
            "read",
            f"{WAITED} 80% of the time, and 100% of the workers' time goes to 'read', most of it waiting, for a "
            "processor it seems: others keep this machine busy, so that something waits for one 90% of the time. Run "
            "it where nothing else does, and no more workers than there are processors.",
        ),
        (
            report(8.0, workers=0, map=(8.0, 8.0)),
            "map",
            f"{WAITED} 80% of the time, and 100% of that goes to 'map'. More workers may help. "
            f"`workers=1` reads ahead while the step runs: up to 1.2 times as fast. {MAP}",
        ),
        (
            report(8.0, read=(8.0, 1.0)),
            "read",
            f"{WAITED} 80% of the time, and 100% of the workers' time goes to 'read', most of it waiting for the disk. "
            "More workers would help: they wait at the same time. So would a faster disk, or data kept in memory.",
        ),
        (
            report(8.0, read=(7.0, 7.0), to_torch=(1.0, 1.0)),
            "read",
            f"{WAITED} 80% of the time, and 88% of the workers' time goes to 'read'. {READ}",
        ),
        (
            report(8.0, workers=2, read=(8.0, 8.0), in_order=7.5),
            "order",
            f"{WAITED} 80% of the time, and 75% of it goes to what one worker at a time does, in order: planning, and "
            "reading what can only be read forward. More workers won't help. Read from files that can be read at any "
            "place, iterate less in the stream itself, or plan smaller windows.",
        ),
        (
            report(3.0, workers=2, read=(10.0, 10.0)),
            "look-ahead",
            f"{WAITED} 30% of the time, though its workers worked only 50% of it: at times no batch was ready. Batches "
            "that differ in cost need more look-ahead: raise `prefetch`, or `max_bytes` if they are large.",
        ),
        (  # after so few batches the workers were but starting
            report(3.0, workers=2, batches=7, read=(10.0, 10.0)),
            "read",
            f"{WAITED} 30% of the time, and 100% of the workers' time goes to 'read'. {READ}",
        ),
    ],
)
def test_the_verdict_follows_from_the_numbers(stats: Stats, bound: str, verdict: str) -> None:
    assert (stats.bound, stats.verdict()) == (bound, verdict)


def test_advice_is_the_surfaces() -> None:
    own = Advice({"fetch": "Fetch less."}, frozenset({"fetch"}), "`num_workers=1`", "`prefetch_factor`")
    alone = report(8.0, workers=0, fetch=(8.0, 8.0), advice=own).verdict()
    assert alone.endswith("`num_workers=1` reads ahead while the step runs: up to 1.2 times as fast. Fetch less.")
    turns = report(9.0, workers=4, fetch=(10.0, 9.0), advice=own).verdict()
    assert "as they do when Python code holds the interpreter lock" in turns
    assert "interpreter lock" not in report(9.0, workers=4, fetch=(10.0, 9.0), advice=Advice()).verdict()
    ahead = report(3.0, workers=2, mode="processes", fetch=(10.0, 10.0), advice=own).verdict()
    assert ahead.endswith("need more look-ahead: raise `prefetch_factor`.")
    assert report(3.0, workers=2, fetch=(10.0, 10.0), advice=Advice()).verdict().endswith("need more look-ahead.")
    assert "advice" not in report(3.0, advice=own).to_dict()


def test_of_a_short_run_nothing_is_claimed() -> None:
    stats = Stats(3, 160, 0.01, 0.005, 0, {"read": Stage(0.005, 0.005)}, 0.0)
    assert stats.bound == "short"
    assert stats.verdict() == "Too short a run to judge (0.010 s): the consumer waited 50% of it."


def test_what_the_collector_is_told_adds_up() -> None:
    stats = StatsCollector(workers=2, capacity=4)
    stats.planned(0.5)
    for number, ready in enumerate((0, 2, 4, 9)):
        stats.waited(0.25, ready=ready)
        stats.finished(clock(number % 2, read=(1.0, 0.5), map=(2.0, 2.0), piece=(4.0, 3.0)), nbytes=10)
        stats.gave(7)
    got = stats.report()
    assert (got.batches, got.records, got.bytes, got.waited) == (4, 28, 40, 1.0)
    assert (got.workers, got.mode, got.in_order) == (2, "threads", 0.5)
    assert got.queue_fill == (0 + 0.5 + 1 + 1) / 4
    assert got.stages == {
        "read": Stage(4.0, 2.0),
        "map": Stage(8.0, 8.0),
        "other": Stage(4.0, 2.0),
        "plan": Stage(0.5, 0.5),
    }
    assert got.stages["read"].wait == 2.0
    assert got.per_worker == {0: WorkerStats(2, 8.0, 6.0), 1: WorkerStats(2, 8.0, 6.0)}
    assert got.cpus >= 1


def test_rates_are_of_what_the_consumer_got() -> None:
    stats = Stats(40, 8000, 4.0, 2.0, 2, {"read": Stage(5.0, 1.0), "plan": Stage(0.0, 0.0)}, 0.5, records=400)
    assert (stats.batches_per_second, stats.records_per_second, stats.bytes_per_second) == (10, 100, 2000)
    assert stats.stage_rate("read") == 16
    assert stats.stage_rate("plan") == float("inf")
    assert stats.busy_share == 5 / 8


def test_the_report_in_words() -> None:
    stats = Stats(
        40,
        8_000_000,
        4.0,
        2.0,
        2,
        {"read": Stage(5.0, 4.0), "plan": Stage(0.0, 0.0)},
        0.5,
        records=400,
        mode="threads",
        per_worker={0: WorkerStats(20, 2.0, 2.0), 1: WorkerStats(20, 3.0, 2.0)},
        choice="chose",
    )
    assert str(stats).splitlines()[:-1] == [
        "40 batches, 400 records, 8.0 MB in 4.00 s: 10.0 batches/s, 100 records/s, 2.0 MB/s",
        "waited 2.00 s (50.0%); queue 50% full; 2 threads, busy 62%",
        "  stage           seconds        CPU      share   ms/batch  batches/s",
        "  read              5.000      4.000       100%    125.000         16",
        "  plan              0.000      0.000         0%      0.000          –",
        "  busy by worker: 0: 50%, 1: 75%",
        "chose",
    ]


def test_the_report_as_a_document() -> None:
    stats = StatsCollector(workers=1, capacity=4)
    stats.waited(0.25, ready=1)
    stats.finished(clock(0, read=(1.0, 0.5), piece=(1.0, 0.5)), nbytes=10)
    found = json.loads(json.dumps(stats.report().to_dict()))
    assert found["stages"]["read"] == {"wall": 1.0, "cpu": 0.5}
    assert found["per_worker"]["0"]["pieces"] == 1
    assert found["bound"] == "read"
    assert found["batches_per_second"] == 1 / 0.25


def test_a_collector_that_was_reset_has_seen_nothing() -> None:
    stats = StatsCollector(workers=0, capacity=0)
    stats.waited(1.0, ready=0)
    stats.finished(clock(read=(1.0, 1.0)), nbytes=1)
    stats.gave(2)
    assert stats.report().queue_fill == 0
    stats.reset()
    got = stats.report()
    assert (got.batches, got.records, got.bytes, got.wall, got.waited, got.stages) == (0, 0, 0, 0.0, 0.0, {})
    assert got.wait_share == got.busy_share == got.batches_per_second == 0
