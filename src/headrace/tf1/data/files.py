"""Datasets out of files: lines, records of one length, TFRecord."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.tf1 import errors
from headrace.tf1.data.dataset import Dataset
from headrace.tf1.data.structure import Context, End, Next, Row, Spec
from headrace.tf1.dtypes import TensorShape, string
from headrace.tf1.graph import convert
from headrace.tf1.read_files import FixedFile, RecordFile, Source, TextFile
from headrace.tf1.readers import compression_of

__all__ = ["FixedLengthRecordDataset", "TFRecordDataset", "TextLineDataset"]


class _FileDataset(Dataset):
    """Records of files, one file after another; what can't be opened stays in the way."""

    def __init__(self, filenames: Any, open_: Callable[[bytes], Source], drop_damaged: bool = False):
        names = convert(list(filenames) if isinstance(filenames, list | tuple) else filenames, string)

        def iterate(context: Context) -> Next:
            left = [bytes(n) for n in np.atleast_1d(np.asarray(context.value(names), object)).tolist()]
            source: list[Source | None] = [None]

            def step() -> Row:
                while True:
                    current = source[0]
                    if current is None:
                        if not left:
                            raise End
                        try:
                            source[0] = current = open_(left[0])
                        except Exception as error:
                            raise errors.translate(error) from error
                    try:
                        record = current.read()
                    except errors.DataLossError:
                        if drop_damaged:
                            current.close()
                            source[0] = None
                            left.pop(0)
                        raise
                    if record is not None:
                        return (record[1],)
                    current.close()
                    source[0] = None
                    left.pop(0)

            weakref.finalize(step, _close, source)  # an iterator need not come to the end
            return step

        super().__init__(Spec(string, TensorShape([])), iterate)


def _close(source: list[Source | None]) -> None:
    if source[0] is not None:
        source[0].close()


class TextLineDataset(_FileDataset):
    """Lines of files, without their ends.

    Args:
        filenames: A name, several, or a tensor of such.
        compression_type: `GZIP`, `ZLIB` or nothing.
        buffer_size: Ignored.
    """

    def __init__(self, filenames: Any, compression_type: Any = None, buffer_size: Any = None):
        compression = compression_of(compression_type)
        super().__init__(filenames, lambda name: TextFile(name, compression=compression))


class FixedLengthRecordDataset(_FileDataset):
    """Records of one length; a file with a rest is an error.

    Args:
        filenames: A name, several, or a tensor of such.
        record_bytes: Bytes of a record.
        header_bytes: Bytes before the first one.
        footer_bytes: Bytes after the last one.
        buffer_size: Ignored.
        compression_type: `GZIP`, `ZLIB` or nothing.
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        buffer_size: Any = None,
        compression_type: Any = None,
    ):
        if record_bytes < 1:
            raise errors.InvalidArgumentError(None, None, f"record_bytes must be 1 or more, got {record_bytes}")
        packed = compression_of(compression_type)
        header, footer = header_bytes or 0, footer_bytes or 0
        super().__init__(filenames, lambda name: FixedFile(name, record_bytes, header, footer, 0, packed, exact=True))


class TFRecordDataset(_FileDataset):
    """Records of TFRecord files. After a corrupt one, the rest of its file is given up.

    Args:
        filenames: A name, several, or a tensor of such.
        compression_type: `GZIP`, `ZLIB`, `ZSTD` or nothing.
        buffer_size: Ignored.
    """

    def __init__(self, filenames: Any, compression_type: Any = None, buffer_size: Any = None, **ignored: Any):
        packed = compression_of(compression_type)
        super().__init__(filenames, lambda name: RecordFile(name, packed), drop_damaged=True)
