"""Unpacks gzip, zlib and Zstandard files, for formats that read at any place; packs what is written."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from headrace import _native
from headrace.errors import DataError
from headrace.formats.atomic import FULL
from headrace.formats.remote import open_file, size_of

if TYPE_CHECKING:
    import zstandard

ENDINGS = (".gz", ".zst")
"""Of the names of packed files."""

IN_MEMORY = 64 << 20
"""Unpacked bytes of one file that are kept in memory; more go to a temporary file that is mapped."""

_CHUNK = 1 << 20
_ZSTD_CHUNK = 1 << 14  # packed bytes taken at once: at the tightest packing they come to about half a gigabyte


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Whether a file is unpacked when opened: it is when its name ends in `.gz` or `.zst`."""
    return os.fspath(path).endswith(ENDINGS)


def open_packed(path: str) -> _native.FileBytes:
    """The unpacked bytes of a file: in memory, or beyond 64 MiB in a temporary file that goes when it is closed.

    Raises:
        OSError: If the file can't be opened, or the temporary one not be written.
        DataError: If it isn't whole and valid.
        ImportError: If unpacking needs a package that isn't installed.
    """
    if os.stat(path).st_size == 0:
        kind = "gzip" if path.endswith(".gz") else "Zstandard"
        raise DataError(f"{path} is empty, expected {kind} data (even of nothing, that has some bytes); pack it again")
    return spool(_gzip(path) if path.endswith(".gz") else _zstd(path), path)


def unpack(path: str, kind: str) -> Iterator[bytes]:
    """The content of a file in pieces. A file of no bytes has none.

    Args:
        path: The file.
        kind: How it is packed: `"GZIP"`, `"ZLIB"` or `"ZSTD"`.

    Raises:
        As `open_packed`, where the data is wrong: what comes before that has been given by then.
    """
    if size_of(path) == 0:
        return
    yield from {"GZIP": _gzip, "ZLIB": _zlib, "ZSTD": _zstd}[kind](path)


def pack(path: str, parts: Iterable[Any]) -> Iterable[Any]:
    """What a file of this name holds, of some content: packed, if the name says so.

    Args:
        path: The file that will be written.
        parts: The content in pieces.

    Raises:
        ImportError: If packing needs a package that isn't installed.
    """
    if not is_packed(path):
        return parts
    if path.endswith(".gz"):
        return _through(zlib.compressobj(6, zlib.DEFLATED, 31), parts)
    try:
        import zstandard
    except ModuleNotFoundError:
        raise ImportError(f"writing {path} needs Zstandard: pip install 'headrace[zstd]'", name="zstandard") from None
    return _through(zstandard.ZstdCompressor().compressobj(), parts)


def _through(packer: Any, parts: Iterable[Any]) -> Iterator[bytes]:
    for part in parts:
        yield packer.compress(part)
    yield packer.flush()


def spool(pieces: Iterable[bytes], path: str) -> _native.FileBytes:
    """Bytes that come in pieces as one file, in memory or a temporary file.

    Args:
        pieces: The bytes.
        path: What the file is called in messages.

    Raises:
        OSError: If the temporary file can't be written.
    """
    import tempfile  # here, as below, because they would make up a tenth of what importing headrace costs

    # Moves from memory to a nameless temporary file by itself when it grows beyond the limit.
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, prefix="headrace-") as unpacked:
        for piece in pieces:
            try:
                unpacked.write(piece)
            except OSError as error:
                if error.errno in FULL:
                    error.add_note(
                        f"headrace: in unpacking {path} into {tempfile.gettempdir()}; set TMPDIR to a folder with more "
                        "room, or unpack the file yourself"
                    )
                raise
        unpacked.seek(0)
        if unpacked.name is None:
            return _native.FileBytes.from_memory(np.frombuffer(unpacked.read(), np.uint8), path)
        return _native.FileBytes.from_descriptor(unpacked.fileno(), path)


def _gzip(path: str) -> Iterator[bytes]:
    import gzip

    try:
        with open_file(path) as file, gzip.open(file, "rb") as packed:
            # What can be unpacked comes before the error that ends it; read(…) would try to fill a whole chunk first.
            while piece := packed.read1(_CHUNK):
                yield piece
    except EOFError:
        raise DataError(
            f"{path} ends in the middle of its gzip data: it was cut short; copy or download it again"
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path} is not valid gzip ({error}); test it with `gzip -t`, and copy or download it again, or rename it "
            "if it was never packed"
        ) from None


def _zlib(path: str) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    with open_file(path) as packed:
        try:
            while chunk := packed.read(_CHUNK):
                while chunk and not stream.eof:
                    yield stream.decompress(chunk, _CHUNK)
                    chunk = stream.unconsumed_tail
                if stream.eof and (stream.unused_data or packed.read(1)):
                    raise DataError(f"{path} goes on after the end of its zlib data; write the file again")
        except zlib.error as error:
            raise DataError(
                f"{path} is not valid zlib data ({error}); copy or download it again, or say how it is packed"
            ) from None
    if not stream.eof:
        raise DataError(f"{path} ends in the middle of its zlib data: it was cut short; copy or download it again")


def _zstd(path: str) -> Iterator[bytes]:
    try:
        import zstandard
    except ModuleNotFoundError:
        raise ImportError(
            f"{path} is packed with Zstandard: `pip install headrace[zstd]`, or unpack it yourself", name="zstandard"
        ) from None
    with open_file(path) as packed:
        try:
            yield from _frames(packed, zstandard.ZstdDecompressor(), path)
        except zstandard.ZstdError as error:
            raise DataError(
                f"{path} is not valid Zstandard data ({error}); test it with `zstd -t`, and copy or download it again, "
                "or rename it if it was never packed"
            ) from None


def _frames(packed: IO[bytes], context: zstandard.ZstdDecompressor, path: str) -> Iterator[bytes]:
    """The content of frame after frame. The package's own stream takes a file that was cut short for a whole one."""
    frame = context.decompressobj()
    begun = False
    while chunk := packed.read(_ZSTD_CHUNK):
        while chunk:
            yield frame.decompress(chunk)
            begun = not frame.eof
            chunk = frame.unused_data if frame.eof else b""
            if frame.eof:
                frame = context.decompressobj()
    if begun:
        raise DataError(f"{path} ends in the middle of its Zstandard data: it was cut short; copy or download it again")
