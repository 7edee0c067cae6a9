"""The steps that change whole batches: padding, and a function of the user's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.batch.columns import Ragged
from headrace.batch.pad import Side, pad
from headrace.batch.tree import Tree, child, is_branch, rebuild
from headrace.clock import Clock
from headrace.dataset.node import BatchNode, BatchReader, BatchRecords, Numbering, arguments, function_name
from headrace.errors import DataError, PlanError, add_note
from headrace.plan import Rows


@dataclass(frozen=True, slots=True)
class Padding:
    """How columns are filled up.

    Attributes:
        value: What to fill with: one value, or one by column.
        columns: The columns to pad; None pads every ragged one.
        side: After the row, or before it.
        multiple_of: Widths are rounded up to a multiple of this.
        width: Items a row, or None for those of the batch's longest.
        lengths: Whether the lengths are given beside each padded column.
    """

    value: float | Mapping[str, float]
    columns: tuple[str, ...] | None
    side: Side
    multiple_of: int
    width: int | None
    lengths: bool

    def value_of(self, name: str) -> float:
        """What a column is filled with."""
        return self.value.get(name, 0) if isinstance(self.value, Mapping) else self.value


@dataclass(frozen=True, slots=True)
class Pad(BatchNode):
    """Ragged columns made arrays, with their lengths beside them."""

    parent: BatchNode
    padding: Padding

    @property
    def parents(self) -> tuple[BatchNode, ...]:
        """The step before."""
        return (self.parent,)

    def describe(self) -> str:
        """Names what differs from the defaults."""
        p = self.padding
        words = arguments(
            value=dict(p.value) if isinstance(p.value, Mapping) else p.value,
            columns=p.columns and list(p.columns),
            side=None if p.side == "right" else p.side,
            multiple_of=None if p.multiple_of == 1 else p.multiple_of,
            width=p.width,
            lengths=None if p.lengths else False,
        )
        return f"pad({words})"

    def build(self, numbering: Numbering) -> BatchRecords:
        """Keeps the batches and wraps the reader."""
        built = self.parent.build(numbering)
        names = built.reader.column_names()
        named = [*(self.padding.columns or ())]
        named += list(self.padding.value) if isinstance(self.padding.value, Mapping) else []
        for name in named:
            if names is not None and name not in names:
                raise PlanError(f"pad names column {name!r}; the columns are {names}")
        return replace(built, reader=PadReader(built.reader, self.padding))


@dataclass(frozen=True, slots=True)
class MapBatches(BatchNode):
    """Each batch replaced by what a function makes of it."""

    parent: BatchNode
    fn: Callable[[Any], Any]

    @property
    def parents(self) -> tuple[BatchNode, ...]:
        """The step before."""
        return (self.parent,)

    def describe(self) -> str:
        """Names the function, not its code."""
        return f"map({function_name(self.fn)})"

    def build(self, numbering: Numbering) -> BatchRecords:
        """Keeps the batches and wraps the reader."""
        built = self.parent.build(numbering)
        return replace(built, reader=MapBatchesReader(built.reader, self.fn))


class ChangingBatchReader(BatchReader):
    """Reads batches through another reader and changes each."""

    parent: BatchReader

    @abstractmethod
    def change(self, tree: Tree, rows: Rows, clock: Clock) -> Tree:
        """What becomes of a batch; `rows` are its records."""

    def read(self, rows: Rows, clock: Clock) -> Tree:
        """The parent's batch, changed."""
        return self.change(self.parent.read(rows, clock), rows, clock)

    def read_none(self, example: Rows, clock: Clock) -> Tree:
        """The parent's batch of no records, changed."""
        return self.change(self.parent.read_none(example, clock), example.take(slice(0, 0)), clock)

    def finish(self, tree: Tree, rows: Rows, clock: Clock) -> Tree:
        """The parent's batch of these records, changed."""
        return self.change(self.parent.finish(tree, rows, clock), rows, clock)

    def finish_none(self, tree: Tree, example: Rows, clock: Clock) -> Tree:
        """The parent's batch of no records, changed."""
        return self.change(self.parent.finish_none(tree, example, clock), example.take(slice(0, 0)), clock)


