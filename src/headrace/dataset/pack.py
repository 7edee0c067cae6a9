"""The step that packs several records into each row of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.column import Column
from headrace.batch.columns import Ragged
from headrace.batch.tree import Tree, leaves
from headrace.clock import Clock
from headrace.dataset.batch import CollateReader
from headrace.dataset.lengths import measure, measured_lengths
from headrace.dataset.measured import check_columns, measured_batches
from headrace.dataset.node import (
    BatchNode,
    BatchRecords,
    Node,
    Numbering,
    Packing,
    Reader,
    Records,
    arguments,
)
from headrace.errors import DataError, PlanError
from headrace.plan import Leaf, PackBatches, PackedRows, Plan, Rows
from headrace.plan.pack import Overlong, Strategy
from headrace.plan.windowed import Lengths

SEGMENTS, POSITIONS = "segment_ids", "position_ids"
BARE = "tokens"
"""The name of the packed column where records are bare rows, without a name."""


@dataclass(frozen=True, slots=True)
class Pack(BatchNode):
    """Rows of one length, each with several records in it.

    Attributes:
        parent: The step before.
        length: Items a row.
        batch_size: Rows a batch.
        strategy: How rows are chosen.
        columns: The columns that are packed; None takes all whose lengths are known.
        overlong: What becomes of records that are longer than a row.
        window: Records that are packed together; None is the whole epoch.
        drop_remainder: Leave out batches that have fewer rows.
        value: What is put where no record is.
    """

    parent: Node
    length: int
    batch_size: int
    strategy: Strategy
    columns: tuple[str, ...] | None
    overlong: Overlong
    window: int | None
    drop_remainder: bool
    value: float

    @property
    def parents(self) -> tuple[Node, ...]:
        """The step before."""
        return (self.parent,)

    def describe(self) -> str:
        """Names all parameters."""
        words = arguments(
            batch_size=self.batch_size,
            strategy=self.strategy,
            columns=self.columns and list(self.columns),
            overlong=self.overlong,
            window=self.window,
            value=self.value or None,
        )
        return f"pack({self.length}, {words}{', drop_remainder' if self.drop_remainder else ''})"

    def build(self, numbering: Numbering) -> BatchRecords:
        """Plans rows by the lengths that the index knows, or packs records that have been read."""
        built = self.parent.build(numbering)
        lengths = PackLengths(built.reader, self.columns, self.length, self.strategy, self.overlong)
        known = built.sifted is None
        names = self.columns
        if known and built.plan.length != 0:
            known = bool(found := lengths.known(built.plan.locate(0, np.zeros(1, np.int64))))
            names = names or tuple(found)
        exact = not _divides(self.strategy, self.overlong) and self.overlong != "cut"
        reader = PackReader(built.reader, names or (), self.length, self.value, exact)
        if not known:
            return self._measured(built, reader, lengths, is_whole=not numbering.streams)
        return BatchRecords(self._plan(built.plan, lengths, self.window), reader)

    def _plan(self, plan: Plan, lengths: Lengths, window: int | None) -> PackBatches:
        return PackBatches(
            plan,
            lengths,
            length=self.length,
            batch_size=self.batch_size,
            strategy=self.strategy,
            overlong=self.overlong,
            window=window,
            drop_remainder=self.drop_remainder,
        )

    def _measured(self, built: Records, reader: PackReader, lengths: PackLengths, is_whole: bool) -> BatchRecords:
        check_columns("pack names", self.columns or (), reader)
        return measured_batches(
            "pack",
            built,
            reader,
            Packing(lengths, self._arrange),
            window=self.window,
            drop_remainder=self.drop_remainder,
            is_whole=is_whole,
            advice="cut before the filter",
        )

    def _arrange(self, lengths: NDArray[np.integer]) -> Iterator[PackedRows]:
        """Packs the records of one window."""
        plan = self._plan(Leaf(0, len(lengths)), lambda rows: lengths[rows.ids[0]], None)
        if len(lengths):
            yield from plan.window(0, 0)  # type: ignore[misc]  # whose rows are packed ones


def _divides(strategy: Strategy, overlong: Overlong) -> bool:
    return strategy == "concat" or overlong == "split"


class PackLengths:
    """The lengths of records that are to be packed: one for all columns."""

    def __init__(
        self, reader: Reader, columns: tuple[str, ...] | None, length: int, strategy: Strategy, overlong: Overlong
    ) -> None:
        self.reader = reader
        self.columns = columns
        self.limit = length if overlong == "raise" and strategy != "concat" else None

    def known(self, rows: Rows) -> dict[str, NDArray[np.int64]]:
        """The lengths of each column that the index knows; none, if it doesn't know all that are packed."""
        found = self.reader.lengths(rows)
        if self.columns is None or list(found) == [""]:  # the latter were given with the records, without a name
            return found
        return {name: found[name] for name in self.columns} if set(self.columns) <= set(found) else {}

    def __call__(self, rows: Rows) -> NDArray[np.integer]:
        """One length for each row, shape `(rows,)`."""
        return self._one(self.known(rows), rows)

    def of(self, rows: Rows, tree: Tree) -> NDArray[np.integer]:
        """As when called, of records that have been read: the index's where it knows them, else those of their rows."""
        found = self.known(rows)
        if found:
            return self._one(found, rows)
        named, advice = self.columns or (), "name others by columns=…"
        return self._one(measured_lengths("pack", named, self.reader, rows, tree, advice), rows)

    def _one(self, found: dict[str, NDArray[np.int64]], rows: Rows) -> NDArray[np.integer]:
        (name, lengths), *others = found.items()
        for other, own in others:
            if not np.array_equal(lengths, own):
                row = int(np.flatnonzero(lengths != own)[0])
                raise DataError(
                    f"pack puts columns of the same length side by side, and {self.reader.where(rows.ids[:, row])} has "
                    f"{int(lengths[row])} items in {name!r}, {int(own[row])} in {other!r}; say which by columns=…"
                )
        if self.limit is not None and len(lengths) and int(lengths.max()) > self.limit:
            row = int(lengths.argmax())
            raise DataError(
                f"pack: {self.reader.where(rows.ids[:, row])} has {int(lengths[row])} items, more than a row of "
                f"{self.limit}; leave it out or divide it by overlong='drop', 'cut' or 'split'"
            )
        return lengths


