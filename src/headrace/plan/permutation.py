"""Plans that shuffle: all records, or those in each window. The algorithm is specified in docs/specs/permutation.md."""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.checks import whole_of
from headrace.errors import PlanError
from headrace.plan.base import MAX_LENGTH, Epochs, Plan
from headrace.plan.rows import Rows

MAX_SHUFFLED = 1 << 48
"""Positions that one permutation can have."""

_WORD = (1 << 64) - 1


def seed_key(seed: int) -> int:
    """Reduces any whole number to the 64 bits that the algorithms are keyed with.

    Seeds in `[0, 2**64)` stay as they are. Of any other, the sign (0 or 1) and the 64-bit words of the absolute value,
    lowest first, are absorbed into a hash that begins with 0.

    Raises:
        PlanError: If the seed isn't a whole number.

    Example:
        >>> seed_key(7), seed_key(-7) == seed_key(7)
        (7, False)
    """
    try:
        number = operator.index(seed)
    except TypeError:
        raise PlanError(f"a seed is a whole number, got {seed!r}") from None
    if 0 <= number <= _WORD:
        return number
    key = _native.absorb(0, int(number < 0))
    rest = abs(number)
    while rest:
        key = _native.absorb(key, rest & _WORD)
        rest >>= 64
    return key


class Shuffle(Plan):
    """A plan's records in an order that depends on the seed and the epoch.

    Takes no memory, and any position costs the same few nanoseconds.

    Args:
        plan: What to shuffle; its length must be known.
        seed: Any whole number.

    Raises:
        PlanError: If the plan is endless or has more than 2^48 records, or the seed isn't a whole number.

    Example:
        >>> import numpy as np
        >>> from headrace.plan import Leaf, Shuffle
        >>> order = Shuffle(Leaf(0, 8), seed=7)
        >>> order.locate(0, np.arange(8)).ids.tolist(), order.locate(1, np.arange(8)).ids.tolist()
        ([[0, 7, 2, 5, 4, 1, 6, 3]], [[4, 3, 5, 0, 7, 6, 2, 1]])
    """

    def __init__(self, plan: Plan, seed: int) -> None:
        self._key = seed_key(seed)
        if plan.length is None:
            raise PlanError("shuffle needs a plan of known length, got an endless one; give it a window")
        if plan.length > MAX_SHUFFLED:
            raise PlanError(f"shuffle orders at most 2^48 records, got {plan.length}; give it a window")
        self.plan = plan
        self.seed = seed
        self.length = self._n = plan.length
        self.slots = plan.slots

    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        return self.plan._locate(epochs, _permute(self._key, epochs, self._n, self._n, positions))


class WindowShuffle(Plan):
    """A plan's records, shuffled inside each window of neighbouring positions; windows stay in order.

    Reading stays nearly sequential. The last window may be shorter than the others. A window that holds all records
    gives the same order as `Shuffle`.

    Args:
        plan: What to shuffle; may be endless.
        seed: Any whole number.
        window: Positions a window.

    Raises:
        PlanError: If the window is less than 1 or more than 2^48, or the seed isn't a whole number.
    """

    def __init__(self, plan: Plan, seed: int, window: int) -> None:
        self._key = seed_key(seed)
        self.window = whole_of("shuffle", "window", window, 1, MAX_SHUFFLED)
        self.plan = plan
        self.seed = seed
        self.length = plan.length
        self.slots = plan.slots
        self._n = MAX_LENGTH if plan.length is None else plan.length

    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        return self.plan._locate(epochs, _permute(self._key, epochs, self.window, self._n, positions))


def _permute(key: int, epochs: Epochs, window: int, n: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    if isinstance(epochs, int) and window == n:
        return _native.permute(key, epochs, 0, n, positions)
    return _native.permute_windows(key, epochs, max(window, 1), n, positions)
