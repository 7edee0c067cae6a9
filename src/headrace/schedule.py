"""Which pieces of work come one after another: a rank's share of each batch, or blocks of records to be filtered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from headrace.batch.tree import take
from headrace.blocks import Block, Share, first_block
from headrace.dataset import Program
from headrace.engine import StatsCollector
from headrace.formats.stream import Mark
from headrace.plan import Rows, Window
from headrace.state import Position

Split = Literal["records", "batches"]
Uneven = Literal["short", "drop"]


@dataclass(frozen=True, slots=True)
class Piece:
    """One batch to read.

    Attributes:
        rows: Its records (this rank's share of them).
        after: The position when it has been consumed.
        example: The whole batch, where this rank's share of it is empty.
    """

    rows: Rows
    after: Position
    example: Rows | None = None

    @property
    def records(self) -> int:
        """How many records are this rank's."""
        return len(self.rows)


B = TypeVar("B", Piece, Share)


def mark_last(batches: Iterator[B], epoch: int) -> Iterator[B]:
    """The same batches; the position after the last is the beginning of the next epoch.

    That it is the last is found out by looking for another one first. An error in looking belongs to what would have
    come, so it comes after the batch before.
    """
    held: B | None = None
    while True:
        try:
            following = next(batches, None)
        except Exception:
            if held is not None:
                yield held
            raise
        if held is not None:
            yield held if following is not None else replace(held, after=Position(epoch + 1))
        if following is None:
            return
        held = following


def deal(batches: Iterator[B], rank: int, world_size: int, uneven: Uneven) -> Iterator[B]:
    """A rank's batch of each step of as many batches as there are ranks. The position after it is that of the step."""
    own: B | None = None
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


class Schedule:
    """Gives the pieces of an epoch from any position on, in the plan's order.

    Whoever takes the next one also moves streams on to it, so they are taken one at a time.

    Args:
        program: What is read.
        rank: This rank's number.
        world_size: How many ranks there are.
        split: How batches are divided among ranks.
        uneven: What becomes of a last step that has not a batch for every rank.
        stats: Is told what planning costs.
    """

    def __init__(
        self, program: Program, rank: int, world_size: int, split: Split, uneven: Uneven, stats: StatsCollector
    ) -> None:
        self._program = program
        self._rank = rank
        self._world_size = world_size
        self._split = split
        self._uneven = uneven
        self._stats = stats
        self._planned: tuple[int, int, Window] | None = None

    def pieces(self, start: Position) -> Iterator[Piece]:
        """A rank's share of each batch."""
        self._seek(start)
        batches = self._marked(self._walk(start), start)
        if self._world_size == 1:
            yield from batches
        elif self._split == "batches":
            yield from deal(batches, self._rank, self._world_size, self._uneven)
        else:
            for batch in batches:
                rows = batch.rows
                share = rows.share(self._rank, self._world_size)
                if len(share) and self._rank:
                    self._drop_example(rows)
                yield Piece(share, batch.after, None if len(share) else rows.take(slice(1)))

    def shares(self, batches: Iterator[Share], start: Position) -> Iterator[Share]:
        """A rank's share of each batch that was put together of blocks, from a position on."""
        batches, rank, ranks = self._marked(batches, start), self._rank, self._world_size
        if ranks == 1:
            yield from batches
        elif self._split == "batches":
            yield from deal(batches, rank, ranks, self._uneven)
        else:
            for batch in batches:
                rows, places = batch.rows.share(rank, ranks), batch.rows.own(rank, ranks)
                empty = not len(places)
                if empty:
                    places = np.zeros(1, np.int64)
                    rows = batch.rows.take(places)
                yield Share(rows, take(batch.tree, places), batch.after, empty)

    def _marked(self, batches: Iterator[B], start: Position) -> Iterator[B]:
        # Looking for another batch may take long in a stream, so of those nobody knows that one was the last.
        return batches if self._program.streams else mark_last(batches, start.epoch)

    def _walk(self, start: Position) -> Iterator[Piece]:
        """All batches from a position to the end of its epoch, whole."""
        epoch, index, first, done = start.epoch, start.window, start.batch, start.done
        windows = self._program.plan.num_windows(epoch)
        while windows is None or index < windows:
            window = self.window(epoch, index)
            for j in range(first, len(window)):
                rows = window.rows(j)
                found = self._advance(rows, done - start.done) if self._program.streams else len(rows)
                done += 1
                if found == len(rows):
                    yield Piece(rows, Position(epoch, index, j + 1, done, self._marks(epoch)))
                else:
                    if found:
                        yield Piece(rows.take(slice(found)), Position(epoch + 1))
                    return
            index, first = index + 1, 0

    def blocks(self, start: Position) -> Iterator[Block]:
        """The blocks from a position to the end of its epoch, the first from that place in it on."""
        assert self._program.late is not None
        self._seek(start)
        index, offset = first_block(self._program, start)
        marks = start.streams
        windows = self._program.plan.num_windows(start.epoch)
        while windows is None or index < windows:
            rows = self.window(start.epoch, index).rows(0).take(slice(offset, None))
            found = len(rows)
            if self._program.streams:
                began = time.perf_counter()
                found = self._program.late.reader.advance(rows, np.ones(found, bool))
                self._stats.planned(time.perf_counter() - began, "read")
            if found:
                yield Block(index, offset, rows.take(slice(found)), marks)
            if found < len(rows):
                return
            index, offset, marks = index + 1, 0, self._marks(start.epoch)

    def _seek(self, start: Position) -> None:
        """Sets the streams to where a run begins."""
        for number, stream in enumerate(self._program.streams):
            stream.cursor.seek(start.streams[number] if start.streams else None)

    def _marks(self, epoch: int) -> tuple[Mark | None, ...]:
        """Where the streams are that can tell."""
        marks = tuple(stream.cursor.mark(epoch) for stream in self._program.streams)
        return marks if any(mark is not None for mark in marks) else ()

    def _advance(self, rows: Rows, number: int) -> int:
        """Iterates streams on to a batch; they are read in the plan's order, before workers share out the batches."""
        wanted = np.zeros(len(rows), bool)
        if self._split == "records":
            wanted[self._rank :: self._world_size] = True
            wanted[0] = True  # the example of a batch that turns out too short for this rank
        else:
            wanted[:] = number % self._world_size == self._rank
        began = time.perf_counter()
        found = self._program.reader.advance(rows, wanted)
        self._stats.planned(time.perf_counter() - began, "read")
        return found

    def _drop_example(self, rows: Rows) -> None:
        for stream in self._program.streams:
            stream.drop(rows.take(slice(1)))

    def window(self, epoch: int, index: int) -> Window:
        """A window of an epoch; the last one is kept."""
        planned = self._planned
        if planned is None or planned[:2] != (epoch, index):
            began = time.perf_counter()
            planned = (epoch, index, self._program.plan.window(epoch, index))
            self._planned = planned
            self._stats.planned(time.perf_counter() - began)
        return planned[2]
