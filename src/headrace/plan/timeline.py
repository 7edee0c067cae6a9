"""The timeline that CNTK's minibatches are cut from: all sequences of sweep 0, then of sweep 1, and so on."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import PlanError
from headrace.plan.cntk_order import CntkOrder

BLOCK = 1 << 14
"""Sequences that are ordered and measured in one go."""
_KEPT = 4  # blocks; who goes back a little doesn't order a sweep anew


@dataclass(frozen=True, slots=True)
class Place:
    """A place between two sequences of the timeline.

    Attributes:
        number: Sequences before it, over all sweeps.
        position: Samples before it, over all sweeps.
    """

    number: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Neighbouring sequences of one sweep.

    Attributes:
        place: Where they begin.
        records: Their record numbers, int64.
        homes: The places of their chunks in the sweep's order of chunks, int64.
        begins: Samples from the beginning of the stretch to that of each sequence, and last to its end; int64.
        ends_sweep: Whether the last of them is the last one of its sweep.
    """

    place: Place
    records: NDArray[np.int64]
    homes: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends_sweep: bool

    def after(self, count: int) -> Place:
        """The place after the first `count` sequences."""
        return Place(self.place.number + count, self.place.position + int(self.begins[count]))


class Timeline:
    """Where each sequence stands, counted in sequences and in samples.

    Sweeps are ordered in blocks, of which a few are kept; nothing is as long as the data but the sizes given.

    Args:
        order: The order of a sweep's sequences.
        sizes: Samples of each record; None if each has one.

    Raises:
        PlanError: If there are no sequences, not as many sizes as sequences, or a sequence without samples.

    Example:
        >>> import numpy as np
        >>> from headrace.plan.cntk_order import CntkOrder
        >>> order = CntkOrder(np.array([0, 3]), np.array([6], np.uint64), None)
        >>> timeline = Timeline(order, np.array([1, 2, 3], np.uint32))
        >>> timeline.at(7)
        Place(number=4, position=7)
        >>> timeline.stretch(timeline.at(7), 10).records.tolist()
        [1, 2]
    """

    def __init__(self, order: CntkOrder, sizes: NDArray[Any] | None = None) -> None:
        if not order.length:
            raise PlanError("a timeline needs at least one sequence, got none")
        if sizes is not None and len(sizes) != order.length:
            raise PlanError(f"a timeline needs a size for each of {order.length} sequences, got {len(sizes)}")
        if sizes is not None and not sizes.all():
            empty = int(np.flatnonzero(sizes == 0)[0])
            raise PlanError(f"a timeline needs sequences with samples, got sequence {empty} without any; leave it out")
        self.order = order
        self.length = order.length
        self.samples = order.length if sizes is None else int(sizes.sum(dtype=np.uint64))
        self.largest = 1 if sizes is None else int(sizes.max())
        self._sizes = sizes
        # In the order of the data, where each block begins, so that no block need be walked through to find a place.
        self._begins: NDArray[np.int64] | None = None
        if sizes is not None and not order.shuffled:
            blocks = np.add.reduceat(sizes, np.arange(0, order.length, BLOCK), dtype=np.int64)
            self._begins = np.concatenate([[0], np.cumsum(blocks)])
        self._lock = threading.Lock()
        self._kept: dict[tuple[int, int], Stretch] = {}

    def at(self, position: int) -> Place:
        """The first place with at least `position` samples before it: inside a sequence, the place after it."""
        sweep, rest = divmod(position, self.samples)
        place = Place(sweep * self.length, sweep * self.samples)
        if self._sizes is None:
            return Place(place.number + rest, position)
        if self._begins is not None and rest:
            block = int(np.searchsorted(self._begins, rest)) - 1
            place = Place(place.number + block * BLOCK, place.position + int(self._begins[block]))
        while place.position < position:
            stretch = self.stretch(place, BLOCK)
            found = int(np.searchsorted(stretch.begins, position - place.position))
            place = stretch.after(min(found, len(stretch.records)))
        return place

    def stretch(self, place: Place, count: int) -> Stretch:
        """The sequences from a place on: `count`, or fewer up to the end of a block or a sweep; at least one."""
        sweep, index = divmod(place.number, self.length)
        number, skip = divmod(index, BLOCK)
        block = self._block(sweep, number)
        stop = min(skip + max(count, 1), len(block.records))
        begins = block.begins[skip : stop + 1] - block.begins[skip]
        ends = block.ends_sweep and stop == len(block.records)
        return Stretch(place, block.records[skip:stop], block.homes[skip:stop], begins, ends)

    def records(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The records of some sequences of the timeline, given by the sequences before each."""
        found = np.empty(len(numbers), np.int64)
        for i in np.argsort(numbers, kind="stable").tolist():  # going on in a sweep is quick, going back is not
            sweep, index = divmod(int(numbers[i]), self.length)
            block, skip = divmod(index, BLOCK)
            found[i] = self._block(sweep, block).records[skip]
        return found

    def sizes_of(self, records: NDArray[np.int64]) -> NDArray[np.int64]:
        """Samples of some records."""
        return np.ones(len(records), np.int64) if self._sizes is None else self._sizes[records].astype(np.int64)

    def _block(self, sweep: int, number: int) -> Stretch:
        with self._lock:
            block = self._kept.pop((sweep, number), None)
            if block is None:
                start = number * BLOCK
                stop = min(start + BLOCK, self.length)
                records, homes = self.order.stretch(sweep, start, stop)
                begins = np.zeros(len(records) + 1, np.int64)
                np.cumsum(self.sizes_of(records), out=begins[1:])
                # The samples before the place aren't known here; `stretch` gives the place that it was asked for.
                block = Stretch(Place(sweep * self.length + start), records, homes, begins, stop == self.length)
            self._kept[sweep, number] = block  # last in the dict: the oldest go first
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
            return block
