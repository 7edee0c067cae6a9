"""From blocks of records that have been read (and filtered) to batches, in the plan's order.

Workers read and filter blocks, in any order. Here, at the consumer, the records that are left are cut into batches,
which may span blocks. A position after a batch is the block of its last record and the place after that record, and so
the same on every rank and for any number of workers. Where records join buckets, a position is that of `BucketBatches`:
a window, and how many of its batches come before; restoring reads the window again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np
from numpy.typing import NDArray

from headrace.batch.tree import Tree, concat, take
from headrace.clock import Clock
from headrace.dataset import Patience, Program
from headrace.dataset.node import Bucketing, Packing
from headrace.engine import Mode, Observer, Result
from headrace.errors import DataError, StateError
from headrace.formats.stream import Mark
from headrace.plan import Blocks, Filling, Rows
from headrace.state import Position


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of work: records to read and filter.

    Attributes:
        index: The block's number in the epoch.
        offset: The place in the block where the records begin.
        rows: The records.
        streams: Where streams are before the block.
    """

    index: int
    offset: int
    rows: Rows
    streams: tuple[Mark | None, ...] = ()


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


class BlockStats:
    """Reports what blocks cost to the statistics of the batches that are made of them.

    Args:
        batches: Those.
    """

    def __init__(self, batches: Observer) -> None:
        self._batches = batches

    def runs_on(self, mode: Mode, workers: int, capacity: int, choice: str = "") -> None:
        """The batches' blocks are where their work is done."""
        self._batches.runs_on(mode, workers, capacity, choice)

    def waited(self, seconds: float, *, ready: int) -> None:
        """Counted with the waiting for the batch."""

    def finished(self, clock: Clock, nbytes: int, *, delivered: bool = True) -> None:
        """Only the time counts: the bytes are those of batches."""
        self._batches.finished(clock, 0, delivered=False)


class Assembler(ABC):
    """Puts together batches of one epoch, from a position on.

    Args:
        program: With blocks.
        start: The position to begin at.
    """

    def __init__(self, program: Program, start: Position) -> None:
        assert program.late is not None
        self._reader = program.reader
        self._late = program.late
        self._start = start
        self._patience = Patience(self._late.sifted.patience if self._late.endless else None)

    @abstractmethod
    def cut(self, blocks: Iterable[Result[Block]]) -> Iterator[Share]:
        """The batches, whole."""

    def _join(self, parts: list[tuple[Rows, Tree]], after: Position) -> Share:
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


class RunAssembler(Assembler):
    """Puts records together that come after each other."""

    def __init__(self, program: Program, start: Position) -> None:
        super().__init__(program, start)
        sifted = self._late.sifted
        # Records left by the filters so far: all batches before were full, so that is known from their number.
        before = start.done * self._late.size
        self._left = sifted.start + (before - 1) * sifted.step + 1 if before else 0

    def cut(self, blocks: Iterable[Result[Block]]) -> Iterator[Share]:
        """So many of what is left at a time."""
        done, pending, missing = self._start.done, [], self._late.size
        if self._is_over():
            return
        for result in blocks:
            block, (tree, kept) = result.piece, result.value
            self._patience.saw(len(block.rows), len(kept))
            places = self._select(len(kept))
            while len(places):
                taken, places = places[:missing], places[missing:]
                last = int(kept[taken[-1]])
                pending.append((block.rows.take(kept[taken]), take(tree, taken)))
                missing -= len(taken)
                if not missing:
                    done += 1
                    place = block.index, block.offset + last + 1
                    yield self._join(pending, Position(self._start.epoch, *place, done, block.streams))
                    pending, missing = [], self._late.size
            if self._is_over():
                break
        if pending and not self._late.drop_remainder:
            yield self._join(pending, Position(self._start.epoch + 1))

    def _select(self, count: int) -> NDArray[np.int64]:
        """Which of the next so many records come: all, or those of a slice."""
        sifted, first = self._late.sifted, self._left
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
        stop = self._late.sifted.stop
        return stop is not None and self._left >= stop


