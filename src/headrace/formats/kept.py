"""Sequences that are parsed once and kept in memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Ragged
from headrace.batch.tree import interleave
from headrace.formats.sequences import Parsed, Place, SequenceSource, StoredSequences, records_a_block

BLOCK_BYTES = 32 << 20
"""Bytes of text that are parsed in one go when a record among them is first asked for."""


class KeptSequences(StoredSequences):
    """A source of sequences whose records are parsed when they are first asked for, and then kept.

    Records are parsed in blocks of neighbours, so the first pass in order costs what it costs without keeping; a run of
    neighbours in a block is handed out without a copy.

    Args:
        source: The sequences.
        block_bytes: About how many bytes of the source make a block.
    """

    def __init__(self, source: SequenceSource, *, block_bytes: int = BLOCK_BYTES) -> None:
        super().__init__(source)
        self._block_size = records_a_block(source, block_bytes)
        self._blocks: dict[int, Parsed] = {}
        self._locks = [threading.Lock() for _ in range(-(-source.num_records // self._block_size))]

    def __reduce__(self) -> tuple[Any, ...]:
        """The source, without what was kept of it: a copy in another process parses for itself."""
        return KeptSequences, (self._source,)

    def _take(self, records: NDArray[np.int64]) -> Parsed:
        """Takes the records from their blocks, parsing those that aren't there yet."""
        if not len(records):
            return self._source.parse(records)
        first, last = int(records.min()) // self._block_size, int(records.max()) // self._block_size
        if first == last:
            return take_parsed(self._block(first), records - first * self._block_size)
        blocks = records // self._block_size
        parts = []
        for block in np.unique(blocks).tolist():
            where = np.flatnonzero(blocks == block)
            parts.append((where, take_parsed(self._block(block), records[where] - block * self._block_size)))
        return join_parsed(parts, len(records))

    def _block(self, number: int) -> Parsed:
        # Only one thread parses a block; others that want it wait, and those that want other blocks don't.
        with self._locks[number]:
            if number not in self._blocks:
                start = number * self._block_size
                stop = min(start + self._block_size, self.num_records)
                self._blocks[number] = self._source.parse(np.arange(start, stop))
            return self._blocks[number]

    def close(self) -> None:
        """Closes the source and forgets what was kept."""
        self._blocks.clear()
        super().close()


def take_parsed(parsed: Parsed, rows: NDArray[np.int64]) -> Parsed:
    """Some rows of what was parsed, with their errors; views, where the rows are neighbours in ascending order."""
    start, count = int(rows[0]), len(rows)
    if int(rows[-1]) - start == count - 1 and (count == 1 or bool((np.diff(rows) == 1).all())):
        columns = {name: slice_rows(column, start, start + count) for name, column in parsed.columns.items()}
    else:
        columns = {name: column.take(rows) for name, column in parsed.columns.items()}
    dropped = None if parsed.dropped is None else parsed.dropped[rows]
    if not len(parsed.error_rows):
        return Parsed(columns, dropped, warnings=parsed.warnings)
    first = np.searchsorted(parsed.error_rows, rows, side="left")
    errors = np.searchsorted(parsed.error_rows, rows, side="right") - first
    numbers = [i for a, n in zip(first.tolist(), errors.tolist(), strict=True) for i in range(a, a + n)]
    whole = parsed.place
    return Parsed(
        columns,
        dropped,
        np.repeat(np.arange(count), errors),
        lambda i: parsed.explain(numbers[i]),
        parsed.warnings,
        None if whole is None else lambda i: whole(numbers[i]),
    )


def join_parsed(parts: Sequence[tuple[NDArray[np.int64], Parsed]], count: int) -> Parsed:
    """Puts together what was parsed in parts.

    Args:
        parts: Pairs of places and what was parsed: row `k` of a part comes to place `where[k]` of the whole.
        count: Rows of the whole; the places are 0 … count−1, each once.
    """
    dropped = np.zeros(count, bool)
    errors: list[tuple[int, Parsed, int]] = []
    for where, part in parts:
        errors += [(int(where[row]), part, i) for i, row in enumerate(part.error_rows.tolist())]
        if part.dropped is not None:
            dropped[where] = part.dropped
    errors.sort(key=lambda error: error[0])

    def explain(i: int) -> str:
        _, part, own = errors[i]
        return part.explain(own)

    def place(i: int) -> Place:
        _, part, own = errors[i]
        assert part.place is not None
        return part.place(own)

    return Parsed(
        interleave([(where, part.columns) for where, part in parts]),
        dropped if dropped.any() else None,
        np.array([row for row, _, _ in errors], np.int64),
        explain,
        [warning for _, part in parts for warning in part.warnings],
        place if all(part.place is not None for _, part in parts) else None,
    )


def slice_rows(column: Ragged, start: int, stop: int) -> Ragged:
    """Neighbouring rows of a column, sharing its memory."""
    a, b = int(column.offsets[start]), int(column.offsets[stop])
    return Ragged(column.values[a:b], column.offsets[start : stop + 1] - a)
