"""The plan that takes records of several plans in turn, a few of them at a time, with access to any position."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.checks import whole_of
from headrace.errors import PlanError
from headrace.plan.base import MAX_LENGTH, Epochs, Plan, common_slots, locate_chosen
from headrace.plan.rows import Rows

_LARGEST_TABLE = 1 << 20  # numbers in a table of who gives how much in which stretch of rounds


class Interleave(Plan):
    """Records of several plans in turn, as `tf.data.Dataset.interleave` orders them.

    As many plans as the cycle has slots are open at a time and go round: each gives `block_length` records, then the
    next one has its turn. A plan that has fewer left gives those and leaves its slot; when the turn of that slot comes
    again, the first plan that wasn't open yet takes it. (So a plan whose records are a multiple of the block has a last
    turn in which it gives none.)

    Positions are found by arithmetic. Rounds, in each of which every slot has one turn, are grouped in stretches in
    which the same plans give as many records each; there are at most three a plan.

    Args:
        plans: What to interleave. One that is endless keeps its slot for ever.
        cycle_length: Slots; None is one for each plan.
        block_length: Records in a turn.

    Raises:
        PlanError: If there is no plan, or an argument is below 1.

    Example:
        >>> import numpy as np
        >>> from headrace.plan import Interleave, Leaf
        >>> plan = Interleave([Leaf(0, 3), Leaf(1, 1), Leaf(2, 2)], cycle_length=2, block_length=2)
        >>> (plan.locate(0, np.arange(6)).ids[0] >> 48).tolist()
        [0, 0, 1, 0, 2, 2]
    """

    def __init__(self, plans: Sequence[Plan], cycle_length: int | None = None, block_length: int = 1) -> None:
        self.plans = tuple(plans)
        self.slots = common_slots(self.plans, "interleave")
        if cycle_length is not None:
            cycle_length = whole_of("interleave", "cycle_length", cycle_length, 1)
        self.cycle_length = cycle_length
        self.block_length = whole_of("interleave", "block_length", block_length, 1)
        lengths = [plan.length for plan in self.plans]
        known = [n for n in lengths if n is not None]
        self.length = sum(known) if len(known) == len(lengths) else None
        if sum(known) > MAX_LENGTH:
            raise PlanError(f"interleave gives at most 2^62 records, got {sum(known)}")
        self._cycle = min(cycle_length or len(lengths), len(lengths))
        # A block longer than any plan is as good as one that is just longer; and no position is beyond 2^62.
        longest = max(known) + 1 if len(known) == len(lengths) else MAX_LENGTH // self._cycle
        self._block = min(self.block_length, longest)
        self._seat(lengths)

    def _seat(self, lengths: Sequence[int | None]) -> None:
        """Finds the slot and the first round of each plan, and from these the stretches."""
        block, free = self._block, [(0, slot) for slot in range(self._cycle)]
        slots, starts = [], []
        for n in lengths:
            if not free:  # endless ones sit everywhere: the others never come
                break
            start, slot = heapq.heappop(free)
            slots.append(slot)
            starts.append(start)
            if n is not None:
                heapq.heappush(free, (start + n // block + 1, slot))
        self._start = np.array(starts, np.int64)
        finite = np.array([-1 if n is None else n for n in lengths[: len(starts)]], np.int64)
        endless = finite < 0
        self._full = np.where(endless, MAX_LENGTH, finite // block)  # turns in which it gives a whole block
        self._rest = np.where(endless, 0, finite % block)
        last = self._start + np.where(endless, 0, self._full)
        # What a round gives changes by so much at some rounds.
        at = np.concatenate([self._start, last[~endless], last[~endless] + 1])
        rest = self._rest[~endless]
        change = np.concatenate([np.full(len(starts), block), rest - block, -rest])
        self._round, where = np.unique(at, return_inverse=True)
        changes = np.zeros(len(self._round), np.int64)
        np.add.at(changes, where, change)
        self._each = np.cumsum(changes)  # records in a round of each stretch
        self._first = np.zeros(len(self._round), np.int64)  # records before it
        np.cumsum(self._each[:-1] * np.diff(self._round), out=self._first[1:])
        # Who sits in a slot in a stretch: the last one that came to the slot before, in this order of slot and stretch.
        self._span = len(self._round) + 1
        arrival = np.array(slots, np.int64) * self._span + np.searchsorted(self._round, self._start)
        self._plan_of = np.argsort(arrival)
        self._arrival = arrival[self._plan_of]

    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        return locate_chosen(self.plans, epochs, *self._find(positions))

    def _find(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The plan of each position, and the position in it."""
        stretch = self._first.searchsorted(positions, side="right") - 1
        stretches, row = np.unique(stretch, return_inverse=True)
        each = self._each[stretches]
        above = int(each.max(initial=0)) + 1
        if len(positions) > 1 and len(stretches) * max(self._cycle, above >> 42) > _LARGEST_TABLE:
            half = len(positions) // 2
            some, others = self._find(positions[:half]), self._find(positions[half:])
            return np.concatenate([some[0], others[0]]), np.concatenate([some[1], others[1]])
        turn, place = np.divmod(positions - self._first[stretch], self._each[stretch])
        slot_of = np.arange(self._cycle)
        seat = self._arrival.searchsorted(stretches[:, None] + slot_of * self._span, side="right") - 1
        taken = (seat >= 0) & (self._arrival[seat] // self._span == slot_of)
        plan = self._plan_of[seat]
        ago = self._round[stretches][:, None] - self._start[plan]
        gives = np.where(ago < self._full[plan], self._block, np.where(ago == self._full[plan], self._rest[plan], 0))
        upto = np.cumsum(np.where(taken, gives, 0), axis=1)
        # One search for all rows: each is moved above those before it.
        base = np.arange(len(stretches)) * above
        slot = (upto + base[:, None]).ravel().searchsorted(base[row] + place, side="right") - row * self._cycle
        chosen = plan[row, slot]
        before = upto[row, slot] - gives[row, slot]
        rounds = self._round[stretch] + turn - self._start[chosen]
        return chosen, rounds * self._block + place - before
