"""What worker processes are given to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from headrace.clock import Clock
from headrace.engine.seat import Seat

P_contra = TypeVar("P_contra", contravariant=True)


class Job(Protocol[P_contra]):
    """What worker processes are to do. It is sent to them by pickling."""

    def open(self, seat: Seat) -> Callable[[P_contra, Clock], Any]:
        """Called in each worker as a run begins; gives what carries out one piece.

        If that has a method `restart(seat)`, it is called when a further run goes on with what an earlier one opened.
        """
        ...
