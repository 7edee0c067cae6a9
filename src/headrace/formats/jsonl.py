"""Sequences as JSON lines, one object a line.

    {"key": 7, "streams": {"a": [[1, 2.5], [0, 1]], "w": [[[3, 1], [17, 0.5]], []]}}

A stream is a list of samples: of a dense one lists of numbers, of a sparse one lists of pairs of index and value.
Numbers are written so that they read back as the same; infinity is `1e999`, which JSON's grammar has, and what is not a
number `null`. How wide sparse streams are is not in the file.
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.column import offsets_of
from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse
from headrace.errors import DataError
from headrace.formats.atomic import write_atomic
from headrace.formats.exchange import Block, empty_column, equal_chunks, size_of_rows
from headrace.formats.files import Paths
from headrace.formats.sequences import Parsed, Place, SequenceSource, SequenceStream, records_a_block
from headrace.formats.sidecar import IndexMode
from headrace.formats.source import Fingerprint
from headrace.formats.text import TextSource

_SCAN_BYTES = 8 << 20
_INFER_LINES = 1000
_KEY = re.compile(rb'\s*\{\s*"key"\s*:\s*(0|[1-9][0-9]{0,19})\s*[,}]')


def write_jsonl(path: str | os.PathLike[str], streams: Sequence[SequenceStream], blocks: Iterable[Block]) -> int:
    """Writes sequences as JSON lines.

    Args:
        path: The file.
        streams: What the columns are.
        blocks: The sequences.

    Returns:
        How many there were.

    Raises:
        OSError: If the file can't be written.
    """
    count = 0

    def parts() -> Iterator[bytes]:
        nonlocal count
        for block in blocks:
            count += len(block.keys)
            yield "".join(line + "\n" for line in json_lines(streams, block)).encode()

    write_atomic(path, parts())
    return count


def json_lines(streams: Sequence[SequenceStream], block: Block) -> Iterator[str]:
    """Each sequence of a block as a line of JSON, without the line's end."""
    columns = [
        (json.dumps(stream.name, ensure_ascii=False), _samples(block.columns[stream.name])) for stream in streams
    ]
    for row, key in enumerate(block.keys.tolist()):
        text = ", ".join(f"{name}: [{', '.join(rows[row])}]" for name, rows in columns)
        yield f'{{"key": {key}, "streams": {{{text}}}}}'


def _samples(column: Ragged) -> list[list[str]]:
    """Of each row the samples, as JSON."""
    values = column.values
    if isinstance(values, Sparse):
        numbers = [f"[{i}, {v}]" for i, v in zip(values.indices.tolist(), _numbers(values.values), strict=True)]
        bounds = values.offsets.tolist()
    else:
        numbers = _numbers(values)
        bounds = (np.arange(len(values) + 1) * int(np.prod(values.shape[1:]))).tolist()
    samples = [f"[{', '.join(numbers[a:b])}]" for a, b in pairwise(bounds)]
    return [samples[a:b] for a, b in pairwise(column.offsets.tolist())]


def _numbers(values: NDArray[Any]) -> list[str]:
    """Numbers as text that reads back as the same: the shortest one."""
    flat = np.ascontiguousarray(values).ravel()
    if not len(flat):
        return []
    if flat.dtype not in (np.float32, np.float64):
        flat = flat.astype(np.float64 if flat.dtype.kind == "f" else np.int64)
    odd = np.flatnonzero(~np.isfinite(flat) | ((flat == 0) & np.signbit(flat)))
    plain = flat
    if len(odd):
        plain = flat.copy()
        plain[odd] = 0
    # CNTK's text format writes numbers as JSON does, but for those.
    lines = _native.ctf_lines([("x", plain, 1, np.arange(len(plain) + 1), None)], None, 0, len(plain), 0)
    texts = lines[3:-1].tobytes().decode().split("\n|x ")
    for i in odd.tolist():
        texts[i] = "null" if np.isnan(flat[i]) else "-0.0" if flat[i] == 0 else "1e999" if flat[i] > 0 else "-1e999"
    return texts


