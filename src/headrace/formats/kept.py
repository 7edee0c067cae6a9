"""Sequences that are parsed once: kept in memory, or in a columnar cache on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse
from headrace.batch.tree import interleave
from headrace.formats.sequences import Parsed, ParseWarning, SequenceSource, SequenceStream
from headrace.formats.source import Fingerprint

BLOCK_BYTES = 32 << 20
"""Bytes of text that are parsed in one go when a record among them is first asked for."""


class KeptSequences(SequenceSource):
    """A source of sequences whose records are parsed when they are first asked for, and then kept.

    Records are parsed in blocks of neighbours, so the first pass in order costs what it costs without keeping; a run of
    neighbours in a block is handed out without a copy. The source itself stays open, for its keys and its messages.

    Args:
        source: The sequences.
        block_bytes: About how many bytes of the source make a block.
    """

    kind = "kept sequences"

    def __init__(self, source: SequenceSource, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._source = source
        count = source.num_records
        blocks = max(1, min(count, -(-source.num_bytes // block_bytes)))
        self._block_size = max(1, -(-count // blocks))
        self._blocks: dict[int, Parsed] = {}
        self._locks = [threading.Lock() for _ in range(-(-count // self._block_size))]

    def __reduce__(self) -> tuple[Any, ...]:
        """The source, without what was kept of it: a copy in another process parses for itself."""
        return KeptSequences, (self._source,)

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
        """Takes the records from what is kept, parsing those blocks that aren't there yet."""
        records = np.ascontiguousarray(records, np.int64)
        if not len(records):
            return self._source.parse(records)
        first, last = int(records.min()), int(records.max())
        if first < 0 or last >= self.num_records:
            raise IndexError(f"there are records 0 to {self.num_records - 1}, got {first if first < 0 else last}")
        blocks = records // self._block_size
        if first // self._block_size == last // self._block_size:
            block = first // self._block_size
            return take_parsed(self._block(block), records - block * self._block_size)
        parts, errors, dropped = [], [], np.zeros(len(records), bool)
        warnings: list[ParseWarning] = []
        for block in np.unique(blocks).tolist():
            where = np.flatnonzero(blocks == block)
            part = take_parsed(self._block(block), records[where] - block * self._block_size)
            parts.append((where, part.columns))
            errors += [(int(where[row]), part, i) for i, row in enumerate(part.error_rows.tolist())]
            warnings += part.warnings
            if part.dropped is not None:
                dropped[where] = part.dropped
        errors.sort(key=lambda error: error[0])
        columns = interleave(parts)

        def explain(i: int) -> str:
            _, part, own = errors[i]
            return part.explain(own)

        rows = np.array([row for row, _, _ in errors], np.int64)
        return Parsed(columns, dropped if dropped.any() else None, rows, explain, warnings)

    def deliver(self, parsed: Parsed) -> dict[str, Any]:
        """As the source does."""
        return self._source.deliver(parsed)

    def _block(self, number: int) -> Parsed:
        # Only one thread parses a block; others that want it wait, and those that want other blocks don't.
        with self._locks[number]:
            if number not in self._blocks:
                start = number * self._block_size
                stop = min(start + self._block_size, self.num_records)
                self._blocks[number] = self._source.parse(np.arange(start, stop))
            return self._blocks[number]

    def lengths(self) -> dict[str, NDArray[Any]] | None:
        """Of the source."""
        return self._source.lengths()

    def column_names(self) -> list[str]:
        """Of the source."""
        return list(self._source.column_names() or [])

    def fingerprint(self) -> Fingerprint:
        """Of the source: keeping changes nothing but time."""
        return self._source.fingerprint()

    def where(self, record: int) -> str:
        """As the source names it."""
        return self._source.where(record)

    def close(self) -> None:
        """Closes the source and forgets what was kept."""
        self._blocks.clear()
        self._source.close()


def take_parsed(parsed: Parsed, rows: NDArray[np.int64]) -> Parsed:
    """Some rows of what was parsed, with their errors; views, where the rows are neighbours in ascending order."""
    start, count = int(rows[0]), len(rows)
    if int(rows[-1]) - start == count - 1 and (count == 1 or bool((np.diff(rows) == 1).all())):
        columns = {name: slice_rows(column, start, start + count) for name, column in parsed.columns.items()}
    else:
        columns = {name: column.take(rows) for name, column in parsed.columns.items()}
    dropped = None if parsed.dropped is None else parsed.dropped[rows]
    return Parsed(columns, dropped, *_errors_of(parsed, rows), parsed.warnings)


def slice_rows(column: Ragged, start: int, stop: int) -> Ragged:
    """Neighbouring rows of a column, sharing its memory."""
    a, b = int(column.offsets[start]), int(column.offsets[stop])
    return Ragged(column.values[a:b], column.offsets[start : stop + 1] - a)


def _errors_of(parsed: Parsed, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], Callable[[int], str]]:
    """The errors of some rows, numbered anew."""
    if not len(parsed.error_rows):
        return parsed.error_rows, parsed.explain
    first = np.searchsorted(parsed.error_rows, rows, side="left")
    count = np.searchsorted(parsed.error_rows, rows, side="right") - first
    new_rows = np.repeat(np.arange(len(rows)), count)
    numbers = [i for a, n in zip(first.tolist(), count.tolist(), strict=True) for i in range(a, a + n)]
    return new_rows, lambda i: parsed.explain(numbers[i])


def values_of(column: Ragged) -> list[NDArray[Any]]:
    """The arrays that a column of sequences consists of, without the sequences' own offsets."""
    if isinstance(column.values, Sparse):
        return list(column.values.parts())
    return [column.values]
