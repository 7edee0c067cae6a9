"""What a run should give: the plan, walked through from its beginning without workers, positions or ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from headrace.batch.tree import Tree, concat, take
from headrace.clock import Clock
from headrace.dataset import Batches, Patience, Program, Reader, compile_program
from headrace.dataset.node import BatchReader, LateBatching, Packing
from headrace.plan import Blocks, BucketBatches, Leaf, Plan, Rows

_LARGEST_COUNTED = 1 << 22  # records of an epoch whose numbers are compared with the order's


@dataclass(frozen=True, slots=True)
class Expected:
    """A batch of the plan.

    Attributes:
        rows: Its records.
        tree: Their content, where it can be read in passing only (a stream); otherwise None.
    """

    rows: Rows
    tree: Tree | None


class Reference:
    """The batches of a description, by epoch and number.

    Args:
        data: The description.
    """

    def __init__(self, data: Batches) -> None:
        self._data = data
        self._epochs: dict[int, _Epoch] = {}

    def batch(self, epoch: int, index: int) -> Expected | None:
        """A batch; None behind the last one of the epoch."""
        return self._epoch(epoch).batch(index)

    def share(self, epoch: int, index: int, rank: int, world_size: int) -> tuple[Rows, Tree]:
        """A rank's part of a batch: which records, and what they should be."""
        of = self._epoch(epoch)
        batch = of.batch(index)
        assert batch is not None
        return of.share(batch, rank, world_size)

    def where(self, epoch: int, rows: Rows, row: int) -> str:
        """The name of a record."""
        return self._epoch(epoch).program.reader.where(rows.ids[:, row])

    def lost(self, epoch: int) -> str | None:
        """What tells the records of an epoch's batches from those of the order that they were cut from, if anything.

        Only where an order of records is known: not of streams, of what filters leave, or of very many records.
        """
        return self._epoch(epoch).lost()

    def counted(self, epoch: int) -> bool:
        """Whether `lost` could look at an epoch."""
        return self._epoch(epoch).order() is not None

    def streams(self) -> bool:
        """Whether there are any."""
        return bool(self._epoch(0).program.streams)

    def _epoch(self, epoch: int) -> _Epoch:
        found = self._epochs.get(epoch)
        if found is None:
            # A program of its own, because those have a place in their streams.
            found = self._epochs[epoch] = _Epoch(compile_program(self._data._node), epoch)
        return found


