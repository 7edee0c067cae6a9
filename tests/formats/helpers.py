"""Sequences in memory, for tests of what takes sequences from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headrace as hr
from headrace.formats.exchange import Block, equal_chunks, size_of_rows
from headrace.formats.parsed import take_parsed
from headrace.formats.sequences import Parsed, ParseWarning, Place, SequenceSource, SequenceStream
from headrace.formats.source import Fingerprint


class Given(SequenceSource):
    """The sequences of a block; those whose number is in `bad` are malformed."""

    kind = "given sequences"

    def __init__(
        self,
        streams: Sequence[SequenceStream],
        block: Block,
        bad: Sequence[int] = (),
        warnings: Sequence[ParseWarning] = (),
    ) -> None:
        self._streams, self.block, self.bad, self.warnings = tuple(streams), block, list(bad), warnings

    @property
    def num_records(self) -> int:
        return len(self.block.keys)

    @property
    def streams(self) -> tuple[SequenceStream, ...]:
        return self._streams

    @property
    def sizes(self) -> NDArray[np.uint32] | None:
        return size_of_rows(self._streams, {name: column.lengths for name, column in self.block.columns.items()})

    @property
    def num_bytes(self) -> int:
        return 100 * self.num_records

    def keys(self) -> NDArray[np.uint64]:
        return self.block.keys

    def chunks(self, limit: int) -> NDArray[np.int64]:
        return equal_chunks(self, limit)

    def parse(self, records: NDArray[np.int64]) -> Parsed:
        parsed = take_parsed(Parsed(dict(self.block.columns)), records)
        rows = np.flatnonzero(np.isin(records, self.bad))
        return Parsed(
            parsed.columns,
            np.isin(records, self.bad) if len(rows) else None,
            rows,
            lambda i: f"given, line {records[rows[i]] + 1}, column 3: expected good, got bad; mend it",
            self.warnings if len(records) else (),
            lambda i: Place("bad", int(records[rows[i]]) + 1, 3, 100, "x"),
        )

    def fingerprint(self) -> Fingerprint:
        return {"records": self.num_records}

    def where(self, record: int) -> str:
        return f"given, line {record + 1}"


X = SequenceStream("x", (3,))
W = SequenceStream("w", (70_000,), sparse=True)


def some_block(seed: int = 1, rows: int = 40, dtype: str = "float32", ids: bool = True) -> Block:
    """Sequences of streams `x` and `w`: some without a sample, samples without entries, unsorted indices, and all kinds
    of numbers."""
    rng = np.random.default_rng(seed)

    def numbers(count: int) -> Any:
        values = rng.choice([0.0, -0.0, 1.0, 0.1, -2.5, 1e-40, 3e38, 12345678.0], count) * rng.choice([1.0, 0.7], count)
        return values.astype(dtype)

    lengths = rng.integers(0, 4, rows) if ids else np.ones(rows, np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    own = rng.integers(1, 3, rows) if ids else np.ones(rows, np.int64)
    samples = np.concatenate([[0], np.cumsum(own)])
    entries = np.concatenate([[0], np.cumsum(rng.integers(0, 5, samples[-1]))])
    indices = rng.integers(0, 70_000, entries[-1]).astype(np.int32)
    sparse = hr.Sparse(numbers(int(entries[-1])), indices, entries, 70_000)
    keys = np.cumsum(rng.integers(1, 1 << 40, rows)) if ids else np.arange(rows)
    dense = numbers(3 * int(offsets[-1])).reshape(-1, 3)
    return Block(keys.astype(np.uint64), {"x": hr.Ragged(dense, offsets), "w": hr.Ragged(sparse, samples)})


def streams_of(dtype: str = "float32") -> list[SequenceStream]:
    """What `some_block` holds."""
    return [SequenceStream("x", (3,), dtype=np.dtype(dtype)), SequenceStream("w", (70_000,), True, np.dtype(dtype))]


def rows_of(block: Block, start: int, stop: int) -> Block:
    """Neighbouring sequences of a block."""
    return Block(block.keys[start:stop], {name: column[start:stop] for name, column in block.columns.items()})