class WindowAssembler(Assembler):
    """Arranges records window by window; a window is read from its beginning."""

    def __init__(self, program: Program, start: Position) -> None:
        super().__init__(program, start)
        assert isinstance(program.plan, Blocks)
        self._plan = program.plan
        self._skip = start.batch
        self._begun: tuple[Mark | None, ...] = ()  # where streams are before the window

    def cut(self, blocks: Iterable[Result[Block]]) -> Iterator[Share]:
        """Those of each window, when it has been read."""
        epoch, done = self._start.epoch, self._start.done
        for window, found in groupby(blocks, lambda result: self._plan.span_of(result.piece.index)):
            batches = self._of_window(self._left(found))
            skip = self._skip if window == self._start.window else 0
            if sum(1 for _ in islice(batches, skip)) < skip:
                raise StateError(
                    f"the loader's state is damaged: it is after batch {skip} of window {window}, which has fewer"
                )
            for number, parts in enumerate(batches, skip + 1):
                done += 1
                yield self._join(parts, Position(epoch, window, number, done, self._begun))

    def _left(self, blocks: Iterable[Result[Block]]) -> Iterator[tuple[Rows, Tree]]:
        """What is left of each block of a window."""
        for number, result in enumerate(blocks):
            block, (tree, kept) = result.piece, result.value
            if not number:
                self._begun = block.streams
            self._patience.saw(len(block.rows), len(kept))
            if len(kept):
                yield block.rows.take(kept), tree

    @abstractmethod
    def _of_window(self, records: Iterator[tuple[Rows, Tree]]) -> Iterator[list[tuple[Rows, Tree]]]:
        """The batches of a window, each in parts."""


class BucketAssembler(WindowAssembler):
    """Puts records of like length together."""

    def __init__(self, program: Program, start: Position, buckets: Bucketing) -> None:
        super().__init__(program, start)
        self._buckets = buckets

    def _of_window(self, records: Iterator[tuple[Rows, Tree]]) -> Iterator[list[tuple[Rows, Tree]]]:
        buckets = self._buckets
        filling = Filling(buckets.batch_size, buckets.max_tokens, buckets.boundaries)
        pending: dict[int, list[tuple[Rows, Tree]]] = {}
        for rows, tree in records:
            full, left = filling.add(buckets.lengths.of(rows, tree))
            for bucket, places in full:
                yield [*pending.pop(bucket, ()), *_picked(rows, tree, places)]
            for bucket, places in left:
                pending.setdefault(bucket, []).extend(_picked(rows, tree, places))
        if not self._late.drop_remainder:
            yield from (pending.pop(bucket) for bucket in filling.rest())


class PackAssembler(WindowAssembler):
    """Packs records into rows, when all of a window have been read."""

    def __init__(self, program: Program, start: Position, packing: Packing) -> None:
        super().__init__(program, start)
        self._packing = packing

    def _of_window(self, records: Iterator[tuple[Rows, Tree]]) -> Iterator[list[tuple[Rows, Tree]]]:
        packing = self._packing
        parts = list(records)
        if parts:
            whole = self._join(parts, Position())
            for packed in packing.arrange(packing.lengths.of(whole.rows, whole.tree)):
                yield [(packed.of(whole.rows), take(whole.tree, packed.ids[0]))]


def _picked(rows: Rows, tree: Tree, places: list[int]) -> list[tuple[Rows, Tree]]:
    index = np.array(places, np.int64)
    return [(rows.take(index), take(tree, index))] if places else []


def first_block(program: Program, start: Position) -> tuple[int, int]:
    """The block to begin with, and the place in it. A window of buckets is read from its beginning."""
    if program.late is None or program.late.grouping is None:
        return start.window, start.batch
    assert isinstance(program.plan, Blocks)
    return program.plan.first_of(start.window), 0


def assembler(program: Program, start: Position) -> Assembler:
    """What puts together a program's batches."""
    assert program.late is not None
    match program.late.grouping:
        case None:
            return RunAssembler(program, start)
        case Packing() as packing:
            return PackAssembler(program, start, packing)
        case Bucketing() as buckets:
            return BucketAssembler(program, start, buckets)
