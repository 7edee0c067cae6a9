"""What readers get out of one file: keys and records, one after another."""

from __future__ import annotations

import gzip
import io
import os
import warnings
import zlib
from typing import Any, BinaryIO

from headrace.formats.tfrecord import RecordError, RecordReader
from headrace.tf1 import errors

__all__ = ["FixedFile", "Item", "RecordFile", "TextFile", "WholeFile"]

Record = tuple[bytes, bytes]  # key, value


def _key(name: bytes, number: int) -> bytes:
    return b"%b:%d" % (name, number)


class Source:
    """One unit of a reader's work: gives records until there are no more."""

    def read(self) -> Record | None:
        """The next record, or None at the end."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of the file."""


class Item(Source):
    """The name itself, once."""

    def __init__(self, name: bytes):
        self._left: Record | None = (name, name)

    def read(self) -> Record | None:
        """The name."""
        found, self._left = self._left, None
        return found


class WholeFile(Source):
    """All bytes of a file, once."""

    def __init__(self, name: bytes):
        with open(name, "rb") as file:
            self._left: Record | None = (name, file.read())

    def read(self) -> Record | None:
        """The file."""
        found, self._left = self._left, None
        return found


class TextFile(Source):
    """Lines, which end at LF or CR LF.

    Args:
        name: The file.
        skip: Lines at its beginning that are passed over.
        compression: `GZIP`, `ZLIB` or nothing.
    """

    def __init__(self, name: bytes, skip: int = 0, compression: str = ""):
        self._file: BinaryIO
        if compression:
            self._file = io.BytesIO(inflated(name, compression))
        else:
            self._file = open(name, "rb")  # noqa: SIM115 (closed by close)
        self._name = name
        self._number = 0
        while self._number < skip and self._file.readline():
            self._number += 1

    def read(self) -> Record | None:
        """The next line."""
        line = self._file.readline()
        if not line:
            return None
        self._number += 1
        if line.endswith(b"\n"):
            line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        return _key(self._name, self._number), line

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def inflated(name: bytes, compression: str) -> bytes:
    """All bytes of a file, decompressed.

    Raises:
        DataLossError: If they aren't what the compression makes.
    """
    with open(name, "rb") as file:
        data = file.read()
    try:
        if compression == "GZIP":
            return gzip.decompress(data)
        return zlib.decompress(data) if compression == "ZLIB" else data
    except (OSError, EOFError, zlib.error) as error:
        raise errors.DataLossError(None, None, f"{os.fsdecode(name)}: can't inflate {compression}: {error}") from error


class FixedFile(Source):
    """Records of one length between a header and a footer.

    Args:
        name: The file.
        record: Bytes of a record.
        header: Bytes before the first one.
        footer: Bytes after the last one.
        hop: Bytes from the beginning of one to that of the next; 0: `record`.
        compression: `GZIP`, `ZLIB` or nothing.
        exact: Whether a rest is an error.

    Raises:
        InvalidArgumentError: If the file is shorter than header and footer, or has a rest that it may not have.
    """

    def __init__(
        self,
        name: bytes,
        record: int,
        header: int = 0,
        footer: int = 0,
        hop: int = 0,
        compression: str = "",
        exact: bool = False,
    ):
        self._name = name
        self._record = record
        self._hop = hop or record
        self._at = header
        self._number = 0
        data = inflated(name, compression)
        self._data, self._end = data, len(data) - footer
        text = os.fsdecode(name)
        if self._end < header and (data or not exact):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"{text}: expected at least {header} bytes of header and {footer} of footer, the file has {len(data)}",
            )
        body = max(self._end - header, 0)
        if exact and body % record:
            raise errors.InvalidArgumentError(
                None,
                None,
                f'Excluding the header ({header} bytes) and footer ({footer} bytes), input file "{text}" has body '
                f"length {body} bytes, which is not an exact multiple of the record length ({record} bytes).",
            )
        rest = body if body < record else (body - record) % self._hop
        if not exact and rest > max(self._hop - record, 0):
            warnings.warn(
                f"{text}: the last {rest} bytes are no whole record of {record} bytes and aren't read", stacklevel=2
            )

    def read(self) -> Record | None:
        """The next record."""
        if self._at + self._record > self._end:
            return None
        found = self._data[self._at : self._at + self._record]
        self._at += self._hop
        self._number += 1
        return _key(self._name, self._number - 1), found


class RecordFile(Source):
    """Records of a TFRecord file; a corrupt one stays in the way."""

    def __init__(self, name: bytes, compression: str = ""):
        self._name = name
        self._compression = compression
        self._reader: Any = RecordReader(os.fsdecode(name), compression)

    def read(self) -> Record | None:
        """The next record.

        Raises:
            DataLossError: If it is corrupt or cut.
        """
        try:
            found = self._reader.read()
        except RecordError as error:
            if error.kind != "stray" and not self._only_trailer_is_missing(error):
                raise errors.DataLossError(None, None, str(error)) from error
            warnings.warn(f"{error}; taken for the end of the file, as TensorFlow does", stacklevel=2)
            return None
        return None if found is None else (_key(self._name, found[0]), found[1])

    def _only_trailer_is_missing(self, error: RecordError) -> bool:
        """Whether a gzip file has all its data, and lacks but the checksum behind it."""
        if self._compression != "GZIP" or error.kind != "packing":
            return False
        return 0 <= _unpacked_without_trailer(self._name) - error.offset < 12  # TensorFlow's header of a record

    def close(self) -> None:
        """Closes the file."""
        if hasattr(self._reader, "close"):
            self._reader.close()


def _unpacked_without_trailer(name: bytes) -> int:
    """The number of bytes in a gzip file whose last trailer alone is missing; −1 if more is wrong with it."""
    with open(name, "rb") as file:
        data = file.read()
    total = 0
    while data:
        whole = zlib.decompressobj(31)
        try:
            count = _count(whole, data)
            if not whole.eof:
                raw = zlib.decompressobj(-15)
                count = _count(raw, data[_gzip_header(data) :])
                return total + count if raw.eof and len(raw.unused_data) < 8 else -1
        except (zlib.error, IndexError, ValueError):
            return -1
        total += count
        data = whole.unused_data
    return -1


def _count(stream: Any, data: bytes) -> int:
    """How many bytes come out of packed ones, in bounded memory."""
    total = 0
    while data and not stream.eof:
        total += len(stream.decompress(data, 1 << 20))
        data = stream.unconsumed_tail
    return total


def _gzip_header(data: bytes) -> int:
    """The length of a gzip header."""
    flags, at = data[3], 10
    if flags & 4:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (8, 16):
        if flags & flag:
            at = data.index(0, at) + 1
    return at + (2 if flags & 2 else 0)
