"""The files of texts: how they are found, read, and written whole or not at all. PyTorch is not needed for them."""

from __future__ import annotations

import contextlib
import errno
import glob
import gzip
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import headrace as hr

__all__ = ["SEPARATORS", "find_side", "open_text", "read_lines", "replacing", "write_lines"]

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
    """
    for path in (f"{prefix}.{suffix}", f"{prefix}.{suffix}.gz"):
        if os.path.exists(path):
            return [path]
        if found := sorted(glob.glob(path)):
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
    """Reads the lines of a text file, which may be gzip."""
    return list(hr.read_text(path, index="memory"))


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
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Writes a text file, whole or not at all."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder of this file is not there: make it first", str(path))
    text = "".join(f"{line}\n" for line in lines)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
