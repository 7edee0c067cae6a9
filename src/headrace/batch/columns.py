"""Columns of rows of varying length: of items, and of characters; and Python objects that aren't columns yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.column import (
    Column,
    check_offsets,
    join_offsets,
    join_rows,
    offsets_of,
    row_at,
    row_numbers,
    row_type,
)
from headrace.batch.sparse import Sparse
from headrace.checks import check_dtype, list_of


def _text_bytes(row: int, text: Any, kind: str) -> bytes:
    if isinstance(text, str):
        try:
            return text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise ValueError(f"row {row} is no text that UTF-8 can hold: {text!r:.60} ({error.reason})") from None
    if not isinstance(text, bytes):
        raise ValueError(f"{kind} needs rows of str or bytes, got {type(text).__name__} {text!r:.60} as row {row}")
    return text


@dataclass(frozen=True, slots=True, eq=False)
class Ragged(Column):
    """Rows of varying length: one flat array and where each row starts.

    Row `i` is `values[offsets[i]:offsets[i + 1]]`; rows are views, not copies.

    Attributes:
        values: The rows' items one after another, shape `(total, ...)`; a column where the items are sparse, texts,
            bytes, or rows of varying length themselves.
        offsets: int64, shape `(rows + 1,)`, starting at 0 and never falling.

    Example:
        >>> import headrace as hr
        >>> column = hr.Ragged.from_rows([[1, 2, 3], [], [4]])
        >>> len(column), column.lengths.tolist(), column[0].tolist()
        (3, [3, 0, 1], [1, 2, 3])
    """

    values: Any
    offsets: NDArray[np.int64]

    @classmethod
    def checked(cls, values: Any, offsets: NDArray[np.int64]) -> Ragged:
        """Makes a column from arrays that came from outside, after checking them.

        Raises:
            ValueError: If the offsets don't fit the values.
        """
        if isinstance(values, Sparse):
            Sparse.checked(values.values, values.indices, values.offsets, values.width)
        elif isinstance(values, (Ragged, Strings, Bytes)):
            type(values).checked(*values.parts())
        elif not isinstance(values, np.ndarray) or values.ndim == 0 or values.dtype.hasobject:
            found = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
            raise ValueError(f"Ragged needs an array of numbers as values, got {found}; use Ragged.from_rows for lists")
        check_offsets(offsets, len(values), "Ragged")
        return cls(values, offsets)

    @classmethod
    def from_rows(cls, rows: Sequence[Any], dtype: Any = None) -> Ragged:
        """Joins rows, each an array or sequence that may differ from the others in its first dimension only.

        Args:
            rows: The rows.
            dtype: Of the values; by default what NumPy makes of them all (float64 for no rows at all).

        Raises:
            ValueError: If two rows differ in more than their first dimension, or aren't of the dtype.
            TypeError: If `rows` is no list, or `dtype` no type.

        Example:
            >>> import headrace as hr
            >>> hr.Ragged.from_rows([[1, 2], []], dtype="float32").values.tolist()
            [1.0, 2.0]
        """
        rows = rows if isinstance(rows, list) else list_of("Ragged.from_rows", "rows", rows, "rows")
        if dtype is not None:
            check_dtype("Ragged.from_rows", dtype)
        try:
            arrays = [np.asarray(row, dtype=dtype) for row in rows]
        except (TypeError, ValueError) as error:
            raise ValueError(f"Ragged needs rows that are arrays or lists of numbers of one kind: {error}") from None
        for row, array in enumerate(arrays):
            if array.ndim == 0:
                raise ValueError(f"Ragged needs rows with at least one dimension, got {rows[row]!r:.60} as row {row}")
        full = [a for a in arrays if len(a)]
        for array in full:
            if array.shape[1:] != full[0].shape[1:]:
                raise ValueError(
                    f"Ragged rows may differ in their first dimension only, got {full[0].shape} and {array.shape}"
                )
        offsets = offsets_of([len(a) for a in arrays])
        values = np.concatenate(full) if full else (arrays[0] if arrays else np.empty(0, dtype))
        return cls(values, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: Any) -> Any:
        """One row; or a slice of rows, as a column that shares the memory."""
        if isinstance(row, slice):
            return _slice(self, self.values, row)
        i = row_at(row, len(self), "Ragged")
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Items of each row, shape `(rows,)`."""
        return np.diff(self.offsets)

    @property
    def row_type(self) -> str:
        """The type of the items."""
        return f"ragged {row_type(self.values)}"

    def parts(self) -> tuple[Any, ...]:
        """Values and offsets."""
        return self.values, self.offsets

    def take(self, index: NDArray[np.int64]) -> Ragged:
        """The rows at `index`, in that order, as a new column.

        Args:
            index: Numbers of rows, from 0 on; a row may come several times.

        Raises:
            TypeError: If they are no whole numbers.
            IndexError: If there is no such row.

        Example:
            >>> import headrace as hr
            >>> hr.Ragged.from_rows([[1], [2, 2]]).take([1, 0, 1]).tolist()
            [[2, 2], [1], [2, 2]]
        """
        index = row_numbers(index)
        if isinstance(self.values, Column):
            # Of the rows asked for alone: a batch must not cost as much as the whole column.
            starts = _native.gather_rows(self.offsets[:-1], index)
            lengths = _native.gather_rows(self.offsets[1:], index) - starts
            offsets = offsets_of(lengths)
            items = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
            return Ragged(self.values.take(items), offsets)
        values, offsets = _native.gather_ragged(np.ascontiguousarray(self.values), self.offsets, index)
        return Ragged(values, offsets)

    @classmethod
    def join(cls, columns: Sequence[Ragged]) -> Ragged:
        """The rows of several columns, one after another."""
        return cls(join_rows([c.values for c in columns]), join_offsets([c.offsets for c in columns]))

    def tolist(self) -> list[Any]:
        """The rows as nested Python lists."""
        return [row.tolist() for row in self]