class PadReader(ChangingBatchReader):
    """Pads the ragged columns of each batch."""

    def __init__(self, parent: BatchReader, padding: Padding) -> None:
        super().__init__(parent)
        self.padding = padding

    def change(self, tree: Tree, rows: Rows, clock: Clock) -> Tree:
        """Pads the batch."""
        with clock.stage("pad"):
            return self._pad(tree, "", rows)

    def _pad(self, tree: Tree, name: str, rows: Rows) -> Tree:
        if isinstance(tree, dict):
            padded = {}
            for key, part in tree.items():
                full = child(name, key)
                padded[key] = self._pad(part, full, rows)
                if isinstance(padded[key], tuple) and isinstance(part, Ragged):
                    beside = f"{key}_len"
                    if beside in tree:
                        raise DataError(
                            f"pad: the lengths of column {full!r} would replace the column {child(name, beside)!r} "
                            "that the records have; name one of the two otherwise, or leave the lengths out: "
                            "pad(…, lengths=False)"
                        )
                    padded[key], padded[beside] = padded[key]
            return padded
        if is_branch(tree):
            return rebuild(tree, [self._pad(part, child(name, i), rows) for i, part in enumerate(tree)])
        return self._pad_column(tree, name, rows)

    def _pad_column(self, column: Any, name: str, rows: Rows) -> Any:
        p = self.padding
        if not isinstance(column, Ragged):
            if p.columns is not None and name in p.columns:
                raise DataError(
                    f"pad: column {name!r} is {type(column).__name__}, expected Ragged; "
                    f"say so where batches are made: batch(…, ragged=[{name!r}])"
                )
            return column
        if p.columns is not None and name not in p.columns:
            return column
        lengths = column.lengths
        if p.width is not None and len(lengths) and int(lengths.max()) > p.width:
            row = int(lengths.argmax())
            raise DataError(
                f"pad: column {name!r} of {self.where(rows.ids[:, row])} has {int(lengths[row])} items, more than "
                f"the width of {p.width}; cut it (tokens(max_length=…)), filter_length, or widen"
            )
        try:
            array = pad(column, p.value_of(name), side=p.side, width=p.width, multiple_of=p.multiple_of)
        except ValueError as error:
            raise DataError(f"column {name!r}: {error}") from None
        return (array, lengths) if p.lengths else array


class MapBatchesReader(ChangingBatchReader):
    """Calls a function with each batch."""

    def __init__(self, parent: BatchReader, fn: Callable[[Any], Any]) -> None:
        super().__init__(parent)
        self.fn = fn

    def change(self, tree: Tree, rows: Rows, clock: Clock) -> Tree:
        """One call for the batch; an error of the function's own names the batch's records in a note."""
        with clock.stage("map batches"):
            try:
                return self.fn(tree)
            except Exception as error:
                note = f"headrace: in map({function_name(self.fn)}) of a batch of {len(rows)} records"
                if len(rows):
                    note += f", the first {self.where(rows.ids[:, 0])}, the last {self.where(rows.ids[:, -1])}"
                add_note(error, note)
                raise


def as_columns(columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Names of columns as a tuple; one name may be given by itself.

    Raises:
        PlanError: If they aren't texts.
    """
    if columns is None:
        return None
    names: tuple[object, ...] = (columns,)
    if not isinstance(columns, str) and isinstance(columns, Iterable):
        names = tuple(columns)
    for name in names:
        if not isinstance(name, str):
            raise PlanError(
                f"columns are named by texts, got {name!r:.60}; those of tuples are '0', '1', …, single values are ''"
            )
    return tuple(map(str, names))
