"""How CNTK cuts its timeline into minibatches of so many samples, for one worker or several."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.checks import whole_of
from headrace.errors import PlanError
from headrace.plan.timeline import Place, Timeline

_LEAST = 256  # sequences that are looked at in one go, at least


@dataclass(frozen=True, slots=True)
class Partition:
    """Whose part of the data is read.

    Attributes:
        workers: How many share the data.
        rank: Which of them this is, from 0 on.
    """

    workers: int = 1
    rank: int = 0

    def __post_init__(self) -> None:
        whole_of("a partition", "the number of workers", self.workers, 1, (1 << 31) - 1)
        whole_of("a partition", "the rank", self.rank, 0)
        if self.rank >= self.workers:
            raise PlanError(f"a partition needs a rank below the number of workers, got {self.rank} of {self.workers}")

    def share(self, size: int) -> int:
        """What this worker has of a size: an equal part, one more while something is left over; may be 0."""
        return size // self.workers + (size % self.workers > self.rank)


@dataclass(frozen=True, slots=True, eq=False)
class Minibatch:
    """Some sequences.

    Attributes:
        records: Their record numbers, in the order taken.
        numbers: The sequences of the timeline before each.
        end_of_sweep: Whether the end of a sweep was reached or passed.
        after: Where the next one begins.
    """

    records: NDArray[np.int64]
    numbers: NDArray[np.int64]
    end_of_sweep: bool
    after: Place

    @property
    def new(self) -> NDArray[np.int64]:
        """The records to parse for it."""
        return self.records


class Minibatches:
    """Cuts minibatches from a timeline, one after the other.

    A minibatch has sequences in order while their samples stay within its size, and at least one. Several workers walk
    the whole timeline, each by itself and up to a size of its own, and pass over what is the others'.

    Args:
        timeline: The sequences.
        end: Samples after which no further sequence begins; None goes on for ever.

    Example:
        >>> import numpy as np
        >>> from headrace.plan.cntk_order import CntkOrder
        >>> from headrace.plan.timeline import Place, Timeline
        >>> order = CntkOrder(np.array([0, 3]), np.array([6], np.uint64), None)
        >>> minibatches = Minibatches(Timeline(order, np.array([1, 2, 3], np.uint32)))
        >>> batch = minibatches.cut(Place(), 5)
        >>> batch.records.tolist(), batch.end_of_sweep, batch.after
        ([0, 1], False, Place(number=2, position=3))
    """

    def __init__(self, timeline: Timeline, end: int | None = None) -> None:
        self.timeline = timeline
        self.end = end
        self._in_order = not timeline.order.shuffled

    def cut(self, place: Place, size: int, partition: Partition | None = None) -> Minibatch | None:
        """The minibatch that begins at a place; None at the end.

        Args:
            place: Where the one before ended.
            size: Samples of all workers together, at most, but for a sequence that is longer.
            partition: Whose part is read; None reads everything.

        Raises:
            PlanError: If the size isn't a whole number from 1 on.
        """
        whole_of("a minibatch", "its size", size, 1)
        partition = partition or Partition()
        if not self._in_order and partition.rank >= self.timeline.order.num_chunks:
            return None  # nothing is this worker's, in any sweep
        budget = max(partition.share(size), 1)
        least = min(max(_LEAST, (budget + 1) * partition.workers), 1 << 20)
        records, numbers = [], []
        total, end_of_sweep, stopped = 0, False, False
        while not stopped and (self.end is None or place.position < self.end):
            stretch = self.timeline.stretch(place, least)
            count = len(stretch.records)
            if self.end is not None:
                count = int(np.searchsorted(stretch.begins[:-1], self.end - place.position))
            own = self._own(place.number, stretch.homes[:count], partition)
            sums = total + np.cumsum(np.diff(stretch.begins)[own])
            taken = int(np.searchsorted(sums, budget, side="right"))
            if not taken and not total and len(own):
                taken = 1
            stop = count
            if taken:
                total = int(sums[taken - 1])
            if self._in_order and total >= budget:
                # In order a worker stops as soon as it is full; shuffled it first passes over what is the others'.
                stop, stopped = (int(own[taken - 1]) + 1 if taken else 0), True
            elif taken < len(own):
                stop, stopped = int(own[taken]), True
            records.append(stretch.records[own[:taken]])
            numbers.append(place.number + own[:taken])
            end_of_sweep |= stretch.ends_sweep and stop == len(stretch.records)
            place = stretch.after(stop)
        if not total:
            return None
        return Minibatch(np.concatenate(records), np.concatenate(numbers), end_of_sweep, place)

    def cut_run(self, place: Place, size: int, partition: Partition | None = None, most: int = 1) -> list[Minibatch]:
        """Minibatches one after the other, until they have `most` sequences; empty at the end.

        Args:
            place: As for `cut`, and so are `size` and `partition`.
            most: Sequences after which no further minibatch is cut.

        Raises:
            PlanError: As `cut`.
        """
        partition = partition or Partition()
        found: list[Minibatch] = []
        left = most
        while left > 0:
            cuts = self._cut_whole(place, size, left) if partition.workers == 1 else []
            if not cuts:
                cut = self.cut(place, size, partition)
                if cut is None:
                    break
                cuts = [cut]
            found += cuts
            left -= sum(len(cut.records) for cut in cuts)
            place = found[-1].after
        return found

    def _cut_whole(self, place: Place, size: int, most: int) -> list[Minibatch]:
        """As `cut_run` for one worker, as long as a minibatch lies wholly within a block: then its end is plain."""
        size = whole_of("a minibatch", "its size", size, 1)
        stretch = self.timeline.stretch(place, most)
        count = len(stretch.records)
        if self.end is not None:
            count = int(np.searchsorted(stretch.begins[:-1], self.end - place.position))
        begins = stretch.begins.tolist()
        numbers = place.number + np.arange(count)
        found, first = [], 0
        while (last := max(bisect.bisect_right(begins, begins[first] + size, first + 1) - 1, first + 1)) < count:
            after = Place(place.number + last, place.position + begins[last])
            found.append(Minibatch(stretch.records[first:last], numbers[first:last], False, after))
            first = last
        return found

    def _own(self, number: int, homes: NDArray[np.int64], partition: Partition) -> NDArray[np.int64]:
        """Which of neighbouring sequences, from that with `number` on, are a worker's."""
        if partition.workers == 1:
            return np.arange(len(homes))
        if self._in_order:
            return np.arange((partition.rank - number) % partition.workers, len(homes), partition.workers)
        return np.flatnonzero(homes % partition.workers == partition.rank)
