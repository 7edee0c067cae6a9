"""A source as the first step of a description."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.tree import Tree
from headrace.clock import Clock
from headrace.dataset.node import AnyNode, Node, Numbering, Reader, Records
from headrace.errors import PlanError
from headrace.formats.source import Source
from headrace.formats.stream import Kept, StreamCursor, StreamSource
from headrace.formats.text import TextSource
from headrace.plan import LEAF_SHIFT, Leaf, Rows

if TYPE_CHECKING:
    from headrace.dataset.tokens import Encoding

_RECORD = (1 << LEAF_SHIFT) - 1


@dataclass(frozen=True, slots=True)
class SourceNode(Node):
    """All records of a source, in its own order."""

    source: Source

    @property
    def parents(self) -> tuple[Node, ...]:
        """None: a source is where a description begins."""
        return ()

    def describe(self) -> str:
        """Names the kind of source; what it holds is in the data's fingerprint."""
        return f"{self.source.kind}()"

    def build(self, numbering: Numbering) -> Records:
        """Gives the source a leaf number of its own."""
        leaf = next(numbering.leaves)
        numbering.sources.append(self.source)
        reader: LeafReader
        if isinstance(self.source, StreamSource):
            reader = StreamReader(self.source, leaf)
            numbering.streams.append(reader)
        elif isinstance(self.source, TextSource):
            reader = TextReader(self.source, leaf)
        else:
            reader = LeafReader(self.source, leaf)
        return Records(Leaf(leaf, self.source.num_records), reader)


def without_streams(node: AnyNode) -> Any:
    """A description for a process that is handed the records of streams: without iterables, which may not travel."""
    if isinstance(node, SourceNode):
        return SourceNode(StreamSource(())) if type(node.source) is StreamSource else node
    changes: dict[str, Any] = {}
    for part in fields(node):  # type: ignore[arg-type]  # every step is a dataclass
        value = getattr(node, part.name)
        if isinstance(value, AnyNode):
            changes[part.name] = without_streams(value)
        elif isinstance(value, tuple) and any(isinstance(one, AnyNode) for one in value):
            changes[part.name] = tuple(without_streams(one) for one in value)
    return replace(node, **changes)  # type: ignore[type-var]


class LeafReader(Reader):
    """Reads records from a source."""

    slots = 1

    def __init__(self, source: Source, leaf: int) -> None:
        self.source = source
        self.leaf = leaf

    def records(self, rows: Rows) -> NDArray[np.int64]:
        """The record numbers within the source."""
        records: NDArray[np.int64] = rows.ids[0] & _RECORD
        return records

    def read(self, rows: Rows, clock: Clock) -> Tree:
        """One call of the source for all rows."""
        with clock.stage("read"):
            return self.source.read(self.records(rows))

    def where(self, ids: NDArray[np.int64]) -> str:
        """As the source names it."""
        return self.source.where(int(ids[0]) & _RECORD)

    @property
    def leaves(self) -> frozenset[int]:
        """This leaf."""
        return frozenset((self.leaf,))

    def lengths(self, rows: Rows) -> dict[str, NDArray[np.int64]]:
        """From the source's index."""
        table = self.source.lengths()
        if table is None:
            return {}
        records = self.records(rows)
        return {name: column[records].astype(np.int64) for name, column in table.items()}

    def column_names(self) -> list[str] | None:
        """As the source names them."""
        return self.source.column_names()


class TextReader(LeafReader):
    """Reads lines of text files; token ids come from them in one native pass."""

    source: TextSource

    def encode(self, name: str, encoding: Encoding) -> Reader:
        """Reads, splits and looks up at once."""
        return EncodedTextReader(self.source, self.leaf, encoding) if name == "" else super().encode(name, encoding)


class EncodedTextReader(LeafReader):
    """Reads, splits and looks up lines of a file in one native pass."""

    source: TextSource

    def __init__(self, source: TextSource, leaf: int, encoding: Encoding) -> None:
        super().__init__(source, leaf)
        self.encoding = encoding
        if encoding.separators not in (None, source.separators):
            raise PlanError(
                f"tokens(separators={encoding.separators!r}) differs from the source's {source.separators!r}, by which "
                "its index counts tokens; say read_text(separators=…)"
            )

    def read(self, rows: Rows, clock: Clock) -> Tree:
        """One native call for all rows."""
        e = self.encoding
        with clock.stage("read"):
            return self.source.encode(self.records(rows), e.vocab, max_length=e.max_length, bos=e.bos, eos=e.eos)

    def lengths(self, rows: Rows) -> dict[str, NDArray[np.int64]]:
        """Of the index's token counts."""
        return {name: self.encoding.lengths(column) for name, column in super().lengths(rows).items()}


class StreamReader(LeafReader):
    """Reads records from a stream: those that `advance` came to before."""

    source: StreamSource

    def __init__(self, source: StreamSource, leaf: int) -> None:
        super().__init__(source, leaf)
        self.cursor = StreamCursor(source)

    def advance(self, rows: Rows, wanted: NDArray[np.bool_]) -> int:
        """Iterates the stream on to the last of the rows."""
        return self.cursor.advance(self.records(rows), rows.passes, wanted)

    def read(self, rows: Rows, clock: Clock) -> Tree:
        """Takes what was kept."""
        return self.cursor.take(self.records(rows), rows.passes)

    def drop(self, rows: Rows) -> None:
        """Keeps those of the rows no longer that are of this stream, in whichever slot."""
        for records, passes in self._own(rows):
            self.cursor.drop(records, passes)

    def hand_over(self, rows: Rows) -> tuple[Kept, Any]:
        """Gives those of the rows that are of this stream for a process that doesn't read it: to `take_over` there."""
        kept: Kept = {}
        for records, passes in self._own(rows):
            kept |= self.cursor.hand_over(records, passes)
        return kept, self.source.bearings()

    def take_over(self, handed: tuple[Kept, Any]) -> None:
        """Takes what was handed over in the process that reads the stream, in the place of what was taken before."""
        kept, bearings = handed
        self.cursor.take_over(kept)
        self.source.take_bearings(bearings)

    def _own(self, rows: Rows) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        for ids in rows.ids:
            own = ids >> LEAF_SHIFT == self.leaf
            yield ids[own] & _RECORD, rows.passes[own]