class JsonLinesSource(SequenceSource):
    """Sequences of JSON lines, read in any order. Blank lines are mistakes.

    Keys and sizes are found by going through the file once, when they are first asked for.

    Args:
        files: A path, a glob pattern, or a list of those; gzip is unpacked.
        streams: The streams to read; others in the file are passed over.
        index: As of text files.

    Raises:
        OSError: If a file can't be opened.
        DataError: If a file is damaged.
    """

    kind = "json lines"

    def __init__(self, files: Paths, streams: Sequence[SequenceStream], *, index: IndexMode = "auto") -> None:
        self._text = TextSource(files, index=index)
        self._streams = tuple(streams)
        self._lock = threading.Lock()
        self._keys: NDArray[np.uint64] | None = None
        self._sizes: tuple[NDArray[np.uint32] | None] | None = None

    @property
    def num_records(self) -> int:
        """Lines."""
        return self._text.num_records

    @property
    def streams(self) -> tuple[SequenceStream, ...]:
        """As given."""
        return self._streams

    @property
    def num_bytes(self) -> int:
        """Of the files."""
        return int(self._text.fingerprint()["bytes"] or 0)

    @property
    def sizes(self) -> NDArray[np.uint32] | None:
        """The samples of each sequence's longest stream."""
        with self._lock:
            if self._sizes is None:
                parts = [self.parse(records).columns for records in self._pieces()]
                names = self.column_names()
                lengths = {
                    name: np.concatenate([np.empty(0, np.int64), *(p[name].lengths for p in parts)]) for name in names
                }
                self._sizes = (size_of_rows(self._streams, lengths),)
            return self._sizes[0]

    def keys(self) -> NDArray[np.uint64]:
        """As the lines have them; 0 for lines that have none."""
        with self._lock:
            if self._keys is None:
                found = [np.empty(0, np.uint64)]
                for records in self._pieces():
                    lines = self._text.read(records)
                    found.append(np.array([_key(lines.bytes_at(row)) for row in range(len(records))], np.uint64))
                self._keys = np.concatenate(found)
            return self._keys

    def _pieces(self) -> Iterator[NDArray[np.int64]]:
        """All records, in pieces of bounded size."""
        step = records_a_block(self, _SCAN_BYTES)
        for start in range(0, self.num_records, step):
            yield np.arange(start, min(start + step, self.num_records))

    def chunks(self, limit: int) -> NDArray[np.int64]:
        """Chunks of equally many lines."""
        return equal_chunks(self, limit)

    def parse(self, records: NDArray[np.int64]) -> Parsed:
        """Reads lines; a malformed one is dropped, with its first mistake reported."""
        records = np.ascontiguousarray(records, np.int64)
        lines = self._text.read(records)
        rows: list[list[_Samples]] = []
        mistakes: list[tuple[int, _Mistake]] = []
        with np.errstate(over="ignore"):  # what is too large becomes infinite
            for row in range(len(records)):
                try:
                    _, found = _object(lines.bytes_at(row))
                    samples = [_row(stream, found.get(stream.name, [])) for stream in self._streams]
                except _Mistake as mistake:
                    mistakes.append((row, mistake))
                    samples = [_nothing(stream) for stream in self._streams]
                rows.append(samples)
        columns = {s.name: _join(s, [row[number] for row in rows]) for number, s in enumerate(self._streams)}
        dropped = None
        if mistakes:
            dropped = np.zeros(len(records), bool)
            dropped[[row for row, _ in mistakes]] = True

        def explain(i: int) -> str:
            row, mistake = mistakes[i]
            return f"{self._text.where(int(records[row]))}, column {mistake.column}: {mistake}; correct the line"

        def place(i: int) -> Place:
            row, mistake = mistakes[i]
            return Place("malformed line", self._text.line(int(records[row])), mistake.column, -1, mistake.stream)

        return Parsed(columns, dropped, np.array([row for row, _ in mistakes], np.int64), explain, (), place)

    def fingerprint(self) -> Fingerprint:
        """Of the text."""
        return self._text.fingerprint()

    def where(self, record: int) -> str:
        """File and line."""
        return self._text.where(record)

    def close(self) -> None:
        """Closes the files."""
        self._text.close()


class _Mistake(Exception):
    def __init__(self, message: str, column: int = 1, stream: str | None = None) -> None:
        super().__init__(message)
        self.column, self.stream = column, stream


_Samples = tuple[NDArray[Any], NDArray[np.int32] | None, list[int]]
"""A row's values, indices, and of each sample how many of them it has (of a dense stream nothing)."""


def _nothing(stream: SequenceStream) -> _Samples:
    if stream.sparse:
        return np.empty(0, stream.dtype), np.empty(0, np.int32), []
    return np.empty((0, *stream.shape), stream.dtype), None, []


def _join(stream: SequenceStream, rows: list[_Samples]) -> Ragged:
    if not rows:
        return empty_column(stream)
    values = np.concatenate([row[0] for row in rows])
    if not stream.sparse:
        return Ragged(values, offsets_of([len(row[0]) for row in rows]))
    indices = np.concatenate([row[1] for row in rows if row[1] is not None])
    entries = offsets_of(list(chain.from_iterable(row[2] for row in rows)))
    return Ragged(Sparse(values, indices, entries, stream.shape[-1]), offsets_of([len(row[2]) for row in rows]))


