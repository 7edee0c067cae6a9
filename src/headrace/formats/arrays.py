"""Records from arrays in memory or mapped from disk."""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.column import flat_parts, row_type, take_rows
from headrace.batch.columns import Bytes, Ragged, Strings
from headrace.batch.sparse import Sparse, is_scipy
from headrace.batch.tree import Tree, leaves, map_leaves, num_bytes
from headrace.errors import DataChangedError, DataError
from headrace.formats.source import Fingerprint, Source

_HASHED_WHOLE = 64 << 20
_SAMPLES = 256
_PIECE = 32 << 10


class ArraySource(Source):
    """The rows of a tree of arrays: an array, or a tuple or dict of trees.

    A batch is gathered column by column in one native call each; memory maps are read where they lie. The arrays must
    not be changed any more: lengths and fingerprint are found out once and kept.

    The file of a memory map must not be cut while it is read: the operating system ends a process that reads a mapped
    page whose file is gone from under it (SIGBUS). Each read therefore looks at the file's size first; only a file that
    is cut during the read itself goes unnoticed.

    Args:
        arrays: Arrays (or `Ragged`, `Sparse`, `Strings`, SciPy's sparse matrices) with the same number of rows.

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
        parts = (part for _, column in leaves(self._tree) for part in flat_parts(column))
        # Several columns may lie in one map; it is looked at once.
        self._maps = tuple({(id(m.memory), m.needed): m for m in map(_file_of, parts) if m is not None}.values())
        # Both are made when they are first asked for. Two threads may do so at the same time and find the same.
        self._lengths: dict[str, NDArray[Any]] | None = None
        self._fingerprint: Fingerprint | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """The arrays; maps become arrays in memory, as NumPy pickles them."""
        return ArraySource, (self._tree,)

    @property
    def num_records(self) -> int:
        """Rows of each array."""
        return self._num_records

    def read(self, records: NDArray[np.int64]) -> Tree:
        """Gathers the rows of every column.

        Raises:
            DataChangedError: If the file of a memory map has become shorter than the map.
        """
        self._check_maps()
        return map_leaves(lambda _, column: take_rows(column, records), self._tree)

    def lengths(self) -> dict[str, NDArray[Any]] | None:
        """Items a row of the ragged columns."""
        if self._lengths is None:
            self._check_maps()
            known = {name: c.lengths for name, c in leaves(self._tree) if isinstance(c, Ragged)}
            for lengths in known.values():
                lengths.flags.writeable = False
            self._lengths = known
        return dict(self._lengths) or None

    def column_names(self) -> list[str]:
        """The names of the leaves."""
        return [name for name, _ in leaves(self._tree)]

    def fingerprint(self) -> Fingerprint:
        """Rows, types, shapes, and a hash: of all bytes up to 64 MB, else of 256 rows spread over the whole."""
        if self._fingerprint is None:
            self._check_maps()
            whole = num_bytes(self._tree) <= _HASHED_WHOLE
            found = 0
            for name, column in leaves(self._tree):
                found = _absorb(found, np.frombuffer(f"{name}:{row_type(column)}".encode(), np.uint8))
                for piece in flat_parts(column) if whole else _samples(column, self._num_records):
                    found = _absorb(found, _flat(piece))
            self._fingerprint = {"records": self._num_records, "content" if whole else "sample": f"{found:016x}"}
        return dict(self._fingerprint)

    def where(self, record: int) -> str:
        """The row's number, counted from 0 as arrays are."""
        return f"row {record} of the arrays"

    def _check_maps(self) -> None:
        for file in self._maps:
            file.check()


@dataclass(frozen=True, slots=True)
class _MappedFile:
    """The file that an array lies in."""

    memory: mmap.mmap
    name: str
    needed: int  # bytes of the file up to where the map ends

    def check(self) -> None:
        try:
            size = self.memory.size()  # of the file that is mapped, even if another one has taken its name
        except ValueError:  # closed, or made without keeping the file open
            return
        if size < self.needed:
            raise DataChangedError(
                f"{self.name} was cut while it is mapped: expected at least {self.needed:,} bytes as when it was "
                f"mapped, got {size:,}; write data anew under another name and rename it, then start again"
            )


def _file_of(array: NDArray[Any]) -> _MappedFile | None:
    """The mapped file whose memory an array shares, if it does; views lead to it by their bases."""
    name, start = "the file of a memory map", 0
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        if isinstance(base, np.memmap) and base.offset is not None:  # copies of maps are memmaps without a file
            name = str(base.filename or name)
            start = base.offset - base.offset % mmap.ALLOCATIONGRANULARITY  # where NumPy begins its map
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return None if base is None else _MappedFile(base, name, start + len(base))


def _as_column(name: str, value: Any) -> Any:
    what = f"from_arrays: {name or 'the value'}"
    try:
        if isinstance(value, Ragged):
            return Ragged.checked(value.values, _as_offsets(value.offsets))
        if isinstance(value, (Strings, Bytes)):
            return type(value).checked(value.data, _as_offsets(value.offsets))
        if is_scipy(value):
            return Sparse.from_scipy(value)
        if isinstance(value, Sparse):
            return Sparse.checked(value.values, value.indices, _as_offsets(value.offsets), value.width)
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


def _samples(column: Any, rows: int) -> Iterator[NDArray[Any]]:
    """Rows spread evenly over the column, of long ones the two ends."""
    for row in np.unique(np.linspace(0, rows - 1, min(rows, _SAMPLES)).astype(np.int64)):
        for part in _row(column, int(row)):
            data = _flat(part)
            yield data if len(data) <= 2 * _PIECE else np.concatenate([data[:_PIECE], data[-_PIECE:]])


def _row(column: Any, row: int) -> tuple[NDArray[Any], ...]:
    """The arrays that a row comes down to, where they lie."""
    if isinstance(column, (Strings, Bytes)):  # whose rows are Python's strings
        return (column.data[column.offsets[row] : column.offsets[row + 1]],)
    return flat_parts(column[row])


def _flat(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of an array, without a copy where it lies in one piece."""
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _absorb(found: int, data: NDArray[np.uint8]) -> int:
    # With the size, so that bytes can't move from one piece to the next unnoticed.
    return _native.absorb(_native.absorb(found, len(data)), _native.hash64(data))
