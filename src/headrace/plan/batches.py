"""What every plan of batches is, and the simplest one: so many records at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headrace.checks import whole_of
from headrace.errors import PlanError
from headrace.plan.base import MAX_LENGTH, Plan
from headrace.plan.rows import Rows

_WINDOW_RECORDS = 1 << 16


class Window(ABC):
    """Some batches in a row, planned together."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of batches."""

    def rows(self, j: int) -> Rows:
        """The records of batch `j`.

        Raises:
            IndexError: If there is no such batch.
        """
        if not 0 <= j < len(self):
            raise IndexError(f"batch {j} of a window of {len(self)} batches")
        return self._rows(j)

    def __iter__(self) -> Iterator[Rows]:
        """The records of each batch."""
        return map(self._rows, range(len(self)))

    @abstractmethod
    def _rows(self, j: int) -> Rows:
        """The records of a batch that exists."""


class BatchPlan(ABC):
    """Batches of an epoch, in windows that can each be planned alone.

    A position in an epoch is a window and a batch in it, so a saved position stays small and restoring it costs at most
    the planning of one window. Plans of batches are immutable, may be used from any number of threads, and can be
    pickled.

    Attributes:
        plan: The order that batches are cut from.
    """

    plan: Plan

    def window(self, epoch: int, index: int) -> Window:
        """Plans one window.

        Raises:
            IndexError: If there is no such window.
        """
        windows = self.num_windows(epoch)
        if index < 0 or (windows is not None and index >= windows):
            raise IndexError(f"window {index} of an epoch of {windows} windows")
        return self._window(epoch, index)

    @abstractmethod
    def _window(self, epoch: int, index: int) -> Window:
        """Plans a window that exists."""

    @abstractmethod
    def num_windows(self, epoch: int) -> int | None:
        """Windows of an epoch; None if it has no end, or none that is known."""

    @abstractmethod
    def num_batches(self, epoch: int) -> int | None:
        """Batches of an epoch; None if it has no end, or none that is known."""

    def skip(self, epoch: int, index: int, batch: int, count: int) -> tuple[int, int, int]:
        """Goes on by some batches of an epoch, without planning more than it takes to count them.

        Args:
            epoch: The epoch.
            index: A window of it.
            batch: Batches of the window that come before.
            count: Batches to go on.

        Returns:
            The window and the batches of it that then come before, and how many batches were lacking: more than 0 if
            the epoch has ended.
        """
        windows = self.num_windows(epoch)
        while count and (windows is None or index < windows):
            here = len(self.window(epoch, index)) - batch
            if count <= here:
                return index, batch + count, 0
            index, batch, count = index + 1, 0, count - here
        return index, batch, count

    def is_over(self, epoch: int, index: int, batch: int) -> bool:
        """Whether no batch comes after those before a place."""
        windows = self.num_windows(epoch)
        if windows is None:
            return False
        return all(
            len(self.window(epoch, later)) <= (batch if later == index else 0) for later in range(index, windows)
        )

    @property
    def divides(self) -> bool:
        """Whether a record may come in several pieces."""
        return False

    @property
    def drops(self) -> bool:
        """Whether records may be left out."""
        return False

    def places(self, epoch: int, index: int) -> tuple[int, int]:
        """Items that the records of a window have, and places for items that its batches have.

        Raises:
            PlanError: If batches are made without looking at lengths.
        """
        raise PlanError(
            f"{type(self).__name__} doesn't go by lengths, so how full its batches are isn't known; "
            "bucket(...) and pack(...) go by them"
        )


