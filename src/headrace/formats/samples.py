"""Columns of every kind as what the writers of sequence formats write: samples, and where each row's begin."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.batch.column import offsets_of
from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse, is_scipy
from headrace.errors import DataError

Columns: TypeAlias = Mapping[str, Any]
Streams: TypeAlias = Mapping[str, str] | Sequence[str] | None


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """The samples of some rows of one stream.

    Attributes:
        values: Shape `(samples, numbers)`, or sparse rows; of any type of real numbers up to 64 bits.
        offsets: Where the samples of each row begin, and last their number; int64.
        sequences: Whether rows are sequences: False if each has one sample because its column can't have more.
    """

    values: NDArray[Any] | Sparse
    offsets: NDArray[np.int64]
    sequences: bool

    @property
    def sparse(self) -> bool:
        """Whether samples are sparse."""
        return isinstance(self.values, Sparse)

    @property
    def dim(self) -> int:
        """Numbers of a sample."""
        return self.values.width if isinstance(self.values, Sparse) else int(self.values.shape[1])

    @property
    def numbers(self) -> NDArray[Any]:
        """The values, whatever the layout."""
        return self.values.values if isinstance(self.values, Sparse) else self.values

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def rows(self, start: int, stop: int) -> Samples:
        """Neighbouring rows, sharing the memory."""
        a, b = int(self.offsets[start]), int(self.offsets[stop])
        return Samples(self.values[a:b], self.offsets[start : stop + 1] - a, self.sequences)


def batches_of(data: Columns | Iterable[Columns]) -> Iterator[Columns]:
    """Goes through batches: one for a dict of columns, else what is iterated.

    Raises:
        DataError: If something else comes.
    """
    if isinstance(data, Mapping):
        yield data
        return
    if not isinstance(data, Iterable) or isinstance(data, (str, bytes, np.ndarray)):
        raise DataError(f"expected a dict of columns, or an iterable of those, got {type(data).__name__}")
    for number, batch in enumerate(data):
        if not isinstance(batch, Mapping):
            raise DataError(f"batch {number}: expected a dict of columns, got {type(batch).__name__} {batch!r:.60}")
        yield batch


def streams_of(batch: Columns, streams: Streams) -> dict[str, Samples]:
    """The columns to be written, by the name that they get in the file.

    Args:
        batch: Columns by name.
        streams: The columns to write, in this order: a mapping gives the names in the file, a sequence keeps those of
            the columns, None takes all columns.

    Raises:
        DataError: If a column isn't there or can't be written, or the columns differ in their number of rows.
    """
    names = {name: name for name in batch} if streams is None else streams
    if not isinstance(names, Mapping):
        listed = isinstance(names, Iterable) and not isinstance(names, (str, bytes))
        if not listed or not all(isinstance(name, str) for name in names):
            raise DataError(f"streams is a list of columns, or a dict of columns and names, got {names!r:.80}")
        names = {name: name for name in names}
    if not names:
        raise DataError("expected at least one column to write, got none")
    found: dict[str, Samples] = {}
    for column, name in names.items():
        if column not in batch:
            raise DataError(f"streams names the column {column!r}; there are {', '.join(map(repr, batch))}")
        if name in found:
            raise DataError(f"two columns are to be called {name!r} in the file")
        found[name] = samples_of(column, batch[column])
    if len({len(samples) for samples in found.values()}) > 1:
        counts = ", ".join(f"{name}: {len(samples):,}" for name, samples in found.items())
        raise DataError(f"expected columns with the same number of rows, got {counts}")
    return found


def samples_of(name: str, column: Any) -> Samples:
    """Takes a column as samples.

    A row of an array, of a `Sparse` column or of a SciPy matrix is one sample; one of more dimensions is written out in
    C order. A row of a `Ragged` is a sequence of samples. Of Python sequences, numbers and rows of numbers (all of one
    length) make an array; matrices (arrays of two dimensions or more, or what SciPy and `Sparse` have) are sequences.

    Raises:
        DataError: If the column can't be taken so.
    """
    try:
        return _samples(column)
    except (TypeError, ValueError) as error:
        raise DataError(f"column {name!r}: {error}") from None


def _samples(column: Any) -> Samples:
    if isinstance(column, Ragged):
        Ragged.checked(column.values, column.offsets)
        values = column.values if isinstance(column.values, Sparse) else _dense(column.values)
        return Samples(_numbers(values), column.offsets, True)
    if isinstance(column, Sparse):
        Sparse.checked(column.values, column.indices, column.offsets, column.width)
        return _one_each(_numbers(column))
    if is_scipy(column):
        return _one_each(_numbers(Sparse.from_scipy(column)))
    if isinstance(column, (list, tuple)):
        return _samples_of_rows(column)
    if type(column).__module__.startswith("torch") and hasattr(column, "numpy"):
        column = column.detach().cpu().numpy()
    if not isinstance(column, np.ndarray):
        column = np.asarray(column)
    return _one_each(_dense(column))


def _samples_of_rows(rows: Sequence[Any]) -> Samples:
    if not rows:
        raise ValueError("expected rows, got an empty list, which doesn't say what they are; give an array")
    if any(isinstance(row, Sparse) or is_scipy(row) for row in rows):
        parts = [row if isinstance(row, Sparse) else Sparse.from_scipy(row) for row in rows]
        widths = {part.width for part in parts}
        if len(widths) > 1:
            raise ValueError(f"expected matrices of one width, got {sorted(widths)}")
        return _samples(Ragged(Sparse.join(parts), offsets_of([len(part) for part in parts])))
    arrays = [np.asarray(row) for row in rows]
    if max(array.ndim for array in arrays) >= 2:
        return _samples(Ragged.from_rows(arrays))
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise ValueError(
            f"expected rows of one shape, got {sorted(shapes)[:3]}; make sequences of samples a column by "
            "Ragged.from_rows"
        )
    return _one_each(_dense(np.stack(arrays)))


def _one_each(values: NDArray[Any] | Sparse) -> Samples:
    return Samples(values, np.arange(len(values) + 1, dtype=np.int64), False)


def _dense(values: Any) -> NDArray[Any]:
    """Numbers as a contiguous matrix of a row a sample."""
    if (
        not isinstance(values, np.ndarray)
        or values.ndim == 0
        or values.dtype.kind not in "biuf"
        or values.dtype.itemsize > 8
    ):
        found = f"{values.dtype} of shape {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
        raise ValueError(f"expected rows of real numbers of at most 64 bits, got {found}")
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError("the format has no masks; fill the array (`.filled(…)`)")
    width = int(np.prod(values.shape[1:], dtype=np.int64))
    return values.reshape(len(values), width)


def _numbers(values: Any) -> Any:
    if isinstance(values, Sparse) and (values.values.dtype.kind not in "biuf" or values.values.dtype.itemsize > 8):
        raise ValueError(f"expected real numbers of at most 64 bits, got {values.values.dtype}")
    return values


def contiguous(samples: Samples) -> Samples:
    """The same samples with values of a type that the native writers know: float32, float64, int64 or uint64."""
    values = samples.values
    if isinstance(values, Sparse):
        numbers, indices = _known(values.values), np.ascontiguousarray(values.indices)
        values = Sparse(numbers, indices, np.ascontiguousarray(values.offsets), values.width)
    else:
        values = _known(values)
    return Samples(values, np.ascontiguousarray(samples.offsets), samples.sequences)


def _known(values: NDArray[Any]) -> NDArray[Any]:
    kind = values.dtype.kind
    wanted: Any = np.float32 if kind == "f" and values.dtype.itemsize <= 4 else np.float64
    if kind in "bi":
        wanted = np.int64
    elif kind == "u":
        wanted = np.uint64
    return np.ascontiguousarray(values, wanted)
