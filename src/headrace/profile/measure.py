"""Measures a loader and a step, together and each alone."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

from headrace.checks import whole_of
from headrace.engine import StatsCollector
from headrace.engine.trace import Trace
from headrace.errors import DataError, PlanError
from headrace.profile.report import Profile


def profile(
    loader: Iterable[Any],
    collector: StatsCollector,
    *,
    batches: int = 100,
    step: Callable[[Any], Any] | None = None,
    seconds: float = 10.0,
    title: str = "",
) -> Profile:
    """Measures a loader alone, then with a step, then the step with one batch over and over.

    Args:
        loader: Gives batches, and anew when it is iterated again. It has gone on by those that were taken.
        collector: What the loader reports to; starts anew.
        batches: How many to take for each measurement, at most.
        step: What is done with a batch; None measures the loader alone.
        seconds: After so long a measurement ends, with however many batches.
        title: Which loader it is.

    Raises:
        PlanError: If an argument is out of range.
        DataError: If the loader gives no batch.
    """
    batches = whole_of("profile", "batches", batches, 1)
    if not (isinstance(seconds, (int, float)) and seconds > 0):
        raise PlanError(f"profile: seconds is above 0, got {seconds!r}")
    if step is not None and not callable(step):
        raise PlanError(f"profile: step is a function of a batch, got {step!r}")
    title = title or repr(loader)
    before = collector.trace
    feed = _rounds(loader)
    try:
        batch = next(feed)
        alone = cached = None
        if step is not None:
            step(batch)  # what is only done once (compiling, filling caches) doesn't count
            _settle()
            alone = _rate(lambda: next(feed), batches, seconds)
        collector.trace = Trace()
        collector.reset()  # begins a trace, too

        def both() -> None:
            nonlocal batch
            batch = next(feed)
            if step is not None:
                step(batch)

        together = _rate(both, batches, seconds)
        stats, trace = collector.report(), collector.trace
        assert trace is not None
        if step is not None:
            cached = _rate(lambda: step(batch), batches, seconds)
        return Profile(title, stats, together, alone, cached, trace.pieces.parts(), trace.waits.parts())
    finally:
        feed.close()
        collector.trace = before
        collector.reset()


def _rounds(loader: Iterable[Any]) -> Generator[Any]:
    """Batches without end: when an epoch is over, the next one begins."""
    while True:
        empty = True
        for batch in loader:
            empty = False
            yield batch
        if empty:  # perhaps only the rest of an epoch that was over
            for batch in loader:
                empty = False
                yield batch
        if empty:
            raise DataError("there is nothing to profile: the loader gives no batch")


def _rate(action: Callable[[], Any], most: int, seconds: float) -> float:
    """How often a second something can be done."""
    began = time.perf_counter()
    done = 0
    while done < most:
        action()
        done += 1
        if time.perf_counter() - began > seconds:
            break
    _settle()
    passed = time.perf_counter() - began
    return done / passed if passed > 0 else math.inf


def _settle() -> None:
    """Waits for what a GPU was told to do; it counts as the step's."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
