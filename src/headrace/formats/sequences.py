"""What a source of sequences is: records of one or more streams, each a run of samples, which stand in chunks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Ragged
from headrace.errors import DataError
from headrace.formats.source import Fingerprint, Source


@dataclass(frozen=True, slots=True)
class SequenceStream:
    """A stream of the sequences that a source holds.

    Attributes:
        name: What it is called.
        shape: The shape of a sample; its last number is the width of a sparse one.
        sparse: Whether samples are sparse.
        dtype: Type of the values.
        defines_size: Whether this stream's samples are what counts as a sequence's size.
    """

    name: str
    shape: tuple[int, ...]
    sparse: bool = False
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))
    defines_size: bool = False


@dataclass(frozen=True, slots=True)
class ParseWarning:
    """Things in the data that are legal and yet may not be meant.

    Attributes:
        kind: Which; the same for all of this kind.
        count: How many there were in one call.
        message: A sentence about the first of them, with its place.
    """

    kind: str
    count: int
    message: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where in its file a mistake stands, and what kind of mistake it is.

    Attributes:
        kind: Which; the same for all of this kind.
        line: The line, from 1; 0 in files that have no lines.
        column: The column, from 1, in bytes; 0 likewise.
        byte: The offset in the file.
        stream: The stream concerned; None if none or not known.
    """

    kind: str
    line: int
    column: int
    byte: int
    stream: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """Sequences, and what was wrong with them.

    Attributes:
        columns: Of each stream by name: a `Ragged` of as many rows as records were asked for, whose values are the
            samples (an array of shape `(samples, *shape)`, or sparse rows).
        dropped: Which rows lost so much to errors that they can't be used (they hold no samples); None if no one did.
        error_rows: The row of each error, ascending.
        explain: The message of the `i`-th error: what was expected, what came, where, and what to do.
        warnings: What else was noticed.
        place: The place of the `i`-th error, where the format knows it.
        records: The numbers of the records, where whoever parsed them says so; for messages.
        error_times: How many mistakes each error stands for, where of many alike in a row only the first are told; None
            if each is one.
    """

    columns: dict[str, Ragged]
    dropped: NDArray[np.bool_] | None = None
    error_rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    explain: Callable[[int], str] = str
    warnings: Sequence[ParseWarning] = ()
    place: Callable[[int], Place] | None = None
    records: NDArray[np.int64] | None = None
    error_times: NDArray[np.int64] | None = None

    @property
    def times(self) -> NDArray[np.int64]:
        """How many mistakes each error stands for."""
        return np.ones(len(self.error_rows), np.int64) if self.error_times is None else self.error_times

    def slice(self, begin: int, end: int) -> Parsed:
        """The rows from `begin` up to `end`; what was noticed in all of them goes with the first."""
        first, last = np.searchsorted(self.error_rows, (begin, end)).tolist()
        explain, place = self.explain, self.place
        return Parsed(
            {name: column[begin:end] for name, column in self.columns.items()},
            None if self.dropped is None else self.dropped[begin:end],
            self.error_rows[first:last] - begin,
            lambda i: explain(first + i),
            () if begin else self.warnings,
            None if place is None else lambda i: place(first + i),
            None if self.records is None else self.records[begin:end],
            None if self.error_times is None else self.error_times[first:last],
        )


