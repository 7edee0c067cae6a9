"""Writes TFRecord files."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import zlib
from collections.abc import Iterable
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from headrace import _native
from headrace.batch.column import offsets_of
from headrace.batch.columns import Bytes, Strings
from headrace.checks import path_of, whole
from headrace.formats.atomic import open_atomic, unfinished_path
from headrace.formats.record_file import Compression, check_compression
from headrace.formats.shards import shard_name

__all__ = ["TFRecordWriter"]

_log = logging.getLogger("headrace")
_PIECE = 1 << 20  # bytes that are written at once
_FRAME = 16


class TFRecordWriter:
    """Writes a TFRecord file, or several with a part of the records each.

    Files appear in their place when the writer is closed, complete. When the `with` block ends by an error, a write
    fails, or the writer is dropped without having been closed, none does.

    Args:
        path: The file. With `shard_size`, `"train.tfrecord"` becomes `"train-00000-of-00003.tfrecord"` and so on.
        compression: `""`, `"GZIP"`, `"ZLIB"`, or `"ZSTD"`, which TensorFlow doesn't read.
        shard_size: Bytes of records, before packing, after which another file is begun.

    Raises:
        OSError: If the file can't be written.
        ValueError: If an argument is out of range.
        ImportError: If `"ZSTD"` is asked for and the package isn't installed: `pip install 'headrace[zstd]'`.

    Example:
        >>> import pathlib, tempfile, headrace as hr
        >>> folder = tempfile.TemporaryDirectory()
        >>> with hr.TFRecordWriter(pathlib.Path(folder.name, "a.tfrecord"), shard_size=50) as writer:
        ...     writer.write_many([b"one record", b"another one", b"the third"])
        >>> [path.name for path in sorted(pathlib.Path(folder.name).iterdir())]
        ['a-00000-of-00002.tfrecord', 'a-00001-of-00002.tfrecord']
        >>> folder.cleanup()
    """

    def __init__(
        self, path: str | os.PathLike[str], compression: str | None = "", *, shard_size: int | None = None
    ) -> None:
        self._compression = check_compression(compression)
        if self._compression == "ZSTD":
            _zstandard()
        self._path = path_of(path)
        self._shard_size = None if shard_size is None else whole("shard_size", shard_size, 1, 1 << 100)
        self._process = os.getpid()
        self._failed: OSError | None = None
        self._finished: list[str] = []  # hidden names of shards that are complete
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._shard_bytes = 0
        self._closed = True  # until there is something to close
        self._begin()
        self._closed = False

    def write(self, record: bytes) -> None:
        """Writes a record.

        Args:
            record: Its bytes.

        Raises:
            TypeError: If it isn't bytes.
            ValueError: If the writer is closed.
            OSError: If it can't be written.

        Example:
            >>> import pathlib, tempfile, headrace as hr
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with hr.TFRecordWriter(pathlib.Path(folder, "a.tfrecord")) as writer:
            ...         writer.write(b"mill")
            ...     list(hr.read_tfrecord(pathlib.Path(folder, "a.tfrecord")))
            [b'mill']
        """
        self._check_failed()
        if self._closed:
            raise ValueError(f"the writer of {self._path} is closed; make a new one to write on")
        if not isinstance(record, bytes):
            if not isinstance(record, (bytearray, memoryview)):
                raise TypeError(f"records are bytes, got {type(record).__name__} {record!r:.60}")
            record = bytes(record)
        try:
            if self._shard_size is not None and self._shard_bytes >= self._shard_size:
                self._end()
                self._begin()
            self._pending.append(record)
            self._pending_bytes += len(record) + _FRAME
            self._shard_bytes += len(record) + _FRAME
            if self._pending_bytes >= _PIECE:
                self._flush()
        except BaseException as error:
            # What was to be written is lost in part, so what would come of going on would only look whole.
            self._failed = error if isinstance(error, OSError) else OSError(errno.EIO, str(error))
            self._abandon(error)
            raise

    def write_many(self, records: Iterable[bytes] | Bytes | Strings) -> None:
        """Writes records one after another.

        Args:
            records: Their bytes.

        Raises:
            TypeError: If it isn't a list of bytes, or another iterable.
            ValueError: If the writer is closed.
            OSError: If they can't be written.

        Example:
            >>> import pathlib, tempfile, headrace as hr
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with hr.TFRecordWriter(pathlib.Path(folder, "a.tfrecord")) as writer:
            ...         writer.write_many([b"mill", b"wheel"])
            ...     len(hr.read_tfrecord(pathlib.Path(folder, "a.tfrecord")))
            2
        """
        if isinstance(records, (bytes, bytearray, str, memoryview)) or not isinstance(records, Iterable):
            raise TypeError(
                f"write_many takes records one after another, got {type(records).__name__} {records!r:.60}; write(…) "
                "takes one"
            )
        if isinstance(records, Strings):
            records = Bytes(records.data, records.offsets)
        for record in records:
            self.write(record)

    def close(self) -> None:
        """Completes the file or files and puts them in their place.

        Raises:
            OSError: If that can't be done, or a write failed before; then none of them is there.
        """
        self._check_failed()
        if self._closed:
            return
        self._closed = True
        there: list[str] = []
        try:
            self._end()
            count = len(self._finished)
            for number, hidden in enumerate(self._finished):
                name = shard_name(self._path, number, count)
                if os.path.isdir(name):
                    raise IsADirectoryError(errno.EISDIR, "expected a file to write, found a directory", name)
                os.replace(hidden, name)
                there.append(name)
        except BaseException as error:
            self._abandon(error)
            for name in there:  # some of the shards would look like all
                with contextlib.suppress(OSError):
                    os.unlink(name)
            raise

    def _check_failed(self) -> None:
        if self._failed is not None:
            text = f"no file was made, as a write failed before ({self._failed.strerror}); write all records again"
            raise OSError(self._failed.errno, text, self._path)

    def _begin(self) -> None:
        self._target = self._path
        if self._shard_size is not None:
            self._target = unfinished_path(os.path.realpath(self._path))
        self._open: contextlib.AbstractContextManager[IO[bytes]] | None = open_atomic(self._target, self._path)
        file = self._open.__enter__()
        self._sink = _sink(file, self._compression)
        self._shard_bytes = 0

    def _end(self) -> None:
        self._flush()
        self._sink.close()
        opened, self._open = self._open, None
        if opened is not None:
            opened.__exit__(None, None, None)
        if self._shard_size is not None:
            self._finished.append(self._target)

    def _flush(self) -> None:
        if self._pending:
            data = np.frombuffer(b"".join(self._pending), np.uint8)
            offsets = offsets_of([len(record) for record in self._pending])
            self._pending, self._pending_bytes = [], 0
            self._sink.write(_native.frame_records(data, offsets).data)

    def _abandon(self, error: BaseException) -> None:
        self._closed = True
        opened, self._open = self._open, None
        if opened is not None:
            with contextlib.suppress(BaseException):  # it raises the same again when it has cleaned up
                opened.__exit__(type(error), error, error.__traceback__)
        for hidden in self._finished:
            with contextlib.suppress(OSError):
                os.unlink(hidden)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._abandon(error)

    def __del__(self) -> None:
        # Not in a process that was forked from the writer's. No attribute may be there if __init__ failed.
        if getattr(self, "_closed", True) or self._process != os.getpid():
            return
        self._abandon(GeneratorExit())
        with contextlib.suppress(Exception):  # at the end of the program there may be no logging any more
            _log.warning("%s: no file was made, as its writer was never closed; use it in a `with` block", self._path)


class _Plain:
    """Writes to a file that someone else closes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, data: Any) -> None:
        self._file.write(data)

    def close(self) -> None:
        """Nothing is left to write."""


class _Zlib(_Plain):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._packer = zlib.compressobj()

    def write(self, data: Any) -> None:
        self._file.write(self._packer.compress(data))

    def close(self) -> None:
        self._file.write(self._packer.flush())


def _sink(file: IO[bytes], compression: Compression) -> Any:
    if compression == "GZIP":
        import gzip

        # Without name and time, so that the same records give the same file.
        return gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
    if compression == "ZLIB":
        return _Zlib(file)
    if compression == "ZSTD":
        return _zstandard().ZstdCompressor().stream_writer(file, closefd=False)
    return _Plain(file)


def _zstandard() -> Any:
    try:
        import zstandard
    except ModuleNotFoundError:
        raise ImportError("packing with Zstandard needs `pip install headrace[zstd]`", name="zstandard") from None
    return zstandard
