"""Files that URLs name, read from front to back through fsspec: object stores, web servers, memory.

Whatever fsspec knows of an URL's protocol holds here: credentials, caches (`filecache::s3://…`), blocks, retries.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from headrace.errors import DataError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*(::|://)")


def is_remote(path: object) -> bool:
    """Whether this is an URL, and not the name of a file.

    Example:
        >>> [is_remote(path) for path in ("s3://mill/a.tfrecord", "filecache::s3://mill/a", "a.tfrecord", "C:/a")]
        [True, True, False, False]
    """
    return isinstance(path, str) and _URL.match(path) is not None


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Errors of all that may lie below fsspec, as those of the operating system, with the URL."""
    try:
        yield
    except (OSError, DataError, MemoryError) as error:
        if not isinstance(error, OSError) or error.filename is not None or error.errno is not None:
            raise
        # fsspec often says no more than the URL; what led there says why.
        cause = error.__cause__ or error.__context__
        text = str(error) if str(error) not in ("", url) else "not found"
        number = errno.ENOENT if isinstance(error, FileNotFoundError) else errno.EIO
        raise type(error)(number, f"{text} ({cause})" if cause and str(cause) else text, url) from error
    except ImportError as error:  # fsspec says which package a protocol needs
        raise ImportError(f"reading {url} needs another package: {error}", name=error.name) from error
    except Exception as error:
        raise OSError(errno.EIO, f"can't be read: {type(error).__name__}: {error}", url) from error


def _fsspec(url: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise ImportError(f"reading {url} needs fsspec: pip install 'headrace[remote]'", name="fsspec") from None
    return fsspec


def find_remote(url: str) -> list[str]:
    """The files that an URL names: itself, or those that match it where it has a `*`, sorted.

    Raises:
        FileNotFoundError: If none matches.
        ValueError: If there is no such protocol.
        ImportError: If fsspec, or a package for the protocol, isn't installed.
    """
    fsspec = _fsspec(url)
    with _told(url):
        try:
            system, path = fsspec.core.url_to_fs(url)
        except ValueError as error:
            raise DataError(f"{url}: {error}; write a path, or an URL that fsspec reads") from None
        if "*" not in url:
            return [url]
        found = sorted(system.glob(path))
        if not found:
            raise FileNotFoundError(errno.ENOENT, "the pattern matches nothing; check the folder and the pattern", url)
        before = url.rpartition("::")[0]
        return [f"{before}::{one}" if before else one for one in map(system.unstrip_protocol, found)]


def open_file(path: str) -> IO[bytes]:
    """Opens a file, on this machine or elsewhere, to be read from front to back.

    Raises:
        OSError: If it can't be opened; reading may raise the same.
        ImportError: If fsspec, or a package for the protocol, isn't installed.
    """
    if not is_remote(path):
        return open(path, "rb")
    fsspec = _fsspec(path)
    with _told(path):
        return _Remote(fsspec.open(path, "rb").open(), path)  # type: ignore[return-value]


def size_of(path: str) -> int | None:
    """Bytes of a file; None if nobody says.

    Raises:
        OSError: If it isn't there.
    """
    if not is_remote(path):
        return os.stat(path).st_size
    fsspec = _fsspec(path)
    with _told(path):
        system, inner = fsspec.core.url_to_fs(path)
        size = system.info(inner).get("size")
        return None if size is None else int(size)


class _Remote:
    """A file of fsspec's, whose errors say which it is."""

    def __init__(self, file: Any, url: str) -> None:
        self._file, self._url = file, url

    def read(self, size: int = -1) -> bytes:
        with _told(self._url):
            return bytes(self._file.read(size))

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> _Remote:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()
