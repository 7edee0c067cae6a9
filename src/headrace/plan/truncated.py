"""Truncated back-propagation through time: sequences in parallel slots, so many steps of each a minibatch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from headrace.checks import whole_of
from headrace.errors import PlanError
from headrace.plan.minibatches import Minibatches, Partition
from headrace.plan.timeline import Place


@dataclass(frozen=True, slots=True)
class Held:
    """A sequence that a slot holds.

    Attributes:
        number: Sequences of the timeline before it: its name, as a record may be held twice.
        record: Its record number.
        size: Its samples.
        done: How many of them have been delivered.
        ends_sweep: Whether a sweep ends with it.
    """

    number: int
    record: int
    size: int
    done: int = 0
    ends_sweep: bool = False


@dataclass(frozen=True, slots=True)
class Slots:
    """Where truncated reading is.

    Attributes:
        place: Up to where sequences were taken into slots.
        queues: What each slot holds; empty before the first minibatch.
    """

    place: Place = field(default_factory=Place)
    queues: tuple[tuple[Held, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """Some steps of a sequence, in a slot of a minibatch.

    Attributes:
        slot: The slot.
        step: Where in the slot they begin.
        held: The sequence; `held.done` is the first of its samples that comes here.
        count: How many come.
    """

    slot: int
    step: int
    held: Held
    count: int

    @property
    def begin(self) -> int:
        """The step with which the sequence began: negative if in a minibatch before."""
        return self.step - self.held.done

    @property
    def end(self) -> int:
        """The step before which the sequence ends: beyond the minibatch if it goes on."""
        return self.begin + self.held.size


@dataclass(frozen=True, slots=True)
class TruncatedMinibatch:
    """The next steps of every slot.

    Attributes:
        slots: How many slots there are.
        pieces: What is in them, slot by slot; the rest is a gap.
        taken: The sequences that came into slots for it, in that order.
        end_of_sweep: Whether the last sequence of a sweep ended.
        after: Where the next one begins.
    """

    slots: int
    pieces: tuple[Piece, ...]
    taken: tuple[Held, ...]
    end_of_sweep: bool
    after: Slots

    @property
    def new(self) -> NDArray[np.int64]:
        """The records to parse for it: those taken."""
        return np.array([held.record for held in self.taken], np.int64)


class Truncated:
    """Cuts minibatches of so many steps of parallel slots.

    Before each minibatch every slot in turn takes further sequences while it holds no more than those steps.

    Args:
        minibatches: Gives the sequences, one at a time.
        steps: The truncation length.

    Raises:
        PlanError: If it isn't a whole number from 1 on.

    Example:
        >>> import numpy as np
        >>> from headrace.plan.cntk_order import CntkOrder
        >>> from headrace.plan.timeline import Timeline
        >>> order = CntkOrder(np.array([0, 3]), np.array([6], np.uint64), None)
        >>> truncated = Truncated(Minibatches(Timeline(order, np.array([1, 2, 3], np.uint32)), end=6), steps=2)
        >>> batch = truncated.cut(Slots(), 4)
        >>> [(piece.slot, piece.held.record, piece.begin, piece.end) for piece in batch.pieces]
        [(0, 0, 0, 1), (0, 1, 1, 3), (1, 2, 0, 3)]
    """

    def __init__(self, minibatches: Minibatches, steps: int) -> None:
        self.minibatches = minibatches
        self.steps = whole_of("truncated reading", "the truncation length", steps, 1)

    def cut(self, state: Slots, size: int, partition: Partition | None = None) -> TruncatedMinibatch | None:
        """The minibatch that comes after a state; None at the end.

        Args:
            state: Where the one before left off.
            size: Samples of all workers together: one slot for each `steps` of them, one at least.
            partition: Whose part is read; None reads everything.

        Raises:
            PlanError: If there are fewer slots than workers, or not as many as before.
        """
        whole_of("a minibatch", "its size", size, 1)
        partition = partition or Partition()
        slots = max(1, size // self.steps)
        count = partition.share(slots)
        if slots < partition.workers:
            raise PlanError(
                f"too many workers: a minibatch of {size} samples has {slots} slots of {self.steps} steps, fewer than "
                f"{partition.workers} workers; enlarge it, or shorten the truncation length"
            )
        if state.queues and len(state.queues) != count:
            raise PlanError(
                f"truncated reading goes on in {len(state.queues)} slots, a minibatch of {size} samples has {count} "
                "for this worker; keep size and workers until the end, as what is in the slots can't move"
            )
        place, taken, pieces, queues, end_of_sweep = state.place, [], [], [], False
        for slot, queue in enumerate(state.queues or ((),) * count):
            held = list(queue)
            while sum(h.size - h.done for h in held) <= self.steps:
                found = self._next(place, partition)
                if found is None:
                    break
                sequence, place = found
                held.append(sequence)
                taken.append(sequence)
            step = 0
            while held and step < self.steps:
                first = held[0]
                length = min(first.size - first.done, self.steps - step)
                pieces.append(Piece(slot, step, first, length))
                step += length
                held[0] = replace(first, done=first.done + length)
                if held[0].done == first.size:
                    end_of_sweep |= first.ends_sweep
                    del held[0]
            queues.append(tuple(held))
        if not pieces:
            return None
        return TruncatedMinibatch(count, tuple(pieces), tuple(taken), end_of_sweep, Slots(place, tuple(queues)))

    def cut_run(
        self, state: Slots, size: int, partition: Partition | None = None, most: int = 1
    ) -> list[TruncatedMinibatch]:
        """The minibatches that come after a state, until they take `most` sequences; empty at the end."""
        found: list[TruncatedMinibatch] = []
        while most > 0 and (cut := self.cut(state, size, partition)) is not None:
            found.append(cut)
            most -= max(len(cut.taken), 1)
            state = cut.after
        return found

    def _next(self, place: Place, partition: Partition) -> tuple[Held, Place] | None:
        """The next sequence of a worker's, and the place after it."""
        found = self.minibatches.cut(place, partition.workers, partition)  # one sample for each: one sequence
        if found is None:
            return None
        size = int(self.minibatches.timeline.sizes_of(found.records)[0])
        number, record = int(found.numbers[0]), int(found.records[0])
        return Held(number, record, size, 0, found.end_of_sweep), found.after

    def restored(self, place: Place, queues: list[list[tuple[int, int, bool]]]) -> Slots:
        """The state that has taken sequences up to a place, and holds in each slot what is named.

        Args:
            place: Where the next sequence is taken.
            queues: For each slot, of each sequence its number on the timeline, the samples done, whether a sweep ends.

        Raises:
            PlanError: If no reading can have come to such a state.
        """
        numbers = np.array([number for queue in queues for number, _, _ in queue], np.int64)
        if len(np.unique(numbers)) != len(numbers) or (
            len(numbers) and not 0 <= numbers.min() <= numbers.max() < place.number
        ):
            raise PlanError("a slot holds a sequence that was not taken yet, or that another holds too")
        timeline = self.minibatches.timeline
        records = timeline.records(numbers)
        sizes = iter(zip(records.tolist(), timeline.sizes_of(records).tolist(), strict=True))
        slots = []
        for queue in queues:
            held = [Held(number, *next(sizes), done, ends) for number, done, ends in queue]
            for i, h in enumerate(held):
                if not 0 <= h.done < h.size or (i and h.done):
                    raise PlanError(f"a slot can't have read {h.done} of the {h.size} samples of sequence {h.number}")
            if [h.number for h in held] != sorted(h.number for h in held):
                raise PlanError("a slot holds sequences out of their order")
            slots.append(tuple(held))
        return Slots(place, tuple(slots))
