"""Cuts and parses minibatches, the next ones ahead of whoever asks.

Minibatches are often small, so neighbouring ones are cut and parsed in one go: a run. Each is then a range of the rows
that were parsed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.clock import Clock
from headrace.cntk.join import Part
from headrace.engine.inline import next_inline
from headrace.engine.result import Result
from headrace.engine.stats import Stats, StatsCollector
from headrace.engine.threads import run_threads
from headrace.engine.verdict import Advice
from headrace.plan.minibatches import Partition

_MAX_BYTES = 256 << 20
_ADVICE = Advice({"read": "Convert the data once to CNTK's binary format, which is read faster."})
_AHEAD = 2  # runs a worker
_GROWTH = 4  # the first run is one minibatch, so that it comes soon; each further one is so many times longer
S = TypeVar("S")


Cut = Callable[[S, int, Partition, int], list[Any]]
"""State, size, partition and a number of records: as many minibatches as have that many; none at the end.

A minibatch tells the state that the next one begins with, `after`, and the records that are to be parsed for it, `new`.
"""
Parse = Callable[[NDArray[np.int64]], list[Part]]


class ParsedRows:
    """The rows of a minibatch, among those that were parsed with them.

    Args:
        parts: What was parsed, of each source.
        begin: The first row.
        end: The row after the last.
        clean: Whether there is no mistake and no warning in all that was parsed.
    """

    __slots__ = ("begin", "clean", "end", "parts")

    def __init__(self, parts: list[Part], begin: int, end: int, clean: bool) -> None:
        self.parts = parts
        self.begin = begin
        self.end = end
        self.clean = clean

    def cut_out(self) -> list[Part]:
        """These rows alone."""
        return [(records[self.begin : self.end], parsed.slice(self.begin, self.end)) for records, parsed in self.parts]


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Neighbouring minibatches that are parsed in one go."""

    steps: list[Any]
    records: NDArray[np.int64]


class _Parsed:
    """What was parsed; as a value of the engine's that isn't looked into."""

    def __init__(self, parts: list[Part] | None) -> None:
        self.parts = parts  # None: that failed


class Ahead(Generic[S]):
    """Gives minibatches of a plan with what was parsed for them.

    Threads work ahead as soon as two minibatches in a row were asked for with the same arguments, and in vain where the
    next one is asked for with others.

    Args:
        cut: The plan.
        parse: Parses records; called by threads.
        workers: Threads; 0 works in the caller's.
        most: Records that are parsed in one go, roughly.
    """

    # The threads refer to `cut` and `parse` but not to this object, so that they end when nobody has it any more.
    def __init__(self, cut: Cut[S], parse: Parse, workers: int, most: int = 1) -> None:
        self._cut = cut
        self._parse = parse
        self._workers = workers
        self._most = most
        self._runs: Iterator[_Run] | None = None  # cut in this thread
        self._threads: Generator[Result[_Run]] | None = None
        self._ready: Iterator[tuple[Any, ParsedRows]] = iter(())
        self._expected: tuple[Any, ...] | None = None
        self._process = os.getpid()
        self._stats = StatsCollector(workers, workers * _AHEAD, advice=_ADVICE)

    def next(self, state: S, size: int, partition: Partition) -> tuple[Any, ParsedRows] | None:
        """The minibatch that comes after a state; None at the end."""
        asked = (state, size, partition)
        as_expected = self._expected == asked
        self._expected = None
        if not as_expected:
            self.close()
        try:
            found = next(self._ready, None)
            if found is not None:
                self._stats.delivered()
            else:
                result = self._next_run(asked, as_expected)
                if result is None:
                    return None
                self._ready = _rows(result, self._parse)
                found = next(self._ready)
            self._stats.gave(len(found[0].new))
        except BaseException:
            self.close()
            raise
        self._expected = (found[0].after, size, partition)
        return found

    def _next_run(self, asked: tuple[S, int, Partition], as_expected: bool) -> Result[_Run] | None:
        if self._threads is not None and self._process != os.getpid():
            self._threads = None  # they are the parent's
        if self._threads is None and (self._runs is None or (self._workers and as_expected)):
            # The first is cut in this thread; those who go on like that have the rest from others.
            first = 1 if self._runs is None else _GROWTH
            self._runs = _cut_runs(self._cut, *asked, first, self._most, self._stats)
            if self._workers and as_expected:
                self._process = os.getpid()
                self._threads = run_threads(
                    self._runs,
                    _work(self._parse),
                    self._stats,
                    workers=self._workers,
                    prefetch=_AHEAD,
                    max_bytes=_MAX_BYTES,
                )
        if self._threads is not None:
            return next(self._threads, None)
        assert self._runs is not None
        return next_inline(self._runs, _work(self._parse), self._stats)

    def stats(self) -> Stats:
        """What the work has cost."""
        return self._stats.report()

    def close(self) -> None:
        """Ends the threads, and forgets what was cut and parsed ahead."""
        threads, self._threads = self._threads, None
        self._runs, self._ready, self._expected = None, iter(()), None
        if threads is not None and self._process == os.getpid():
            threads.close()


def _rows(result: Result[_Run], parse: Parse) -> Iterator[tuple[Any, ParsedRows]]:
    """Each minibatch of a run with its rows."""
    parts = result.value[1].parts
    if parts is None:
        # One of them can't be parsed: the others can, and its error comes when it is asked for.
        for step in result.piece.steps:
            yield step, ParsedRows(parse(step.new), 0, len(step.new), clean=False)
        return
    clean = all(p.dropped is None and not len(p.error_rows) and not p.warnings for _, p in parts)
    begin = 0
    for step in result.piece.steps:
        end = begin + len(step.new)
        yield step, ParsedRows(parts, begin, end, clean)
        begin = end


def _cut_runs(
    cut: Cut[S], state: S, size: int, partition: Partition, first: int, most: int, stats: StatsCollector
) -> Iterator[_Run]:
    """The minibatches from a state on; the first runs are short."""
    count, known = first, 1
    while True:
        began = time.perf_counter()
        steps = cut(state, size, partition, min(count * known, most))
        if not steps:
            return
        records = np.concatenate([step.new for step in steps])
        stats.planned(time.perf_counter() - began)
        known = max(known, -(-len(records) // len(steps)))
        yield _Run(steps, records)
        state = steps[-1].after
        count *= _GROWTH


def _work(parse: Parse) -> Callable[[_Run, Clock], tuple[Any, _Parsed]]:
    """Parses what a run needs."""

    def work(run: _Run, clock: Clock) -> tuple[Any, _Parsed]:
        with clock.stage("read"):
            try:
                parts = parse(run.records)
            except Exception:
                if len(run.steps) == 1:
                    raise
                return [], _Parsed(None)
        return [parsed.columns for _, parsed in parts], _Parsed(parts)  # columns for the engine to measure

    return work
