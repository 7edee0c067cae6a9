"""What a file of CNTK's text format holds already, for writing on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from headrace.errors import DataError
from headrace.formats.packed import is_packed

_PIECE = 1 << 20
_ID = re.compile(rb"(?:^|\n)([0-9]+)")


class Before(NamedTuple):
    """The lines that are there.

    Attributes:
        last_id: The id of the last sequence; None where lines have none.
        ended: Whether the last line has its line end.
        size: Bytes of the file.
    """

    last_id: int | None
    ended: bool
    size: int


def look_before(path: str) -> Before | None:
    """Looks at the file that is to be written on; None if there are no lines yet.

    Raises:
        DataError: If it doesn't begin as the format does, or is packed.
        OSError: If it can't be read.
    """
    if is_packed(path):
        raise DataError(f"{path}: lines can't be added to a packed file; write another one, formats read several")
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        start = file.read(_PIECE)
        first = _without_blanks(start)[:1]
        if not first:
            if size > len(start):
                raise DataError(f"{path}: expected a line of the format, found {len(start):,} blanks")
            return None
        if first != b"|" and not first.isdigit():
            raise DataError(f"{path}: expected lines that begin with an id or |, to add to, found {first!r}")
        file.seek(size - 1)
        ended = file.read(1) == b"\n"
        return Before(_last_id(file, size, path) if first != b"|" else None, ended, size)


def _without_blanks(start: bytes) -> bytes:
    """A file from its first line on."""
    return start.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\n\v\f\r")


def _last_id(file: BinaryIO, size: int, path: str) -> int:
    """The id of the last line that begins with one."""
    tail = b""
    end = size
    while end > 0:
        begin = max(0, end - _PIECE)
        file.seek(begin)
        block = file.read(end - begin) + tail
        if begin == 0:
            block = _without_blanks(block)
        # What stands at the block's own beginning may be the middle of a line.
        found = [match for match in _ID.finditer(block) if begin == 0 or match.group().startswith(b"\n")]
        if found:
            return int(found[-1].group(1))
        tail, end = block[:64], begin  # an id may lie on the border
    raise DataError(f"{path}: expected an id, found none")


def old_content(path: str, before: Before) -> Iterator[bytes]:
    """The bytes that are there, with a line end."""
    left = before.size
    with open(path, "rb") as file:
        while left > 0:
            piece = file.read(min(_PIECE, left))
            if not piece:
                raise DataError(f"{path} was cut while it was read")
            left -= len(piece)
            yield piece
    if not before.ended:
        yield b"\n"
