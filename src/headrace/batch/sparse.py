"""The column of sparse rows: few values of a wide row, each with its index."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.column import Column, check_offsets, join_offsets, offsets_of, row_at, row_numbers
from headrace.checks import check_dtype, list_of, whole


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sparse(Column):
    """Rows of `width` numbers of which only some are written down, in compressed sparse row form.

    Row `i` has the entries `offsets[i]` to `offsets[i + 1]`: `values` at the places `indices`, and zero elsewhere.
    Indices stand as the data has them: in any order, and one that comes twice counts for the sum of its values.

    Attributes:
        values: Shape `(entries,)`.
        indices: int32, shape `(entries,)`, each in `[0, width)`.
        offsets: int64, shape `(rows + 1,)`, starting at 0 and never falling.
        width: Numbers a row.

    Example:
        >>> import numpy as np
        >>> import headrace as hr
        >>> words = hr.Sparse.from_rows([([3, 0], [1.0, 2.0]), ([], []), ([1], [5.0])], width=4)
        >>> words.shape, words.to_dense().tolist()
        ((3, 4), [[2.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0]])
    """

    values: NDArray[Any]
    indices: NDArray[np.int32]
    offsets: NDArray[np.int64]
    width: int

    @classmethod
    def checked(cls, values: Any, indices: Any, offsets: Any, width: int) -> Sparse:
        """Makes a column from arrays that came from outside, after checking them.

        Raises:
            ValueError: If values and indices differ in number, the offsets don't fit them, or an index is outside.
        """
        if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "biufc":
            found = f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
            raise ValueError(f"Sparse needs numbers of one dimension as values, got {found}")
        if not isinstance(indices, np.ndarray) or indices.dtype != np.int32 or indices.shape != values.shape:
            found = f"{indices.dtype} {indices.shape}" if isinstance(indices, np.ndarray) else type(indices).__name__
            raise ValueError(f"Sparse needs one int32 index for each of {len(values)} values, got {found}")
        check_offsets(offsets, len(values), "Sparse")
        width = whole("the width of Sparse", width, 0)
        if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= width):
            bad = int(np.flatnonzero((indices < 0) | (indices >= width))[0])
            row = int(np.searchsorted(offsets, bad, side="right")) - 1
            raise ValueError(f"Sparse needs indices in [0, {width}), got {int(indices[bad])} in row {row}")
        return cls(values, indices, offsets, width)

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[Any, Any]], width: int, dtype: Any = np.float32) -> Sparse:
        """Joins rows, each a pair of its indices and its values.

        Args:
            rows: The pairs.
            width: Numbers a row.
            dtype: Of the values.

        Raises:
            ValueError: If a row has another number of values than of indices, or an index is outside.
            TypeError: If `rows` is no list, or `dtype` no type.

        Example:
            >>> import headrace as hr
            >>> hr.Sparse.from_rows([([3, 0], [1, 2])], width=4, dtype="int64").to_dense().tolist()
            [[2, 0, 0, 1]]
        """
        rows = list_of("Sparse.from_rows", "rows", rows, "pairs of indices and values")
        width = whole("the width of Sparse", width, 0)
        check_dtype("Sparse.from_rows", dtype)
        try:
            pairs = [(np.asarray(i, np.int64), np.asarray(v, dtype)) for i, v in rows]
        except (TypeError, ValueError) as error:
            raise ValueError(f"Sparse needs rows that are pairs of indices and values: {error}") from None
        for row, (i, v) in enumerate(pairs):
            if i.shape != v.shape or i.ndim != 1:
                raise ValueError(f"Sparse needs as many values as indices, got {v.shape} and {i.shape} in row {row}")
            if len(i) and (i.min() < 0 or i.max() >= width):
                raise ValueError(f"Sparse needs indices in [0, {width}), got {i.tolist()!r:.60} in row {row}")
        offsets = offsets_of([len(i) for i, _ in pairs])
        indices = np.concatenate([i for i, _ in pairs]) if pairs else np.empty(0)
        values = np.concatenate([v for _, v in pairs]) if pairs else np.empty(0, dtype)
        return cls(values, indices.astype(np.int32), offsets, width)

    @classmethod
    def from_scipy(cls, matrix: Any) -> Sparse:
        """Takes a SciPy sparse matrix or array of two dimensions, sharing its memory where it is CSR.

        Args:
            matrix: The matrix.

        Raises:
            TypeError: If it is something else.

        Example:
            >>> import scipy.sparse, headrace as hr
            >>> hr.Sparse.from_scipy(scipy.sparse.eye_array(2)).to_dense().tolist()
            [[1.0, 0.0], [0.0, 1.0]]
        """
        if not hasattr(matrix, "tocsr"):
            raise TypeError(f"Sparse.from_scipy takes a sparse matrix of SciPy's, got {type(matrix).__name__}")
        csr = matrix.tocsr()
        indices = np.asarray(csr.indices, np.int32)
        return cls.checked(np.asarray(csr.data), indices, np.asarray(csr.indptr, np.int64), csr.shape[1])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: Any) -> Sparse:
        """One row or a slice of rows, as a column that shares the memory."""
        if isinstance(row, slice):
            start, stop, step = row.indices(len(self))
            if step != 1:
                return self.take(np.arange(start, stop, step))
            stop = max(start, stop)
        else:
            start = row_at(row, len(self), "Sparse")
            stop = start + 1
        a, b = int(self.offsets[start]), int(self.offsets[stop])
        return Sparse(self.values[a:b], self.indices[a:b], self.offsets[start : stop + 1] - a, self.width)

    def __iter__(self) -> Iterator[Sparse]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"Sparse({len(self)} rows of {self.width}, {len(self.values)} entries, {self.values.dtype})"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and numbers a row."""
        return len(self), self.width

    @property
    def row_type(self) -> str:
        """Type and width."""
        return f"sparse {self.values.dtype} ({self.width},)"

    def parts(self) -> tuple[NDArray[Any], ...]:
        """Values, indices, offsets."""
        return self.values, self.indices, self.offsets

    def take(self, index: NDArray[np.int64]) -> Sparse:
        """The rows at `index`, in that order, as a new column.

        Args:
            index: Numbers of rows, from 0 on; a row may come several times.

        Raises:
            TypeError: If they are no whole numbers.
            IndexError: If there is no such row.

        Example:
            >>> import headrace as hr
            >>> hr.Sparse.from_rows([([0], [1]), ([1], [2])], width=2, dtype=int).take([1]).to_dense().tolist()
            [[0, 2]]
        """
        index = row_numbers(index)
        values, offsets = _native.gather_ragged(np.ascontiguousarray(self.values), self.offsets, index)
        indices, _ = _native.gather_ragged(np.ascontiguousarray(self.indices), self.offsets, index)
        return Sparse(values, indices, offsets, self.width)

    @classmethod
    def join(cls, columns: Sequence[Sparse]) -> Sparse:
        """The rows of several columns, one after another."""
        values = np.concatenate([c.values for c in columns])
        indices = np.concatenate([c.indices for c in columns])
        return cls(values, indices, join_offsets([c.offsets for c in columns]), columns[0].width)

    def rows(self) -> NDArray[np.int64]:
        """The row of each entry, shape `(entries,)`."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def to_dense(self) -> NDArray[Any]:
        """All numbers, zeros included: shape `(rows, width)`."""
        dense = np.zeros(self.shape, self.values.dtype)
        np.add.at(dense, (self.rows(), self.indices), self.values)
        return dense

    def to_scipy(self) -> Any:
        """A `scipy.sparse.csr_array` that shares the memory of values and indices.

        Raises:
            ImportError: If SciPy isn't installed; `pip install scipy`.
        """
        try:
            sparse = importlib.import_module("scipy.sparse")
        except ModuleNotFoundError:
            raise ImportError("to_scipy needs SciPy: pip install scipy", name="scipy") from None
        return sparse.csr_array((self.values, self.indices, self.offsets), shape=self.shape)

    def ids(self) -> NDArray[np.int32]:
        """The index of each row that has exactly one: what one-hot rows stand for, shape `(rows,)`.

        Raises:
            ValueError: If a row has another number of entries; the message names it.

        Example:
            >>> import headrace as hr
            >>> hr.Sparse.from_rows([([7], [1]), ([2], [1])], width=10).ids().tolist()
            [7, 2]
        """
        counts = np.diff(self.offsets)
        if (counts != 1).any():
            row = int((counts != 1).argmax())
            raise ValueError(f"ids needs rows with one entry each, got {int(counts[row])} in row {row}")
        return self.indices

    def canonical(self) -> Sparse:
        """The same rows with their indices ascending and none of them twice: itself where that is so already."""
        rows = self.rows()
        if not ((np.diff(self.indices) <= 0) & (np.diff(rows) == 0)).any():
            return self
        order = np.lexsort((self.indices, rows))
        rows, indices, values = rows[order], self.indices[order], self.values[order]
        first = np.ones(len(rows), bool)
        first[1:] = (np.diff(rows) != 0) | (np.diff(indices) != 0)
        starts = np.flatnonzero(first)
        offsets = offsets_of(np.bincount(rows[starts], minlength=len(self)))
        return Sparse(np.add.reduceat(values, starts).astype(values.dtype), indices[starts], offsets, self.width)

    def tolist(self) -> list[tuple[list[int], list[Any]]]:
        """Of each row the indices and the values, as Python lists."""
        return [(row.indices.tolist(), row.values.tolist()) for row in self]


def is_scipy(value: Any) -> bool:
    """Whether a value is one of SciPy's sparse matrices or arrays; SciPy is not imported to find out."""
    return type(value).__module__.startswith("scipy.sparse")
