"""Finds and opens the files of a source: a path, a list, a pattern; plain or packed."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from headrace import _native
from headrace.checks import path_of
from headrace.errors import DataChangedError, DataError
from headrace.formats.packed import is_packed, open_packed
from headrace.formats.remote import is_remote
from headrace.formats.shards import check_shards

AnyPath: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = AnyPath | Sequence[AnyPath]

FileState: TypeAlias = tuple[int, int]
"""Size and mtime (ns)."""

SIDECAR_SUFFIX = ".hrindex"


def natural(path: str) -> tuple[list[str | int], str]:
    """What to sort paths by, for numbers in them to count as numbers: `"frame9"` comes before `"frame10"`."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split("([0-9]+)", path))], path


def find_files(files: Paths, key: Callable[[str], Any] | None = None) -> list[str]:
    """Resolves paths and glob patterns to files that are there.

    Args:
        files: A path, a glob pattern (`**` goes through folders), or a sequence of those. A path that exists is taken
            as it is, even with `*` or `[` in its name. A pattern gives its files in sorted order; folders and index
            sidecars that match are passed over.
        key: What a pattern's files are sorted by, instead of themselves.

    Returns:
        At least one path, in the order given.

    Raises:
        FileNotFoundError: If a path isn't there, or a pattern matches no file.
        IsADirectoryError: If a path is a directory.
        DataError: If the sequence is empty, a path is neither file nor directory (a pipe, a device), or isn't UTF-8.

    Example:
        >>> import pathlib, tempfile
        >>> from headrace.formats.files import find_files
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("b.txt", "a.txt"):
        ...         _ = pathlib.Path(folder, name).write_text("")
        ...     [pathlib.Path(found).name for found in find_files(folder + "/*.txt")]
        ['a.txt', 'b.txt']
    """
    if isinstance(files, (str, bytes, os.PathLike)):
        return _resolve(files, key)
    if not isinstance(files, Iterable):
        raise TypeError(f"expected a path, a pattern or a list of those, got {type(files).__name__} {files!r:.60}")
    found = [path for entry in files for path in _resolve(entry, key)]
    if not found:
        raise DataError("expected at least one file, got an empty list of files")
    return found


def _resolve(entry: AnyPath, key: Callable[[str], Any] | None) -> list[str]:
    path = path_of(entry)
    _check_name(path)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if glob.has_magic(path) and not is_remote(path):
            return _match(path, key)
        hint = "URLs are read by read_tfrecord alone: copy it to a file" if is_remote(path) else "check the path"
        raise FileNotFoundError(errno.ENOENT, f"expected a file, found nothing; {hint}", path) from None
    if stat.S_ISDIR(mode):
        message = "expected a file, found a directory; name a file in it, or a pattern like 'folder/*.txt'"
        raise IsADirectoryError(errno.EISDIR, message, path)
    if not stat.S_ISREG(mode):
        raise DataError(f"{path}: expected a regular file, found a pipe or device, which can't be read at any place")
    return [path]


def _check_name(path: str) -> None:
    """Refuses names that messages and sidecars could not repeat: bytes that are no UTF-8, which Python escapes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise DataError(f"{path!a}: expected a path in UTF-8, found other bytes in it; rename the file") from None


def _match(pattern: str, key: Callable[[str], Any] | None) -> list[str]:
    found_names = (p for p in glob.glob(pattern, recursive=True) if not p.endswith(SIDECAR_SUFFIX))
    matches = sorted(found_names, key=key)
    found = [path for path in matches if os.path.isfile(path)]
    for path in found:
        _check_name(path)
    if not found:
        what = "only folders" if matches else "nothing"
        raise FileNotFoundError(errno.ENOENT, f"the pattern matches {what}; check the folder and the pattern", pattern)
    check_shards(pattern, found)
    return found


def check_separators(separators: object) -> None:
    """Refuses what can't be a set of separators; the native core looks at the characters.

    Raises:
        TypeError: If it is neither text nor None.
        ValueError: If there is none in it.
    """
    if separators is not None and not isinstance(separators, str):
        raise TypeError(f"separators is a str of ASCII characters, or None for white space, got {separators!r:.60}")
    if separators == "":
        raise ValueError("separators is empty: give at least one ASCII character")


def open_bytes(path: str) -> _native.FileBytes:
    """Opens a file for reading at any place.

    Plain files are mapped. Gzip and Zstandard files (`.gz`, `.zst`) are unpacked first: into memory, or beyond 64 MiB
    into a temporary file without a name, which goes when it is closed.

    Raises:
        OSError: If the file can't be opened, or the temporary one not be written.
        DataError: If it is packed, and isn't whole and valid.
        ImportError: If unpacking needs a package that isn't installed.
    """
    try:
        return open_packed(path) if is_packed(path) else _native.FileBytes.open(path)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            error.add_note("headrace: each file of a source stays open; raise the limit with `ulimit -n`")
        raise


def state_of(path: str) -> FileState:
    """What changes when a file is written to."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def find_again(absolute: str, shown: str, expected: FileState) -> str:
    """The path of a file that another process opened before and sends here.

    Args:
        absolute: Where it was then.
        shown: The path it was opened by, which is kept for messages where it still leads there.
        expected: The state it was in.

    Raises:
        DataChangedError: If it was written to since.
        OSError: If it isn't there.
    """
    path = shown if os.path.abspath(shown) == absolute else absolute
    found = state_of(path)
    if found != expected:
        raise DataChangedError(
            f"{path} changed since the source was sent here: expected {expected[0]} bytes modified at {expected[1]} "
            f"ns, found {found[0]} bytes modified at {found[1]} ns; leave files alone while they are read"
        )
    return path
