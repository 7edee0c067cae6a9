"""Batches of records of like length, so that padding wastes little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.errors import PlanError
from headrace.plan.base import Plan
from headrace.plan.batches import BatchPlan, PlannedWindow
from headrace.plan.check import whole_number
from headrace.plan.filling import Filling
from headrace.plan.rows import Rows

Lengths = Callable[[Rows], NDArray[np.integer]]

_CACHED_EPOCHS = 4
_MAX_INT32 = (1 << 31) - 1


class BucketBatches(BatchPlan):
    """Batches that each come from one bucket of lengths.

    The plan's records are taken in order, window by window, and each joins the bucket of its length. Bucket `i` holds
    `boundaries[i - 1] <= length < boundaries[i]`. A bucket comes out as a batch as soon as it is full; at the end of
    the window the rest comes out by ascending bucket. Nothing is carried over to the next window.

    A bucket is full with `batch_size` records. Or, with `max_tokens`, it comes out before a record that would make
    `records * longest length` exceed it, and when no further record could be added; a longer record is a batch by
    itself. Records of length 0 count as 1 token there.

    Args:
        plan: Where the records come from.
        lengths: Gives the lengths of records: takes `Rows`, returns integers of shape `(len(rows),)`. It must
            always give the same for the same record, and be picklable if the plan is to be.
        batch_size: Records a batch, or a sequence with as many for each bucket. Either this or `max_tokens`.
        max_tokens: Tokens a batch may have after padding.
        boundaries: Lengths at which a new bucket begins, ascending. None at all makes a single bucket.
        window: Records that are planned together; None takes the whole epoch.
        drop_remainder: Leave out batches that aren't full at the end of a window.

    Raises:
        PlanError: If the arguments contradict themselves, or (from `window` and `num_batches`) if `lengths` gives
            something else than one length for each record.

    Example:
        >>> from headrace.plan import BucketBatches, Leaf
        >>> def lengths(rows):
        ...     return rows.ids[0] % 2 * 10
        >>> batches = BucketBatches(Leaf(0, 7), lengths, batch_size=2, boundaries=[5], window=None)
        >>> [rows.ids[0].tolist() for rows in batches.window(epoch=0, index=0)]
        [[0, 2], [1, 3], [4, 6], [5]]
    """

    def __init__(
        self,
        plan: Plan,
        lengths: Lengths,
        *,
        batch_size: int | Sequence[int] | None = None,
        max_tokens: int | None = None,
        boundaries: Sequence[int] = (),
        window: int | None,
        drop_remainder: bool = False,
    ) -> None:
        if (batch_size is None) == (max_tokens is None):
            raise PlanError(f"bucket needs either batch_size or max_tokens, got {batch_size} and {max_tokens}")
        self.plan = plan
        self.lengths = lengths
        self.batch_size = _sizes(batch_size, len(boundaries) + 1)
        self.max_tokens = None if max_tokens is None else whole_number("bucket", "max_tokens", max_tokens, 1)
        self.boundaries = tuple(whole_number("bucket", "boundaries", edge, 0) for edge in boundaries)
        for low, high in pairwise(self.boundaries):
            if low >= high:
                raise PlanError(f"bucket needs ascending boundaries, got {low} before {high}")
        self.window_records = None if window is None else whole_number("bucket", "window", window, 1)
        self.drop_remainder = drop_remainder
        if plan.length is None and window is None:
            raise PlanError("bucket needs a window for a plan that is endless or of unknown length, got window=None")
        # No batch can be larger than a 64-bit number; neither can what the native code is asked for.
        largest = self.batch_size if isinstance(self.batch_size, int) else self.max_tokens
        self._limit = min(largest or 1, (1 << 63) - 1)
        self._edges = np.array([min(edge, 1 << 32) for edge in self.boundaries], np.int64)
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
            count = sum(len(self._layout(self._locate(epoch, index))[1]) - 1 for index in range(windows))
            # Another dict instead of a lock, which a fork could leave held.
            self._batches = dict([*self._batches.items()][1 - _CACHED_EPOCHS :]) | {epoch: count}
        return count

    def _window(self, epoch: int, index: int) -> PlannedWindow:
        rows = self._locate(epoch, index)
        order, offsets = self._layout(rows)
        return PlannedWindow(rows.take(order), offsets)

    def _locate(self, epoch: int, index: int) -> Rows:
        length, window = self.plan.length, self.window_records
        if window is None:
            assert length is not None  # refused by the constructor
            window = length
        start = index * window
        stop = start + window if length is None else min(start + window, length)
        return self.plan.locate(epoch, np.arange(start, stop))

    def _layout(self, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        lengths = self._checked_lengths(rows)
        if isinstance(self.batch_size, tuple):
            return self._of_sizes(self.batch_size, lengths)
        buckets = _native.find_buckets(lengths, self._edges)
        count = len(self._edges) + 1
        if self.batch_size is not None:
            return _native.group_by_count(buckets, count, self._limit, self.drop_remainder)
        return _native.group_by_tokens(buckets, lengths, count, self._limit, self.drop_remainder)

    def _of_sizes(
        self, sizes: tuple[int, ...], lengths: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        full, left = Filling(sizes, None, self.boundaries).add(lengths)
        groups = [places for _, places in (full if self.drop_remainder else full + left)]
        order = np.array([place for places in groups for place in places], np.int64)
        return order, np.cumsum([0, *map(len, groups)], dtype=np.int64)

    def _checked_lengths(self, rows: Rows) -> NDArray[np.int32]:
        lengths = np.asarray(self.lengths(rows))
        if lengths.shape != (len(rows),) or lengths.dtype.kind not in "iu":
            raise PlanError(
                f"bucket needs one whole number as length for each of {len(rows)} records, "
                f"got {lengths.dtype} of shape {lengths.shape}"
            )
        if len(lengths) and not 0 <= int(lengths.min()) <= int(lengths.max()) <= _MAX_INT32:
            raise PlanError(f"bucket needs lengths in [0, 2^31), got lengths from {lengths.min()} to {lengths.max()}")
        return np.ascontiguousarray(lengths, np.int32)

    def describe(self) -> str:
        """All parameters but the function that gives the lengths."""
        sizes = list(self.batch_size) if isinstance(self.batch_size, tuple) else self.batch_size
        size = f"batch_size={sizes}" if self.max_tokens is None else f"max_tokens={self.max_tokens}"
        rest = ", drop_remainder" if self.drop_remainder else ""
        return f"bucket({size}, boundaries={list(self.boundaries)}, window={self.window_records}{rest})"

    def __getstate__(self) -> dict[str, Any]:
        """All but the counted batches."""
        return {name: value for name, value in vars(self).items() if name != "_batches"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores what was pickled, with nothing counted yet."""
        vars(self).update(state)
        self._batches = {}


def _sizes(batch_size: int | Sequence[int] | None, buckets: int) -> int | tuple[int, ...] | None:
    if batch_size is None or not isinstance(batch_size, Sequence):
        return None if batch_size is None else whole_number("bucket", "batch_size", batch_size, 1)
    sizes = tuple(whole_number("bucket", "batch_size", size, 1) for size in batch_size)
    if len(sizes) != buckets:
        raise PlanError(f"bucket needs a batch_size for each of {buckets} buckets, got {len(sizes)}")
    return sizes
