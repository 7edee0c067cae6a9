"""Records from any Python object that has a length and can be indexed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace.batch.columns import Objects
from headrace.batch.tree import Tree
from headrace.errors import DataError, add_note
from headrace.formats.source import Fingerprint, Source


@runtime_checkable
class Indexable(Protocol):
    """What `from_dataset` reads: a list, a `torch.utils.data.Dataset`, a Hugging Face dataset, a class of one's own."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


LengthsOf = Callable[[NDArray[np.int64]], ArrayLike]
"""Gives the lengths of records by their numbers, for data too large for an array of them all."""


class ComputedLengths:
    """Lengths that a function gives: indexed as an array of them all would be.

    Args:
        of: The function; it must give the same for the same record whenever it is called.
    """

    def __init__(self, of: LengthsOf) -> None:
        self._of = of

    def __getitem__(self, records: NDArray[np.int64]) -> NDArray[Any]:
        lengths = np.asarray(self._of(records))
        if lengths.shape != records.shape or (lengths.size and lengths.dtype.kind not in "iu"):
            raise DataError(
                f"the function given as lengths= gives one integer for each of {len(records):,} records asked for, "
                f"got {lengths.dtype} of shape {lengths.shape}"
            )
        if len(lengths) and not 0 <= int(lengths.min()) <= int(lengths.max()) < 1 << 31:
            place = int(lengths.argmin() if lengths.min() < 0 else lengths.argmax())
            raise DataError(f"lengths are within 0 … 2^31−1, got {lengths[place]} for record {records[place]}")
        return lengths


class ObjectSource(Source):
    """The items of a Python object.

    An object with `__getitems__` is asked for all records of a batch in one call, as PyTorch does.

    Args:
        items: The object.
        lengths: Items of each record, for bucketing; shape `(records,)`. Or a function of record numbers.

    Raises:
        TypeError: If the object has no length or can't be indexed.
        DataError: If there is not one length for each record.
    """

    kind = "dataset"

    def __init__(self, items: Indexable, lengths: ArrayLike | LengthsOf | None = None) -> None:
        if isinstance(items, Mapping):
            raise TypeError(
                f"from_dataset asks for items by number, which {type(items).__name__} doesn't have; give "
                "list(data.values()), or from_arrays a dict of columns"
            )
        if not isinstance(items, Indexable):
            raise TypeError(
                f"from_dataset needs an object with __len__ and __getitem__, got {type(items).__name__}; "
                "use from_iterable for streams"
            )
        self._items = items
        self._num_records = len(items)
        self._many = getattr(items, "__getitems__", None)
        self._lengths: NDArray[Any] | ComputedLengths | None = None
        if callable(lengths) and not hasattr(lengths, "__array__"):
            self._lengths = ComputedLengths(lengths)
        elif lengths is not None:
            self._lengths = self._check_lengths(np.asarray(lengths))

    def _check_lengths(self, lengths: NDArray[Any]) -> NDArray[Any]:
        if not lengths.size:
            lengths = lengths.astype(np.int64)  # NumPy takes an empty list for floats
        if lengths.shape != (self._num_records,) or lengths.dtype.kind not in "iu":
            raise DataError(
                f"lengths holds one integer for each of {self._num_records:,} records, "
                f"got {lengths.dtype} of shape {lengths.shape}"
            )
        if len(lengths) and not 0 <= int(lengths.min()) <= int(lengths.max()) < 1 << 31:
            place = int(lengths.argmin() if lengths.min() < 0 else lengths.argmax())
            raise DataError(f"lengths are within 0 … 2^31−1, got {lengths[place]} for {self.where(place)}")
        return lengths

    @property
    def num_records(self) -> int:
        """The object's length when the source was made."""
        return self._num_records

    def read(self, records: NDArray[np.int64]) -> Tree:
        """Indexes the object; an error of its own names the record in a note."""
        if self._many is not None:
            return self._read_many(self._many, records)
        read = Objects()
        for record in records.tolist():
            try:
                read.append(self._items[record])
            except Exception as error:
                add_note(error, f"headrace: in reading {self.where(record)}")
                raise
        return read

    def _read_many(self, many: Any, records: NDArray[np.int64]) -> Objects:
        try:
            read: Sequence[Any] = many(records.tolist())
        except Exception as error:
            first, last = self.where(int(records[0])), self.where(int(records[-1]))
            add_note(error, f"headrace: in __getitems__ for {len(records)} records, the first {first}, the last {last}")
            raise
        gave = f"{len(read)}" if hasattr(read, "__len__") else f"{type(read).__name__}, not a list"
        if gave != f"{len(records)}":
            raise DataError(
                f"__getitems__ of {type(self._items).__name__} was asked for {len(records)} records, gave {gave}"
            )
        return Objects(read)

    def lengths(self) -> dict[str, Any] | None:
        """The lengths that were given."""
        return None if self._lengths is None else {"": self._lengths}

    def column_names(self) -> None:
        """Unknown before a record is read."""
        return

    def fingerprint(self) -> Fingerprint:
        """The object's type and length; its content isn't looked at."""
        return {"records": self._num_records, "type": type(self._items).__qualname__}

    def where(self, record: int) -> str:
        """The record's number, counted from 0 as indexing does."""
        return f"record {record} of {type(self._items).__name__}"
