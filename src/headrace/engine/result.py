"""What carrying out one piece of work gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headrace.batch.tree import num_bytes
from headrace.clock import Clock
from headrace.errors import DataError, add_note

P = TypeVar("P")
Work = Callable[[P, Clock], Any]
"""Carries out a piece."""


@dataclass(frozen=True, slots=True)
class Result(Generic[P]):
    """A finished piece.

    Attributes:
        piece: The piece.
        value: What the work gave, or None if it failed.
        error: Why it failed, or None.
        nbytes: Bytes that the value holds.
        clock: Where the time went.
    """

    piece: P
    value: Any
    error: BaseException | None
    nbytes: int
    clock: Clock


def carry_out(piece: P, work: Work[P], worker: int | None = None) -> Result[P]:
    """Does the work of one piece; an error becomes part of the result, for the consumer to meet in its turn.

    Args:
        piece: The piece.
        work: Carries it out.
        worker: The number of the worker who does; None for the consumer itself.
    """
    clock = Clock(worker)
    try:
        with clock.stage("piece"):
            value = work(piece, clock)
        return Result(piece, value, None, num_bytes(value), clock)
    except StopIteration as error:
        return Result(piece, None, _without_stop(error), 0, clock)
    except BaseException as error:
        return Result(piece, None, error, 0, clock)


def _without_stop(stop: StopIteration) -> DataError:
    # Raised in the consumer's loop, it would end the loop as if the data were over.
    error = DataError(
        "a function that is called while reading raised StopIteration; let it catch that, as by next(iterator, None)"
    )
    error.__cause__ = stop
    for note in getattr(stop, "__notes__", ()):
        add_note(error, note)
    return error