class _Epoch:
    def __init__(self, program: Program, epoch: int) -> None:
        self.program = program
        self._epoch = epoch
        self._seen: list[Expected] = []
        late = program.late
        self._rest: Iterator[Expected] | None
        if late is None:
            self._rest = self._walk()
        else:
            self._rest = self._sift(late) if late.grouping is None else self._bucket(late)
        reader: Reader = program.reader
        while isinstance(reader, BatchReader):
            reader = reader.parent
        self._reader = reader

    def batch(self, index: int) -> Expected | None:
        while len(self._seen) <= index and self._rest is not None:
            following = next(self._rest, None)
            if following is None:
                self._rest = None
            else:
                self._seen.append(following)
        return self._seen[index] if index < len(self._seen) else None

    def share(self, batch: Expected, rank: int, world_size: int) -> tuple[Rows, Tree]:
        share = batch.rows.share(rank, world_size)
        clock = Clock()
        if not len(share):
            example = batch.rows.take(slice(1))
            tree = self._read(example) if batch.tree is None else take(batch.tree, np.zeros(1, np.int64))
            return share, self.program.reader.finish_none(tree, example, clock)
        if batch.tree is None:
            tree = self._read(share)
        else:
            tree = take(batch.tree, batch.rows.own(rank, world_size))
        return share, self.program.reader.finish(tree, share, clock)

    def _read(self, rows: Rows) -> Tree:
        if self.program.late is not None:
            return self._reader.sift(rows, Clock())[0]
        return self._reader.read(rows, Clock())

    def _walk(self) -> Iterator[Expected]:
        plan, reader, streams = self.program.plan, self.program.reader, self.program.streams
        windows, index = plan.num_windows(self._epoch), 0
        while windows is None or index < windows:
            for rows in plan.window(self._epoch, index):
                found = reader.advance(rows, np.ones(len(rows), bool)) if streams else len(rows)
                if found:
                    rows_found = rows if found == len(rows) else rows.take(slice(found))
                    yield Expected(rows_found, self._reader.read(rows_found, Clock()) if streams else None)
                if found < len(rows):
                    return
            index += 1

    def _blocks(self, late: LateBatching) -> Iterator[tuple[int, Rows, Tree]]:
        """What filters leave of each block, with the block's number."""
        plan, index = self.program.plan, 0
        windows = plan.num_windows(self._epoch)
        patience = Patience(late.sifted.patience if late.endless else None)
        while windows is None or index < windows:
            rows = plan.window(self._epoch, index).rows(0)
            found = late.reader.advance(rows, np.ones(len(rows), bool)) if self.program.streams else len(rows)
            if found:
                tree, kept = late.reader.sift(rows.take(slice(found)), Clock())
                patience.saw(found, len(kept))
                if len(kept):
                    yield index, rows.take(kept), tree
            if found < len(rows):
                return
            index += 1

    def _sift(self, late: LateBatching) -> Iterator[Expected]:
        """So many of what is left at a time."""
        parts: list[tuple[Rows, Tree]] = []
        for part in self._sliced(late):
            parts.append(part)
            if sum(len(rows) for rows, _ in parts) < late.size:
                continue
            rows, tree = _joined(parts)
            full = len(rows) - len(rows) % late.size
            for begin in range(0, full, late.size):
                yield self._expected(rows, tree, np.arange(begin, begin + late.size))
            rest = np.arange(full, len(rows))
            parts = [(rows.take(rest), take(tree, rest))] if len(rest) else []
        if parts and not late.drop_remainder:
            rows, tree = _joined(parts)
            yield self._expected(rows, tree, np.arange(len(rows)))

    def _sliced(self, late: LateBatching) -> Iterator[tuple[Rows, Tree]]:
        sifted, left = late.sifted, 0
        for _, rows, tree in self._blocks(late):
            numbers = left + np.arange(len(rows))
            left += len(rows)
            chosen = (numbers >= sifted.start) & ((numbers - sifted.start) % min(sifted.step, 1 << 62) == 0)
            if sifted.stop is not None:
                chosen &= numbers < sifted.stop
            places = np.flatnonzero(chosen)
            if len(places):
                yield rows.take(places), take(tree, places)
            if sifted.stop is not None and left >= sifted.stop:
                return

    def _bucket(self, late: LateBatching) -> Iterator[Expected]:
        """Windows of what is left, each planned as a whole when it has been read."""
        plan, buckets = self.program.plan, late.grouping
        assert isinstance(plan, Blocks)
        assert buckets is not None
        for _, blocks in groupby(self._blocks(late), lambda block: plan.span_of(block[0])):
            rows, tree = _joined([(rows, tree) for _, rows, tree in blocks])
            lengths = buckets.lengths.of(rows, tree)
            if isinstance(buckets, Packing):
                for packed in buckets.arrange(lengths):
                    yield Expected(packed.of(rows), take(tree, packed.ids[0]) if self.program.streams else None)
                continue
            window = BucketBatches(
                Leaf(0, len(rows)),
                partial(_lengths_at, lengths),
                batch_size=buckets.batch_size,
                max_tokens=buckets.max_tokens,
                boundaries=buckets.boundaries,
                window=None,
                drop_remainder=late.drop_remainder,
            )
            for batch in window.window(0, 0):
                yield self._expected(rows, tree, batch.ids[0])

    def _expected(self, rows: Rows, tree: Tree, places: NDArray[np.int64]) -> Expected:
        return Expected(rows.take(places), take(tree, places) if self.program.streams else None)

    def order(self) -> Plan | None:
        """The order that batches are cut from, if its records can be counted and all batches have been seen."""
        self.batch(len(self._seen))
        if self.program.streams or self.program.late is not None or self._rest is not None:
            return None
        order = self.program.plan.plan
        return order if order.length is not None and order.length <= _LARGEST_COUNTED else None

    def lost(self) -> str | None:
        order = self.order()
        if order is None or not self._seen:
            return None
        assert order.length is not None
        rows, wanted, came = _counted(
            order.locate(self._epoch, np.arange(order.length)), _join([batch.rows for batch in self._seen])
        )
        plan = self.program.plan
        wrong = (came > wanted) & ~(plan.divides & (wanted > 0))
        if not plan.drops:
            wrong |= came < wanted
        if not wrong.any():
            return None
        first = int(wrong.argmax())
        name = self.program.reader.where(rows.ids[:, first])
        return f"{name} comes {came[first]} times, in the order {wanted[first]} times"


def _join(rows: list[Rows]) -> Rows:
    ids: NDArray[np.int64] = np.concatenate([part.ids for part in rows], axis=1)
    return Rows(ids, np.concatenate([part.passes for part in rows]))


def _lengths_at(lengths: NDArray[np.integer], rows: Rows) -> NDArray[np.integer]:
    own: NDArray[np.integer] = lengths[rows.ids[0]]
    return own


def _joined(parts: list[tuple[Rows, Tree]]) -> tuple[Rows, Tree]:
    return _join([rows for rows, _ in parts]), concat([tree for _, tree in parts])


def _counted(wanted: Rows, came: Rows) -> tuple[Rows, NDArray[np.int64], NDArray[np.int64]]:
    """The different records of both, in an order of their own, and how often each has them.

    By sorting: a few dozen bytes a record, where a dictionary of them takes some hundreds.
    """
    every = _join([wanted, came])
    order = np.lexsort((every.passes, *every.ids))
    every = every.take(order)
    differs = np.ones(len(every), bool)
    differs[1:] = (np.diff(every.ids) != 0).any(axis=0) | (np.diff(every.passes) != 0)
    starts = np.flatnonzero(differs)
    if not len(starts):
        return every, starts, starts
    of_wanted = np.add.reduceat((order < len(wanted)).astype(np.int64), starts)
    return every.take(starts), of_wanted, np.diff(starts, append=len(every)) - of_wanted
