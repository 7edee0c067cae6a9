"""What every plan of records is: an order that can be asked at any position."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.errors import PlanError
from headrace.plan.rows import Rows

Epochs = int | NDArray[np.int64]
"""The epoch of all positions, or one for each: below a repeat, positions of several passes come together."""

MAX_LENGTH = 1 << 62
"""Plans have at most so many positions; those without an end are asked below it too."""

_PASS_MASK = (1 << 63) - 1


class Plan(ABC):
    """An order of records, addressable by position.

    Plans are immutable, may be used from any number of threads, and can be pickled. They hold no data and no files.

    Attributes:
        length: Records an epoch; None if there is no end, or none that is known.
        slots: Ids that name one record: 1, or more after a zip.
    """

    length: int | None
    slots: int

    def locate(self, epoch: int, positions: NDArray[np.int64]) -> Rows:
        """Says which records stand at some positions.

        Args:
            epoch: Which epoch, from 0 on.
            positions: int64, in any order, each in `[0, length)`.

        Returns:
            One record for each position, in the order of `positions`.

        Raises:
            PlanError: If the epoch is not in `[0, 2**63)`.
            IndexError: If a position is outside the plan.
        """
        if not 0 <= epoch <= _PASS_MASK:
            raise PlanError(f"epochs are numbers in [0, 2^63), got {epoch}")
        positions = np.ascontiguousarray(positions, np.int64)
        _native.check_positions(positions, MAX_LENGTH if self.length is None else self.length)
        return self._locate(int(epoch), positions)

    @abstractmethod
    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        """As `locate`, with checked positions (contiguous, never written to) and possibly an epoch for each."""

    def __repr__(self) -> str:
        """What it does, and the length."""
        return f"<{type(self).__name__}, length {self.length}>"


def next_pass(epochs: Epochs, count: int | None, turns: NDArray[np.int64]) -> NDArray[np.int64]:
    """The epochs of the records that a plan repeats.

    Repetition `turn` of `count` in epoch `e` is epoch `e * count + turn` of what is repeated, so that no two passes
    have the same order and draws. If it is repeated without end, it is `e * 2**32 + turn`.
    """
    passes: NDArray[np.int64] = turns + (epochs * (1 << 32 if count is None else count) & _PASS_MASK)
    return passes & _PASS_MASK


def epochs_at(epochs: Epochs, where: NDArray[np.intp]) -> Epochs:
    """The epochs of some of the positions."""
    return epochs if isinstance(epochs, int) else epochs[where]


def common_slots(plans: Sequence[Plan], what: str) -> int:
    """The number of ids a record that all plans share.

    Raises:
        PlanError: If there is no plan, or they differ.
    """
    if not plans:
        raise PlanError(f"{what} needs at least one plan, got none")
    slots = [plan.slots for plan in plans]
    if len(set(slots)) > 1:
        raise PlanError(f"{what} needs records of one structure, got zips of {slots} sources")
    return slots[0]


def locate_chosen(
    plans: Sequence[Plan], epochs: Epochs, choice: NDArray[np.integer], positions: NDArray[np.int64]
) -> Rows:
    """Asks plan `choice[i]` for `positions[i]`, each plan once, and puts the answers in that order."""
    first = int(choice[0]) if len(choice) else 0
    if (choice == first).all():
        return plans[first]._locate(epochs, positions)
    # NumPy sorts 16-bit integers by radix, ten times as fast as wider ones.
    order = np.argsort(choice.astype(np.int16) if len(plans) < 1 << 15 else choice, kind="stable")
    grouped = choice[order]
    cuts = [0, *(np.flatnonzero(np.diff(grouped)) + 1).tolist(), len(order)]
    ids = np.empty((plans[first].slots, len(positions)), np.int64)
    passes = np.empty(len(positions), np.int64)
    for start, stop in pairwise(cuts):
        where = order[start:stop]
        rows = plans[int(grouped[start])]._locate(epochs_at(epochs, where), positions[where])
        ids[:, where] = rows.ids
        passes[where] = rows.passes
    return Rows(ids, passes)
