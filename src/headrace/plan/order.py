"""Plans that take records from other plans in a simple order: slices, repetitions, chains, zips, gaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.checks import whole_of
from headrace.errors import PlanError
from headrace.plan.base import MAX_LENGTH, Epochs, Plan, common_slots, locate_chosen, next_pass
from headrace.plan.rows import LEAF_SHIFT, Rows


class Leaf(Plan):
    """The records of a source, in the source's own order.

    Args:
        leaf: The number of the source, which goes into the records' ids.
        n: Records in the source, or None if that isn't known (a stream).
    """

    def __init__(self, leaf: int, n: int | None) -> None:
        self.leaf = whole_of("leaf", "its number", leaf, 0)
        self.length = None if n is None else whole_of("leaf", "records", n, 0)
        self.slots = 1
        if self.leaf >= 1 << 15:
            raise PlanError(f"a plan has at most {1 << 15} sources, got number {leaf}; read files as one source")
        if self.length is not None and self.length > 1 << LEAF_SHIFT:
            raise PlanError(f"a source has at most 2^{LEAF_SHIFT} records, got {self.length}")

    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        if self.length is None:  # no stream is so long; beyond, a number would be taken for another source's
            positions = np.minimum(positions, (1 << LEAF_SHIFT) - 1)
        ids = positions | (self.leaf << LEAF_SHIFT)
        passes = np.full(len(positions), epochs) if isinstance(epochs, int) else epochs
        return Rows(ids[None], passes)


class Slice(Plan):
    """Every `step`-th record of a plan, from `start` to before `stop`: take, skip and shard.

    Args:
        plan: Where the records come from.
        start: The first position.
        stop: The position to end before; None, or one beyond the end, is the end.
        step: Positions from one record to the next.

    Raises:
        PlanError: If `start` or `stop` is negative or `step` less than 1. Positions count from the beginning only.

    Example:
        >>> import numpy as np
        >>> from headrace.plan import Leaf, Slice
        >>> Slice(Leaf(0, 10), start=1, step=4).locate(0, np.arange(3)).ids.tolist()
        [[1, 5, 9]]
    """

    def __init__(self, plan: Plan, start: int = 0, stop: int | None = None, step: int = 1) -> None:
        self.plan = plan
        self.start = whole_of("slice", "start", start, 0)
        self.stop = None if stop is None else whole_of("slice", "stop", stop, 0)
        self.step = whole_of("slice", "step", step, 1)
        self.slots = plan.slots
        ends = [end for end in (self.stop, plan.length) if end is not None]
        if plan.length is None and ends:
            ends.append(MAX_LENGTH)
        self.length = max(0, -(-(min(ends) - self.start) // self.step)) if ends else None
        # Numbers beyond all positions would not fit 64 bits.
        self._start, self._step = min(self.start, MAX_LENGTH), min(self.step, MAX_LENGTH)

    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        if self.length is None and len(positions):
            last = int(positions.max()) * self._step + self._start
            if last >= MAX_LENGTH:
                raise PlanError(
                    f"slice({self.start}, {self.stop}, {self.step}) goes beyond 2^62 positions, more than there can be"
                )
        return self.plan._locate(epochs, positions * self._step + self._start)


class Repeat(Plan):
    """Several passes over a plan as one epoch.

    Each pass is an epoch of its own for what is repeated: its shuffles give another order, its random draws others.

    Args:
        plan: What to repeat; its length must be known.
        count: Passes an epoch; None never ends.

    Raises:
        PlanError: If the plan has no known length, or is empty and should be repeated without end.
    """

    def __init__(self, plan: Plan, count: int | None) -> None:
        if plan.length is None:
            raise PlanError("repeat needs a plan of known length, got one that is endless or streamed")
        self.plan = plan
        self.count = None if count is None else whole_of("repeat", "count", count, 1)
        self.slots = plan.slots
        if self.count is None:
            if plan.length == 0:
                raise PlanError("repeat without a count needs at least one record, got none")
            self.length = None
        else:
            self.length = plan.length * self.count
            if max(self.count, self.length) > MAX_LENGTH:
                raise PlanError(f"repeat gives at most 2^62 records, got {plan.length} * {self.count}")
        self._n = max(plan.length, 1)

    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        turns, inner = np.divmod(positions, self._n)
        return self.plan._locate(next_pass(epochs, self.count, turns), inner)


class Concat(Plan):
    """All records of the first plan, then all of the second, and so on.

    Args:
        plans: What to join. Only the last may be endless.

    Raises:
        PlanError: If there is no plan, their records differ in structure, or one before the last is endless.
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.plans = tuple(plans)
        self.slots = common_slots(self.plans, "concat")
        lengths: list[int] = []
        for number, plan in enumerate(self.plans[:-1]):
            if plan.length is None:
                raise PlanError(
                    f"concat needs known lengths of all plans but the last, got an endless one in place {number}: "
                    "what follows would never come"
                )
            lengths.append(plan.length)
        last = self.plans[-1].length
        self.length = None if last is None else sum(lengths) + last
        if self.length is not None and self.length > MAX_LENGTH:
            raise PlanError(f"concat gives at most 2^62 records, got {self.length}")
        self._starts = np.cumsum([0, *lengths], dtype=np.int64)

    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        part = self._starts.searchsorted(positions, side="right") - 1
        return locate_chosen(self.plans, epochs, part, positions - self._starts[part])


