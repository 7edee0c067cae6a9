"""Arrays, matrices and lists of them, as users hand them over, as columns of sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.batch.column import join_rows, offsets_of
from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse, is_scipy
from headrace.cntk.minibatch_data import MinibatchData
from headrace.errors import DataError
from headrace.formats.sequences import SequenceStream


def columns_of(data: Any, what: str) -> dict[str, Ragged]:
    """The streams of some data, each with as many sequences.

    Raises:
        DataError: If there is no stream, one is neither array, matrix nor list of those, or they differ in number.
    """
    if not isinstance(data, Mapping) or not data:
        raise DataError(f"{what}: expected streams by name, {{'x': array}}, got {type(data).__name__} {data!r:.60}")
    for name in data:
        if not isinstance(name, str) or not name:
            raise DataError(f"{what}: expected streams named by str, got {name!r:.60}")
    columns = {name: column_of(value, f"{what}, stream {name!r}") for name, value in data.items()}
    counts = {name: len(column) for name, column in columns.items()}
    if len(set(counts.values())) > 1:
        raise DataError(f"{what}: expected as many sequences in each stream, got {counts}")
    return columns


def column_of(value: Any, what: str) -> Ragged:
    """Rows of an array or a matrix are sequences of one sample; an item of a list is a sequence.

    Raises:
        DataError: If it is anything else.
    """
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], list):
        value = value[0]  # with its type, as CNTK has it: the data says by itself what it is
    if isinstance(value, MinibatchData):
        value = value.column
    if isinstance(value, Ragged):
        return value
    if isinstance(value, list):
        parts = [_samples(part, f"{what}, sequence {i}") for i, part in enumerate(value)]
        if not parts:
            raise DataError(f"{what}: expected at least one sequence, got none")
        try:
            return Ragged(join_rows(parts), offsets_of(np.array([len(part) for part in parts], np.int64)))
        except ValueError as error:
            raise DataError(f"{what}: sequences differ in the shape of their samples: {error}") from None
    samples = _samples(value, what)
    return Ragged(samples, np.arange(len(samples) + 1))


def stream_of(name: str, column: Ragged) -> SequenceStream:
    """What a column is."""
    values = column.values
    if isinstance(values, Sparse):
        return SequenceStream(name, (values.width,), True, values.values.dtype)
    return SequenceStream(name, values.shape[1:], False, values.dtype)


def _samples(value: Any, what: str) -> Any:
    if isinstance(value, Sparse):
        return value
    if is_scipy(value):
        try:
            found = Sparse.from_scipy(value)
        except ValueError as error:
            raise DataError(f"{what}: {error}") from None
        return Sparse(_floats(found.values, what), found.indices, found.offsets, found.width)
    array = np.asarray(value)
    if array.ndim == 0:
        raise DataError(f"{what}: expected an array whose rows are samples, got {value!r:.60}")
    return _floats(array, what)


def _floats(array: Any, what: str) -> Any:
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what}: expected numbers, got {array.dtype}")
    return array if array.dtype in (np.float32, np.float64) else array.astype(np.float32)
