"""Sequences from files in CNTK's binary format (CBF), version 1."""

from __future__ import annotations

import os
import struct
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse
from headrace.errors import DataError, PlanError
from headrace.formats.files import find_again, open_bytes, state_of
from headrace.formats.sequences import Parsed, Place, SequenceSource, SequenceStream, checked_records
from headrace.formats.source import Fingerprint

MAGIC = 0x636E746B5F62696E
VERSION = 1
_FRONT = struct.Struct("<QI")  # magic, version
_HEADER = struct.Struct("<QII")  # magic, chunks, streams
_CHUNK = np.dtype([("offset", "<i8"), ("sequences", "<u4"), ("samples", "<u4")])
_REMEDY = "copy the file again, or convert it again from its text"
_TABLES = 256 << 20
"""Bytes of tables that say where sequences of the chunks read last begin."""


@dataclass(frozen=True, slots=True, eq=False)
class _Header:
    """What stands at the end of a file."""

    streams: tuple[
        tuple[str, bool, int, int], ...
    ]  # name, sparse, bytes of a value, dim: as the native core takes them
    begins: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    sequences: NDArray[np.uint32]
    samples: NDArray[np.uint32]


class CbfSource(SequenceSource):
    """The sequences of a file in CNTK's binary format, as its converter `ctf2bin` and `write_cbf` make it.

    The file is mapped (or unpacked first, if its name ends in `.gz` or `.zst`). Opening reads its header and the length
    of every sequence (4 bytes each); where the sequences of a chunk lie is found out when one of them is first asked
    for. Whatever the file claims, no more is allocated than its size gives reason to.

    Where every sequence has exactly one sample, `read` gives plain columns of one row a sequence; else each column is a
    `Ragged` of samples. A stream may have fewer samples than another in a sequence, or none.

    Args:
        file: The file.
        rename: New names of streams, by the name in the file; the others keep theirs.
        sequence: False wants exactly one sample of each stream in each sequence, True gives `Ragged` columns even then;
            None goes by the lengths in the file.

    Raises:
        OSError: If the file can't be opened.
        DataError: If it isn't in the format, or contradicts itself; the message names the byte.
        PlanError: If `rename` names a stream that isn't there, or two streams would have one name.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np, headrace as hr
        >>> from headrace.formats.cbf import CbfSource
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "points.cbf")
        >>> hr.write_cbf(path, {"x": hr.Ragged.from_rows([[1.0, 2.0], [3.0]])})
        >>> source = CbfSource(path)
        >>> source.sizes.tolist(), source.read(np.array([1]))["x"].tolist()
        ([2, 1], [[[3.0]]])
        >>> folder.cleanup()
    """

    kind = "cbf"

    def __init__(
        self,
        file: str | os.PathLike[str],
        *,
        rename: Mapping[str, str] | None = None,
        sequence: bool | None = None,
    ) -> None:
        self._path = os.fspath(file)
        self._rename = dict(rename or {})
        self._sequence = sequence
        self._state = state_of(self._path)
        self._file: _native.FileBytes | None = open_bytes(self._path)
        header = _read_header(self._file)
        self._header = header
        self._sizes: NDArray[np.uint32] = _native.cbf_lengths(
            self._file, header.begins, header.ends, header.sequences, header.samples
        )
        self._sizes.flags.writeable = False
        self._first = np.zeros(len(header.begins) + 1, np.int64)  # the first record of each chunk
        np.cumsum(header.sequences, out=self._first[1:])
        self._streams = self._named()
        self._single = bool((self._sizes == 1).all())
        self._plain = self._single and not sequence
        if sequence is False and not self._plain:
            record = int((self._sizes != 1).argmax())
            raise DataError(
                f"{self.where(record)}: expected one sample in each sequence, found {int(self._sizes[record])}; read "
                "with sequence=True"
            )
        self._lengths: dict[str, NDArray[np.uint32]] | None = None
        self._tables: OrderedDict[int, tuple[NDArray[np.uint64], NDArray[np.uint32]]] = OrderedDict()
        self._table_bytes = 0
        self._lock = threading.Lock()

    # Workers in other processes open the file themselves, and make sure that it is the same.
    def __getstate__(self) -> dict[str, Any]:
        return {
            "file": (os.path.abspath(self._path), self._path, self._state),
            "rename": self._rename,
            "sequence": self._sequence,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        path = find_again(*state["file"])
        self.__init__(path, rename=state["rename"], sequence=state["sequence"])  # type: ignore[misc]

    def _named(self) -> tuple[SequenceStream, ...]:
        own = [name for name, *_ in self._header.streams]
        for name in self._rename:
            if name not in own:
                raise PlanError(f"{self._path} has the streams {', '.join(map(repr, own))}; rename names {name!r}")
        names = [self._rename.get(name, name) for name in own]
        for name in names:
            if names.count(name) > 1:
                raise PlanError(f"{self._path}: after renaming, {names.count(name)} streams are called {name!r}")
        return tuple(
            SequenceStream(name, (dim,), sparse, np.dtype(f"f{width}"))
            for name, (_, sparse, width, dim) in zip(names, self._header.streams, strict=True)
        )

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def plain(self) -> bool:
        """Whether `read` gives plain columns."""
        return self._plain

    @property
    def num_records(self) -> int:
        """Sequences of all chunks."""
        return len(self._sizes)

    @property
    def streams(self) -> tuple[SequenceStream, ...]:
        """All streams of the file, in its order."""
        return self._streams

    @property
    def sizes(self) -> NDArray[np.uint32] | None:
        """Samples of the longest stream of each sequence; None if that is one in all of them."""
        return None if self._single else self._sizes

    @property
    def num_bytes(self) -> int:
        """Of the file."""
        return self._opened().size

    def keys(self) -> NDArray[np.uint64]:
        """The running number: the format has no other keys."""
        return np.arange(self.num_records, dtype=np.uint64)

    def chunks(self, limit: int) -> NDArray[np.int64]:
        """The file's own chunks, whatever the limit; those without a sequence are left out."""
        return np.unique(self._first)

    def lengths(self) -> dict[str, NDArray[Any]] | None:
        """Samples of each sequence; with several streams found out by a walk over the whole file, once."""
        if self._plain:
            return None
        if self._lengths is None:
            if len(self._streams) == 1:
                self._lengths = {self._streams[0].name: self._sizes}
            else:
                parts = [self._locate(chunk)[1] for chunk in range(len(self._first) - 1)]
                whole = np.concatenate([np.empty((len(self._streams), 0), np.uint32), *parts], axis=1)
                self._lengths = {stream.name: row for stream, row in zip(self._streams, whole, strict=True)}
        return dict(self._lengths)

    def parse(self, records: NDArray[np.int64]) -> Parsed:
        """Reads sequences by number.

        An index outside its stream's width is an error of its sequence, which then holds no samples.

        Raises:
            IndexError: If a record isn't there.
            DataError: If a chunk contradicts itself, so that its sequences can't be told apart.
            DataChangedError: If the file is not what it was when it was opened.
        """
        file = self._opened()
        file.check_unchanged()
        positions = self._positions(checked_records(records, self.num_records))
        rows: list[int] = []
        faults: list[tuple[int, int, int]] = []  # of each error: the stream, where the index stands, and the index
        columns = {}
        for number, stream in enumerate(self._streams):
            columns[stream.name], bad_rows, bad_bytes = self._gather(number, positions[number])
            rows += bad_rows.tolist()
            faults += [(number, at, *struct.unpack_from("<i", file.array().data, at)) for at in bad_bytes.tolist()]
        if not rows:
            return Parsed(columns)
        order = np.argsort(rows, kind="stable")
        dropped = np.zeros(len(records), bool)
        dropped[rows] = True
        positions[:, dropped] = 0
        for number, stream in enumerate(self._streams):
            columns[stream.name], _, _ = self._gather(number, positions[number])

        def explain(i: int) -> str:
            return self._explain(int(records[rows[order[i]]]), *faults[order[i]])

        def place(i: int) -> Place:
            number, at, _ = faults[order[i]]
            return Place("index out of range", 0, 0, at, self._streams[number].name)

        return Parsed(columns, dropped, np.array(rows, np.int64)[order], explain, place=place)

    def deliver(self, parsed: Parsed) -> dict[str, Any]:
        """`Ragged` columns, or plain ones where each sequence has one sample.

        Raises:
            DataError: At the first mistake, and where columns are plain and a stream has no sample in a sequence.
        """
        columns = super().deliver(parsed)
        if not self._plain:
            return columns
        for name, column in columns.items():
            if (column.lengths != 1).any():
                raise DataError(
                    f"{self._path}: stream {name!r} has no sample in a sequence, and the others have one; read with "
                    "sequence=True"
                )
        return {name: column.values for name, column in columns.items()}

    def fingerprint(self) -> Fingerprint:
        """Sequences, bytes and a sample of the content."""
        file = self._opened()
        return {"records": self.num_records, "bytes": file.size, "sample": f"{file.sample():016x}"}

    def where(self, record: int) -> str:
        """File and sequence, counted from 0 as the keys are, and which of its chunk it is."""
        chunk = int(np.searchsorted(self._first, record, side="right")) - 1
        return f"{self._path}, sequence {record} (chunk {chunk}, sequence {record - int(self._first[chunk])} of it)"

    def close(self) -> None:
        """Closes the file."""
        self._file = None
        self._tables.clear()

    def _opened(self) -> _native.FileBytes:
        if self._file is None:
            raise ValueError("this source is closed; make a new one to read on")
        return self._file

    def _positions(self, records: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Where the sequences lie: a row a stream."""
        positions = np.empty((len(self._streams), len(records)), np.uint64)
        if not len(records):
            return positions
        chunks = np.searchsorted(self._first, records, side="right") - 1
        if chunks.min() == chunks.max():
            chunk = int(chunks[0])
            positions[:] = self._locate(chunk)[0][:, records - self._first[chunk]]
            return positions
        order = np.argsort(chunks, kind="stable")
        for where in np.split(order, np.flatnonzero(np.diff(chunks[order])) + 1):
            chunk = int(chunks[where[0]])
            positions[:, where] = self._locate(chunk)[0][:, records[where] - self._first[chunk]]
        return positions

    def _locate(self, chunk: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Positions and samples of all sequences of a chunk: a row a stream. Those used last are kept."""
        with self._lock:
            if chunk in self._tables:
                self._tables.move_to_end(chunk)
                return self._tables[chunk]
        # Outside the lock: two threads may find the same. The walk touches a few bytes of each sequence.
        h = self._header
        place = (chunk, int(h.begins[chunk]), int(h.ends[chunk]), int(h.sequences[chunk]), int(h.samples[chunk]))
        file = self._opened()
        file.check_unchanged()
        positions, samples = _native.cbf_locate(file, place, list(h.streams))
        shape = (len(h.streams), place[3])
        table = positions.reshape(shape), samples.reshape(shape)
        with self._lock:
            if chunk not in self._tables:
                self._tables[chunk] = table
                self._table_bytes += _bytes_of(table)
            while self._table_bytes > _TABLES and len(self._tables) > 1:
                _, old = self._tables.popitem(last=False)
                self._table_bytes -= _bytes_of(old)
        return table

    def _gather(
        self, number: int, positions: NDArray[np.uint64]
    ) -> tuple[Ragged, NDArray[np.int64], NDArray[np.int64]]:
        """A column, and the rows of it that have an index outside, with where that index stands."""
        stream = self._streams[number]
        data, offsets, indices, entries, bad_rows, bad_bytes = _native.cbf_gather(
            self._opened(), self._header.streams[number], np.ascontiguousarray(positions)
        )
        values = data.view(stream.dtype)
        if stream.sparse:
            return Ragged(Sparse(values, indices, entries, stream.shape[0]), offsets), bad_rows, bad_bytes
        return Ragged(values.reshape(int(offsets[-1]), *stream.shape), offsets), bad_rows, bad_bytes

    def _explain(self, record: int, number: int, at: int, index: int) -> str:
        name, _, _, dim = self._header.streams[number]
        return (
            f"{self.where(record)}, stream {name!r}, byte {at}: expected an index in [0, {dim}), found {index}; the "
            f"file is damaged, or was made by a program that doesn't look: {_REMEDY}"
        )


def _bytes_of(table: tuple[NDArray[Any], ...]) -> int:
    return 256 + sum(array.nbytes for array in table)  # with what Python needs for them


def _read_header(file: _native.FileBytes) -> _Header:
    """Reads and checks the header, which stands at the end of the file.

    Raises:
        DataError: If it is none, or contradicts itself or the file's size.
    """
    data, size = file.array().data, file.size

    def fail(at: int, what: str) -> DataError:
        return DataError(f"{file.name}, byte {at}: {what}; {_REMEDY}")

    if size < _FRONT.size + _HEADER.size + 8:
        raise fail(
            0,
            f"expected CNTK's binary format, which takes {_FRONT.size + _HEADER.size + 8} bytes at least, "
            f"found {size} bytes",
        )
    magic, version = _FRONT.unpack_from(data, 0)
    if magic != MAGIC:
        raise fail(0, f"expected CNTK's binary format, which begins with {MAGIC:#x}, found {magic:#x}")
    if version != VERSION:
        raise fail(8, f"expected version {VERSION} of CNTK's binary format, found version {version}")
    end = size - 8
    (start,) = struct.unpack_from("<q", data, end)
    if not _FRONT.size <= start <= end - _HEADER.size:
        raise fail(end, f"expected the place of the header, in [{_FRONT.size}, {end - _HEADER.size}], found {start}")
    magic, chunks, streams = _HEADER.unpack_from(data, start)
    if magic != MAGIC:
        raise fail(start, f"expected the header, which begins with {MAGIC:#x}, found {magic:#x}")
    at = start + _HEADER.size
    if streams == 0:
        raise fail(start + 12, "expected at least one stream, found none")
    found: dict[str, tuple[str, bool, int, int]] = {}
    for number in range(streams):
        where = at
        name, fields, at = _read_stream(data, at, end)
        if fields is None:
            raise fail(where, f"stream {number} of {streams}: {name}")
        if name in found:
            raise fail(where, f"stream {number} of {streams} is called {name!r} like one before")
        found[name] = (name, *fields)
    if end - at != chunks * _CHUNK.itemsize:
        raise fail(at, f"expected {chunks} chunks of {_CHUNK.itemsize} bytes each, found {end - at} bytes for them")
    table = np.frombuffer(data[at:end].tobytes(), _CHUNK)
    return _Header(tuple(found.values()), *_chunk_bounds(table, at, start, fail))


def _read_stream(data: memoryview, at: int, end: int) -> tuple[str, tuple[bool, int, int] | None, int]:
    """Name, fields and end of a stream's description; without fields, what is wrong with it instead of a name."""
    if end - at < 5:
        return "expected its description, found the end of the header", None, at
    kind, length = struct.unpack_from("<BI", data, at)
    if end - at - 5 < length + 5:
        return f"expected a name of {length} bytes and more, found {end - at - 5} bytes", None, at
    try:
        name = data[at + 5 : at + 5 + length].tobytes().decode()
    except UnicodeDecodeError as error:
        return f"expected a name in ASCII or UTF-8 ({error.reason})", None, at
    value_type, dim = struct.unpack_from("<BI", data, at + 5 + length)
    if kind > 1:
        return f"{name!r}: expected 0 for dense or 1 for sparse, found {kind}", None, at
    if value_type > 1:
        return f"{name!r}: expected 0 for float32 or 1 for float64, found {value_type}", None, at
    if not name:
        return "expected a name, found one of no bytes", None, at
    return name, (kind == 1, 4 << value_type, dim), at + 10 + length


def _chunk_bounds(table: NDArray[Any], at: int, header: int, fail: Any) -> tuple[NDArray[Any], ...]:
    """Begins, ends, sequences and samples of chunks, which must fill the file from its front to its header."""
    order = np.argsort(table["offset"], kind="stable")
    begins = table["offset"][order].astype(np.int64)
    ends = np.append(begins[1:], header)
    if (begins[0] if len(begins) else header) != _FRONT.size:
        found = int(begins[0]) if len(begins) else "no chunk"
        raise fail(at, f"expected the first chunk at byte {_FRONT.size}, found {found}")
    room = ends - begins < 4 * table["sequences"][order].astype(np.int64)
    if room.any() or (begins > header).any():
        bad = int(order[int((room | (begins > header)).argmax())])
        raise fail(
            at + bad * _CHUNK.itemsize,
            f"chunk {bad}: expected it to lie before the header at byte {header} and to have room for its "
            f"{int(table['sequences'][bad])} sequences, found it at byte {int(table['offset'][bad])}",
        )
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    whole = (begins[place].astype(np.uint64), ends[place].astype(np.uint64))
    return *whole, table["sequences"].astype(np.uint32), table["samples"].astype(np.uint32)
