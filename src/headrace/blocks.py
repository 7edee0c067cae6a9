"""From blocks of records that were filtered to batches: what is left is put together in the plan's order.

Workers read and filter blocks, in any order. Here, at the consumer, the records that are left are cut into batches,
which may span blocks. A position after a batch is the block of its last record and the place after that record, and so
the same on every rank and for any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.batch.tree import Tree, concat, take
from headrace.clock import Clock
from headrace.dataset import Patience, Program
from headrace.engine import Result, StatsCollector
from headrace.errors import DataError
from headrace.plan import Rows
from headrace.state import Position


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of work: records to read and filter.

    Attributes:
        index: The block's number in the epoch.
        offset: The place in the block where the records begin.
        rows: The records.
    """

    index: int
    offset: int
    rows: Rows


@dataclass(frozen=True, slots=True)
class Share:
    """A rank's part of a batch: records that have been read.

    Attributes:
        rows: Which records they are.
        tree: The records.
        after: The position when the batch has been consumed.
        is_example: Whether this rank's part is empty, and this one record only tells the columns.
    """

    rows: Rows
    tree: Tree
    after: Position
    is_example: bool = False

    @property
    def records(self) -> int:
        """How many records are this rank's."""
        return 0 if self.is_example else len(self.rows)


class BlockStats(StatsCollector):
    """Reports what blocks cost to the statistics of the batches that are made of them."""

    def __init__(self, batches: StatsCollector) -> None:
        super().__init__(0, 0, watched=False)
        self._of_batches = batches

    def waited(self, seconds: float, *, ready: int) -> None:
        """Counted with the waiting for the batch."""

    def finished(self, clock: Clock, nbytes: int, *, delivered: bool = True) -> None:
        """Only the time counts: the bytes are those of batches."""
        self._of_batches.finished(clock, 0, delivered=False)


class Assembler:
    """Puts together batches of one epoch.

    Args:
        program: With filters.
        start: The position to begin at.
    """

    def __init__(self, program: Program, start: Position) -> None:
        assert program.sifting is not None
        self._reader = program.reader
        self._sifting = program.sifting
        self._start = start
        self._streams = bool(program.streams)
        self._patience = Patience(self._sifting.sifted.patience if self._sifting.endless else None)
        sifted = self._sifting.sifted
        # Records left by the filters so far: all batches before were full, so that is known from their number.
        before = start.done * self._sifting.size
        self._left = sifted.start + (before - 1) * sifted.step + 1 if before else 0
        self._pending: list[tuple[Rows, Tree]] = []
        self._missing = self._sifting.size

    def batches(self, blocks: Iterator[Result[Block]]) -> Iterator[Share]:
        """The batches, whole. The position after the last is the beginning of the next epoch.

        That it is the last is found out by looking for another one first, but not in streams, where that may take
        long.
        """
        if self._streams:
            yield from self._cut(blocks)
            return
        held: Share | None = None
        found = self._cut(blocks)
        while True:
            try:
                following = next(found, None)
            except Exception:
                if held is not None:  # it was whole; the error belongs to what comes after it
                    yield held
                raise
            if held is not None:
                yield held if following is not None else replace(held, after=Position(self._start.epoch + 1))
            if following is None:
                return
            held = following

    def _cut(self, blocks: Iterable[Result[Block]]) -> Iterator[Share]:
        done = self._start.done
        if self._is_over():
            return
        for result in blocks:
            block, (tree, kept) = result.piece, result.value
            self._patience.saw(len(block.rows), len(kept))
            places = self._select(len(kept))
            while len(places):
                taken, places = places[: self._missing], places[self._missing :]
                last = int(kept[taken[-1]])
                self._pending.append((block.rows.take(kept[taken]), take(tree, taken)))
                self._missing -= len(taken)
                if not self._missing:
                    done += 1
                    yield self._join(Position(self._start.epoch, block.index, block.offset + last + 1, done))
            if self._is_over():
                break
        if self._pending and not self._sifting.drop_remainder:
            yield self._join(Position(self._start.epoch + 1))

    def _select(self, count: int) -> NDArray[np.int64]:
        """Which of the next so many records come: all, or those of a slice."""
        sifted, first = self._sifting.sifted, self._left
        self._left += count
        stop = self._left if sifted.stop is None else min(self._left, sifted.stop)
        if first > sifted.start:
            begin = first + (sifted.start - first) % sifted.step
        else:
            begin = sifted.start
        chosen = range(begin - first, stop - first, sifted.step)
        if not chosen:
            return np.empty(0, np.int64)
        return np.arange(chosen.start, chosen.stop, min(sifted.step, count))

    def _is_over(self) -> bool:
        stop = self._sifting.sifted.stop
        return stop is not None and self._left >= stop

    def _join(self, after: Position) -> Share:
        parts, self._pending, self._missing = self._pending, [], self._sifting.size
        if len(parts) == 1:
            return Share(*parts[0], after)
        rows = Rows(
            np.concatenate([part.ids for part, _ in parts], axis=1), np.concatenate([part.passes for part, _ in parts])
        )
        try:
            return Share(rows, concat([tree for _, tree in parts]), after)
        except ValueError as error:
            where = ", ".join(self._reader.where(part.ids[:, 0]) for part, _ in parts)
            raise DataError(f"records of one batch don't fit together (those from {where} on): {error}") from None


def shares(batches: Iterator[Share], rank: int, world_size: int, split: str, uneven: str) -> Iterator[Share]:
    """A rank's part of each batch, or of each step of as many batches as there are ranks."""
    if world_size == 1:
        yield from batches
        return
    if split == "records":
        for batch in batches:
            places = np.arange(rank, len(batch.rows), world_size)
            empty = not len(places)
            if empty:
                places = np.zeros(1, np.int64)
            yield Share(batch.rows.take(places), take(batch.tree, places), batch.after, empty)
        return
    own: Share | None = None
    after = Position()
    number = 0
    for batch in batches:
        if number % world_size == rank:
            own = batch
        after, number = batch.after, number + 1
        if number % world_size == 0:
            assert own is not None
            yield replace(own, after=after)
            own = None
    if own is not None and uneven == "short":
        yield replace(own, after=after)
