"""What carrying out one piece of work gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from headrace.batch.tree import num_bytes
from headrace.clock import Clock

P = TypeVar("P")
Work = Callable[[P, Clock], Any]
"""Carries out a piece; may return END to say that there is nothing at the piece's place or after it."""


class _End:
    def __repr__(self) -> str:
        return "END"


END: Final = _End()


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


def carry_out(piece: P, work: Work[P]) -> Result[P]:
    """Does the work of one piece; an error becomes part of the result, for the consumer to meet in its turn."""
    clock = Clock()
    try:
        with clock.stage("piece"):
            value = work(piece, clock)
    except BaseException as error:
        return Result(piece, None, error, 0, clock)
    return Result(piece, value, None, 0 if value is END else num_bytes(value), clock)
