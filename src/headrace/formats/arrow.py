"""Sequences as Arrow files (`.arrow`, `.feather`): a record batch a block, a row a sequence.

Column `key` is uint64; each stream is a column of lists of samples: fixed-size lists of numbers of a dense stream,
lists of structs of `index` and `value` of a sparse one, whose width stands in the metadata of the schema.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.columns import Ragged
from headrace.batch.convert import to_arrow
from headrace.batch.sparse import Sparse
from headrace.errors import DataError
from headrace.formats.atomic import open_atomic
from headrace.formats.exchange import Block, ColumnSequences, empty_column
from headrace.formats.sequences import SequenceStream

KEY = "key"
_METADATA = b"headrace"
_NUMBER = re.compile(r"float|double|u?int(8|16|32|64)")


def _pyarrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise ImportError("Arrow files need pyarrow: pip install 'headrace[arrow]'", name="pyarrow") from None


def write_arrow(path: str | os.PathLike[str], streams: Sequence[SequenceStream], blocks: Iterable[Block]) -> int:
    """Writes sequences as an Arrow file, a record batch a block.

    Args:
        path: The file.
        streams: What the columns are.
        blocks: The sequences.

    Returns:
        How many there were.

    Raises:
        OSError: If the file can't be written.
        DataError: If a stream is called as the column of keys is.
        ImportError: If pyarrow isn't installed; `pip install 'headrace[arrow]'`.
    """
    pa = _pyarrow()
    ipc = importlib.import_module("pyarrow.ipc")
    if any(stream.name == KEY for stream in streams):
        raise DataError(f"{path}: a stream can't be called {KEY!r} in Arrow, where the keys are; rename it")
    none = {KEY: np.empty(0, np.uint64), **{stream.name: empty_column(stream) for stream in streams}}
    about = {"streams": [{"name": s.name, "sparse": s.sparse, "shape": list(s.shape)} for s in streams]}
    schema = to_arrow(none).schema.with_metadata({_METADATA: json.dumps(about).encode()})
    count = 0
    # pyarrow closes the file that it writes to; this one is to live on, until it is moved to its place.
    with (
        open_atomic(path) as file,
        open(os.dup(file.fileno()), "wb") as own,
        pa.PythonFile(own, "w") as sink,
        ipc.new_file(sink, schema) as writer,
    ):
        for block in blocks:
            columns = {stream.name: block.columns[stream.name] for stream in streams}
            writer.write_batch(to_arrow({KEY: block.keys, **columns}).cast(schema))
            count += len(block.keys)
    return count


def open_arrow(path: str | os.PathLike[str]) -> ColumnSequences:
    """Opens sequences that `write_arrow` wrote, mapped; or any Arrow file of the same types.

    Raises:
        OSError: If the file can't be opened.
        DataError: If it isn't an Arrow file, or its columns don't make sequences.
        ImportError: If pyarrow isn't installed; `pip install 'headrace[arrow]'`.
    """
    pa = _pyarrow()
    ipc = importlib.import_module("pyarrow.ipc")
    path = os.fspath(path)
    file = _native.FileBytes.open(path)
    try:
        reader = ipc.open_file(pa.memory_map(path))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        for batch in batches:
            batch.validate(full=True)
        streams, blocks = _sequences(path, reader.schema, batches)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # pyarrow has errors of many kinds for what a damaged file can hold
        raise DataError(f"{path}: expected an Arrow file: {error}; write it again") from None
    return ColumnSequences(path, file, streams, blocks)


def _sequences(path: str, schema: Any, batches: list[Any]) -> tuple[list[SequenceStream], list[Block]]:
    try:
        about = json.loads((schema.metadata or {})[_METADATA])["streams"]
        told = {entry["name"]: tuple(map(int, entry["shape"])) for entry in about}
    except (AttributeError, KeyError, TypeError, ValueError):
        told = {}
    streams = [_stream(path, field, told.get(field.name)) for field in schema if field.name != KEY]
    blocks, rows = [], 0
    for batch in batches:
        columns = {stream.name: _column(path, batch.column(stream.name), stream) for stream in streams}
        blocks.append(Block(_keys(path, batch, rows), columns))
        rows += batch.num_rows
    return streams, blocks


def _keys(path: str, batch: Any, rows: int) -> NDArray[np.uint64]:
    if KEY not in batch.schema.names:
        return np.arange(rows, rows + batch.num_rows, dtype=np.uint64)
    keys = batch.column(KEY)
    if keys.null_count or not str(keys.type).lstrip("u").startswith("int"):
        raise DataError(
            f"{path}: expected whole numbers in column {KEY!r}, got {keys.type} with {keys.null_count} nulls"
        )
    return np.ascontiguousarray(keys.to_numpy(zero_copy_only=False), np.uint64)


def _is_list(kind: Any) -> bool:
    return str(kind).startswith(("list<", "large_list<"))


def _stream(path: str, field: Any, shape: tuple[int, ...] | None) -> SequenceStream:
    if _is_list(field.type):
        item = field.type.value_type
        if _is_list(item) and str(item.value_type).startswith("struct<index:"):
            if shape is None or len(shape) != 1 or shape[0] < 1:
                raise DataError(
                    f"{path}: column {field.name!r} is sparse and nothing says how wide it is; write the file with "
                    "headrace convert, which notes it"
                )
            dtype = np.dtype(item.value_type.field("value").type.to_pandas_dtype())
            return SequenceStream(field.name, shape, sparse=True, dtype=dtype)
        sizes: list[int] = []
        while str(item).startswith("fixed_size_list<"):
            sizes.append(item.list_size)
            item = item.value_type
        if sizes and _NUMBER.fullmatch(str(item)):
            return SequenceStream(field.name, tuple(sizes), dtype=np.dtype(item.to_pandas_dtype()))
    raise DataError(
        f"{path}: expected lists of samples in column {field.name!r} (fixed-size lists of numbers, or lists of structs "
        f"of index and value), got {field.type}"
    )


def _parts(path: str, array: Any, name: str) -> tuple[NDArray[np.int64], Any]:
    if array.null_count:
        raise DataError(f"{path}: expected no nulls in column {name!r}, got {array.null_count}; fill or drop them")
    offsets = np.asarray(array.offsets.to_numpy(zero_copy_only=False), np.int64)
    return offsets - offsets[0], array.flatten()


def _column(path: str, array: Any, stream: SequenceStream) -> Ragged:
    offsets, samples = _parts(path, array, stream.name)
    if stream.sparse:
        entries, structs = _parts(path, samples, stream.name)
        index, value = structs.field("index"), structs.field("value")
        for part in (structs, index, value):
            if part.null_count:
                raise DataError(f"{path}: expected no nulls in column {stream.name!r}; fill or drop them")
        indices = np.ascontiguousarray(index.to_numpy(zero_copy_only=False), np.int32)
        return Ragged(Sparse(value.to_numpy(zero_copy_only=False), indices, entries, stream.shape[-1]), offsets)
    count = len(samples)
    nulls = 0
    while str(samples.type).startswith("fixed_size_list<"):
        nulls += samples.null_count
        samples = samples.flatten()
    if nulls + samples.null_count:
        raise DataError(f"{path}: expected no nulls in column {stream.name!r}; fill or drop them")
    return Ragged(samples.to_numpy(zero_copy_only=False).reshape(count, *stream.shape), offsets)
