"""Chooses where work is done, and on how many workers, by trying it on the first pieces.

Whatever is tried, the pieces come from one iterator, one after another, and every result is handed over: a run that is
to end for another one gets no further piece, and what it has under way comes first. So a choice changes neither order
nor content, only time.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic

from headrace.engine.machine import usable_cpus
from headrace.engine.result import P, Result
from headrace.engine.stats import Mode, Observer
from headrace.errors import NotPicklableError

_log = logging.getLogger("headrace")

Runner = Callable[[Iterator[P], int], Generator[Result[P]]]
"""Carries out pieces on so many workers."""

_HIDDEN = 0.03  # reading that takes a smaller share of the step isn't worth a worker
_HAND_OVER = 20e-6  # seconds that handing a piece to a worker and back costs, about
_MARGIN = 1.2  # workers beyond what the means ask for, because batches differ
_MOST_WAITING = 16  # threads, where they only wait for a disk or the network
_START = 0.5  # seconds that starting processes takes, about, with what they import
_WELL = 1.5  # a trial that takes longer than it should by more than this factor isn't all there is
_SAME = 1.05  # what is faster by less than this factor isn't worth more workers
_FEW, _PLENTY = 3, 16  # pieces read inline for a trial: so many at least, and no more are needed
_ROUNDS, _MANY_ROUNDS = 6, 64  # pieces of each worker, likewise: results come in bursts
_SECONDS = 0.1  # that a trial lasts at least, unless there were plenty of pieces
_LONG = 2.0  # seconds after which a trial is over, however few pieces there were


@dataclass(frozen=True, slots=True)
class Choice:
    """Where work is done: a mode, and how many workers (none if the consumer does it)."""

    mode: Mode
    workers: int

    def __str__(self) -> str:
        if self.mode == "inline":
            return "inline"
        return f"{self.workers} {self.mode if self.workers > 1 else 'thread' if self.mode == 'threads' else 'process'}"


@dataclass(frozen=True, slots=True)
class _Sample:
    wall: float  # seconds of the piece
    cpu: float
    waited: float
    step: float


class Auto:
    """Goes from one trial to the next until it knows. Measures nothing itself.

    Args:
        modes: What there is to choose from; `"inline"` always.
        cpus: Processors; None asks the machine.
        most: How many workers there may be; None: as many processes as processors, and some more threads if these only
            wait.

    Attributes:
        current: What to run now.
        decided: Whether that is the choice; otherwise it is a trial.
        why: What was found; empty as long as nothing is known.
    """

    def __init__(self, modes: Iterable[Mode], cpus: int | None = None, most: int | None = None) -> None:
        self.current = Choice("inline", 0)
        self.decided = False
        self.why = ""
        self._modes = set(modes)
        self._cpus = cpus
        self._most = most
        self._lost = 0.0  # seconds, by what ran so far in the place of processes
        self._samples: list[_Sample] = []
        self._tried: list[tuple[Choice, float]] = []
        self._read = self._step = 0.0
        self._failed = ""

    def saw(self, wall: float, cpu: float, waited: float, step: float) -> bool:
        """A result was handed over, and another one is asked for.

        Args:
            wall: Seconds that the piece took.
            cpu: Seconds of a processor among them.
            waited: Seconds that the consumer waited for it.
            step: Seconds that the consumer worked on it.

        Returns:
            Whether something else is to be run from now on: `current`.
        """
        if self.decided:
            return False
        self._samples.append(_Sample(wall, cpu, waited, step))
        group = max(1, self.current.workers)
        counted = self._samples[group:]  # before that the workers were but starting, and caches cold
        spent = sum(sample.waited + sample.step for sample in self._samples)
        few, plenty = (_ROUNDS, _MANY_ROUNDS) if self.current.workers else (_FEW, _PLENTY)
        enough = len(counted) >= plenty * group or (len(counted) >= few * group and spent >= _SECONDS)
        if not enough and not (len(counted) >= group and spent >= _LONG):
            return False
        before = self.current
        self._judge(counted)
        self._samples = []
        return self.current != before

    def give_up(self, reason: str) -> None:
        """What was to be tried can't be run: the choice is among what was tried before.

        Args:
            reason: Why.
        """
        self._failed = f" {self.current} can't be used: {reason}"
        self._samples = []
        self._decide()

    def _judge(self, counted: list[_Sample]) -> None:
        import statistics  # takes long, and programs that choose for themselves don't need it

        # Medians, because a consumer also validates and saves. But workers that wait for each other give their results
        # in bursts: most are there at once, and only the mean tells what they cost.
        step = statistics.median(sample.step for sample in counted)
        middle = statistics.fmean if self.current.workers else statistics.median
        each = middle([sample.waited for sample in counted]) + step
        self._tried = [one for one in self._tried if one[0] != self.current] + [(self.current, each)]
        if self.current.mode == "inline":
            self._step = step
            self._read = statistics.median(sample.wall for sample in counted)
            cpu = statistics.median(sample.cpu for sample in counted)
            if self._read <= max(_HAND_OVER, _HIDDEN * self._step) or self._modes <= {"inline"}:
                self._decide()
                return
            needed = _MARGIN * self._read / max(self._step, 1e-9)
            mode: Mode = "threads" if "threads" in self._modes else "processes"
            most = self._most_of(mode, waits=cpu < 0.5 * self._read)
            choice = Choice(mode, most if needed >= most else max(1, math.ceil(needed)))
            self._go_on_to(choice, each, len(counted))
            return
        expected = max(self._step, self._read / self.current.workers)
        if self.current.mode == "threads" and "processes" in self._modes and each > _WELL * expected:
            workers = min(self.current.workers, self._most_of("processes", waits=False))
            self._go_on_to(Choice("processes", workers), each, len(counted))
            return
        self._decide()

    def _most_of(self, mode: Mode, *, waits: bool) -> int:
        cpus = usable_cpus() if self._cpus is None else self._cpus
        if waits and self._most is not None:
            return self._most
        most = max(cpus, _MOST_WAITING) if waits and mode == "threads" else cpus
        return most if self._most is None else min(most, self._most)

    def _go_on_to(self, choice: Choice, each: float, batches: int) -> None:
        """Goes on to something else; to processes when doing without has cost as much as it takes to start them.

        So a short run starts none, and a long one loses next to nothing.
        """
        if choice.mode == "processes":
            self._lost += batches * max(0.0, each - max(self._step, self._read / choice.workers))
            if self._lost < _START:
                self.why = (
                    f"workers='auto' reads {_on(self.current)} so far: a batch takes {_ms(each)} with its step, and to "
                    f"start {choice} would take longer than it has cost to do without."
                )
                return
        self.current = choice

    def _decide(self) -> None:
        least = min(each for _, each in self._tried)
        self.current = next(choice for choice, each in self._tried if each <= _SAME * least)
        self.decided = True
        if len(self._tried) == 1:
            self.why = (
                f"workers='auto' reads inline: reading a batch takes {_ms(self._read)}, the step {_ms(self._step)}."
            )
        else:
            tried = ", ".join(f"{choice} {_ms(each)}" for choice, each in self._tried)
            self.why = f"workers='auto' reads {_on(self.current)}; tried, for each batch: {tried}."
        self.why += self._failed
        _log.info(self.why)


def run_auto(
    pieces: Iterable[P], auto: Auto, runners: Mapping[Mode, Runner[P]], stats: Observer, *, prefetch: int
) -> Generator[Result[P]]:
    """Carries out pieces where a choice says, and until there is one, where it tries.

    Args:
        pieces: The pieces.
        auto: The choice; may be one that an earlier run made.
        runners: How to carry out pieces in each mode; results in order.
        stats: Is told of the choice.
        prefetch: Results ahead for each worker.
    """
    tap = _Tap(iter(pieces))
    while not tap.ended:
        tap.shut = False
        now = auto.current
        stats.runs_on(now.mode, now.workers, now.workers * prefetch, auto.why)
        results = runners[now.mode](tap, now.workers)
        try:
            if auto.decided:
                yield from results
                return
            yield from _watched(results, auto, tap)
            if auto.why:
                stats.runs_on(auto.current.mode, auto.current.workers, auto.current.workers * prefetch, auto.why)
        finally:
            results.close()


def _watched(results: Generator[Result[P]], auto: Auto, tap: _Tap[P]) -> Generator[Result[P]]:
    """Hands over the results of a trial and measures; if there is to be another run, what is under way comes first."""
    given_before = tap.given
    while True:
        began = time.perf_counter()
        try:
            result = next(results, None)
        except (NotPicklableError, OSError, RuntimeError) as error:
            if tap.given != given_before or tap.ended or auto.current.mode == "inline":
                raise
            auto.give_up(str(error))  # before it took a piece: it can't be sent, or the system gives no workers
            return
        if result is None:
            return
        waited = time.perf_counter() - began
        wall, cpu = result.clock.seconds.get("piece", (0.0, 0.0))
        given = time.perf_counter()
        yield result
        del result  # the consumer's alone from here on
        if not tap.shut and auto.saw(wall, cpu, waited, time.perf_counter() - given):
            tap.shut = True


class _Tap(Generic[P]):
    """An iterator that can be shut and opened again.

    Attributes:
        shut: Whether it gives nothing just now.
        ended: Whether there is nothing more.
        given: How much there was.
    """

    def __init__(self, source: Iterator[P]) -> None:
        self.shut = False
        self.ended = False
        self.given = 0
        self._source = source

    def __iter__(self) -> _Tap[P]:
        return self

    def __next__(self) -> P:
        if self.shut or self.ended:
            raise StopIteration
        try:
            one = next(self._source)
        except BaseException:  # an error is the end, too
            self.ended = True
            raise
        self.given += 1
        return one


def _on(choice: Choice) -> str:
    return "inline" if choice.mode == "inline" else f"on {choice}"


def _ms(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
