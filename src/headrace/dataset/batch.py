"""The steps that put records together into batches: so many at a time, or by length."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import plan as plans
from headrace.batch.collate import collate
from headrace.batch.columns import Objects
from headrace.batch.tree import Tree, leaves, map_leaves, take
from headrace.clock import Clock
from headrace.dataset.lengths import BucketLengths, FoundLengths, LengthKey
from headrace.dataset.measured import check_columns, measured_batches
from headrace.dataset.node import (
    BatchNode,
    BatchReader,
    BatchRecords,
    Bucketing,
    LateBatching,
    Node,
    Numbering,
    Reader,
    Records,
    arguments,
    function_name,
)
from headrace.plan import Rows


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
            late = LateBatching(built.reader, self.size, self.drop_remainder, built.sifted, endless)
            return BatchRecords(plans.Blocks(built.plan, built.sifted.block), reader, late)
        return BatchRecords(plans.FixedBatches(built.plan, self.size, drop_remainder=self.drop_remainder), reader)


@dataclass(frozen=True, slots=True)
class Bucket(BatchNode):
    """Records of like length together.

    Attributes:
        parent: The step before.
        batch_size: Records a batch, one number or one for each bucket; None if tokens are counted.
        max_tokens: Items a padded batch may have, or None if records are counted.
        boundaries: Lengths at which a new bucket begins.
        by: Columns whose longest counts, or a function of all columns' lengths; None takes all known.
        window: Records that are planned together; None is the whole epoch.
        drop_remainder: Leave out batches that aren't full at the end of a window.
        ragged: Columns whose rows vary in length, besides those that `by` names.
    """

    parent: Node
    batch_size: int | tuple[int, ...] | None
    max_tokens: int | None
    boundaries: tuple[int, ...]
    by: tuple[str, ...] | LengthKey | None
    window: int | None
    drop_remainder: bool
    ragged: tuple[str, ...] = ()

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
            batch_size=list(self.batch_size) if isinstance(self.batch_size, tuple) else self.batch_size,
            max_tokens=self.max_tokens,
            boundaries=edges,
            by=by,
            window=self.window,
        )
        return f"bucket({words}{', drop_remainder' if self.drop_remainder else ''})"

    def build(self, numbering: Numbering) -> BatchRecords:
        """Plans batches by the lengths that the index knows, or makes them of records that have been read."""
        built = self.parent.build(numbering)
        named = () if callable(self.by) else self.by or ()
        reader = CollateReader(built.reader, (*self.ragged, *named), self.drop_remainder)
        lengths = BucketLengths(built.reader, self.by)
        known = built.sifted is None
        if known and built.plan.length != 0:
            known = lengths.known(first := built.plan.locate(0, np.zeros(1, np.int64)))
            if known:
                lengths(first)  # what a function gives is looked at here, not in mid-run
        if not known:
            return self._measured(built, reader, not numbering.streams)
        plan = plans.BucketBatches(
            built.plan,
            lengths,
            batch_size=self.batch_size,
            max_tokens=self.max_tokens,
            boundaries=self.boundaries,
            window=self.window,
            drop_remainder=self.drop_remainder,
        )
        return BatchRecords(plan, reader)

    def _measured(self, built: Records, reader: CollateReader, is_whole: bool) -> BatchRecords:
        check_columns("bucket goes by", () if callable(self.by) else self.by or (), reader)
        buckets = Bucketing(FoundLengths(built.reader, self.by), self.batch_size, self.max_tokens, self.boundaries)
        return measured_batches(
            "bucket",
            built,
            reader,
            buckets,
            window=self.window,
            drop_remainder=self.drop_remainder,
            is_whole=is_whole,
            advice="cut before the filter, or give each rank its share by Loader(rank=…, world_size=…)",
        )


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
