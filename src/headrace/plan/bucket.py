"""Batches of records of like length, so that padding wastes little."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.checks import whole_of, wholes_of
from headrace.errors import PlanError
from headrace.plan.base import Plan
from headrace.plan.batches import PlannedWindow
from headrace.plan.filling import Filling
from headrace.plan.rows import Rows
from headrace.plan.windowed import Lengths, WindowedBatches


def check_bucket(
    batch_size: Any, max_tokens: Any, boundaries: Any
) -> tuple[int | tuple[int, ...] | None, int | None, tuple[int, ...]]:
    """What buckets are asked for, as Python's own numbers.

    Args:
        batch_size: Records a batch, one number or one for each bucket.
        max_tokens: Tokens a batch; this or `batch_size` is None.
        boundaries: Lengths at which a new bucket begins.

    Raises:
        PlanError: If one of them can't be, or they contradict each other.
    """
    if (batch_size is None) == (max_tokens is None):
        raise PlanError(
            f"bucket needs batch_size or max_tokens, one of them, got batch_size={batch_size!r:.60}, "
            f"max_tokens={max_tokens!r:.60}"
        )
    edges = wholes_of("bucket", "boundaries", boundaries, 0)
    for low, high in pairwise(edges):
        if low >= high:
            raise PlanError(f"bucket: boundaries ascend from 0 on, got {low} before {high}")
    if max_tokens is not None:
        return None, whole_of("bucket", "max_tokens", max_tokens, 1), edges
    if isinstance(batch_size, (str, bytes)) or not isinstance(batch_size, Iterable):
        return whole_of("bucket", "batch_size", batch_size, 1), None, edges
    sizes = wholes_of("bucket", "batch_size", batch_size, 1)
    if len(sizes) != len(edges) + 1:
        raise PlanError(f"bucket needs a batch_size for each of {len(edges) + 1} buckets, got {len(sizes)}")
    return sizes, None, edges


class BucketBatches(WindowedBatches):
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
        super().__init__("bucket", plan, lengths, window)
        self.batch_size, self.max_tokens, self.boundaries = check_bucket(batch_size, max_tokens, boundaries)
        self.drop_remainder = drop_remainder
        # No batch can be larger than a 64-bit number; neither can what the native code is asked for.
        largest = self.batch_size if isinstance(self.batch_size, int) else self.max_tokens
        self._limit = min(largest or 1, (1 << 63) - 1)
        self._edges = np.array([min(edge, 1 << 32) for edge in self.boundaries], np.int64)

    @property
    def drops(self) -> bool:
        """Batches that aren't full, if that was asked for."""
        return self.drop_remainder

    def _count(self, rows: Rows) -> int:
        return len(self._layout(rows)[1]) - 1

    def _window(self, epoch: int, index: int) -> PlannedWindow:
        rows = self._records(epoch, index)
        order, offsets = self._layout(rows)
        return PlannedWindow(rows.take(order), offsets)

    def places(self, epoch: int, index: int) -> tuple[int, int]:
        """Items of a window's records, and places that they take when each batch is padded to its longest."""
        rows = self._records(epoch, index)
        order, offsets = self._layout(rows)
        if not len(order):
            return 0, 0
        lengths = self._checked_lengths(rows)[order].astype(np.int64)
        longest = np.maximum.reduceat(lengths, offsets[:-1])
        return int(lengths.sum()), int((longest * np.diff(offsets)).sum())

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
