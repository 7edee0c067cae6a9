"""Writes files so that whoever opens them finds the old content or the new one, never a part."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from headrace.checks import path_of
from headrace.errors import add_note

FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
"""What writing fails with when there is no room; such errors don't say what was written."""


def write_atomic(path: str | os.PathLike[str], parts: Iterable[Any]) -> None:
    """Writes a file beside its place, then moves it there.

    When anything fails (disk full, folder read-only, interrupted) the old file stays as it was and nothing is left
    beside it. Several processes may write the same file at once; the last one wins.

    Args:
        path: The file; a symbolic link is followed, not replaced.
        parts: Its content as bytes or contiguous arrays, one after the other.

    Raises:
        OSError: If the file can't be written.

    Example:
        >>> import pathlib, tempfile
        >>> from headrace.formats.atomic import write_atomic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     target = pathlib.Path(folder, "words")
        ...     write_atomic(target, [b"to ", b"the mill"])
        ...     target.read_bytes(), len(list(target.parent.iterdir()))
        (b'to the mill', 1)
    """
    with open_atomic(path) as file:
        for part in parts:
            file.write(part)


@contextlib.contextmanager
def open_atomic(path: str | os.PathLike[str], shown: str = "") -> Iterator[BinaryIO]:
    """Opens a file to be written beside its place; it is moved there when the block ends, and only if it ends well.

    As `write_atomic` otherwise. The file may be sought in, and be read.

    Args:
        path: The file; a symbolic link is followed, not replaced.
        shown: What it is called in messages, if not that.

    Raises:
        OSError: If the file can't be written.

    Example:
        >>> import pathlib, tempfile
        >>> from headrace.formats.atomic import open_atomic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     target = pathlib.Path(folder, "words")
        ...     with open_atomic(target) as file:
        ...         _ = file.write(b"to the mill")
        ...         before = target.exists()
        ...     before, target.read_bytes()
        (False, b'to the mill')
    """
    path = path_of(path)
    target = os.path.realpath(path)
    shown = shown or path
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, "expected a file to write, found a directory", shown)
    if os.path.exists(target) and not os.path.isfile(target):  # a file would take its place, of /dev/null too
        raise OSError(errno.EINVAL, "expected a file to write, found a pipe or a device", shown)
    temporary = unfinished_path(target)
    try:
        # Not a file of the tempfile module: those can be read by their owner alone.
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError as error:  # it names a file that nobody asked for
        missing = error.errno == errno.ENOENT
        text = "the folder to write in isn't there; make it first" if missing else error.strerror
        raise OSError(error.errno, text, shown) from None
    try:
        with open(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in FULL:
            add_note(error, f"headrace: in writing {shown}")
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(os.path.dirname(target))


# What `unfinished_path` gives, also for such a path (as parts of a TFRecord file have it), and what a cache is moved to
# while another takes its place.
_UNFINISHED = re.compile(r"\.{1,2}(.+?)\.([0-9a-f]{8})-([0-9]+)-[0-9a-f]{8}\.tmp(\..+\.tmp|\.old)?", re.DOTALL)


def unfinished_path(target: str) -> str:
    """A name beside a file or folder, for making it there first; no one else comes to the same.

    What processes that were killed left beside it is removed.
    """
    folder, name = os.path.split(target)
    _remove_left(folder or ".", name)
    return os.path.join(folder, f".{name}.{_machine()}-{os.getpid()}-{os.urandom(4).hex()}.tmp")


def _remove_left(folder: str, name: str) -> None:
    for path in _left_by_dead(folder).pop(name, ()):
        if os.path.isdir(path) and not os.path.islink(path):
            import shutil  # here, as below, because importing headrace would wait for it

            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)


@functools.lru_cache(maxsize=256)  # a folder is listed once, however many files are written there
def _left_by_dead(folder: str) -> dict[str, list[str]]:
    """What processes of this machine that are no more left half written in a folder, by the names it was to have."""
    left: dict[str, list[str]] = {}
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            found = _UNFINISHED.fullmatch(entry)
            if found is not None and found[2] == _machine() and not _is_alive(int(found[3])):
                left.setdefault(found[1], []).append(os.path.join(folder, entry))
    return left


def _is_alive(process: int) -> bool:
    """Whether there may be such a process; where that can't be told, there is."""
    if os.name != "posix" or not 0 < process < 1 << 31:
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # someone else's
    return True


@functools.cache
def _machine() -> str:
    """Tells apart machines, and containers, whose numbers of processes say nothing to each other."""
    import hashlib  # only when something is written: programs that read start sooner
    import platform

    about = platform.node()
    with contextlib.suppress(OSError):
        about += os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(about.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _sync_folder(folder: str) -> None:
    # Makes the move itself last over a power failure, where the file system can; the content is safe already.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
