"""The choice follows from what the trials took, which is given here; and no trial changes the results."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Generator, Iterator

import pytest

from headrace.clock import Clock
from headrace.engine import Auto, Choice, Mode, Result, StatsCollector, run_auto, run_inline, run_threads
from headrace.errors import NotPicklableError

ALL: tuple[Mode, ...] = ("threads", "processes")


class Pipeline:
    """A pipeline's times: reading, a step, and whether threads take turns (as Python code under its lock does).

    Args:
        read: Seconds to read a batch.
        step: Seconds of the consumer's step.
        cpu: The share of reading that keeps a processor busy.
        locked: Whether threads take turns, with the step as well.
        cpus: Processors.
    """

    def __init__(self, read: float, step: float, cpu: float = 1.0, locked: bool = False, cpus: int = 8) -> None:
        self.read, self.step, self.cpu, self.locked, self.cpus = read, step, cpu, locked, cpus

    def sample(self, choice: Choice) -> tuple[float, float, float, float]:
        """Wall and CPU seconds of a piece, and how long the consumer waits and works."""
        if choice.mode == "inline":
            return self.read, self.cpu * self.read, self.read, self.step
        at_once = 1 if self.locked and choice.mode == "threads" else choice.workers
        if self.cpu > 0.5:
            at_once = min(at_once, self.cpus)
        each = self.read / at_once
        if self.locked and choice.mode == "threads":
            each += self.step
        else:
            each = max(each, self.step)
        return self.read * choice.workers / at_once, self.cpu * self.read, each - self.step, self.step


def decided(pipeline: Pipeline, modes: tuple[Mode, ...] = ALL, most: int | None = None) -> tuple[Choice, list[Choice]]:
    """What is chosen, and all that was run on the way."""
    auto = Auto(modes, cpus=pipeline.cpus, most=most)
    ran = [auto.current]
    for _ in range(1000):
        if auto.saw(*pipeline.sample(auto.current)):
            ran.append(auto.current)
        if auto.decided:
            return auto.current, ran
    raise AssertionError("never decided")


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        (Pipeline(read=1e-5, step=0.0), Choice("inline", 0)),  # less than handing over takes
        (Pipeline(read=1e-3, step=0.1), Choice("inline", 0)),  # hidden by the step
        (Pipeline(read=0.01, step=0.1), Choice("threads", 1)),
        (Pipeline(read=0.1, step=0.1), Choice("threads", 2)),  # one would do by the means, but batches differ
        (Pipeline(read=1.0, step=0.0), Choice("threads", 8)),
        (Pipeline(read=1.0, step=0.0, cpu=0.1), Choice("threads", 16)),  # they only wait
        (Pipeline(read=0.1, step=0.01, locked=True), Choice("processes", 8)),
        (Pipeline(read=0.1, step=0.0, cpus=1), Choice("inline", 0)),  # nobody else to do it
    ],
)
def test_the_choice_follows_from_the_times(pipeline: Pipeline, expected: Choice) -> None:
    assert decided(pipeline)[0] == expected


def test_threads_that_take_turns_are_not_kept() -> None:
    """Without worker processes to go to, the consumer is as fast alone."""
    choice, ran = decided(Pipeline(read=0.1, step=0.01, locked=True), ("threads",))
    assert (choice, ran) == (Choice("inline", 0), [Choice("inline", 0), Choice("threads", 8), Choice("inline", 0)])


def test_processes_alone() -> None:
    assert decided(Pipeline(read=0.1, step=0.02), ("processes",))[0] == Choice("processes", 6)


@pytest.mark.parametrize(
    ("pipeline", "modes", "most", "expected"),
    [
        (Pipeline(read=1.0, step=0.0, cpu=0.1, cpus=2), ("processes",), None, Choice("processes", 2)),
        (Pipeline(read=1.0, step=0.0, cpu=0.1, cpus=2), ("processes",), 5, Choice("processes", 5)),
        (Pipeline(read=1.0, step=0.0, cpu=0.1, cpus=2), ("threads",), 5, Choice("threads", 5)),
        (Pipeline(read=1.0, step=0.0, cpus=4), ("processes",), 9, Choice("processes", 4)),
        (Pipeline(read=1.0, step=0.0, cpus=4), ("processes",), 3, Choice("processes", 3)),
        (Pipeline(read=1.0, step=0.5, cpu=0.1, locked=True, cpus=2), ALL, None, Choice("processes", 2)),
    ],
)
def test_no_more_workers_are_tried_than_there_may_be(
    pipeline: Pipeline, modes: tuple[Mode, ...], most: int | None, expected: Choice
) -> None:
    choice, ran = decided(pipeline, modes, most)
    assert choice == expected
    assert max(one.workers for one in ran if one.mode == expected.mode) == expected.workers


@pytest.mark.parametrize("locked", [False, True])
def test_processes_are_started_when_doing_without_has_cost_as_much(locked: bool) -> None:
    pipeline = Pipeline(read=0.02, step=0.01, locked=locked)  # what could be won: 20 ms of each batch
    auto = Auto(ALL if locked else ("processes",), cpus=8)
    batches = 0
    while auto.current.mode != "processes":
        assert batches < 60
        auto.saw(*pipeline.sample(auto.current))
        batches += 1
    assert batches >= 25


def test_a_short_run_says_what_it_does() -> None:
    stats = StatsCollector(0, 0)
    auto = Auto(("processes",), cpus=8)
    for read in (0.01,) * 30:
        auto.saw(read, read, read, 0.0)
    assert not auto.decided
    list(run_auto(iter(range(3)), auto, runners(stats), stats, prefetch=2))
    assert stats.report().choice.startswith("workers='auto' reads inline so far: a batch takes 10 ms with its step, ")


def test_one_slow_batch_and_a_slow_beginning_decide_nothing() -> None:
    auto = Auto(("threads",), cpus=8)
    for wall in (5.0, 0.001, 0.001, 3.0, 0.001, 0.001, 0.001, 0.001, 0.001):
        auto.saw(wall, wall, wall, 0.1)
    assert (auto.decided, auto.current) == (True, Choice("inline", 0))


def test_a_trial_of_slow_batches_is_short() -> None:
    auto = Auto(("threads",), cpus=8)
    taken = 0
    while not auto.decided:
        auto.saw(30.0, 30.0, 30.0 if auto.current.mode == "inline" else 4.0, 0.1)
        taken += 1
    assert taken <= 2 + 8 + 8


def test_it_says_why(caplog: pytest.LogCaptureFixture) -> None:
    auto = Auto(("threads",), cpus=2)
    pipeline = Pipeline(read=0.05, step=0.05)
    with caplog.at_level(logging.INFO, "headrace"):
        while not auto.decided:
            auto.saw(*pipeline.sample(auto.current))
    assert auto.why == ("workers='auto' reads on 2 threads; tried, for each batch: inline 100 ms, 2 threads 50 ms.")
    assert caplog.messages == [auto.why]


def test_what_cannot_be_run_is_left_out() -> None:
    auto = Auto(ALL, cpus=4)
    pipeline = Pipeline(read=0.1, step=0.06, locked=True)
    while auto.current.mode != "processes":
        auto.saw(*pipeline.sample(auto.current))
    auto.give_up("no way.")
    assert (auto.decided, auto.current) == (True, Choice("inline", 0))
    assert auto.why.endswith("inline 160 ms, 2 threads 160 ms. 2 processes can't be used: no way.")


class Forced(Auto):
    """Runs one choice after another, so many results each, whatever they take."""

    def __init__(self, plan: list[tuple[Choice, int]]) -> None:
        super().__init__(ALL)
        self.plan = plan
        self.current, self.left = plan[0]
        self.at = 0

    def saw(self, wall: float, cpu: float, waited: float, step: float) -> bool:
        self.left -= 1
        if self.left or self.decided:
            return False
        self.at += 1
        self.current, self.left = self.plan[self.at]
        self.decided = self.at == len(self.plan) - 1
        return True


def square(piece: int, clock: Clock) -> int:
    return piece * piece


def runners(stats: StatsCollector) -> dict[Mode, Callable[[Iterator[int], int], Generator[Result[int]]]]:
    def inline(pieces: Iterator[int], _: int) -> Generator[Result[int]]:
        return run_inline(pieces, square, stats)

    def threads(pieces: Iterator[int], workers: int) -> Generator[Result[int]]:
        return run_threads(pieces, square, stats, workers=workers, prefetch=2, max_bytes=1 << 20)

    return {"inline": inline, "threads": threads, "processes": threads}


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 11, 12, 13, 60])
def test_no_result_is_lost_or_moved_by_trying(count: int) -> None:
    plan = [(Choice("inline", 0), 4), (Choice("threads", 3), 5), (Choice("processes", 2), 3), (Choice("threads", 1), 1)]
    stats = StatsCollector(0, 0)
    results = list(run_auto(iter(range(count)), Forced(plan), runners(stats), stats, prefetch=2))
    assert [result.value for result in results] == [n * n for n in range(count)]
    assert stats.report().batches == count


def test_an_endless_run_that_is_closed_while_it_tries_takes_no_more_pieces() -> None:
    taken = itertools.count()
    stats = StatsCollector(0, 0)
    auto = Forced([(Choice("inline", 0), 2), (Choice("threads", 2), 1000)])
    run = run_auto(taken, auto, runners(stats), stats, prefetch=2)
    assert [next(run).value for _ in range(5)] == [0, 1, 4, 9, 16]
    run.close()
    assert next(taken) <= 5 + 2 * 2 + 1


def test_processes_that_cannot_be_sent_their_work_are_passed_over() -> None:
    def processes(pieces: Iterator[int], workers: int) -> Generator[Result[int]]:
        raise NotPicklableError("a lock")
        yield  # makes it a generator

    stats = StatsCollector(0, 0)
    auto = Auto(ALL, cpus=2)
    auto.current = Choice("processes", 2)
    auto._tried = [(Choice("inline", 0), 1.0)]
    run = run_auto(iter(range(9)), auto, {**runners(stats), "processes": processes}, stats, prefetch=2)
    assert [result.value for result in run] == [n * n for n in range(9)]
    assert (auto.decided, auto.current) == (True, Choice("inline", 0))
    assert stats.report().choice.endswith("2 processes can't be used: a lock")


@pytest.mark.parametrize("fails_at", [1, 5, 8])
def test_an_error_comes_where_it_belongs(fails_at: int) -> None:
    def pieces() -> Iterator[int]:
        for number in range(20):
            if number == fails_at:
                raise ValueError("no plan")
            yield number

    stats = StatsCollector(0, 0)
    auto = Forced([(Choice("inline", 0), 3), (Choice("threads", 2), 1000)])
    run = run_auto(pieces(), auto, runners(stats), stats, prefetch=2)
    seen = []
    with pytest.raises(ValueError, match="no plan"):
        for result in run:
            seen.append(result.value)
    assert seen == [n * n for n in range(fails_at)]
