"""What filters leave as a stream: for operations that must know which record stands where, and so can't plan it."""

from __future__ import annotations

from typing import Any

from headrace.dataset.filter import look_at
from headrace.dataset.leaf import StreamReader
from headrace.dataset.node import Node, Numbering, Records
from headrace.formats.source import Fingerprint
from headrace.formats.stream import Opened, StreamSource
from headrace.plan import Leaf


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
        """From the first record of an epoch on; it has no state."""
        return Opened(look_at(self._built, self._streams, epoch))

    def fingerprint(self) -> Fingerprint:
        """Nothing of its own: the sources of the records have theirs."""
        return {"records": None, "type": "filtered"}

    def where(self, record: int) -> str:
        """The record's number among those that are left."""
        return f"record {record} of what the filter left"


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
