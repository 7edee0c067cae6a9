"""Sequences in memory, for tests of what stands above the formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headrace as hr
from headrace.cntk import Deserializer, MinibatchSource
from headrace.formats.sequences import Parsed, ParseWarning, SequenceSource, SequenceStream
from headrace.formats.source import Fingerprint


class Memory(SequenceSource):
    """Sequence i has `lengths[i]` samples; sample k of stream number n is `1000 n + 10 key + k`, in one dense number.

    A stream whose name begins with "s" is sparse: the value stands at index `key % 7`.
    """

    kind = "memory"

    def __init__(
        self,
        lengths: Sequence[int],
        keys: Sequence[int] | None = None,
        chunk: int = 4,
        streams: Sequence[str] = ("x",),
        bad: Sequence[int] = (),
        lost: Sequence[int] = (),
        defines: str = "",
        sizes: bool = True,
    ) -> None:
        self.lengths_ = list(lengths)
        self.keys_ = list(range(len(lengths)) if keys is None else keys)
        self.chunk, self.names, self.defines = chunk, list(streams), defines
        self.bad, self.lost, self.with_sizes = set(bad), set(lost), sizes
        self.parsed: list[int] = []
        self.closed = False

    @property
    def num_records(self) -> int:
        return len(self.lengths_)

    @property
    def streams(self) -> tuple[SequenceStream, ...]:
        return tuple(
            SequenceStream(n, (7,), True)
            if n.startswith("s")
            else SequenceStream(n, (1,), defines_size=n == self.defines)
            for n in self.names
        )

    @property
    def sizes(self) -> NDArray[np.uint32] | None:
        return np.array(self.lengths_, np.uint32) if self.with_sizes else None

    @property
    def num_bytes(self) -> int:
        return 10 * sum(self.lengths_)

    def keys(self) -> NDArray[np.uint64]:
        return np.array(self.keys_, np.uint64)

    def chunks(self, limit: int) -> NDArray[np.int64]:
        return np.array([*range(0, self.num_records, self.chunk), self.num_records])

    def parse(self, records: NDArray[np.int64]) -> Parsed:
        self.parsed += records.tolist()
        lengths = [0 if i in self.lost else self.lengths_[i] for i in records.tolist()]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        keys = np.repeat(np.array([self.keys_[i] for i in records.tolist()], np.int64), lengths)
        steps = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        columns = {}
        for number, name in enumerate(self.names):
            values = (1000 * number + 10 * keys + steps).astype(np.float32)
            rows: Any = values[:, None]
            if name.startswith("s"):
                rows = hr.Sparse.from_rows(
                    [([k % 7], [v]) for k, v in zip(keys.tolist(), values, strict=True)], width=7
                )
            columns[name] = hr.Ragged(rows, offsets)
        errors = [row for row, i in enumerate(records.tolist()) if i in self.bad or i in self.lost]
        dropped = np.isin(records, list(self.lost)) if self.lost else None
        found = records[errors].tolist()
        return Parsed(
            columns,
            dropped,
            np.array(errors, np.int64),
            lambda i: f"mistake in {found[i]}",
            [ParseWarning("odd", len(records), f"odd {records[0]}")] if len(records) and self.bad else [],
        )

    def fingerprint(self) -> Fingerprint:
        return {"kind": self.kind, "sequences": self.num_records, "samples": sum(self.lengths_)}

    def where(self, record: int) -> str:
        return f"memory, sequence {record}"

    def close(self) -> None:
        self.closed = True


class InMemory(Deserializer):
    """Deserializes `Memory`."""

    kind = "InMemory"

    def __init__(self, lengths: Sequence[int], *, max_errors: int = 0, name: str = "memory", **options: Any) -> None:
        self.source = Memory(lengths, **options)
        self.max_errors = max_errors
        self.filename = name

    def open(self) -> SequenceSource:
        return self.source


def values(minibatch: Mapping[Any, Any]) -> dict[str, Any]:
    """A minibatch as plain lists: of each stream the sequences, and whether a sweep ended."""
    found: dict[str, Any] = {}
    for info, data in minibatch.items():
        rows = [s if isinstance(s, np.ndarray) else s.toarray() for s in data.as_sequences()]
        found[info.name] = [row.tolist() for row in rows]
        found["end"] = data.end_of_sweep
    return found


def keys_of(minibatch: Mapping[Any, Any], stream: str = "x") -> list[int]:
    """The keys of a minibatch's sequences, from the values of a first stream that is dense."""
    data = next(data for info, data in minibatch.items() if info.name == stream)
    return [int(sequence[0, 0]) // 10 for sequence in data.as_sequences()]


def rest(source: MinibatchSource, size: int, **partition: Any) -> list[dict[str, Any]]:
    """All minibatches up to the end."""
    found = []
    while minibatch := source.next_minibatch(size, **partition):
        found.append(values(minibatch))
    return found
