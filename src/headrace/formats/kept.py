"""Sequences that are parsed once and kept in memory."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.formats.parsed import join_parsed, take_parsed
from headrace.formats.sequences import Parsed, SequenceSource, StoredSequences, records_a_block

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
