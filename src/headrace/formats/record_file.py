"""What reading and writing TFRecord files share: how files are packed, and what is said of damaged ones."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from headrace import _native
from headrace.checks import one_of
from headrace.errors import DataError
from headrace.formats.packed import unpack
from headrace.formats.remote import open_file

Compression: TypeAlias = Literal["", "GZIP", "ZLIB", "ZSTD"]
_log = logging.getLogger("headrace")
_HEADER = 12


@dataclass(frozen=True, slots=True)
class LostBytes:
    """A stretch of a file that was left out because it is damaged.

    Attributes:
        path: The file.
        begin: Its first byte, unpacked.
        end: The byte after it.
        reason: What is wrong there.
    """

    path: str
    begin: int
    end: int
    reason: str


def report(path: str, lost: list[LostBytes]) -> None:
    """Says in one logged warning what was left out of a file."""
    damaged = [part for part in lost if part.begin < part.end]
    if damaged:
        total = sum(part.end - part.begin for part in damaged)
        places = "one place" if len(damaged) == 1 else f"{len(damaged)} places"
        _log.warning("%s: left out %d damaged bytes in %s, the first: %s", path, total, places, damaged[0].reason)
    for part in lost:
        if part.begin == part.end:  # nothing can be unpacked from there on
            _log.warning("%s: left out what comes after %d unpacked bytes: %s", path, part.begin, part.reason)


class RecordError(DataError):
    """A TFRecord file is damaged.

    Attributes:
        path: The file.
        kind: `"corrupted"`: a checksum is wrong; `"truncated"`: it ends within a record; `"stray"`: it ends within the
            12 bytes before a record's data; `"packing"`: it can't be unpacked.
        offset: Where, in unpacked bytes: the start of the record, or of its data if only that is wrong.
    """

    def __init__(self, message: str, path: str = "", kind: str = "corrupted", offset: int = 0) -> None:
        super().__init__(message)
        self.path, self.kind, self.offset = path, kind, offset

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordError, (str(self), self.path, self.kind, self.offset)


def record_error(path: str, fault: tuple[str, int, str], remedy: str) -> RecordError:
    """The error for a fault that the native core found."""
    kind, offset, text = fault
    return RecordError(f"{path}: {text}; {remedy}", path, kind, offset)


def check_compression(compression: str | None) -> Compression:
    """The name of a kind of packing as it stands in options.

    Raises:
        ValueError: If there is none of that name.
    """
    name = compression.upper() if isinstance(compression, str) else "" if compression is None else None
    found: Compression = one_of("", "compression", compression if name is None else name, Compression, error=ValueError)
    return found


def find_compression(path: str) -> Compression:
    """Tells by a file's first bytes how it is packed.

    A file that begins with a length and its checksum is plain, whatever else its bytes look like.

    Raises:
        OSError: If the file can't be read.
    """
    with open_file(path) as file:
        head = file.read(_HEADER)
    if _native.is_record_header(head):
        return ""
    if head.startswith(b"\x1f\x8b"):
        return "GZIP"
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return "ZSTD"
    if len(head) >= 2 and head[0] & 15 == 8 and head[0] >> 4 <= 7 and int.from_bytes(head[:2], "big") % 31 == 0:
        return "ZLIB"
    return ""


def packing_hint(path: str, taken_for: Compression) -> str:
    """What to add to an error of a file that begins as if it were packed in another way than it was taken for.

    Args:
        path: The file.
        taken_for: How it was said to be packed.
    """
    try:
        found = find_compression(path)
        if found == taken_for or (not found and not is_tfrecord(path)):
            return ""
    except OSError:
        return ""
    begins = f"packed by {found}" if found else "that isn't packed"
    return f"; it begins like a file {begins}: say compression={found!r}"


def is_tfrecord(path: str) -> bool:
    """Whether a file begins as a TFRecord file does, packed or not; one of no bytes doesn't.

    Raises:
        OSError: If the file can't be read.
    """
    kind = find_compression(path)
    if not kind:
        with open_file(path) as file:
            return _native.is_record_header(file.read(_HEADER))
    try:
        return _native.is_record_header(next(unpack(path, kind), b"")[:_HEADER])
    except DataError:
        return False
