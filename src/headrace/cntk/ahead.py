"""Cuts and parses minibatches, the next ones ahead of whoever asks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.clock import Clock
from headrace.cntk.join import Part
from headrace.engine.result import Result, carry_out
from headrace.engine.stats import Stats, StatsCollector
from headrace.engine.threads import run_threads
from headrace.plan.minibatches import Partition

_MAX_BYTES = 256 << 20
_AHEAD = 2  # minibatches a worker
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Step(Protocol[S_co]):
    """A minibatch of a plan."""

    @property
    def after(self) -> S_co:
        """The state that the next one begins with."""

    @property
    def new(self) -> NDArray[np.int64]:
        """The records that are to be parsed for it."""


Cut = Callable[[S, int, Partition], "Step[S] | None"]
Parse = Callable[[NDArray[np.int64]], list[Part]]


class Ahead(Generic[S]):
    """Gives minibatches of a plan with what was parsed for them.

    Threads work ahead as soon as two minibatches in a row were asked for with the same arguments, and in vain where the
    next one is asked for with others.

    Args:
        cut: The plan: state, size, partition to the next minibatch.
        parse: Parses records; called by threads.
        workers: Threads; 0 works in the caller's.
    """

    # The threads refer to `cut` and `parse` but not to this object, so that they end when nobody has it any more.
    def __init__(self, cut: Cut[S], parse: Parse, workers: int) -> None:
        self._cut = cut
        self._parse = parse
        self._workers = workers
        self._run: Generator[Result[Any]] | None = None
        self._expected: tuple[Any, ...] | None = None
        self._process = os.getpid()
        self._stats = StatsCollector(workers, workers * _AHEAD)

    def next(self, state: S, size: int, partition: Partition) -> tuple[Any, list[Part]] | None:
        """The minibatch that comes after a state; None at the end."""
        expected, self._expected = self._expected, None
        asked = (state, size, partition)
        if self._run is not None and (expected != asked or self._process != os.getpid()):
            self.close()
        if self._run is None and self._workers and expected == asked:
            self._process = os.getpid()
            pieces = _pieces(self._cut, state, size, partition, self._stats)
            work, workers = _work(self._parse), self._workers
            self._run = run_threads(pieces, work, self._stats, workers=workers, prefetch=_AHEAD, max_bytes=_MAX_BYTES)
        result = self._now(state, size, partition) if self._run is None else self._ready(self._run)
        if result is None:
            return None
        self._expected = (result.piece.after, size, partition)
        return result.piece, result.value[1].parts

    def _ready(self, run: Generator[Result[Any]]) -> Result[Any] | None:
        """The next result of the threads."""
        try:
            return next(run, None)
        except BaseException:
            self._run = None
            raise

    def _now(self, state: S, size: int, partition: Partition) -> Result[Any] | None:
        """The result of working in this thread."""
        began = time.perf_counter()
        step = next(_pieces(self._cut, state, size, partition, self._stats), None)
        if step is None:
            return None
        result = carry_out(step, _work(self._parse))
        self._stats.waited(time.perf_counter() - began, ready=0)
        self._stats.finished(result.clock, result.nbytes, delivered=result.error is None)
        if result.error is not None:
            raise result.error
        return result

    def stats(self) -> Stats:
        """What the work has cost."""
        return self._stats.report()

    def close(self) -> None:
        """Ends the threads."""
        if self._run is not None:
            self._run.close()
            self._run = None


class _Parsed:
    """What was parsed; as a value of the engine's that isn't looked into."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts


def _pieces(cut: Cut[S], state: S, size: int, partition: Partition, stats: StatsCollector) -> Iterator[Step[S]]:
    """The minibatches from a state on."""
    while True:
        began = time.perf_counter()
        step = cut(state, size, partition)
        stats.planned(time.perf_counter() - began)
        if step is None:
            return
        yield step
        state = step.after


def _work(parse: Parse) -> Callable[[Step[Any], Clock], tuple[Any, _Parsed]]:
    """Parses what a minibatch needs."""

    def work(step: Step[Any], clock: Clock) -> tuple[Any, _Parsed]:
        with clock.stage("read"):
            parts = parse(step.new)
        return [parsed.columns for _, parsed in parts], _Parsed(parts)  # columns for the engine to measure

    return work