def _key(line: bytes) -> int:
    """The key of a line, without parsing all of it where it comes first; 0 if there is none."""
    found = _KEY.match(line)
    if found and int(found[1]) < 1 << 64:
        return int(found[1])
    try:
        return _object(line)[0]
    except _Mistake:
        return 0


def _object(line: bytes) -> tuple[int, dict[str, Any]]:
    """Key and streams of a line."""
    try:
        value = json.loads(line.decode())
    except json.JSONDecodeError as error:
        raise _Mistake(f"expected a JSON object, but {error.msg}", error.colno) from None
    except UnicodeDecodeError as error:
        raise _Mistake(f"expected UTF-8, got the byte 0x{line[error.start]:02x}", error.start + 1) from None
    except RecursionError:
        raise _Mistake("expected a JSON object, got one that is nested too deep") from None
    if not isinstance(value, dict) or not isinstance(value.get("streams"), dict):
        raise _Mistake(f'expected {{"key": …, "streams": {{…}}}}, got {line.decode()!r:.60}')
    key = value.get("key")
    if not isinstance(key, int) or isinstance(key, bool) or not 0 <= key < 1 << 64:
        raise _Mistake(f"expected a whole number from 0 on as key, got {key!r:.60}")
    return key, value["streams"]


def _row(stream: SequenceStream, samples: Any) -> _Samples:
    if not isinstance(samples, list) or not all(isinstance(sample, list) for sample in samples):
        raise _Mistake(f"expected a list of samples, each a list, as stream {stream.name!r}", 1, stream.name)
    if not samples:
        return _nothing(stream)
    if not stream.sparse:
        size = math.prod(stream.shape)
        for number, sample in enumerate(samples):
            if len(sample) != size:
                what = f"expected {size} numbers a sample of stream {stream.name!r}"
                raise _Mistake(f"{what}, got {len(sample)} in sample {number}", 1, stream.name)
        return _floats(stream, list(chain.from_iterable(samples))).reshape(len(samples), *stream.shape), None, []
    pairs = list(chain.from_iterable(samples))
    what = f"expected pairs of index and value as entries of stream {stream.name!r}"
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise _Mistake(f"{what}, got {next(p for p in pairs if not isinstance(p, list) or len(p) != 2)!r:.60}")
    for index, _ in pairs:
        if type(index) is not int or not 0 <= index < stream.shape[-1]:
            limit = f"indices from 0 to {stream.shape[-1] - 1} in stream {stream.name!r}"
            raise _Mistake(f"expected {limit}, got {index!r:.60}", 1, stream.name)
    indices = np.array([pair[0] for pair in pairs], np.int32)
    return _floats(stream, [pair[1] for pair in pairs]), indices, [len(sample) for sample in samples]


def _floats(stream: SequenceStream, numbers: list[Any]) -> NDArray[Any]:
    if not set(map(type, numbers)) <= {int, float, type(None)}:
        bad = next(number for number in numbers if type(number) not in (int, float, type(None)))
        raise _Mistake(f"expected numbers in stream {stream.name!r}, got {bad!r:.60}", 1, stream.name)
    try:
        return np.array(numbers, np.float64).astype(stream.dtype)
    except OverflowError:
        raise _Mistake(f"a number of stream {stream.name!r} is beyond all bounds", 1, stream.name) from None


def infer_jsonl(files: Paths) -> list[SequenceStream]:
    """The streams of JSON lines, as far as the first thousand lines tell: all of them, if they are dense.

    Raises:
        DataError: If a stream is sparse, since its width isn't in the file; or if nothing is to be seen of one.
    """
    text = TextSource(files, index="memory")
    widths: dict[str, int | None] = {}
    try:
        for row, line in enumerate(text.read(np.arange(min(_INFER_LINES, text.num_records)))):
            try:
                found = _object(line.encode("utf-8", "surrogateescape"))[1]
            except _Mistake as mistake:
                raise DataError(f"{text.where(row)}: {mistake}") from None
            for name, samples in found.items():
                widths.setdefault(name, None)
                for sample in samples if isinstance(samples, list) else ():
                    if isinstance(sample, list) and sample and isinstance(sample[0], list):
                        raise DataError(
                            f"{text.where(row)}: stream {name!r} is sparse, and JSON lines don't say how wide it is; "
                            "say which streams there are"
                        )
                    widths[name] = len(sample) if widths[name] is None else widths[name]
    finally:
        text.close()
    if not widths or None in widths.values():
        raise DataError("the lines don't tell what streams there are; say so")
    return [SequenceStream(name, (width,)) for name, width in widths.items() if width is not None]
