"""What filters leave as a stream: for operations that must know which record stands where, and so can't plan it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.batch.tree import records
from headrace.clock import Clock
from headrace.dataset.filter import Patience
from headrace.dataset.leaf import StreamReader
from headrace.dataset.node import FilteredSlice, Node, Numbering, Records
from headrace.errors import StateError
from headrace.formats.source import Fingerprint
from headrace.formats.stream import Opened, StreamSource
from headrace.plan import Leaf
from headrace.plan.base import MAX_LENGTH

_READ_AT_ONCE = 64  # records that are read as one piece


class Survivors:
    """Iterates the records of an epoch that filters leave, or those of a slice of them, from any place on.

    Args:
        built: The records.
        streams: Whether there are streams among their sources, which may end.
        epoch: Which epoch.
        place: What `state_dict` gave; None is the beginning.
    """

    def __init__(self, built: Records, streams: bool, epoch: int = 0, place: dict[str, int] | None = None) -> None:
        sifted = built.sifted or FilteredSlice(_READ_AT_ONCE, None)
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
        stop = position + _READ_AT_ONCE if length is None else min(position + _READ_AT_ONCE, length)
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


class SurvivorSource(StreamSource):
    """Records that filters leave, in order, read as they are asked for.

    Args:
        built: The records.
        streams: Whether there are streams among their sources.
    """

    kind = "filtered"
    differs = True

    def __init__(self, built: Records, streams: bool) -> None:
        super().__init__(())
        self._built = built
        self._streams = streams

    def open(self, epoch: int = 0, state: Any = None) -> Opened:
        """From the first record of an epoch on, or from a block that was come to; of streams the first is read anew."""
        if state is not None and (state[0] != "filter" or not _is_place(state[1], self._built.plan.length)):
            raise StateError(f"the loader's state is damaged: {state!r:.80} is no place in what a filter left")
        left = Survivors(self._built, self._streams, epoch, None if state is None else state[1])
        return Opened(left, "filter", left, state)

    def fingerprint(self) -> Fingerprint:
        """Nothing of its own: the sources of the records have theirs."""
        return {"records": None, "type": "filtered"}

    def where(self, record: int) -> str:
        """The record's number among those that are left."""
        return f"record {record} of what the filter left"


def _is_place(state: Any, length: int | None) -> bool:
    last = MAX_LENGTH if length is None else length
    return isinstance(state, dict) and all(
        type(state.get(name)) is int and 0 <= state[name] <= last for name in ("position", "left", "given")
    )


def build_in_order(part: Node, numbering: Numbering) -> Records:
    """Compiles a step; if filters leave out some of its records, the others become a stream."""
    before = len(numbering.streams)
    built = part.build(numbering)
    if built.sifted is None:
        return built
    for stream in numbering.streams[before:]:
        stream.cursor.marks = False  # it is read ahead of the plan
    source = SurvivorSource(built, len(numbering.streams) > before)
    leaf = next(numbering.leaves)
    reader = StreamReader(source, leaf)
    numbering.sources.append(source)
    numbering.streams.append(reader)
    return Records(Leaf(leaf, None), reader)
