r"""Index sidecars: what was found out about a file in one pass, kept beside it for the next time.

A sidecar is an optimisation and nothing else: it is written atomically, checked before use, and when it is missing,
stale, damaged, of another version or can't be written, the index is made anew. The layout, all little-endian:

    bytes 0-7     magic  89 48 52 49 58 0D 0A 1A  ("\x89HRIX\r\n\x1a": shows transfers that change line ends)
    bytes 8-11    version, 1
    bytes 12-15   size of the header in bytes
    bytes 16-23   hash64 of the header
    bytes 24-     header, JSON: {"about": what the index is of, "arrays": [{name, dtype, count, offset, hash}, ...]}
    offset ...    the arrays, each from a multiple of 64 bytes on, zeros between; the file ends with the last one

The hash is the core's `hash64`. "about" holds the size, mtime (ns) and content sample of the file, and how the index
was made; it must equal what the reader expects, so an index made otherwise counts as stale.
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.checks import one_of
from headrace.errors import DataError
from headrace.formats.atomic import write_atomic
from headrace.formats.files import SIDECAR_SUFFIX

IndexMode: TypeAlias = Literal["auto", "memory", "rebuild"]
"""Whether an index is taken from its sidecar and kept there, made anew and kept in memory, or replaces the sidecar."""

MAGIC = b"\x89HRIX\r\n\x1a"
VERSION = 1
CHECKED_AT_ONCE = 16 << 20
"""Sidecars up to this size are checked whole when opened (about a millisecond), larger ones as they are used."""

_FIXED = struct.Struct("<8sIIQ")
_ALIGN = 64
_LONGEST_HEADER = 1 << 20
_log = logging.getLogger("headrace")


@dataclass(frozen=True, slots=True)
class Sidecar:
    """An opened sidecar.

    Attributes:
        file: Its bytes; `file.check_unchanged()` before looking at the arrays.
        arrays: Its arrays, mapped from disk.
        hashes: What each array's bytes must hash to.
        checked: Whether the arrays have been compared with their hashes.
    """

    file: _native.FileBytes
    arrays: dict[str, NDArray[Any]]
    hashes: dict[str, int]
    checked: bool

    def check(self, name: str) -> None:
        """Compares an array with its hash, unless that was done when opening.

        Raises:
            DataError: If the sidecar is damaged.
        """
        self.file.check_unchanged()
        if not self.checked and not _intact(self.arrays[name], self.hashes[name]):
            raise DataError(
                f"{self.file.name} is damaged: its array {name!r} is not what was written; delete it, or open the data "
                "with index='rebuild'"
            )


def check_index_mode(index: object) -> None:
    """Refuses what is no `IndexMode`.

    Raises:
        ValueError: As said.
    """
    one_of("", "index", index, IndexMode, error=ValueError)


def sidecar_path(path: str, kind: str = "") -> str:
    """Where the sidecar of a file lies.

    Args:
        path: The file.
        kind: Tells apart indexes of one file that would otherwise overwrite each other at every opening: those made
            with other separators than white space, or by another format.
    """
    return f"{path}.{kind}{SIDECAR_SUFFIX}" if kind else path + SIDECAR_SUFFIX


def load(path: str, about: Mapping[str, Any], types: Mapping[str, type[np.generic]]) -> Sidecar | None:
    """Opens a sidecar, if it is one that can be used.

    Args:
        path: The sidecar.
        about: What it must be an index of.
        types: The arrays that it must have, and their types.

    Returns:
        None if it is missing, stale, damaged or of another version.
    """
    try:
        file = _native.FileBytes.open(path)
        found = _parse(file, about)
        for name, dtype in types.items():
            if found.arrays[name].dtype != dtype:
                raise DataError(f"its array {name!r} is {found.arrays[name].dtype}, expected {np.dtype(dtype)}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        _log.info("%s is not used: %s; the index is made anew", path, error)
        return None
    return found


def _parse(file: _native.FileBytes, about: Mapping[str, Any]) -> Sidecar:
    content = file.array()
    if len(content) < _FIXED.size:
        raise DataError("it is too short")
    magic, version, header_size, header_hash = _FIXED.unpack(content[: _FIXED.size].tobytes())
    if magic != MAGIC:
        raise DataError("it does not begin as a sidecar does")
    if version != VERSION:
        raise DataError(f"it is of version {version}, expected {VERSION}")
    header_bytes = content[_FIXED.size : _FIXED.size + min(header_size, _LONGEST_HEADER)]
    if len(header_bytes) != header_size or _native.hash64(header_bytes) != header_hash:
        raise DataError("its header is damaged")
    header = json.loads(header_bytes.tobytes())
    if header["about"] != about:
        raise DataError("it is of another state of the file")
    arrays, hashes = {}, {}
    end = _FIXED.size + header_size
    for entry in header["arrays"]:
        dtype = np.dtype(entry["dtype"])
        size = entry["count"] * dtype.itemsize
        if entry["offset"] != _aligned(end) or entry["offset"] + size > len(content):
            raise DataError(f"its array {entry['name']!r} is cut short")
        end = entry["offset"] + size
        arrays[entry["name"]] = content[entry["offset"] : end].view(dtype)
        hashes[entry["name"]] = int(entry["hash"], 16)
    if end != len(content):
        raise DataError(f"it has {len(content)} bytes, expected {end}")
    checked = len(content) <= CHECKED_AT_ONCE
    if checked:
        for name, array in arrays.items():
            if not _intact(array, hashes[name]):
                raise DataError(f"its array {name!r} is damaged")
    return Sidecar(file, arrays, hashes, checked)


def store(path: str, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Writes a sidecar, if possible; otherwise says so in one logged warning.

    Args:
        path: The sidecar.
        about: What the arrays are an index of; JSON values.
        arrays: One-dimensional little-endian arrays.

    Returns:
        Whether it was written. If not, an older sidecar is still as it was.
    """
    try:
        write_atomic(path, _parts(about, arrays))
    except OSError as error:
        _log.warning(
            "can't keep the index in %s (%s): working with it in memory; make the folder writable or free some room to "
            "save indexing next time, or pass index='memory'",
            path,
            error.strerror or error,
        )
        return False
    return True


def _parts(about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> list[Any]:
    # The offsets stand in the header, whose size depends on them; so they are made again until the size stays.
    size = 0
    while True:
        end, entries = _FIXED.size + size, []
        for name, array in arrays.items():
            offset = _aligned(end)
            end = offset + array.nbytes
            entries.append({"name": name, "dtype": array.dtype.str, "count": len(array), "offset": offset})
        for entry, array in zip(entries, arrays.values(), strict=True):
            entry["hash"] = f"{_hash(array):016x}"
        header = json.dumps({"about": dict(about), "arrays": entries}).encode()
        if len(header) == size:
            break
        size = len(header)
    parts: list[Any] = [_FIXED.pack(MAGIC, VERSION, size, _native.hash64(np.frombuffer(header, np.uint8))), header]
    end = _FIXED.size + size
    for array in arrays.values():
        parts += [bytes(_aligned(end) - end), np.ascontiguousarray(array)]
        end = _aligned(end) + array.nbytes
    return parts


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN


def _hash(array: NDArray[Any]) -> int:
    return int(_native.hash64(array.view(np.uint8)))


def _intact(array: NDArray[Any], expected: int) -> bool:
    return _hash(array) == expected
