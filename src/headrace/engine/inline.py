"""Runs pieces in the caller's own thread, one at a time, when they are asked for."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator

from headrace.engine.result import P, Result, Work, carry_out
from headrace.engine.stats import Observer


def run_inline(pieces: Iterable[P], work: Work[P], stats: Observer) -> Generator[Result[P]]:
    """Carries out pieces in order.

    Args:
        pieces: The pieces.
        work: Carries out one.
        stats: Is told of waiting (all the time that the work takes, as nothing runs ahead) and of results.
    """
    source = iter(pieces)
    while (result := next_inline(source, work, stats)) is not None:
        yield result


def next_inline(pieces: Iterator[P], work: Work[P], stats: Observer) -> Result[P] | None:
    """Carries out the next piece, as `run_inline`; None at the end.

    Args:
        pieces: The pieces.
        work: Carries out one.
        stats: As for `run_inline`.
    """
    began = time.perf_counter()
    try:
        piece = next(pieces)
    except StopIteration:
        return None
    result = carry_out(piece, work)
    stats.waited(time.perf_counter() - began, ready=0)
    stats.finished(result.clock, result.nbytes, delivered=result.error is None)
    if result.error is not None:
        raise result.error
    return result
