"""Plans that mix several plans by weights, with exact proportions and O(1) access to any position."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.checks import one_of, whole_of
from headrace.errors import PlanError
from headrace.plan.base import MAX_LENGTH, Epochs, Plan, common_slots, locate_chosen
from headrace.plan.order import Repeat
from headrace.plan.permutation import seed_key
from headrace.plan.rows import Rows

Ending = Literal["first", "all"]

MAX_PATTERN = 4096
"""Weights that are multiples of 1/n for an n up to this are kept exactly."""

MAX_CELL = 64
"""Neighbouring positions whose choices are shuffled among themselves: one turn of the pattern, or so many of it."""

_MIX = 0x6D6978  # "mix" in ASCII: keeps the choices apart from a shuffle with the same seed


def check_mix(weights: Any, count: int, seed: Any, stop: Any) -> tuple[tuple[float, ...], int | None]:
    """What a mixture is asked for.

    Args:
        weights: A number for each part.
        count: How many parts there are.
        seed: Of the choices, or None.
        stop: When it ends.

    Returns:
        Weights and seed as Python's own numbers.

    Raises:
        PlanError: If one of them can't be.
    """
    one_of("mix", "stop", stop, Ending)
    seed = None if seed is None else whole_of("mix", "seed", seed, None)
    if isinstance(weights, (str, bytes)) or not isinstance(weights, Iterable):
        raise PlanError(f"mix: weights is a list of numbers, one for each part, got {weights!r:.80}")
    weights = tuple(weights)
    if not count or len(weights) != count:
        raise PlanError(f"mix needs a weight for each part, one part at least, got {len(weights)} for {count}")
    if count > MAX_PATTERN // 4:
        raise PlanError(f"mix takes at most {MAX_PATTERN // 4} parts, got {count}; join some of them by concat first")
    for number, weight in enumerate(weights):
        if not isinstance(weight, (int, float, np.integer, np.floating)) or not 0 < weight < math.inf:
            raise PlanError(f"mix needs positive, finite weights, got {weight!r:.80} in place {number}")
    return tuple(float(weight) for weight in weights), seed


class Mix(Plan):
    """Records of several plans in fixed proportions, each plan's records in its own order.

    The choices follow a pattern that repeats: so many places for each plan as its weight says, spread evenly. With a
    seed, the choices of each turn of the pattern are shuffled among themselves, anew for each turn and epoch; those of
    long patterns in cells of 64 neighbouring positions. So the proportions hold in every stretch of the mixture, not
    only on the whole.

    Weights with a small common denominator (0.7 and 0.3; 1/3 and 2/3; 5 and 2) are kept exactly. Others are rounded to
    4096ths, with at least one place for each plan.

    Args:
        plans: What to mix.
        weights: A positive number for each plan; only their proportions count.
        seed: Of the choices; None follows the evenly spread pattern as it is.
        stop: `"first"` ends an epoch when the next record would be one of a plan that has no more. `"all"` goes on
            until each plan has come to its end once, while shorter ones start again, in a new order if shuffled.

    Raises:
        PlanError: If weights and plans don't fit together, or a plan that would have to start again is empty.

    Example:
        >>> import numpy as np
        >>> from headrace.plan import Leaf, Mix
        >>> mixed = Mix([Leaf(0, 100), Leaf(1, 100)], weights=[3, 1])
        >>> mixed.length, (mixed.locate(0, np.arange(8)).ids[0] >> 48).tolist()
        (133, [0, 0, 1, 0, 0, 0, 1, 0])
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        weights: Sequence[float],
        seed: int | None = None,
        stop: Ending = "first",
    ) -> None:
        self.weights, self.seed = check_mix(weights, len(plans), seed, stop)
        self.stop = stop
        self.slots = common_slots(plans, "mix")
        self._key = 0 if self.seed is None else _native.absorb(seed_key(self.seed), _MIX)
        self._pattern = _Pattern(_apportion(self.weights))
        self.length = self._length([plan.length for plan in plans])
        self.plans = tuple(plans) if stop == "first" else self._repeated(plans)
        self._cell = 1 if seed is None else min(self._pattern.size, MAX_CELL)
        self._n = MAX_LENGTH if self.length is None else self.length

    def _length(self, lengths: Sequence[int | None]) -> int | None:
        known = [(number, n) for number, n in enumerate(lengths) if n is not None]
        if self.stop == "first":
            ends = [self._pattern.place(number, n) for number, n in known]
            return min(ends, default=None)
        for number, n in known:
            if n == 0:
                raise PlanError(f"mix(stop='all') starts plans again that have ended, but plan {number} has no records")
        if len(known) < len(lengths):
            return None
        return max(self._pattern.place(number, n - 1) + 1 for number, n in known)

    def _repeated(self, plans: Sequence[Plan]) -> tuple[Plan, ...]:
        whole = []
        for number, plan in enumerate(plans):
            if plan.length is None:
                whole.append(plan)
                continue
            passes = None
            if self.length is not None:
                passes = -(-self._pattern.before(number, self.length) // plan.length)
            whole.append(plan if passes == 1 else Repeat(plan, passes))
        return tuple(whole)

    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        p = self._pattern
        choice, inner = _native.mix_locate(
            p.choice, p.rank, p.counts, self._key, epochs, self._cell, self._n, positions
        )
        return locate_chosen(self.plans, epochs, choice, inner)


class _Pattern:
    """The order in which plans take turns, evenly spread; place `x` belongs to plan `choice[x]`.

    The r-th record of a plan with `c` places of `size` belongs at `(r + 1/2) * size / c`, between its neighbours; where
    several want the same place, the plan with the lower number comes first.
    """

    def __init__(self, counts: NDArray[np.int64]) -> None:
        plans = np.repeat(np.arange(len(counts)), counts)
        starts = np.cumsum(counts) - counts
        rank = np.arange(len(plans)) - starts[plans]
        order = np.lexsort((plans, (2 * rank + 1) / counts[plans]))
        self.counts = counts
        self.size = len(plans)
        self.choice = plans[order].astype(np.int32)
        self.rank = rank[order].astype(np.int64)
        self._places = [np.flatnonzero(self.choice == number) for number in range(len(counts))]

    def place(self, plan: int, record: int) -> int:
        """Where a record of a plan stands in the mixture, if choices aren't shuffled."""
        turns, rank = divmod(record, int(self.counts[plan]))
        return turns * self.size + int(self._places[plan][rank])

    def before(self, plan: int, position: int) -> int:
        """How many records of a plan stand before a position."""
        turns, place = divmod(position, self.size)
        return turns * int(self.counts[plan]) + int(self._places[plan].searchsorted(place))


def _apportion(weights: Sequence[float]) -> NDArray[np.int64]:
    """Places a plan in the pattern, in the proportions of the weights."""
    exact = _common_multiples(weights)
    if exact is not None:
        return np.array(exact, np.int64)
    whole = math.fsum(weights)
    shares = [weight / whole * MAX_PATTERN for weight in weights]
    counts = [max(1, math.floor(share)) for share in shares]
    # What rounding down left over goes to those who lost most by it; what the smallest got extra, the largest give.
    by_loss = sorted(range(len(weights)), key=lambda i: (counts[i] - shares[i], i))
    for i in by_loss[: max(0, MAX_PATTERN - sum(counts))]:
        counts[i] += 1
    while sum(counts) > MAX_PATTERN:
        counts[counts.index(max(counts))] -= 1
    return np.array(counts, np.int64)


def _common_multiples(weights: Sequence[float]) -> list[int] | None:
    """The weights as whole numbers with a sum of at most `MAX_PATTERN`, or None if they aren't in such proportions."""
    from fractions import Fraction  # brings decimal along, which importing headrace shouldn't wait for

    fractions = []
    for weight in weights:
        # Against the largest, so that very large and very small weights do as well as fractions of one.
        ratio = weight / max(weights)
        fraction = Fraction(ratio).limit_denominator(MAX_PATTERN)
        if not fraction or abs(float(fraction) - ratio) > 1e-12 * ratio:
            return None
        fractions.append(fraction)
    scale = math.lcm(*(fraction.denominator for fraction in fractions))
    counts = [int(fraction * scale) for fraction in fractions]
    divisor = math.gcd(*counts)
    counts = [count // divisor for count in counts]
    return counts if sum(counts) <= MAX_PATTERN else None
