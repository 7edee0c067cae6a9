"""Records from arrays in memory or mapped from disk."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Objects, Ragged, Strings
from headrace.batch.tree import Tree, leaves, map_leaves, take_rows
from headrace.errors import DataError
from headrace.formats.source import Fingerprint, Source

_SAMPLES = 16


class ArraySource(Source):
    """The rows of a tree of arrays: an array, or a tuple or dict of trees.

    A batch is gathered column by column in one native call each; memory maps are read where they lie.

    Args:
        arrays: Arrays (or `Ragged`, or `Strings`) with the same number of rows.

    Raises:
        DataError: If there is no array, or the numbers of rows differ.
    """

    kind = "arrays"

    def __init__(self, arrays: Tree) -> None:
        self._tree = map_leaves(_as_column, arrays)
        rows = [(name, len(column)) for name, column in leaves(self._tree)]
        if not rows:
            raise DataError("from_arrays needs at least one array, got an empty structure")
        for name, count in Counter(name for name, _ in rows).items():
            if count > 1:
                raise DataError(f"from_arrays needs a name for each array, got {name!r} for {count} of them")
        if len({n for _, n in rows}) > 1:
            counts = ", ".join(f"{name}: {n:,}" for name, n in rows)
            raise DataError(f"from_arrays needs arrays with the same number of rows, got {counts}")
        self._num_records = rows[0][1]
        self._lengths: dict[str, NDArray[Any]] | None = None

    @property
    def num_records(self) -> int:
        """Rows of each array."""
        return self._num_records

    def read(self, records: NDArray[np.int64]) -> Tree:
        """Gathers the rows of every column."""
        return map_leaves(lambda _, column: take_rows(column, records), self._tree)

    def lengths(self) -> dict[str, NDArray[Any]] | None:
        """Items a row of the ragged columns."""
        if self._lengths is None:
            self._lengths = {name: c.lengths for name, c in leaves(self._tree) if isinstance(c, Ragged)}
        return self._lengths or None

    def column_names(self) -> list[str]:
        """The names of the leaves."""
        return [name for name, _ in leaves(self._tree)]

    def fingerprint(self) -> Fingerprint:
        """Rows, types, shapes, and a checksum of rows spread over the whole."""
        spread = np.unique(np.linspace(0, max(self._num_records - 1, 0), _SAMPLES).astype(np.int64))
        sample = 0
        for name, column in leaves(self._tree):
            sample = zlib.crc32(f"{name}:{_type_of(column)}".encode(), sample)
            if self._num_records:
                sample = zlib.crc32(_bytes_of(take_rows(column, spread)), sample)
        return {"records": self._num_records, "sample": f"{sample:08x}"}

    def where(self, record: int) -> str:
        """The row's number, counted from 0 as arrays are."""
        return f"row {record} of the arrays"


def _as_column(name: str, value: Any) -> Any:
    what = f"from_arrays: {name or 'the value'}"
    try:
        if isinstance(value, Ragged):
            return Ragged.checked(value.values, _as_offsets(value.offsets))
        if isinstance(value, Strings):
            return Strings.checked(value.data, _as_offsets(value.offsets))
        if type(value).__module__.startswith("torch") and hasattr(value, "numpy"):
            value = value.detach().cpu().numpy()
        # A memory map becomes a plain view of itself; a copy here would read the whole file.
        array = value.view(np.ndarray) if isinstance(value, np.ndarray) else np.asarray(value)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{what} can't be taken as an array: {error}; convert it to a dtype and layout that NumPy has, or make "
            "rows of unequal length a column by Ragged.from_rows"
        ) from None
    if isinstance(value, np.ma.MaskedArray):
        raise DataError(f"{what} is a masked array, and batches have no masks; fill it (`.filled(…)`)")
    if array.ndim == 0:
        kind = "a single number" if array.dtype.kind in "biufc" else f"{type(value).__name__} {value!r:.60}"
        raise DataError(f"{what} is {kind}, expected an array with rows")
    if array.dtype.hasobject:
        raise DataError(f"from_arrays: {name or 'the array'} holds Python objects; use from_dataset for them")
    if array.dtype.kind in "US" and not isinstance(value, np.ndarray):
        return Strings.from_rows(value)
    return array


def _as_offsets(offsets: Any) -> Any:
    return offsets.astype(np.int64) if isinstance(offsets, np.ndarray) and offsets.dtype.kind in "iu" else offsets


def _type_of(column: Any) -> str:
    if isinstance(column, Ragged):
        return f"ragged {column.values.dtype} {column.values.shape[1:]}"
    return "strings" if isinstance(column, Strings) else f"{column.dtype} {column.shape[1:]}"


def _bytes_of(column: Any) -> bytes:
    if isinstance(column, Ragged):
        return column.values.tobytes() + column.offsets.tobytes()
    if isinstance(column, Strings):
        return column.data.tobytes() + column.offsets.tobytes()
    if isinstance(column, Objects):
        raise TypeError("objects have no bytes")
    return np.ascontiguousarray(column).tobytes()
