"""Rows of one length, each packed with several records, so that next to nothing is padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.checks import one_of, whole_of
from headrace.errors import PlanError
from headrace.plan.base import MAX_LENGTH, Plan
from headrace.plan.batches import Window
from headrace.plan.rows import Rows
from headrace.plan.windowed import Lengths, WindowedBatches

Strategy = Literal["first-fit", "best-fit", "concat"]
Overlong = Literal["raise", "split", "cut", "drop"]

_MAX_ROW = (1 << 31) - 1


@dataclass(frozen=True, slots=True, eq=False)
class PackedRows(Rows):
    """Pieces of records, and where each goes in a batch of rows. They are sorted by row.

    Attributes:
        rows: The row of the batch that each piece is in, int64.
        begins: The first item of the record that is in the piece, int64.
        counts: Items of the piece, int64.
        num_rows: Rows of the batch.
    """

    rows: NDArray[np.int64]
    begins: NDArray[np.int64]
    counts: NDArray[np.int64]
    num_rows: int

    def take(self, index: slice | NDArray[np.integer]) -> PackedRows:
        """Some of the pieces, each in the row where it was."""
        return PackedRows(
            self.ids[:, index], self.passes[index], self.rows[index], self.begins[index], self.counts[index],
            self.num_rows,
        )  # fmt: skip

    def of(self, rows: Rows) -> PackedRows:
        """The same pieces, of records that were numbered by their places among some others."""
        places = self.ids[0]
        return PackedRows(rows.ids[:, places], rows.passes[places], self.rows, self.begins, self.counts, self.num_rows)

    def own(self, rank: int, world_size: int) -> NDArray[np.int64]:
        """The places of the pieces in a rank's rows."""
        return np.flatnonzero(self.rows % world_size == rank)

    def share(self, rank: int, world_size: int) -> PackedRows:
        """A rank's part: every `world_size`-th row, with all that is packed into it."""
        if world_size == 1:
            return self
        own = self.take(self.own(rank, world_size))
        rows = max(0, -(-(self.num_rows - rank) // world_size))
        return PackedRows(own.ids, own.passes, own.rows // world_size, own.begins, own.counts, rows)


def check_pack(length: Any, batch_size: Any, strategy: Any, overlong: Any) -> tuple[int, int]:
    """What rows are asked for: their length and their number in a batch, as Python's own numbers.

    Raises:
        PlanError: If one of the arguments can't be.
    """
    one_of("pack", "strategy", strategy, Strategy)
    one_of("pack", "overlong", overlong, Overlong)
    return whole_of("pack", "length", length, 1, _MAX_ROW), whole_of("pack", "batch_size", batch_size, 1)


class PackBatches(WindowedBatches):
    """Batches of rows into which records are packed.

    The plan's records are taken in order, window by window. `"first-fit"` puts each into the first row that has room
    for it, `"best-fit"` into the one that it leaves the least room in (of several the first); if none has room, a new
    row is begun. `"concat"` puts all records of the window one after another and cuts that into rows. Rows come out in
    the order in which they were begun, so many a batch. Nothing is carried over to the next window. Records without
    items join the record before them.

    Args:
        plan: Where the records come from.
        lengths: Gives the lengths of records, as for `BucketBatches`.
        length: Items a row.
        batch_size: Rows a batch.
        strategy: How rows are chosen.
        overlong: What becomes of records that are longer than a row: `"raise"` refuses them, `"split"` makes as many
            pieces of them as it takes, `"cut"` keeps their beginning, `"drop"` leaves them out. With `"concat"` no
            record is too long, and `"raise"` means `"split"`.
        window: Records that are packed together; None takes the whole epoch.
        drop_remainder: Leave out batches that have fewer rows, at the end of a window.

    Raises:
        PlanError: If the arguments are out of range, or (from `window` and `num_batches`) if a record is too long or
            `lengths` gives something else than one length for each record.

    Example:
        >>> from headrace.plan import Leaf, PackBatches
        >>> packed = PackBatches(Leaf(0, 6), lambda rows: 2 + rows.ids[0] % 3, length=6, batch_size=2, window=None)
        >>> [(rows.ids[0].tolist(), rows.rows.tolist()) for rows in packed.window(epoch=0, index=0)]
        [([0, 1, 2, 3], [0, 0, 1, 1]), ([4, 5], [0, 1])]
    """

    def __init__(
        self,
        plan: Plan,
        lengths: Lengths,
        *,
        length: int,
        batch_size: int,
        strategy: Strategy = "first-fit",
        overlong: Overlong = "raise",
        window: int | None,
        drop_remainder: bool = False,
    ) -> None:
        super().__init__("pack", plan, lengths, window)
        self.row_length, batch_size = check_pack(length, batch_size, strategy, overlong)
        self.batch_size = min(batch_size, MAX_LENGTH)
        self.strategy = strategy
        self.overlong: Overlong = "split" if strategy == "concat" and overlong == "raise" else overlong
        self.drop_remainder = drop_remainder

    @property
    def divides(self) -> bool:
        """Whether a record may come in several pieces."""
        return self.strategy == "concat" or self.overlong == "split"

    @property
    def drops(self) -> bool:
        """Whether records may be left out."""
        return self.drop_remainder or self.overlong == "drop"

    def _count(self, rows: Rows) -> int:
        return len(self._batches_of(self._pack(rows)))

    def _window(self, epoch: int, index: int) -> _PackedWindow:
        packed = self._pack(self._records(epoch, index))
        return _PackedWindow(packed, self._batches_of(packed))

    def _batches_of(self, packed: PackedRows) -> list[tuple[int, int]]:
        """The first row of each batch, and the row after its last."""
        size, rows = self.batch_size, packed.num_rows
        whole = rows - rows % size if self.drop_remainder else rows
        return [(start, min(start + size, rows)) for start in range(0, whole, size)]

    def _pack(self, rows: Rows) -> PackedRows:
        lengths = self._checked_lengths(rows).astype(np.int64)
        longest = int(lengths.max(initial=0))
        if longest > self.row_length and self.overlong == "raise":
            raise PlanError(f"pack: a record has {longest} items, a row {self.row_length}; say overlong='split' or so")
        places = np.arange(len(rows))
        if longest > self.row_length and self.overlong == "drop":
            places = np.flatnonzero(lengths <= self.row_length)
            lengths = lengths[places]
        elif self.overlong == "cut":
            lengths = np.minimum(lengths, self.row_length)
        if self.strategy == "concat":
            pieces, begins, counts, bins = _cut_through(lengths, self.row_length)
            order = np.arange(len(pieces))  # rows ascend already
        else:
            pieces, begins, counts = _split(lengths, self.row_length)
            pack = _native.pack_first_fit if self.strategy == "first-fit" else _native.pack_best_fit
            bins = pack(np.ascontiguousarray(counts, np.int32), self.row_length)
            order = np.argsort(bins, kind="stable")
        own = rows.take(places[pieces[order]])
        num_rows = int(bins.max(initial=-1)) + 1
        return PackedRows(own.ids, own.passes, bins[order], begins[order], counts[order], num_rows)

    def places(self, epoch: int, index: int) -> tuple[int, int]:
        """Items in the rows of a window's batches, and places for items there."""
        packed = self._pack(self._records(epoch, index))
        batches = self._batches_of(packed)
        rows = batches[-1][1] if batches else 0
        filled = int(packed.counts[: packed.rows.searchsorted(rows)].sum())
        return filled, rows * self.row_length


class _PackedWindow(Window):
    def __init__(self, packed: PackedRows, batches: list[tuple[int, int]]) -> None:
        self._packed = packed
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def _rows(self, j: int) -> PackedRows:
        start, stop = self._batches[j]
        packed = self._packed
        own = packed.take(slice(*packed.rows.searchsorted([start, stop]).tolist()))
        return PackedRows(own.ids, own.passes, own.rows - start, own.begins, own.counts, stop - start)


_Pieces = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _split(lengths: NDArray[np.int64], row: int) -> _Pieces:
    """Pieces that each fit into a row: the record of each, its first item, and its number of items."""
    if int(lengths.max(initial=0)) <= row:
        return np.arange(len(lengths)), np.zeros(len(lengths), np.int64), lengths
    number = np.maximum(-(-lengths // row), 1)
    pieces = np.repeat(np.arange(len(lengths)), number)
    begins = (np.arange(len(pieces)) - np.repeat(np.cumsum(number) - number, number)) * row
    return pieces, begins, np.minimum(lengths[pieces] - begins, row)


def _cut_through(lengths: NDArray[np.int64], row: int) -> tuple[*_Pieces, NDArray[np.int64]]:
    """All records one after another, cut wherever a row ends; and the row of each piece."""
    ends = np.cumsum(lengths)
    starts = ends - lengths
    # A record without items joins the one before it, also where that ends a row.
    empty = lengths == 0
    first = np.where(empty, np.maximum(ends - 1, 0), starts) // row
    last = np.maximum(ends - 1, 0) // row
    number = last - first + 1
    pieces = np.repeat(np.arange(len(lengths)), number)
    rows = np.repeat(first, number) + np.arange(len(pieces)) - np.repeat(np.cumsum(number) - number, number)
    start = np.maximum(starts[pieces], rows * row)
    start = np.where(empty[pieces], starts[pieces], start)
    stop = np.minimum(ends[pieces], (rows + 1) * row)
    return pieces, start - starts[pieces], np.maximum(stop - start, 0), rows
