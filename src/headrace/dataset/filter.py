"""The step that leaves out records by what is in them, which is known only when they have been read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.collate import collate
from headrace.batch.columns import Objects
from headrace.batch.tree import Tree, records, take
from headrace.clock import Clock
from headrace.dataset.node import (
    Node,
    Numbering,
    Reader,
    Records,
    Sifted,
    WrappingReader,
    arguments,
    function_name,
)
from headrace.errors import DataError, PlanError, add_note
from headrace.plan import Rows

_LEAST_PATIENCE = 1024
_LOOKED_AT = 64  # records that are read at once for whoever looks at a dataset


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
        return replace(built, reader=FilterReader(built.reader, self.fn, self.batched), sifted=Sifted(block, patience))


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


class Survivors:
    """Iterates the records of an epoch that filters leave, or those of a slice of them, from any place on.

    Args:
        built: The records.
        streams: Whether there are streams among their sources, which may end.
        epoch: Which epoch.
        place: What `state_dict` gave; None is the beginning.
    """

    def __init__(self, built: Records, streams: bool, epoch: int = 0, place: dict[str, int] | None = None) -> None:
        sifted = built.sifted or Sifted(_LOOKED_AT, None)
        endless = built.plan.length is None and not streams
        self._built = built
        self._epoch = epoch
        self._ends = (sifted.start, sifted.stop, sifted.step)
        self._patience = Patience(sifted.patience if endless else None)
        place = {"position": 0, "left": 0, "given": 0} if place is None else place
        self._position = place["position"]  # where the block begins
        self._left = place["left"]  # records that filters left before it
        self._given = place["given"]  # records left in it that have been passed
        self._block: tuple[list[Any], int] | None = None  # what is left of it, and the position after it; or -1

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        start, stop, step = self._ends
        while stop is None or self._left + self._given < stop:
            if self._block is None:
                self._block = self._read()
            held, following = self._block
            if self._given < len(held):
                number, self._given = self._left + self._given, self._given + 1
                if number >= start and (number - start) % step == 0:
                    return held[self._given - 1]
            elif following < 0:
                break
            else:
                self._position, self._left, self._given = following, self._left + len(held), 0
                self._block = None
        raise StopIteration

    def _read(self) -> tuple[list[Any], int]:
        built, position, length = self._built, self._position, self._built.plan.length
        stop = position + _LOOKED_AT if length is None else min(position + _LOOKED_AT, length)
        if stop <= position:
            return [], -1
        rows = built.plan.locate(self._epoch, np.arange(position, stop))
        found = built.reader.advance(rows, np.ones(len(rows), bool))
        left: list[Any] = []
        if found:
            tree, kept = built.reader.sift(rows.take(slice(found)), Clock())
            self._patience.saw(found, len(kept))
            left = list(records(tree)) if len(kept) else []
        return left, stop if found == len(rows) else -1

    def state_dict(self) -> dict[str, int]:
        """The place, which reading one block again leads to."""
        return {"position": self._position, "left": self._left, "given": self._given}


def look_at(built: Records, streams: bool) -> Iterator[Any]:
    """The records of epoch 0, one by one."""
    return Survivors(built, streams)
