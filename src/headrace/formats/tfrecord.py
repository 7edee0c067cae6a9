"""TFRecord files: reading them from front to back, and writing them.

A file is records end to end: 8 bytes length (little-endian), 4 bytes checksum of those, the data, 4 bytes checksum of
the data. A packed file is such a stream as a whole, in gzip, zlib or (an extension of ours) Zstandard. Offsets count
unpacked bytes. `record_source.py` reads files in any order.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from headrace import _native
from headrace.batch.column import offsets_of
from headrace.batch.columns import Bytes, Strings
from headrace.errors import DataError
from headrace.formats.atomic import open_atomic, unfinished_path
from headrace.formats.packed import unpack
from headrace.formats.record_file import (
    Compression,
    LostBytes,
    RecordError,
    check_compression,
    find_compression,
    is_tfrecord,
    report,
)

__all__ = ["RecordError", "RecordReader", "TFRecordWriter", "check_compression", "find_compression", "is_tfrecord"]

LONGEST = 1 << 31
"""Bytes that a record may have where the length of the file isn't known; no message of protocol buffers has more."""

_PIECE = 1 << 20
_WAITED_FOR = 64 << 20  # bytes that a record after damage may have, and be found in a stream
_HEADER, _FRAME = 12, 16


class RecordReader:
    """Reads the records of one file from front to back, in bounded memory, with all checksums verified.

    Iterating gives pairs of offset and data. After an error every further call raises it again.

    Args:
        path: The file.
        compression: How it is packed: `""`, `"GZIP"`, `"ZLIB"` or `"ZSTD"`.
        verify: Whether the checksums of data are looked at; those of lengths always are.
        skip: Leave out what is damaged and go on with the next whole record; `lost` says what was left out.
        quiet: Don't log it.

    Raises:
        OSError: If the file can't be opened.
        ValueError: If there is no such compression.

    Example:
        >>> import pathlib, tempfile
        >>> from headrace.formats.tfrecord import RecordReader, TFRecordWriter
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "words.tfrecord")
        >>> with TFRecordWriter(path) as writer:
        ...     writer.write(b"mill")
        ...     writer.write(b"wheel")
        >>> list(RecordReader(path))
        [(0, b'mill'), (20, b'wheel')]
        >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        compression: str | None = "",
        *,
        verify: bool = True,
        skip: bool = False,
        quiet: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        self._verify = verify or skip
        self._skip = skip
        self.lost: list[LostBytes] = []
        kind = check_compression(compression)
        with open(self.path, "rb") as file:  # so that it is known at once whether it can be
            self._size = None if kind else os.fstat(file.fileno()).st_size
        self._pieces = unpack(self.path, kind) if kind else _pieces(self.path)
        self._base = 0  # of the piece in the file
        self._piece: bytes = b""
        self._rest = 0  # where in the piece the first record begins that isn't whole
        self._found: Iterator[tuple[int, int]] = iter(())
        self._error: RecordError | None = None
        self._damage = ""  # what is wrong with the record at hand, if it is to be left out
        self._last = False  # nothing comes after the piece
        self._reported = quiet
        self._ended = False

    def read(self) -> tuple[int, bytes] | None:
        """The next record's offset and data; None at the end.

        Raises:
            DataError: If the file is damaged there; the message says where, `RecordError.offset` too.
        """
        while True:
            for start, length in self._found:
                return self._base + start - _HEADER, self._piece[start : start + length]
            if self._error is not None:
                error = self._error
                raise RecordError(str(error), error.path, error.kind, error.offset)
            if self._damage:
                self._leave_out(self._damage)
                continue
            if self._ended:
                if self._skip and not self._reported:
                    self._reported = True
                    report(self.path, self.lost)
                return None
            self._fill()

    def _fill(self) -> None:
        """Takes the next piece and finds the records in it."""
        left = self._piece = self._piece[self._rest :]
        self._base, self._rest = self._base + self._rest, 0
        wanted = len(left) + 1
        if len(left) >= _HEADER:
            # Its length is known, and was found to be one that a record may have.
            length = int.from_bytes(left[:8], "little")
            wanted = length + _FRAME
            if self._size is not None and wanted > self._size - self._base:
                there = self._size - self._base - _HEADER
                text = f"its header says {length} bytes of data and 4 of checksum, the file ends after {there}"
                text = f"truncated record at {self._base}: {text}"
                if self._skip:
                    self._damage, self._last = text, False
                else:
                    self._fail("truncated", self._base, text)
                return
        last = self._take(left, wanted)
        if self._error is None:
            self._scan(last)

    def _scan(self, last: bool) -> None:
        """Finds the records of the piece, from where the rest of it begins."""
        self._piece, self._base, self._rest = self._piece[self._rest :], self._base + self._rest, 0
        data = np.frombuffer(self._piece, np.uint8)
        # Of a plain file it was seen above, or will be, that the record goes beyond the end.
        longest = LONGEST if self._size is None else (1 << 64) - 1
        offsets, lengths, fault, _ = _native.scan_records(data, self._base, last, self._verify, longest)
        *starts, self._rest = offsets.tolist()
        self._found = zip(starts, lengths.tolist(), strict=True)
        self._ended = last
        if fault[0] and not self._skip:
            self._fail(*fault)
        elif fault[0]:
            # What was found is handed out first: it lies in the piece, which is about to change.
            self._damage = fault[2]
            self._ended = False
            self._last = last

    def _take(self, left: bytes, wanted: int) -> bool:
        """Makes a piece of at least so many bytes, beginning with those left; returns whether the file ends with it."""
        parts, size, last = [left], len(left), False
        try:
            while size < wanted:
                part = next(self._pieces, None)
                if part is None:
                    last = True
                    break
                parts.append(part)
                size += len(part)
        except DataError as error:
            if not self._skip:
                self._fail("packing", self._base, str(error), remedy="")
                return False
            last = True  # nothing can be unpacked from here on
            self.lost.append(LostBytes(self.path, self._base + size, self._base + size, str(error)))
        self._piece, self._rest = b"".join(parts), 0
        return last

    def _leave_out(self, reason: str) -> None:
        """Goes on to the next whole record."""
        begin, start, end, last = self._base + self._rest, self._rest + 1, 0, self._last
        head = self._piece[self._rest : self._rest + _HEADER]
        if _native.is_record_header(head):  # then its length is right, and it may be that its data alone is not
            end = self._rest + int.from_bytes(head[:8], "little") + _FRAME
            end = end if end <= len(self._piece) else 0
        while True:
            data = np.frombuffer(self._piece, np.uint8)
            found, at, wanted = _native.recover_after(data, start, end, last, _WAITED_FOR)
            if found:
                break
            self._base += at
            end = max(end - at, 0)
            last = self._take(self._piece[at:], wanted - at)
            start = 0
        self._rest = at
        place = self._base + at
        if self.lost and self.lost[-1].end == begin:
            self.lost[-1] = replace(self.lost[-1], end=place)
        else:
            self.lost.append(LostBytes(self.path, begin, place, reason))
        self._damage, self._last = "", last
        self._scan(last)

    def _fail(self, kind: str, offset: int, text: str, remedy: str = "; copy or write the file again") -> None:
        self._pieces = iter(())  # closes the file
        self._error = RecordError(f"{self.path}: {text}{remedy}" if remedy else text, self.path, kind, offset)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        while (found := self.read()) is not None:
            yield found

    def close(self) -> None:
        """Closes the file; reading on gives what was read ahead, then the end."""
        self._pieces = iter(())
        self._ended = True


def _pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            yield piece


class TFRecordWriter:
    """Writes a TFRecord file, or several with a part of the records each.

    Files appear in their place when the writer is closed, complete; when the `with` block ends by an error, none does.

    Args:
        path: The file. With `shard_size`, `"train.tfrecord"` becomes `"train-00000-of-00003.tfrecord"` and so on.
        compression: `""`, `"GZIP"`, `"ZLIB"`, or `"ZSTD"`, which TensorFlow doesn't read.
        shard_size: Bytes of records, before packing, after which another file is begun.

    Raises:
        OSError: If the file can't be written.
        ValueError: If an argument is out of range.
        ImportError: If `"ZSTD"` is asked for and the package isn't installed: `pip install 'headrace[zstd]'`.

    Example:
        >>> import pathlib, tempfile, headrace as hr
        >>> folder = tempfile.TemporaryDirectory()
        >>> with hr.TFRecordWriter(pathlib.Path(folder.name, "a.tfrecord"), shard_size=50) as writer:
        ...     writer.write_many([b"one record", b"another one", b"the third"])
        >>> [path.name for path in sorted(pathlib.Path(folder.name).iterdir())]
        ['a-00000-of-00002.tfrecord', 'a-00001-of-00002.tfrecord']
        >>> folder.cleanup()
    """

    def __init__(
        self, path: str | os.PathLike[str], compression: str | None = "", *, shard_size: int | None = None
    ) -> None:
        self._compression = check_compression(compression)
        if self._compression == "ZSTD":
            _zstandard()
        if shard_size is not None and (isinstance(shard_size, bool) or int(shard_size) < 1):
            raise ValueError(f"shard_size is at least one byte, got {shard_size!r}")
        self._path = os.fspath(path)
        self._shard_size = shard_size
        self._finished: list[str] = []  # hidden names of shards that are complete
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._shard_bytes = 0
        self._closed = False
        self._begin()

    def write(self, record: bytes) -> None:
        """Writes a record.

        Raises:
            TypeError: If it isn't bytes.
            ValueError: If the writer is closed.
            OSError: If it can't be written.
        """
        if self._closed:
            raise ValueError(f"the writer of {self._path} is closed; make a new one to write on")
        if not isinstance(record, bytes):
            if not isinstance(record, (bytearray, memoryview)):
                raise TypeError(f"records are bytes, got {type(record).__name__} {record!r:.60}")
            record = bytes(record)
        if self._shard_size is not None and self._shard_bytes >= self._shard_size:
            self._end()
            self._begin()
        self._pending.append(record)
        self._pending_bytes += len(record) + _FRAME
        self._shard_bytes += len(record) + _FRAME
        if self._pending_bytes >= _PIECE:
            self._flush()

    def write_many(self, records: Iterable[bytes] | Bytes | Strings) -> None:
        """Writes records one after another.

        Raises:
            As `write`.
        """
        if isinstance(records, Strings):
            records = Bytes(records.data, records.offsets)
        for record in records:
            self.write(record)

    def close(self) -> None:
        """Completes the file or files and puts them in their place.

        Raises:
            OSError: If that can't be done; then none of them is there.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._end()
            names = [self._shard_name(number) for number in range(len(self._finished))]
            for hidden, name in zip(self._finished, names, strict=True):
                os.replace(hidden, name)
        except BaseException as error:
            self._abandon(error)
            raise

    def _shard_name(self, number: int) -> str:
        stem, suffix = os.path.splitext(self._path)
        return f"{stem}-{number:05d}-of-{len(self._finished):05d}{suffix}"

    def _begin(self) -> None:
        self._target = self._path
        if self._shard_size is not None:
            self._target = unfinished_path(os.path.realpath(self._path))
        self._open: contextlib.AbstractContextManager[IO[bytes]] | None = open_atomic(self._target)
        file = self._open.__enter__()
        self._sink = _sink(file, self._compression)
        self._shard_bytes = 0

    def _end(self) -> None:
        self._flush()
        self._sink.close()
        opened, self._open = self._open, None
        if opened is not None:
            opened.__exit__(None, None, None)
        if self._shard_size is not None:
            self._finished.append(self._target)

    def _flush(self) -> None:
        if self._pending:
            data = np.frombuffer(b"".join(self._pending), np.uint8)
            offsets = offsets_of([len(record) for record in self._pending])
            self._pending, self._pending_bytes = [], 0
            self._sink.write(_native.frame_records(data, offsets).data)

    def _abandon(self, error: BaseException) -> None:
        self._closed = True
        opened, self._open = self._open, None
        if opened is not None:
            with contextlib.suppress(BaseException):  # it raises the same again when it has cleaned up
                opened.__exit__(type(error), error, error.__traceback__)
        for hidden in self._finished:
            with contextlib.suppress(OSError):
                os.unlink(hidden)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._abandon(error)


class _Plain:
    """Writes to a file that someone else closes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, data: Any) -> None:
        self._file.write(data)

    def close(self) -> None:
        """Nothing is left to write."""


class _Zlib(_Plain):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._packer = zlib.compressobj()

    def write(self, data: Any) -> None:
        self._file.write(self._packer.compress(data))

    def close(self) -> None:
        self._file.write(self._packer.flush())


def _sink(file: IO[bytes], compression: Compression) -> Any:
    if compression == "GZIP":
        import gzip

        # Without name and time, so that the same records give the same file.
        return gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
    if compression == "ZLIB":
        return _Zlib(file)
    if compression == "ZSTD":
        return _zstandard().ZstdCompressor().stream_writer(file, closefd=False)
    return _Plain(file)


def _zstandard() -> Any:
    try:
        import zstandard
    except ModuleNotFoundError:
        raise ImportError("packing with Zstandard needs `pip install headrace[zstd]`", name="zstandard") from None
    return zstandard
