"""The steps that put records together into batches: so many at a time, or by length."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace import plan as plans
from headrace.batch.collate import collate
from headrace.batch.columns import Objects
from headrace.batch.tree import Tree, leaves, map_leaves, take
from headrace.clock import Clock
from headrace.dataset.length_filter import known_lengths
from headrace.dataset.node import (
    BatchNode,
    BatchReader,
    BatchRecords,
    Node,
    Numbering,
    Reader,
    Sifting,
    arguments,
    function_name,
)
from headrace.errors import PlanError
from headrace.plan import Rows

if TYPE_CHECKING:
    LengthKey = Callable[[Mapping[str, NDArray[np.int64]]], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Batch(BatchNode):
    """So many records at a time, in order.

    Attributes:
        parent: The step before.
        size: Records a batch.
        drop_remainder: Leave out the last batch of an epoch if it has fewer.
        ragged: Columns whose rows vary in length.
    """

    parent: Node
    size: int
    drop_remainder: bool
    ragged: tuple[str, ...]

    @property
    def parents(self) -> tuple[Node, ...]:
        """The step before."""
        return (self.parent,)

    def describe(self) -> str:
        """Names size and what happens to the rest."""
        return f"batch({self.size}{', drop_remainder' if self.drop_remainder else ''})"

    def build(self, numbering: Numbering) -> BatchRecords:
        """Cuts the order into batches."""
        built = self.parent.build(numbering)
        reader = CollateReader(built.reader, self.ragged, self.drop_remainder)
        if built.sifted is not None:
            endless = built.plan.length is None and not numbering.streams
            sifting = Sifting(built.reader, self.size, self.drop_remainder, built.sifted, endless)
            return BatchRecords(plans.Blocks(built.plan, built.sifted.block), reader, sifting)
        return BatchRecords(plans.FixedBatches(built.plan, self.size, drop_remainder=self.drop_remainder), reader)


@dataclass(frozen=True, slots=True)
class Bucket(BatchNode):
    """Records of like length together.

    Attributes:
        parent: The step before.
        batch_size: Records a batch, or None if tokens are counted.
        max_tokens: Items a padded batch may have, or None if records are counted.
        boundaries: Lengths at which a new bucket begins.
        by: Columns whose longest counts, or a function of all columns' lengths; None takes all known.
        window: Records that are planned together; None is the whole epoch.
        drop_remainder: Leave out batches that aren't full at the end of a window.
    """

    parent: Node
    batch_size: int | None
    max_tokens: int | None
    boundaries: tuple[int, ...]
    by: tuple[str, ...] | LengthKey | None
    window: int | None
    drop_remainder: bool

    @property
    def parents(self) -> tuple[Node, ...]:
        """The step before."""
        return (self.parent,)

    def describe(self) -> str:
        """Names all parameters; long lists of boundaries by their ends."""
        b = self.boundaries
        # Long lists are shortened, but not so that two of them could look the same.
        edges = list(b) if len(b) <= 8 else f"{b[0]}…{b[-1]}/{len(b)}/{zlib.crc32(repr(b).encode()):08x}"
        by = function_name(self.by) if callable(self.by) else self.by and list(self.by)
        words = arguments(
            batch_size=self.batch_size,
            max_tokens=self.max_tokens,
            boundaries=edges,
            by=by,
            window=self.window,
        )
        return f"bucket({words}{', drop_remainder' if self.drop_remainder else ''})"

    def build(self, numbering: Numbering) -> BatchRecords:
        """Plans batches by the lengths that the index knows."""
        built = self.parent.build(numbering).unsifted("bucket", "leave out by filter_length, or use batch(…)")
        lengths = BucketLengths(built.reader, self.by)
        if built.plan.length != 0:
            lengths(built.plan.locate(0, np.zeros(1, np.int64)))  # unknown lengths are refused here, not in mid-run
        plan = plans.BucketBatches(
            built.plan,
            lengths,
            batch_size=self.batch_size,
            max_tokens=self.max_tokens,
            boundaries=self.boundaries,
            window=self.window,
            drop_remainder=self.drop_remainder,
        )
        return BatchRecords(plan, CollateReader(built.reader, (), self.drop_remainder))


class BucketLengths:
    """The length that decides a record's bucket."""

    def __init__(self, reader: Reader, by: tuple[str, ...] | LengthKey | None) -> None:
        self.reader = reader
        self.by = by

    def __call__(self, rows: Rows) -> NDArray[np.integer]:
        """One length for each row, shape `(rows,)`."""
        if callable(self.by):
            known = known_lengths(self.reader, rows, None, "bucket")
            lengths = np.asarray(self.by(known))
            if lengths.shape != (len(rows),) or lengths.dtype.kind not in "iu":
                raise PlanError(
                    f"bucket(by={function_name(self.by)}) must give one integer for each of {len(rows)} records, "
                    f"got {lengths.dtype} of shape {lengths.shape}"
                )
        else:
            columns = list(known_lengths(self.reader, rows, self.by, "bucket").values())
            lengths = columns[0] if len(columns) == 1 else np.maximum.reduce(columns)
        return lengths  # in whatever type they came: the plan refuses what is out of range


def width_boundaries(width: int, count: int) -> tuple[int, ...]:
    """Boundaries of `count` buckets of one width; longer records share one more."""
    return tuple(range(width, width * count + 1, width))


def growing_boundaries() -> tuple[int, ...]:
    """Boundaries 4 apart at first, an eighth apart further on: little padding at any length, few buckets."""
    edges = [4]
    while edges[-1] < 1 << 20:
        edges.append(max(edges[-1] + 4, edges[-1] * 9 // 8))
    return tuple(edges)


class CollateReader(BatchReader):
    """Puts the records of a batch together."""

    def __init__(self, parent: Reader, ragged: Sequence[str], drop_remainder: bool) -> None:
        super().__init__(parent)
        self.ragged = ragged
        self.drop_remainder = drop_remainder

    def read(self, rows: Rows, clock: Clock) -> Tree:
        """Reads the records; those that are Python objects become columns."""
        return self.finish(self.parent.read(rows, clock), rows, clock)

    def finish(self, tree: Tree, rows: Rows, clock: Clock) -> Tree:
        """Makes columns of those that are Python objects."""
        if any(isinstance(leaf, Objects) for _, leaf in leaves(tree)) and len(rows):
            with clock.stage("collate"):
                return map_leaves(lambda name, leaf: self._collate(name, leaf, rows), tree)
        return tree

    def _collate(self, name: str, leaf: Any, rows: Rows) -> Tree:
        if not isinstance(leaf, Objects):
            return leaf
        return collate(leaf, self.ragged, lambda i: self.where(rows.ids[:, i]), name=name)

    def read_none(self, example: Rows, clock: Clock) -> Tree:
        """Reads one record for its columns, and keeps none."""
        example = example.take(slice(0, 1))
        return self.finish_none(self.parent.read(example, clock), example, clock)

    def finish_none(self, tree: Tree, example: Rows, clock: Clock) -> Tree:
        """The record's columns, of which none is kept."""
        return take(self.finish(tree, example, clock), np.empty(0, np.int64))

    def advance(self, rows: Rows, wanted: NDArray[np.bool_]) -> int:
        """As the parent, but where a stream ends in mid-batch, that batch may be left out."""
        found = self.parent.advance(rows, wanted)
        return 0 if self.drop_remainder and found < len(rows) else found

    def column_names(self) -> list[str] | None:
        """The parent's."""
        return self.parent.column_names()
