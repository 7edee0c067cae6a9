"""What plans of batches have in common that arrange the records of a window by their lengths."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.checks import whole_of
from headrace.errors import PlanError
from headrace.plan.base import Plan
from headrace.plan.batches import BatchPlan
from headrace.plan.rows import Rows

Lengths = Callable[[Rows], NDArray[np.integer]]

_CACHED_EPOCHS = 4
_MAX_INT32 = (1 << 31) - 1


def check_window(what: str, plan: Plan, window: int | None) -> None:
    """Refuses to take all records of a plan together that has no end, or none that is known.

    Raises:
        PlanError: If `window` is None for such a plan; `what` is the operation.
    """
    if plan.length is None and window is None:
        raise PlanError(f"{what} needs a window for a plan that is endless or of unknown length, got window=None")


def check_range(what: str, lengths: NDArray[np.integer]) -> None:
    """Refuses what no length can be.

    Raises:
        PlanError: If there is one below 0 or beyond 31 bits; `what` is the operation.
    """
    if len(lengths) and not 0 <= int(lengths.min()) <= int(lengths.max()) <= _MAX_INT32:
        raise PlanError(f"{what} needs lengths in [0, 2^31), got lengths from {lengths.min()} to {lengths.max()}")


class WindowedBatches(BatchPlan):
    """Batches that are arranged window by window, by the lengths of the records in it.

    Args:
        what: The operation, for messages.
        plan: Where the records come from.
        lengths: Gives the lengths of records: takes `Rows`, returns integers of shape `(len(rows),)`. It must
            always give the same for the same record, and be picklable if the plan is to be.
        window: Records that are planned together; None takes the whole epoch.
    """

    def __init__(self, what: str, plan: Plan, lengths: Lengths, window: int | None) -> None:
        self._what = what
        self.plan = plan
        self.lengths = lengths
        self.window_records = None if window is None else whole_of(what, "window", window, 1)
        check_window(what, plan, window)
        self._batches: dict[int, int] = {}

    def num_windows(self, epoch: int) -> int | None:
        """The plan's records by the window."""
        if self.plan.length is None:
            return None
        if self.window_records is None:
            return 1 if self.plan.length else 0
        return -(-self.plan.length // self.window_records)

    def num_batches(self, epoch: int) -> int | None:
        """Counts the batches by planning all windows of the epoch, once; the numbers of a few epochs are kept."""
        windows = self.num_windows(epoch)
        if windows is None:
            return None
        count = self._batches.get(epoch)
        if count is None:
            count = sum(self._count(self._records(epoch, index)) for index in range(windows))
            # Another dict instead of a lock, which a fork could leave held.
            self._batches = dict([*self._batches.items()][1 - _CACHED_EPOCHS :]) | {epoch: count}
        return count

    @abstractmethod
    def _count(self, rows: Rows) -> int:
        """The number of batches that the records of a window make."""

    def _records(self, epoch: int, index: int) -> Rows:
        """The records of a window, in the plan's order."""
        length, window = self.plan.length, self.window_records
        if window is None:
            assert length is not None  # refused by the constructor
            window = length
        start = index * window
        stop = start + window if length is None else min(start + window, length)
        return self.plan.locate(epoch, np.arange(start, stop))

    def _checked_lengths(self, rows: Rows) -> NDArray[np.int32]:
        lengths = np.asarray(self.lengths(rows))
        if lengths.shape != (len(rows),) or lengths.dtype.kind not in "iu":
            raise PlanError(
                f"{self._what} needs one whole number as length for each of {len(rows)} records, "
                f"got {lengths.dtype} of shape {lengths.shape}"
            )
        check_range(self._what, lengths)
        return np.ascontiguousarray(lengths, np.int32)

    def __getstate__(self) -> dict[str, Any]:
        """All but the counted batches."""
        return {name: value for name, value in vars(self).items() if name != "_batches"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores what was pickled, with nothing counted yet."""
        vars(self).update(state)
        self._batches = {}
