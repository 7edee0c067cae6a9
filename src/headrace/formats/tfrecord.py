"""TFRecord files: reading them from front to back.

A file is records end to end: 8 bytes length (little-endian), 4 bytes checksum of those, the data, 4 bytes checksum of
the data. A packed file is such a stream as a whole, in gzip, zlib or (an extension of ours) Zstandard. Offsets count
unpacked bytes. `record_source.py` reads files in any order, `tfrecord_writer.py` writes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from headrace import _native
from headrace.errors import DataError
from headrace.formats.packed import unpack
from headrace.formats.record_file import (
    LostBytes,
    RecordError,
    check_compression,
    find_compression,
    is_tfrecord,
    packing_hint,
    report,
)
from headrace.formats.remote import is_remote, open_file

__all__ = ["RecordError", "RecordReader", "check_compression", "find_compression", "is_tfrecord"]

LONGEST = 1 << 31
"""Bytes that a record may have where the length of the file isn't known; no message of protocol buffers has more."""

_PIECE = 1 << 20
_WAITED_FOR = 64 << 20  # bytes that a record after damage may have, and be found in a stream
_HEADER, _FRAME = 12, 16


class RecordReader:
    """Reads the records of one file from front to back, in bounded memory, with all checksums verified.

    Iterating gives pairs of offset and data. After an error every further call raises it again.

    Args:
        path: The file, or its URL.
        compression: How it is packed: `""`, `"GZIP"`, `"ZLIB"` or `"ZSTD"`.
        verify: Whether the checksums of data are looked at; those of lengths always are.
        skip: Leave out what is damaged and go on with the next whole record; `lost` says what was left out.
        quiet: Don't log it.

    Raises:
        OSError: If the file can't be opened.
        ValueError: If there is no such compression.

    Example:
        >>> import pathlib, tempfile
        >>> from headrace.formats.tfrecord import RecordReader
        >>> from headrace.formats.tfrecord_writer import TFRecordWriter
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
        self._kind = kind = check_compression(compression)
        self._size: int | None = None
        if not is_remote(self.path):
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
                self._fail("packing", self._base, str(error))
                return False
            last = True  # nothing can be unpacked from here on
            self.lost.append(LostBytes(self.path, self._base + size, self._base + size, str(error)))
        self._piece, self._rest = b"".join(parts), 0
        return last

    def _leave_out(self, reason: str) -> None:
        """Continues with the next whole record."""
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

    def _fail(self, kind: str, offset: int, text: str) -> None:
        self._pieces = iter(())  # closes the file
        packing = kind == "packing"  # then the text names the file, and says what to do
        remedy = ("" if packing else "; copy or write the file again") + packing_hint(self.path, self._kind)
        self._error = RecordError(f"{text if packing else f'{self.path}: {text}'}{remedy}", self.path, kind, offset)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        while (found := self.read()) is not None:
            yield found

    def close(self) -> None:
        """Closes the file; reading on gives what was read ahead, then the end."""
        self._pieces = iter(())
        self._ended = True


def _pieces(path: str) -> Iterator[bytes]:
    with open_file(path) as file:
        while piece := file.read(_PIECE):
            yield piece
