"""What every column is, and taking and joining the rows of any of them, NumPy arrays included."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace import _native

ColumnLike: TypeAlias = Any
"""A NumPy array or a `Column`: what can be the leaf of a batch, but for Python objects."""


class Column(ABC):
    """Rows that are no plain NumPy array: of varying length, sparse, or texts.

    A column is made of arrays (or of columns that are); everything that looks at bytes (their number, whether two
    columns are the same, a hash) goes by these parts, so a new type of column says here what it is made of, and how
    rows are taken and joined, and has all the rest.
    """

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @abstractmethod
    def __getitem__(self, row: Any) -> Any:
        """One row."""

    @abstractmethod
    def parts(self) -> tuple[ColumnLike, ...]:
        """The arrays and columns that this one is made of."""

    @property
    @abstractmethod
    def row_type(self) -> str:
        """What a row is, in words: two columns can be joined where these are equal."""

    @abstractmethod
    def take(self, index: NDArray[np.int64]) -> ColumnLike:
        """The rows at `index`, in that order, as a new column."""

    @classmethod
    @abstractmethod
    def join(cls, columns: Sequence[Any]) -> ColumnLike:
        """The rows of several columns of this type and of one `row_type`, one after another."""

    @property
    def nbytes(self) -> int:
        """Bytes of all parts together."""
        return sum(part.nbytes for part in self.parts())


def row_type(column: ColumnLike) -> str:
    """What a row of a column is, in words: `"float32 (3,)"`."""
    return column.row_type if isinstance(column, Column) else f"{column.dtype} {column.shape[1:]}"


def flat_parts(column: ColumnLike) -> tuple[NDArray[Any], ...]:
    """The arrays that a column comes down to; of an array, itself."""
    if isinstance(column, Column):
        return tuple(array for part in column.parts() for array in flat_parts(part))
    return (column,)


def take_rows(column: ColumnLike, index: NDArray[np.int64]) -> ColumnLike:
    """The rows at `index` of one column, in that order."""
    if isinstance(column, Column):
        return column.take(index)
    if column.flags.c_contiguous and not column.dtype.hasobject:
        return _native.gather_rows(column, index)
    return column[index]


def join_rows(columns: Sequence[ColumnLike]) -> ColumnLike:
    """The rows of several columns, one after another.

    Raises:
        ValueError: If the columns differ in more than their number of rows.
    """
    first = columns[0]
    kinds = {type(c) for c in columns}
    if len(kinds) > 1:
        raise ValueError(f"can't join columns of different kinds: {sorted(k.__name__ for k in kinds)}")
    for other in columns[1:]:
        if row_type(other) != row_type(first):
            what = "columns" if isinstance(first, Column) else "arrays"
            raise ValueError(f"can't join {what} of {row_type(first)} and {row_type(other)} a row")
    return type(first).join(columns) if isinstance(first, Column) else np.concatenate(columns)


def offsets_of(lengths: ArrayLike) -> NDArray[np.int64]:
    """Where rows of these lengths start, and last where they end."""
    lengths = np.asarray(lengths, np.int64)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def join_offsets(offsets: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The offsets of rows that are put one after another."""
    return offsets_of(np.concatenate([np.diff(o) for o in offsets]))


def row_at(row: Any, rows: int, what: str) -> int:
    """The number of a row, counted from the beginning.

    Raises:
        TypeError: If it is no whole number.
        IndexError: If there is no such row.
    """
    try:
        return range(rows)[operator.index(row)]
    except TypeError:
        raise TypeError(f"rows of {what} are asked for by whole numbers or slices, got {row!r:.60}") from None
    except IndexError:
        raise IndexError(f"there is no row {row} in {what} of {rows} rows") from None


def row_numbers(index: Any) -> NDArray[np.int64]:
    """Numbers of rows as the native core takes them.

    Raises:
        TypeError: If they are something else.
    """
    if isinstance(index, np.ndarray) and index.dtype == np.int64 and index.ndim == 1:
        return index
    try:
        found = np.asarray(index)
    except ValueError:  # lists of different lengths
        found = np.empty((), object)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeError(f"take needs the numbers of rows, in one dimension, got {index!r:.60}")
    return np.ascontiguousarray(found, np.int64)


def check_offsets(offsets: Any, total: int, what: str) -> None:
    """Refuses offsets that don't start at 0, never fall and end at `total`.

    Raises:
        ValueError: As said, or if they aren't int64 of one dimension.
    """
    if not isinstance(offsets, np.ndarray) or offsets.ndim != 1 or offsets.dtype != np.int64 or len(offsets) == 0:
        found = f"{offsets.dtype} {offsets.shape}" if isinstance(offsets, np.ndarray) else type(offsets).__name__
        raise ValueError(f"{what} needs int64 offsets of shape (rows + 1,), got {found}")
    if offsets[0] != 0 or offsets[-1] != total or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(
            f"{what} needs offsets that start at 0, never fall and end at {total}, got {offsets[0]} … {offsets[-1]}"
        )