class Zip(Plan):
    """The first records of all plans together, then the second ones, and so on.

    A record has the ids of all its parts, and its pass (which keys random draws) is that of the first part.

    Args:
        plans: What to put side by side.
        shortest: End with the shortest plan, instead of refusing plans of different lengths.

    Raises:
        PlanError: If there is no plan, or their lengths differ.
    """

    def __init__(self, plans: Sequence[Plan], *, shortest: bool = False) -> None:
        self.plans = tuple(plans)
        if not self.plans:
            raise PlanError("zip needs at least one plan, got none")
        lengths = [plan.length for plan in self.plans]
        if not shortest:
            for number, length in enumerate(lengths):
                if length != lengths[0]:
                    raise PlanError(
                        f"zip needs plans of equal length, got {_count(lengths[0])} in place 0 and {_count(length)} in "
                        f"place {number}; pass shortest=True to end with the shortest"
                    )
        self.shortest = shortest
        self.length = min((n for n in lengths if n is not None), default=None)
        self.slots = sum(plan.slots for plan in self.plans)

    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        parts = [plan._locate(epochs, positions) for plan in self.plans]
        return Rows(np.concatenate([part.ids for part in parts]), parts[0].passes)


def _count(length: int | None) -> str:
    return "an endless one" if length is None else f"{length} records"


class Without(Plan):
    """All records of a plan but those at some positions. Memory is needed for those only.

    Args:
        plan: Where the records come from.
        dropped: Positions to leave out, ascending.

    Raises:
        PlanError: If the positions don't ascend or are outside the plan.

    Example:
        >>> import numpy as np
        >>> from headrace.plan import Leaf, Without
        >>> Without(Leaf(0, 6), np.array([0, 3])).locate(0, np.arange(4)).ids.tolist()
        [[1, 2, 4, 5]]
    """

    def __init__(self, plan: Plan, dropped: NDArray[np.int64]) -> None:
        dropped = np.array(dropped, np.int64)
        if dropped.ndim != 1 or (np.diff(dropped) <= 0).any():
            raise PlanError("without needs positions to drop in ascending order, none twice")
        if len(dropped) and (dropped[0] < 0 or dropped[-1] >= (MAX_LENGTH if plan.length is None else plan.length)):
            raise PlanError(
                f"without drops positions in [0, {plan.length}), got positions from {dropped[0]} to {dropped[-1]}"
            )
        self.plan = plan
        self.slots = plan.slots
        self.length = None if plan.length is None else plan.length - len(dropped)
        # The kept records before each dropped one: those at positions from there on are moved by one more place.
        self._kept_before = dropped - np.arange(len(dropped))

    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        return self.plan._locate(epochs, positions + self._kept_before.searchsorted(positions, side="right"))


class Widen(Plan):
    """A plan whose records have more ids than they need, to stand beside records of zips.

    Args:
        plan: Where the records come from.
        slots: Ids a record shall have. Those beyond the plan's own repeat the first, and nobody reads by them.

    Raises:
        PlanError: If the plan's records have more ids already.
    """

    def __init__(self, plan: Plan, slots: int) -> None:
        if slots < plan.slots:
            raise PlanError(f"widen needs at least the plan's {plan.slots} slots, got {slots}")
        self.plan = plan
        self.slots = slots
        self.length = plan.length

    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        rows = self.plan._locate(epochs, positions)
        extra = np.broadcast_to(rows.ids[0], (self.slots - self.plan.slots, len(rows)))
        return Rows(np.concatenate([rows.ids, extra]), rows.passes)