def _slice(column: Any, items: Any, rows: slice) -> Any:
    """Rows of a column that is made of items and offsets."""
    start, stop, step = rows.indices(len(column))
    if step != 1:
        return column.take(np.arange(start, stop, step))
    stop = max(start, stop)
    a, b = int(column.offsets[start]), int(column.offsets[stop])
    return type(column)(items[a:b], column.offsets[start : stop + 1] - a)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _ByteRows(Column):
    """Rows of bytes, one after another, and where each starts."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def checked(cls, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Self:
        """Makes a column from arrays that came from outside, after checking them.

        Raises:
            ValueError: If they aren't bytes, or the offsets don't fit them.
        """
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 1:
            raise ValueError(
                f"{cls.__name__} needs uint8 data of one dimension, got {getattr(data, 'dtype', type(data))}"
            )
        check_offsets(offsets, len(data), cls.__name__)
        return cls(data, offsets)

    @classmethod
    def from_rows(cls, rows: Sequence[str | bytes]) -> Self:
        r"""Joins texts or bytes; `str` is encoded as UTF-8.

        Args:
            rows: The texts.

        Raises:
            TypeError: If `rows` is no list.
            ValueError: If one of them is neither text nor bytes.

        Example:
            >>> import headrace as hr
            >>> hr.Strings.from_rows(["grün", b"blau"]).tolist(), hr.Bytes.from_rows(["grün"]).tolist()
            (['grün', 'blau'], [b'gr\xc3\xbcn'])
        """
        rows = rows if isinstance(rows, list) else list_of(f"{cls.__name__}.from_rows", "rows", rows, "texts or bytes")
        parts = [_text_bytes(row, text, cls.__name__) for row, text in enumerate(rows)]
        offsets = offsets_of([len(p) for p in parts])
        return cls(np.frombuffer(b"".join(parts), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def bytes_at(self, row: SupportsIndex) -> bytes:
        r"""The bytes of one row, as they were read.

        Args:
            row: Its number; negative ones count from the end.

        Raises:
            TypeError: If it is no whole number.
            IndexError: If there is no such row.

        Example:
            >>> import headrace as hr
            >>> hr.Strings.from_rows(["grün"]).bytes_at(0)
            b'gr\xc3\xbcn'
        """
        i = row_at(row, len(self), type(self).__name__)
        return self.data[self.offsets[i] : self.offsets[i + 1]].tobytes()

    def __getitem__(self, row: Any) -> Any:
        """One row; or a slice of rows, as a column that shares the memory."""
        return _slice(self, self.data, row) if isinstance(row, slice) else self.bytes_at(row)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        shown = ", ".join(repr(self[i]) for i in range(min(3, len(self))))
        return f"{type(self).__name__}([{shown}{', …' if len(self) > 3 else ''}], {len(self)} rows)"

    @property
    def row_type(self) -> str:
        """Rows of a class are of one type."""
        return type(self).__name__.lower()

    def parts(self) -> tuple[NDArray[Any], ...]:
        """Bytes and offsets."""
        return self.data, self.offsets

    def take(self, index: NDArray[np.int64]) -> Self:
        """The rows at `index`, in that order, as a new column.

        Args:
            index: Numbers of rows, from 0 on; a row may come several times.

        Raises:
            TypeError: If they are no whole numbers.
            IndexError: If there is no such row.

        Example:
            >>> import headrace as hr
            >>> hr.Strings.from_rows(["a", "b"]).take([1, 1]).tolist()
            ['b', 'b']
        """
        data, offsets = _native.gather_ragged(np.ascontiguousarray(self.data), self.offsets, row_numbers(index))
        return type(self)(data, offsets)

    @classmethod
    def join(cls, columns: Sequence[Any]) -> Self:
        """The rows of several columns, one after another."""
        return cls(np.concatenate([c.data for c in columns]), join_offsets([c.offsets for c in columns]))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Strings(_ByteRows):
    """Texts: their UTF-8 bytes one after another and where each starts.

    Indexing gives `str` (bytes that aren't UTF-8 are kept as surrogate escapes); `bytes_at` gives what was read.

    Attributes:
        data: uint8, shape `(total bytes,)`.
        offsets: int64, shape `(rows + 1,)`.

    Example:
        >>> import headrace as hr
        >>> hr.Strings.from_rows(["grün", "blau"]).tolist()
        ['grün', 'blau']
    """

    def __getitem__(self, row: Any) -> Any:
        """One row as `str`; or a slice of rows, as a column that shares the memory."""
        if isinstance(row, slice):
            return _slice(self, self.data, row)
        return self.bytes_at(row).decode("utf-8", "surrogateescape")

    def tolist(self) -> list[str]:
        """The rows as Python strings."""
        return list(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bytes(_ByteRows):
    r"""Rows of bytes of varying length: whole records, images that aren't decoded yet.

    As `Strings`, but indexing gives `bytes`.

    Attributes:
        data: uint8, shape `(total bytes,)`.
        offsets: int64, shape `(rows + 1,)`.

    Example:
        >>> import headrace as hr
        >>> hr.Bytes.from_rows([b"\x89PNG", b""]).tolist()
        [b'\x89PNG', b'']
    """

    def tolist(self) -> list[bytes]:
        """The rows as Python bytes."""
        return list(self)


class Objects(list[Any]):
    """Python records that haven't been put together into columns yet; `collate` does so."""

    def take(self, index: NDArray[np.int64]) -> Objects:
        """The records at `index`, in that order."""
        return Objects(self[int(i)] for i in index)