class PackReader(CollateReader):
    """Packs the records of a batch into its rows."""

    def __init__(self, parent: Reader, columns: Sequence[str], length: int, value: float, exact: bool) -> None:
        super().__init__(parent, columns, drop_remainder=False)
        self.columns = tuple(columns)
        self.length = length
        self.value = value
        self.exact = exact  # whether each piece is a whole record

    def finish(self, tree: Tree, rows: Rows, clock: Clock) -> Tree:
        """Columns of shape `(rows, length)`, with the number of the record and the place in it beside them."""
        assert isinstance(rows, PackedRows)
        names = self.columns or tuple(measure(tree))
        columns = dict(leaves(CollateReader(self.parent, names, False).finish(tree, rows, clock)))
        with clock.stage("pack"):
            return self._pack(names, columns, rows)

    def finish_none(self, tree: Tree, example: Rows, clock: Clock) -> Tree:
        """The columns of a record, without a row."""
        return {name: column[:0] for name, column in self.finish(tree, example, clock).items()}

    def _pack(self, names: tuple[str, ...], columns: dict[str, Any], rows: PackedRows) -> dict[str, NDArray[Any]]:
        shape = (rows.num_rows, self.length)
        starts = np.cumsum(rows.counts) - rows.counts
        first = rows.rows.searchsorted(rows.rows)  # of the pieces of each one's row
        into = rows.rows * self.length + starts - starts[first]
        within = np.arange(int(rows.counts.sum())) - np.repeat(starts, rows.counts)
        places = within + np.repeat(into, rows.counts)
        packed: dict[str, NDArray[Any]] = {}
        for name in names:
            items = self._items(name, columns.get(name), rows, within)
            filled = np.full((rows.num_rows * self.length, *items.shape[1:]), self.value, items.dtype)
            filled[places] = items
            packed[name or BARE] = filled.reshape(*shape, *items.shape[1:])
        numbers = np.arange(len(rows)) - first + 1
        for name, values in ((SEGMENTS, np.repeat(numbers, rows.counts)), (POSITIONS, within)):
            if name in packed:
                raise DataError(f"pack gives a column {name!r}, and the records have one; name theirs otherwise")
            filled = np.zeros(rows.num_rows * self.length, np.int32)
            filled[places] = values
            packed[name] = filled.reshape(shape)
        return packed

    def _items(self, name: str, column: Any, rows: PackedRows, within: NDArray[np.int64]) -> NDArray[Any]:
        """The items of all pieces, one piece after another."""
        if not isinstance(column, Ragged) or isinstance(column.values, Column):
            kind = "none" if column is None else getattr(column, "row_type", type(column).__name__)
            raise DataError(
                f"pack needs column {name!r} with rows of numbers of varying length, got {kind}; say which columns are "
                "packed by columns=…"
            )
        lengths = column.lengths
        ends = rows.begins + rows.counts
        wrong = np.flatnonzero(lengths != ends if self.exact else lengths < ends)
        if not len(wrong) and not rows.begins.any() and np.array_equal(lengths, ends):
            items: NDArray[Any] = column.values[column.offsets[0] : column.offsets[-1]]
            return items
        if len(wrong):
            row, least = int(wrong[0]), "" if self.exact else " at least"
            raise DataError(
                f"pack: column {name!r} of {self.where(rows.ids[:, row])} has {int(lengths[row])} items, and its "
                f"length was said to be {int(ends[row])}{least}; lengths and records must agree"
            )
        taken: NDArray[Any] = column.values[within + np.repeat(column.offsets[:-1] + rows.begins, rows.counts)]
        return taken


def check_value(value: Any) -> float:
    """A number to fill rows with.

    Raises:
        PlanError: If it is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise PlanError(f"pack: value is a number, got {value!r:.60}")
    return value.item() if isinstance(value, np.generic) else value
