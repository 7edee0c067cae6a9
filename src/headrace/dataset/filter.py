"""The step that leaves out records by what is in them, which is known only when they have been read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.collate import collate
from headrace.batch.columns import Objects
from headrace.batch.tree import Tree, records, take
from headrace.clock import Clock
from headrace.dataset.node import (
    FilteredSlice,
    Node,
    Numbering,
    Reader,
    Records,
    WrappingReader,
    arguments,
    function_name,
)
from headrace.errors import DataError, PlanError, add_note
from headrace.plan import Rows

_LEAST_PATIENCE = 1024


@dataclass(frozen=True, slots=True)
class Filter(Node):
    """Records for which a function says yes.

    Attributes:
        parent: The step before.
        fn: Takes a record and gives a bool, or takes columns and gives an array of them.
        batched: Which of the two.
        block: Positions that are read and filtered as one piece.
    """

    parent: Node
    fn: Callable[[Any], Any]
    batched: bool
    block: int

    @property
    def parents(self) -> tuple[Node, ...]:
        """The step before."""
        return (self.parent,)

    def describe(self) -> str:
        """Names the function, not its code, and the block, which positions are counted in."""
        return f"filter({function_name(self.fn)}, {arguments(batched=self.batched or None, block=self.block)})"

    def build(self, numbering: Numbering) -> Records:
        """Keeps the order, in which all records still stand, and wraps the reader."""
        built = self.parent.build(numbering).unsliced("filter")
        block = self.block if built.sifted is None else min(self.block, built.sifted.block)
        counts = [source.num_records for source in numbering.sources]
        known = [count for count in counts if count is not None]
        # Twice all there is: each record has then been seen once at least, in whatever order they come.
        patience = max(2 * sum(known), _LEAST_PATIENCE) if len(known) == len(counts) else None
        return replace(
            built, reader=FilterReader(built.reader, self.fn, self.batched), sifted=FilteredSlice(block, patience)
        )


class FilterReader(WrappingReader):
    """Reads records and, in `sift`, leaves out those for which a function says no."""

    def __init__(self, parent: Reader, fn: Callable[[Any], Any], batched: bool) -> None:
        super().__init__(parent)
        self.fn = fn
        self.batched = batched

    def read(self, rows: Rows, clock: Clock) -> Tree:
        """The parent's records: all that are asked for."""
        return self.parent.read(rows, clock)

    def sift(self, rows: Rows, clock: Clock) -> tuple[Tree, NDArray[np.int64]]:
        """Asks the function about each record that the filters below leave."""
        tree, kept = self.parent.sift(rows, clock)
        if not len(kept):
            return tree, kept
        with clock.stage("filter"):
            rows = rows.take(kept)
            mask = self._of_columns(tree, rows) if self.batched else self._of_each(tree, rows)
            if mask.all():
                return tree, kept
            return take(tree, np.flatnonzero(mask)), kept[mask]

    def _of_each(self, tree: Tree, rows: Rows) -> NDArray[np.bool_]:
        mask = np.zeros(len(rows), bool)
        for i, record in enumerate(records(tree)):
            try:
                answer = self.fn(record)
                if isinstance(answer, (bool, np.bool_)) or (answer is not None and getattr(answer, "ndim", None) == 0):
                    mask[i] = bool(answer)
                    continue
            except Exception as error:
                add_note(error, f"headrace: in filter({function_name(self.fn)}) of {self.where(rows.ids[:, i])}")
                raise
            raise DataError(
                f"filter({function_name(self.fn)}) of {self.where(rows.ids[:, i])}: expected True or False, got "
                f"{type(answer).__name__} {answer!r:.60}; let the function return whether the record is kept"
            )
        return mask

    def _of_columns(self, tree: Tree, rows: Rows) -> NDArray[np.bool_]:
        first, last = self.where(rows.ids[:, 0]), self.where(rows.ids[:, -1])
        try:
            columns = collate(tree, where=lambda i: self.where(rows.ids[:, i])) if isinstance(tree, Objects) else tree
        except DataError as error:
            raise DataError(
                f"filter(batched=True) needs columns, and these records make none; use batched=False ({error})"
            ) from None
        try:
            mask = np.asarray(self.fn(columns))
        except Exception as error:
            what = f"{len(rows)} records, the first {first}, the last {last}"
            add_note(error, f"headrace: in filter({function_name(self.fn)}) of {what}")
            raise
        if mask.shape != (len(rows),) or mask.dtype != bool:
            raise DataError(
                f"filter({function_name(self.fn)}, batched=True) of the records from {first} to {last}: expected an "
                f"array of {len(rows)} bools, got {mask.dtype} of shape {mask.shape}"
            )
        return mask

    def lengths(self, rows: Rows) -> dict[str, NDArray[np.int64]]:
        """The parent's."""
        return self.parent.lengths(rows)

    def column_names(self) -> list[str] | None:
        """The parent's."""
        return self.parent.column_names()


class Patience:
    """Counts records that are left out in a row, so that what has no end can't be gone through for ever in vain."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._in_vain = 0

    def saw(self, records: int, kept: int) -> None:
        """Of so many records the filters left some.

        Raises:
            PlanError: If too many have been left out now.
        """
        self._in_vain = 0 if kept else self._in_vain + records
        if self._limit is not None and self._in_vain >= self._limit:
            raise PlanError(
                f"of {self._in_vain} records in a row the filter left none, and the dataset is repeated without end: "
                "nothing would ever come; look at what the function answers, as by list(data.take(10)) before the "
                "filter"
            )
