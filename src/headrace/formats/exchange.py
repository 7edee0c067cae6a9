"""Blocks of sequences, as writers of formats take them, and sources whose columns are at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse
from headrace.batch.tree import interleave, take
from headrace.errors import DataError
from headrace.formats.parsed import take_parsed
from headrace.formats.sequences import Parsed, SequenceSource, SequenceStream, checked_records
from headrace.formats.source import Fingerprint


class Block(NamedTuple):
    """Some sequences: their keys, and of each stream by name a column of as many rows."""

    keys: NDArray[np.uint64]
    columns: Mapping[str, Ragged]

    def take(self, rows: NDArray[np.int64]) -> Block:
        """Some of the sequences."""
        return Block(self.keys[rows], take(dict(self.columns), rows))


class ColumnSequences(SequenceSource):
    """Sequences of a file that holds whole columns, in one piece or several, each read where it lies.

    Args:
        path: The file, for messages.
        file: The same file, opened: it must not change while it is read.
        streams: What the columns are.
        blocks: The pieces, in order.

    Raises:
        DataError: If a column doesn't fit its stream, or its number of rows the keys.
    """

    kind = "columns of sequences"

    def __init__(
        self, path: str, file: _native.FileBytes, streams: Sequence[SequenceStream], blocks: Sequence[Block]
    ) -> None:
        self._path, self._file, self._streams, self._blocks = path, file, tuple(streams), list(blocks)
        if not self._streams:
            raise DataError(f"{path}: expected sequences of at least one stream, found no stream")
        for number, block in enumerate(self._blocks):
            self._check(number, block)
        self._starts = np.cumsum([0, *(len(block.keys) for block in self._blocks)])

    def _check(self, number: int, block: Block) -> None:
        for stream in self._streams:
            column = block.columns[stream.name]
            where = f"{self._path}: stream {stream.name!r}" + (f", batch {number}" if len(self._blocks) > 1 else "")
            try:
                Ragged.checked(column.values, column.offsets)
            except ValueError as error:
                raise DataError(f"{where}: {error}") from None
            if len(column) != len(block.keys):
                raise DataError(f"{where}: expected {len(block.keys):,} sequences as there are keys, got {len(column)}")

    @property
    def num_records(self) -> int:
        """Sequences of all pieces."""
        return int(self._starts[-1])

    @property
    def streams(self) -> tuple[SequenceStream, ...]:
        """As the file says."""
        return self._streams

    @property
    def sizes(self) -> NDArray[np.uint32] | None:
        """The samples of each sequence's longest stream."""
        return size_of_rows(self._streams, self.lengths())

    @property
    def num_bytes(self) -> int:
        """Of the file."""
        return self._file.size

    def keys(self) -> NDArray[np.uint64]:
        """As the file has them."""
        return np.concatenate([block.keys for block in self._blocks]) if self._blocks else np.empty(0, np.uint64)

    def lengths(self) -> dict[str, NDArray[Any]]:
        """Samples of each sequence and stream."""
        none = np.empty(0, np.int64)
        return {
            name: np.concatenate([none, *(block.columns[name].lengths for block in self._blocks)])
            for name in self.column_names()
        }

    def chunks(self, limit: int) -> NDArray[np.int64]:
        """Chunks of equally many sequences."""
        return equal_chunks(self, limit)

    def parse(self, records: NDArray[np.int64]) -> Parsed:
        """Takes the records from their columns.

        Raises:
            DataChangedError: If the file was written to.
            IndexError: If a record isn't there.
        """
        self._file.check_unchanged()
        records = checked_records(records, self.num_records)
        if not len(records):
            return Parsed({stream.name: empty_column(stream) for stream in self._streams})
        numbers = np.searchsorted(self._starts, records, side="right") - 1
        parts = []
        for number in np.unique(numbers).tolist():
            where = np.flatnonzero(numbers == number)
            whole = Parsed(dict(self._blocks[number].columns))
            parts.append((where, take_parsed(whole, records[where] - self._starts[number]).columns))
        return Parsed(parts[0][1] if len(parts) == 1 else interleave(parts))

    def fingerprint(self) -> Fingerprint:
        """Sequences, bytes and a sample of the content."""
        return {"records": self.num_records, "bytes": self._file.size, "sample": f"{self._file.sample():016x}"}

    def where(self, record: int) -> str:
        """File, number and key."""
        number = int(np.searchsorted(self._starts, record, side="right")) - 1
        key = int(self._blocks[number].keys[record - self._starts[number]])
        return f"{self._path}, sequence {record} (key {key})"

    def close(self) -> None:
        """Forgets the columns."""
        self._blocks = []


def empty_column(stream: SequenceStream, rows: int = 0) -> Ragged:
    """A column of sequences without samples."""
    offsets = np.zeros(rows + 1, np.int64)
    if stream.sparse:
        none = np.empty(0, stream.dtype)
        return Ragged(Sparse(none, np.empty(0, np.int32), np.zeros(1, np.int64), stream.shape[-1]), offsets)
    return Ragged(np.empty((0, *stream.shape), stream.dtype), offsets)


def block_of(keys: NDArray[np.uint64], parsed: Parsed) -> Block:
    """What was parsed, as a block, without the sequences that were dropped."""
    block = Block(keys, parsed.columns)
    return block if parsed.dropped is None else block.take(np.flatnonzero(~parsed.dropped))


def size_of_rows(streams: Sequence[SequenceStream], lengths: Mapping[str, NDArray[Any]]) -> NDArray[np.uint32] | None:
    """What sequences count as in a minibatch: the samples of the stream that says so, or of the longest one."""
    counting = [stream for stream in streams if stream.defines_size] or streams
    sizes = np.max([lengths[stream.name] for stream in counting], axis=0)
    return None if bool((sizes == 1).all()) else sizes.astype(np.uint32)


def equal_chunks(source: SequenceSource, limit: int) -> NDArray[np.int64]:
    """Chunks of equally many sequences and of about `limit` bytes."""
    each = max(1, source.num_records * limit // max(1, source.num_bytes))
    return np.append(np.arange(0, source.num_records, each), source.num_records)
