"""`tf.python_io`: record files without a graph."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from headrace.formats.tfrecord_writer import TFRecordWriter as Writer
from headrace.tf1 import errors
from headrace.tf1.read_files import RecordFile
from headrace.tf1.readers import TFRecordCompressionType, TFRecordOptions, compression_of

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]


def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """The records of a file.

    Raises:
        NotFoundError: If there is no such file.
        DataLossError: At a damaged record.
    """
    try:
        source = RecordFile(os.fsencode(path), compression_of(options))
    except OSError as error:
        raise errors.translate(error) from error
    try:
        while (record := source.read()) is not None:
            yield record[1]
    finally:
        source.close()


class TFRecordWriter:
    """Writes records to a file.

    Args:
        path: The file.
        options: The compression.

    Raises:
        FailedPreconditionError: When writing after closing.

    Example:
        >>> import os, tempfile
        >>> from headrace import tf1 as tf
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "mill.tfrecord")
        ...     with tf.python_io.TFRecordWriter(path) as writer:
        ...         writer.write(b"wheel")
        ...     print(list(tf.python_io.tf_record_iterator(path)))
        [b'wheel']
    """

    def __init__(self, path: Any, options: Any = None):
        try:
            self._writer: Any = Writer(os.fspath(path), compression_of(options))
        except OSError as error:
            raise errors.translate(error) from error

    def write(self, record: bytes | str) -> None:
        """Appends a record."""
        if self._writer is None:
            raise errors.FailedPreconditionError(None, None, "Writer is closed.")
        self._writer.write(record.encode() if isinstance(record, str) else record)

    def flush(self) -> None:
        """Does nothing: the file is complete when the writer is closed."""

    def close(self) -> None:
        """Completes the file."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
