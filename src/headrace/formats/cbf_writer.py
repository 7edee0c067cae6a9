"""Writes columns as files in CNTK's binary format (CBF), version 1."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headrace.batch.check import float_type
from headrace.batch.column import offsets_of
from headrace.batch.sparse import Sparse
from headrace.checks import whole
from headrace.errors import DataError
from headrace.formats.atomic import write_atomic
from headrace.formats.cbf import MAGIC, VERSION
from headrace.formats.samples import Columns, Samples, Streams, batches_of, streams_of

CHUNK_SIZE = 32 << 20
_EXACT = 1 << 53
_Words = NDArray[np.uint32]


def write_cbf(
    path: str | os.PathLike[str],
    data: Columns | Iterable[Columns],
    *,
    streams: Streams = None,
    chunk_size: int = CHUNK_SIZE,
    dtype: DTypeLike | None = None,
) -> None:
    """Writes columns, or batches of columns, as a file in CNTK's binary format, which `read_cbf` and CNTK 2.7 read.

    Rows of arrays, `Sparse` columns and SciPy's matrices are sequences of one sample; rows of a `Ragged` (or lists of
    matrices) are sequences of samples. Memory stays bounded by a chunk and a batch. The file appears when it is
    complete. Indices of a sparse sample are put in ascending order, as the format wants them.

    Args:
        path: The file; one that is there is replaced.
        data: A dict of columns, or an iterable of such batches: a `Loader`, a generator.
        streams: The columns to write, in that order; a dict gives them other names in the file. By default all.
        chunk_size: A chunk is closed when it has so many bytes.
        dtype: `"float32"` or `"float64"` for all values; by default float32 for columns whose type fits into it
            without loss, float64 for others. (CNTK's Python reads float32 alone.)

    Raises:
        DataError: If a column can't be written, or batches differ in their columns.
        ValueError: If `chunk_size` or `dtype` is out of range.
        OSError: If the file can't be written.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np, headrace as hr
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "train.cbf")
        >>> hr.write_cbf(path, {"x": np.eye(3, dtype=np.float32), "y": hr.Sparse.from_rows([([1], [1])] * 3, width=9)})
        >>> hr.read_cbf(path)[1]["x"].tolist()
        [0.0, 1.0, 0.0]
        >>> folder.cleanup()
    """
    writer = _Writer(whole("chunk_size", chunk_size, 1), None if dtype is None else float_type(dtype))
    write_atomic(path, writer.parts(data, streams))


class _Writer:
    """The content of a file, chunk by chunk."""

    def __init__(self, chunk_size: int, dtype: np.dtype[Any] | None) -> None:
        self.chunk_size = chunk_size
        self.dtype = dtype
        self.types: dict[str, tuple[bool, int, np.dtype[Any]]] = {}  # sparse, dim and type of values
        self.table: list[bytes] = []
        # Rows of the chunk that isn't full yet: their lengths, and what each stream has of them. Encoded at once, so
        # that whoever gives the batches may use their memory again.
        self.waiting: list[tuple[NDArray[np.uint32], dict[str, _Words]]] = []
        self.waiting_bytes = 0
        self.at = 0

    def parts(self, data: Columns | Iterable[Columns], streams: Streams) -> Iterator[Any]:
        """The whole file, in pieces."""
        yield self._counted(struct.pack("<QI", MAGIC, VERSION))
        rows = 0
        for batch in batches_of(data):
            found = streams_of(batch, streams)
            self._check(found)
            yield from self._add(found, rows)
            rows += len(next(iter(found.values())))
        if not self.types:
            raise DataError("expected at least one batch, got none: the streams of no data aren't known")
        yield from self._chunk()
        yield self._header()

    def _counted(self, part: Any) -> Any:
        self.at += len(part) if isinstance(part, bytes) else part.nbytes
        return part

    def _check(self, found: dict[str, Samples]) -> None:
        if not self.types:
            self.types = {name: (s.sparse, s.dim, self._type(name, s)) for name, s in found.items()}
            for name, (_, dim, _) in self.types.items():
                if not name or dim >= 1 << 32:
                    raise DataError(f"column {name!r}: the format needs a name and less than 2^32 numbers, got {dim}")
            return
        if list(found) != list(self.types):
            raise DataError(f"expected the columns of the first batch, {list(self.types)}, got {list(found)}")
        for name, samples in found.items():
            now = samples.sparse, samples.dim, self._type(name, samples)
            if now != self.types[name]:
                raise DataError(f"column {name!r}: expected {_words_for(*self.types[name])} as in the first batch, got "
                                f"{_words_for(*now)}")  # fmt: skip

    def _type(self, name: str, samples: Samples) -> np.dtype[Any]:
        if self.dtype is not None:
            return self.dtype
        return np.dtype(np.float32 if np.can_cast(samples.numbers.dtype, np.float32) else np.float64)

    def _add(self, found: dict[str, Samples], first: int) -> Iterator[Any]:
        """Takes rows up, and gives the chunks that are full by them."""
        sizes = self._row_bytes(found, first)
        total = np.cumsum(sizes)
        start, count = 0, len(sizes)
        while start < count:
            before = int(total[start - 1]) if start else 0
            stop = int(np.searchsorted(total, self.chunk_size - self.waiting_bytes + before)) + 1
            stop = min(max(stop, start + 1), count)
            rows = {name: samples.rows(start, stop) for name, samples in found.items()}
            lengths = np.max([np.diff(samples.offsets) for samples in rows.values()], axis=0).astype("<u4")
            words = {name: _encode(name, samples, self.types[name][2]) for name, samples in rows.items()}
            self.waiting.append((lengths, words))
            self.waiting_bytes += int(total[stop - 1]) - before
            if self.waiting_bytes >= self.chunk_size:
                yield from self._chunk()
            start = stop

    def _row_bytes(self, found: dict[str, Samples], first: int) -> NDArray[np.int64]:
        """What each row takes in the file."""
        sizes = np.full(len(next(iter(found.values()))), 4, np.int64)
        for name, samples in found.items():
            _, dim, dtype = self.types[name]
            lengths = np.diff(samples.offsets)
            entries = lengths * dim
            if isinstance(samples.values, Sparse):
                entries = np.diff(samples.values.offsets[samples.offsets])
                sizes += 8 + entries * (dtype.itemsize + 4) + lengths * 4
            else:
                sizes += 4 + entries * dtype.itemsize
            if len(lengths) and (int(lengths.max()) >= 1 << 32 or (samples.sparse and int(entries.max()) >= 1 << 31)):
                row = first + int(max(lengths.argmax(), entries.argmax()))
                raise DataError(f"row {row}, column {name!r}: more samples or entries than the format can count")
        return sizes

    def _chunk(self) -> Iterator[Any]:
        """The chunk of the rows that wait: lengths, then stream after stream."""
        if not self.waiting:
            return
        lengths = [own for own, _ in self.waiting]
        sequences, samples = sum(map(len, lengths)), sum(int(part.sum(dtype=np.uint64)) for part in lengths)
        if sequences >= 1 << 32 or samples >= 1 << 32:
            raise DataError(f"a chunk of {samples} samples is more than the format can count; give a chunk_size")
        self.table.append(struct.pack("<qII", self.at, sequences, samples))
        for part in lengths:
            yield self._counted(part)
        for name in self.types:
            for _, words in self.waiting:
                yield self._counted(words[name])
        self.waiting, self.waiting_bytes = [], 0

    def _header(self) -> bytes:
        parts = [struct.pack("<QII", MAGIC, len(self.table), len(self.types))]
        for name, (sparse, dim, dtype) in self.types.items():
            text = name.encode()
            parts += [struct.pack("<BI", sparse, len(text)), text, struct.pack("<BI", dtype.itemsize == 8, dim)]
        return b"".join([*parts, *self.table, struct.pack("<q", self.at)])


def _words_for(sparse: bool, dim: int, dtype: np.dtype[Any]) -> str:
    return f"{'sparse' if sparse else 'dense'} {dtype} samples of {dim}"


def _encode(name: str, samples: Samples, dtype: np.dtype[Any]) -> _Words:
    """Rows of a stream as they stand in a chunk, in words of 32 bits: everything in the format is made of those."""
    lengths = np.diff(samples.offsets)
    each = np.arange(len(lengths) + 1)
    words = dtype.itemsize // 4
    values = samples.values
    if not isinstance(values, Sparse):
        numbers = _converted(name, values, dtype)
        return _interleave(
            [(lengths.astype("<u4"), each), (numbers, samples.offsets * (values.shape[1] * words))],
        )
    values = _ascending(values)
    entries = values.offsets[samples.offsets]
    return _interleave(
        [
            (lengths.astype("<u4"), each),
            (np.diff(entries).astype("<u4"), each),
            (_converted(name, values.values, dtype), entries * words),
            (values.indices.astype("<i4").view("<u4"), entries),
            (np.diff(values.offsets).astype("<u4"), samples.offsets),
        ]
    )


def _converted(name: str, values: NDArray[Any], dtype: np.dtype[Any]) -> _Words:
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8 and dtype.itemsize == 8 and values.size:
        low, high = int(values.min()), int(values.max())
        if low < -_EXACT or high > _EXACT:
            raise DataError(
                f"column {name!r}: expected whole numbers that float64 can hold, got {low if low < -_EXACT else high}"
            )
    with np.errstate(over="ignore"):  # what float32 can't hold becomes infinite, as in reading text
        converted: NDArray[Any] = np.ascontiguousarray(values, dtype.newbyteorder("<"))
    return converted.reshape(-1).view("<u4")


def _ascending(values: Sparse) -> Sparse:
    """The same rows with ascending indices; entries with one index keep their order."""
    rows = values.rows()
    if not ((np.diff(values.indices) < 0) & (np.diff(rows) == 0)).any():
        return values
    order = np.lexsort((values.indices, rows))
    return Sparse(values.values[order], values.indices[order], values.offsets, values.width)


def _interleave(sections: list[tuple[_Words, NDArray[Any]]]) -> _Words:
    """Row by row what each section has of it; a section is words, and where those of each row begin."""
    counts = [np.diff(offsets) for _, offsets in sections]
    if len(counts[0]) and all((count == count[0]).all() for count in counts):
        return np.concatenate([words.reshape(len(counts[0]), -1) for words, _ in sections], axis=1).reshape(-1)
    starts = offsets_of(sum(counts[1:], counts[0]))
    out = np.empty(int(starts[-1]), "<u4")
    to = starts[:-1].copy()
    for (words, offsets), count in zip(sections, counts, strict=True):
        if len(count) and (count == 1).all():
            out[to] = words
        elif len(words):
            out[np.arange(len(words)) + np.repeat(to - offsets[:-1], count)] = words
        to += count
    return out
