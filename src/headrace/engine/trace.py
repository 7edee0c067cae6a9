"""When what happened: kept only while somebody profiles."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.engine.stats import StatsCollector

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_KEPT = 250  # of the beginning, and as many of the end: what a picture can show, whatever the length of the run


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work, or a time of waiting.

    Attributes:
        number: Of the piece in the order in which the consumer got them, from 0.
        worker: Who carried it out; None for the consumer itself.
        began: Seconds of `time.perf_counter`.
        ended: Likewise.
        stages: Seconds by stage, in the order in which they were first entered.
    """

    number: int
    worker: int | None
    began: float
    ended: float
    stages: tuple[tuple[str, float], ...] = ()


class Ends:
    """The first and the last of a long row of spans."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._first: list[Span] = []
        self._last: deque[Span] = deque(maxlen=kept)
        self._kept = kept

    def append(self, span: Span) -> None:
        """One more."""
        (self._first if len(self._first) < self._kept else self._last).append(span)

    def parts(self) -> list[list[Span]]:
        """All in one part, if nothing was left out between them; else the beginning and the end."""
        first, last = list(self._first), list(self._last)
        if last and first[-1].number + 1 < last[0].number:
            return [first, last]
        return [first + last]


class Trace:
    """Spans of one loader.

    Attributes:
        pieces: What the workers, or the consumer, carried out.
        waits: When the consumer waited; the numbers are those of the batches waited for.
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self.pieces = Ends(kept)
        self.waits = Ends(kept)
        self._numbers = itertools.count()
        self._waits = itertools.count()

    def piece(self, worker: int | None, began: float, ended: float, stages: dict[str, tuple[float, float]]) -> None:
        """A piece was carried out."""
        inner = tuple((name, wall) for name, (wall, _) in stages.items() if name != "piece")
        self.pieces.append(Span(next(self._numbers), worker, began, ended, inner))

    def wait(self, began: float, ended: float) -> None:
        """The consumer waited."""
        self.waits.append(Span(next(self._waits), None, began, ended))


class Watch:
    """Gathers the collectors that are made while it is on, each with a trace and the place in the user's code."""

    def __init__(self) -> None:
        self.found: list[tuple[str, StatsCollector]] = []

    def add(self, collector: StatsCollector) -> None:
        """A loader was made."""
        collector.trace = Trace()
        self.found.append((_place(), collector))


_watch: Watch | None = None


def announce(collector: StatsCollector) -> None:
    """Tells whoever watches of a new collector."""
    if _watch is not None:
        _watch.add(collector)


@contextlib.contextmanager
def watch() -> Iterator[Watch]:
    """Profiling is on for every loader made inside."""
    global _watch
    before, _watch = _watch, Watch()
    try:
        yield _watch
    finally:
        _watch = before


def _place() -> str:
    """File and line of the user's code that made a loader."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
