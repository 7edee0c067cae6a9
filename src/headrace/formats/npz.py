"""Sequences as NumPy's `.npz`: a few arrays a stream, mapped when they are read.

    keys            uint64 (sequences,)
    NAME.values     float32 or float64: (samples, dim) of a dense stream, (entries,) of a sparse one
    NAME.offsets    int64 (sequences + 1,): sequence i has the samples offsets[i] to offsets[i + 1]
    NAME.indices    int32 (entries,), NAME.entries int64 (samples + 1,), NAME.width int64 (): of a sparse stream

`numpy.load` reads the file. Written without compression and with every array at a multiple of 64 bytes, so that it can
be mapped; compressed ones are read into memory.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse
from headrace.errors import DataError
from headrace.formats.atomic import open_atomic
from headrace.formats.exchange import Block, ColumnSequences
from headrace.formats.sequences import SequenceStream

_ALIGN = 64
_LOCAL_HEADER = 30  # of a zip member, before its name


def write_npz(path: str | os.PathLike[str], streams: Sequence[SequenceStream], blocks: Iterable[Block]) -> int:
    """Writes sequences as `.npz`, in bounded memory: arrays grow in temporary files beside it, then it is put together.

    Args:
        path: The file.
        streams: What the columns are.
        blocks: The sequences.

    Returns:
        How many there were.

    Raises:
        OSError: If the file can't be written.
    """
    with contextlib.ExitStack() as stack:
        folder = os.path.dirname(os.path.realpath(path))
        arrays: dict[str, _Growing] = {}

        def grow(name: str, dtype: Any, shape: tuple[int, ...] = ()) -> _Growing:
            arrays[name] = _Growing(stack.enter_context(tempfile.TemporaryFile(dir=folder)), np.dtype(dtype), shape)
            return arrays[name]

        keys = grow("keys", np.uint64)
        columns = [_GrowingColumn(stream, grow) for stream in streams]
        for block in blocks:
            keys.append(block.keys)
            for column, stream in zip(columns, streams, strict=True):
                column.append(block.columns[stream.name])
        with open_atomic(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, array in arrays.items():
                array.write_to(archive, file, f"{name}.npy")
            for stream in streams:
                if stream.sparse:
                    _write(archive, f"{stream.name}.width.npy", np.array(stream.shape[-1], np.int64))
    return keys.rows


class _Growing:
    """An array in a file, to which rows are added."""

    def __init__(self, file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.file, self.dtype, self.shape, self.rows = file, dtype, shape, 0

    def append(self, rows: NDArray[Any]) -> None:
        self.file.write(np.ascontiguousarray(rows, self.dtype).data.cast("B") if len(rows) and rows.size else b"")
        self.rows += len(rows)

    def write_to(self, archive: zipfile.ZipFile, file: BinaryIO, name: str) -> None:
        header = _header(self.dtype, (self.rows, *self.shape))
        # Where the array would begin; the zip header of a member that may be large has 20 bytes more after the name.
        begin = file.tell() + _LOCAL_HEADER + len(name.encode()) + 20 + len(header)
        header = header[:-1] + b" " * (-begin % _ALIGN) + b"\n"
        length = len(header) - 10  # what the header says of itself
        header = header[:8] + length.to_bytes(2, "little") + header[10:]
        self.file.seek(0)
        with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
            member.write(header)
            shutil.copyfileobj(self.file, member, 1 << 20)


class _GrowingColumn:
    """The arrays of one stream; offsets go on from block to block."""

    def __init__(self, stream: SequenceStream, grow: Any) -> None:
        self.samples = self.entries = 0
        self.sparse = stream.sparse
        self.values = grow(f"{stream.name}.values", stream.dtype, () if stream.sparse else stream.shape)
        if stream.sparse:
            self.indices = grow(f"{stream.name}.indices", np.int32)
            self.entry_offsets = grow(f"{stream.name}.entries", np.int64)
            self.entry_offsets.append(np.zeros(1, np.int64))
        self.offsets = grow(f"{stream.name}.offsets", np.int64)
        self.offsets.append(np.zeros(1, np.int64))

    def append(self, column: Ragged) -> None:
        values = column.values
        if self.sparse:
            self.values.append(values.values)
            self.indices.append(values.indices)
            self.entry_offsets.append(values.offsets[1:] + self.entries)
            self.entries += len(values.values)
        else:
            self.values.append(values)
        self.offsets.append(column.offsets[1:] + self.samples)
        self.samples += len(values)


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, described)
    return buffer.getvalue()


def _write(archive: zipfile.ZipFile, name: str, array: NDArray[Any]) -> None:
    with archive.open(name, "w") as member:
        np.lib.format.write_array(member, array)


def open_npz(path: str | os.PathLike[str]) -> ColumnSequences:
    """Opens sequences that `write_npz` wrote, or arrays that were saved by hand.

    A plain array is a stream of one sample a sequence, and keys count from 0 where there are none.

    Raises:
        OSError: If the file can't be opened.
        DataError: If it isn't `.npz`, or its arrays don't make sequences.
    """
    path = os.fspath(path)
    file = _native.FileBytes.open(path)
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {
                info.filename.removesuffix(".npy"): _array(path, archive, info, file.array())
                for info in archive.infolist()
            }
    except MemoryError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy have a dozen for what a damaged file can hold
        raise DataError(f"{path}: expected a file as numpy.savez writes them, but {error}; write it again") from None
    streams: list[SequenceStream] = []
    columns: dict[str, Ragged] = {}
    try:
        for name in arrays:
            if name.endswith(".values"):
                _add_written(name.removesuffix(".values"), arrays, streams, columns)
            elif name != "keys" and not _is_part(name, arrays):
                array = arrays[name] if arrays[name].ndim > 1 else arrays[name][:, None]
                streams.append(SequenceStream(name, array.shape[1:], dtype=array.dtype))
                columns[name] = Ragged(array, np.arange(len(array) + 1))
    except (KeyError, IndexError) as error:
        raise DataError(f"{path}: an array is missing or has too few dimensions: {error}") from None
    rows = len(next(iter(columns.values()))) if columns else 0
    keys = np.ascontiguousarray(arrays.get("keys", np.arange(rows, dtype=np.uint64)), np.uint64)
    return ColumnSequences(path, file, streams, [Block(keys, columns)])


def _is_part(name: str, arrays: dict[str, NDArray[Any]]) -> bool:
    stem, _, part = name.rpartition(".")
    return part in ("offsets", "indices", "entries", "width") and f"{stem}.values" in arrays


def _add_written(
    name: str, arrays: dict[str, NDArray[Any]], streams: list[SequenceStream], columns: dict[str, Ragged]
) -> None:
    values, offsets = arrays[f"{name}.values"], arrays[f"{name}.offsets"]
    if f"{name}.indices" in arrays:
        width = int(arrays[f"{name}.width"])
        sparse = Sparse(values, arrays[f"{name}.indices"], arrays[f"{name}.entries"], width)
        streams.append(SequenceStream(name, (width,), sparse=True, dtype=values.dtype))
        columns[name] = Ragged(sparse, offsets)
    else:
        streams.append(SequenceStream(name, values.shape[1:], dtype=values.dtype))
        columns[name] = Ragged(values, offsets)


def _array(path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo, data: NDArray[np.uint8]) -> NDArray[Any]:
    """A member's array: mapped where it lies, or read where it is packed or badly placed."""
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"{info.filename} is of version {version} of the format")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(member)
        if dtype.kind not in "biuf":
            raise ValueError(f"{info.filename} holds {dtype}, no numbers")
        header = member.tell()
    if info.compress_type != zipfile.ZIP_STORED or fortran or not dtype.isnative:
        with archive.open(info) as member:
            array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    lengths = data[info.header_offset + 26 : info.header_offset + _LOCAL_HEADER].view("<u2").astype(int)
    begin = info.header_offset + _LOCAL_HEADER + int(lengths.sum()) + header
    size = math.prod(shape) * dtype.itemsize
    if size < 0 or begin + size > len(data) or header + size > info.file_size:
        raise ValueError(f"{info.filename} is cut short")
    found = data[begin : begin + size]
    return np.require(found.view(dtype) if begin % dtype.itemsize == 0 else found.copy().view(dtype)).reshape(shape)
