"""The files of texts: how they are found, read, and written whole or not at all. PyTorch is not needed for them."""

from __future__ import annotations

import codecs
import contextlib
import errno
import glob
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import headrace as hr

__all__ = [
    *("SEPARATORS", "find_side", "locked", "make_folder", "naming", "open_text", "read_lines", "replacing"),
    "write_lines",
]

_DEVICES = ("/dev/std", "/dev/fd/", "/proc/")  # which may stand for ordinary files

SEPARATORS = " "  # the tutorial splits at blanks alone: tabs and no-break spaces are parts of words


def find_side(prefix: str, suffix: str, flag: str) -> list[str]:
    """Finds the files of one language.

    Args:
        prefix: Files without their suffix; may be a glob.
        suffix: The language.
        flag: The setting that the prefix comes from, for the message.

    Returns:
        `prefix.suffix`, or `prefix.suffix.gz` where the first is not there; a glob's files in sorted order.

    Raises:
        FileNotFoundError: Neither is there.
        DataError: A file begins with a byte order mark.
    """
    for path in (f"{prefix}.{suffix}", f"{prefix}.{suffix}.gz"):
        if found := [path] if os.path.exists(path) else sorted(glob.glob(path)):
            for one in found:
                _refuse_mark(one, _beginning(one))
            return found
    message = f"expected this file (or the same with .gz), found none: check --{flag}={prefix} and --src, --tgt"
    raise FileNotFoundError(errno.ENOENT, message, f"{prefix}.{suffix}")


def open_text(path: str) -> IO[bytes]:
    """Opens a text file, which is gzip if its name says so, for reading its bytes.

    Raises:
        OSError: The file cannot be read.
    """
    return cast(IO[bytes], gzip.open(path) if path.endswith(".gz") else open(path, "rb"))


def read_lines(path: str | Path) -> list[str]:
    """Reads the lines of a text file, which may be gzip.

    Raises:
        DataError: The file begins with a byte order mark.
    """
    lines = list(hr.read_text(path, index="memory"))
    _refuse_mark(path, lines[0][:2].encode("utf-8", "surrogateescape") if lines else b"")
    return lines


def _beginning(path: str) -> bytes:
    """The first bytes of a file; none of what is no ordinary file, or can't be read, of which its reader will tell."""
    if not os.path.isfile(path):
        return b""
    with contextlib.suppress(OSError, EOFError, zlib.error), open_text(path) as file:
        return file.read(3)
    return b""


def _refuse_mark(path: str | Path, beginning: bytes) -> None:
    """Refuses a byte order mark, which would become part of the first word."""
    if beginning.startswith(codecs.BOM_UTF8):
        raise hr.DataError(f"{path} begins with a byte order mark: expected none; remove its first 3 bytes")
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise hr.DataError(f"{path} seems to be UTF-16 by its byte order mark: expected UTF-8; convert the file")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Gives a temporary file to write, and puts it in the place of `path` when that has gone well.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with replacing(Path(folder, "words")) as temporary:
        ...         _ = temporary.write_text("the mill")
        ...     [p.name for p in Path(folder).iterdir()]
        ['words']
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file to write, found a folder: give another name", str(path))
    if str(path.absolute()).startswith(_DEVICES) or (path.exists() and not path.is_file()):
        yield path  # nobody wants it replaced
        return
    target = Path(os.path.realpath(path))  # a link stays one
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with naming(path):
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Gives errors of writing a file its name, which a full disk, for one, does not tell."""
    try:
        yield
    except OSError as error:
        # Errors of headrace have no number, and say all.
        if error.errno is None or (error.filename is not None and Path(str(error.filename)).suffix != ".tmp"):
            raise
        raise OSError(error.errno, f"cannot be written: {error.strerror or error}", str(path)) from error


def make_folder(path: Path) -> None:
    """Makes a folder and those above it, where they are not there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        message = "expected a folder, found a file in its place: give another name"
        raise NotADirectoryError(errno.ENOTDIR, message, str(path)) from None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other programs that do the same out of a folder; the system forgets it when the program ends.

    Raises:
        BlockingIOError: One is at work there.
    """
    try:
        import fcntl  # not on every system
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = "another training is at work in this folder: wait for it, stop it, or give another --out_dir"
            raise BlockingIOError(errno.EAGAIN, message, str(folder)) from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(handle)


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Writes a text file, whole or not at all; gzip if its name says so."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder of this file is not there: make it first", str(path))
    content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    with replacing(path) as temporary:
        temporary.write_bytes(gzip.compress(content, mtime=0) if path.name.endswith(".gz") else content)
