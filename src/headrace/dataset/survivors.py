"""What filters leave as a stream: for operations that must know which record stands where, and so can't plan it."""

from __future__ import annotations

from typing import Any

from headrace.dataset.filter import Survivors
from headrace.dataset.leaf import StreamReader
from headrace.dataset.node import Node, Numbering, Records
from headrace.errors import StateError
from headrace.formats.source import Fingerprint
from headrace.formats.stream import Opened, StreamSource
from headrace.plan import Leaf
from headrace.plan.base import MAX_LENGTH


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