class FixedBatches(BatchPlan):
    """So many records a batch, in the plan's order.

    Args:
        plan: Where the records come from.
        size: Records a batch.
        drop_remainder: Leave out the last batch of an epoch if it has fewer.

    Raises:
        PlanError: If the size is less than 1.

    Example:
        >>> from headrace.plan import FixedBatches, Leaf
        >>> batches = FixedBatches(Leaf(0, 10), size=4)
        >>> [rows.ids[0].tolist() for rows in batches.window(epoch=0, index=0)]
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    """

    def __init__(self, plan: Plan, size: int, drop_remainder: bool = False) -> None:
        self.plan = plan
        self.size = whole_of("batch", "size", size, 1, MAX_LENGTH)
        self.drop_remainder = drop_remainder
        self._per_window = max(1, _WINDOW_RECORDS // self.size)
        n = plan.length
        self._records = n if n is None or not drop_remainder else n - n % self.size

    def num_batches(self, epoch: int) -> int | None:
        """The plan's records by the size."""
        return None if self._records is None else -(-self._records // self.size)

    def num_windows(self, epoch: int) -> int | None:
        """About 64K records make a window."""
        batches = self.num_batches(epoch)
        return None if batches is None else -(-batches // self._per_window)

    @property
    def per_window(self) -> int:
        """Batches of a window, but for the last one of an epoch."""
        return self._per_window

    def skip(self, epoch: int, index: int, batch: int, count: int) -> tuple[int, int, int]:
        """By arithmetic."""
        total = self.num_batches(epoch)
        return skip_evenly(self._per_window, total, index, batch, count)

    def is_over(self, epoch: int, index: int, batch: int) -> bool:
        """By arithmetic."""
        total = self.num_batches(epoch)
        return total is not None and index * self._per_window + batch >= total

    @property
    def drops(self) -> bool:
        """The last batch of an epoch, if that was asked for."""
        return self.drop_remainder

    def _window(self, epoch: int, index: int) -> Window:
        per_window = self._per_window * self.size
        start = index * per_window
        stop = start + per_window
        return _Run(self.plan, epoch, start, stop if self._records is None else min(stop, self._records), self.size)


def skip_evenly(per_window: int, total: int | None, index: int, batch: int, count: int) -> tuple[int, int, int]:
    """What `BatchPlan.skip` gives where each window has as many batches.

    Args:
        per_window: So many.
        total: Batches of the epoch, or None if they have no end.
        index: A window.
        batch: Batches of it that come before.
        count: Batches to go on.
    """
    if not count:
        return index, batch, 0
    before = index * per_window + batch
    reached = before + count if total is None else max(min(before + count, total), before)
    if reached == before:
        return index, batch, count
    index = (reached - 1) // per_window  # a place after a window's last batch is still in that window
    return index, reached - index * per_window, count - (reached - before)


class Blocks(BatchPlan):
    """Blocks of positions that are read and filtered as one piece: how many batches they give, the data decide.

    A block is a window with one batch, the records that stand in it before any is left out.

    Args:
        plan: Where the records come from.
        size: Positions a block.
        span: Positions that are bucketed together, of which no block is in two; None takes the whole epoch.

    Raises:
        PlanError: If the size is less than 1.

    Example:
        >>> from headrace.plan import Blocks, Leaf
        >>> Blocks(Leaf(0, 10), size=4).window(epoch=0, index=2).rows(0).ids.tolist()
        [[8, 9]]
    """

    def __init__(self, plan: Plan, size: int, span: int | None = None) -> None:
        self.plan = plan
        self.size = whole_of("filter", "block", size, 1, MAX_LENGTH)
        self.span = None if span is None else min(whole_of("bucket", "window", span, 1), MAX_LENGTH)
        self._per_span = None if self.span is None else -(-self.span // self.size)

    def num_batches(self, epoch: int) -> int | None:
        """Nobody knows before the data are read."""
        return None

    def num_windows(self, epoch: int) -> int | None:
        """The plan's records by the size."""
        if self.plan.length is None:
            return None
        if self.span is None or self._per_span is None:
            return -(-self.plan.length // self.size)
        spans, rest = divmod(self.plan.length, self.span)
        return spans * self._per_span - (-rest // self.size)

    def span_of(self, index: int) -> int:
        """The number of the span that a block is in."""
        return 0 if self._per_span is None else index // self._per_span

    def first_of(self, span: int) -> int:
        """The first block of a span."""
        return span * (self._per_span or 1)

    def _window(self, epoch: int, index: int) -> Window:
        start, length = index * self.size, self.plan.length
        stop = start + self.size
        if self.span is not None and self._per_span is not None:
            span, number = divmod(index, self._per_span)
            start = span * self.span + number * self.size
            stop = min(start + self.size, (span + 1) * self.span)
        return _Run(self.plan, epoch, start, stop if length is None else min(stop, length), self.size)


class _Run(Window):
    """Consecutive batches, each located when it is asked for: nothing is gained by doing it for all at once."""

    def __init__(self, plan: Plan, epoch: int, start: int, stop: int, size: int) -> None:
        self._plan = plan
        self._epoch = epoch
        self._start = start
        self._stop = stop
        self._size = size

    def __len__(self) -> int:
        return -(-(self._stop - self._start) // self._size)

    def _rows(self, j: int) -> Rows:
        start = self._start + j * self._size
        return self._plan.locate(self._epoch, np.arange(start, min(start + self._size, self._stop)))


class PlannedWindow(Window):
    """Batches that are known already: slices of one array of records.

    Args:
        rows: The records of all batches, one batch after the other.
        offsets: Where each batch starts, and the end of the last: shape `(batches + 1,)`.
    """

    def __init__(self, rows: Rows, offsets: NDArray[np.int64]) -> None:
        self._all = rows
        self._offsets = offsets.tolist()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def _rows(self, j: int) -> Rows:
        return self._all.take(slice(self._offsets[j], self._offsets[j + 1]))