class SequenceSource(Source):
    """A source whose records are sequences.

    A sequence has a key, by which sources are joined, and a size in samples, by which minibatches are filled. Chunks
    are runs of records that stand together in the file; shuffles that keep to a window count in them.
    """

    @property
    @abstractmethod
    def num_records(self) -> int:
        """How many sequences there are."""

    @property
    @abstractmethod
    def streams(self) -> tuple[SequenceStream, ...]:
        """The streams, in the order in which they were declared."""

    @property
    @abstractmethod
    def sizes(self) -> NDArray[np.uint32] | None:
        """Samples of each sequence, as minibatches count them; None if each has one."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Bytes of all sequences together, roughly: for sharing out work in pieces of some size."""

    @abstractmethod
    def keys(self) -> NDArray[np.uint64]:
        """The key of each sequence."""

    @abstractmethod
    def chunks(self, limit: int) -> NDArray[np.int64]:
        """Where chunks of at most `limit` bytes begin: record numbers from 0 on, and last the number of records."""

    @abstractmethod
    def parse(self, records: NDArray[np.int64]) -> Parsed:
        """Reads sequences by number, in the order asked for. May be called from several threads at once.

        Malformed data is reported, not raised; whoever calls decides what it costs.
        """

    def deliver(self, parsed: Parsed) -> dict[str, Any]:
        """The columns of sequences without mistakes, as `read` gives them.

        Raises:
            DataError: At the first mistake.
        """
        if len(parsed.error_rows):
            raise DataError(parsed.explain(0))
        return dict(parsed.columns)

    def read(self, records: NDArray[np.int64]) -> dict[str, Any]:
        """As `parse` and `deliver`.

        Raises:
            DataError: If a sequence is malformed.
        """
        return self.deliver(self.parse(records))

    def column_names(self) -> list[str]:
        """The names of the streams."""
        return [stream.name for stream in self.streams]


class StoredSequences(SequenceSource):
    """Sequences of a source that were parsed before, and are taken from where they are stored.

    All but parsing is the source's: order, keys and fingerprint must not depend on whether there is a store. The source
    stays open for them, and for its messages.
    """

    def __init__(self, source: SequenceSource) -> None:
        self._source = source

    @property
    def kind(self) -> str:
        """Of the source: what a description says must not depend on whether there is a store."""
        return self._source.kind

    @property
    def num_records(self) -> int:
        """Of the source."""
        return self._source.num_records

    @property
    def streams(self) -> tuple[SequenceStream, ...]:
        """Of the source."""
        return self._source.streams

    @property
    def sizes(self) -> NDArray[np.uint32] | None:
        """Of the source."""
        return self._source.sizes

    @property
    def num_bytes(self) -> int:
        """Of the source."""
        return self._source.num_bytes

    def keys(self) -> NDArray[np.uint64]:
        """Of the source."""
        return self._source.keys()

    def chunks(self, limit: int) -> NDArray[np.int64]:
        """Of the source."""
        return self._source.chunks(limit)

    def parse(self, records: NDArray[np.int64]) -> Parsed:
        """Takes the records from the store.

        Raises:
            IndexError: If a record isn't there.
        """
        records = checked_records(records, self.num_records)
        return replace(self._take(records), records=records)

    @abstractmethod
    def _take(self, records: NDArray[np.int64]) -> Parsed:
        """As `parse`, of records that are there."""

    def deliver(self, parsed: Parsed) -> dict[str, Any]:
        """As the source does."""
        return self._source.deliver(parsed)

    def lengths(self) -> dict[str, NDArray[Any]] | None:
        """Of the source."""
        return self._source.lengths()

    def column_names(self) -> list[str]:
        """Of the source."""
        return self._source.column_names()

    def fingerprint(self) -> Fingerprint:
        """Of the source."""
        return self._source.fingerprint()

    def where(self, record: int) -> str:
        """As the source names it."""
        return self._source.where(record)

    def close(self) -> None:
        """Closes the source."""
        self._source.close()


def checked_records(records: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Record numbers as native code takes them, after looking whether all of them are there.

    Raises:
        IndexError: If one isn't.
    """
    records = np.ascontiguousarray(records, np.int64)
    if len(records):
        first, last = int(records.min()), int(records.max())
        if first < 0 or last >= count:
            raise IndexError(f"there are records 0 to {count - 1}, got {first if first < 0 else last}")
    return records


def records_a_block(source: SequenceSource, block_bytes: int) -> int:
    """How many neighbouring records have about `block_bytes` bytes; at least one."""
    blocks = max(1, -(-source.num_bytes // block_bytes))
    return max(1, -(-source.num_records // blocks))
