"""Puts Python records together into columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from headrace.batch.column import join_rows, offsets_of
from headrace.batch.columns import Bytes, Objects, Ragged, Strings
from headrace.batch.sparse import Sparse, is_scipy
from headrace.batch.tree import Tree, child, is_branch, rebuild
from headrace.checks import list_of
from headrace.errors import DataError


def collate(
    records: Sequence[Any],
    ragged: Sequence[str] = (),
    where: Callable[[int], str] | None = None,
    *,
    name: str = "",
) -> Tree:
    """Makes columns of records that have the same structure.

    Numbers become an array of shape `(records,)`; arrays of one shape are stacked to `(records, *shape)`; texts
    become `Strings`, bytes `Bytes`; columns named in `ragged` may differ in their first dimension and become `Ragged`;
    anything else stays a list of Python objects.

    A column is of one kind: booleans, whole numbers, floats, complex numbers. Sizes of a kind are widened to the
    largest (int32 and int64 make int64), but kinds aren't mixed, since the dtype would then change from batch to batch.
    Empty rows take the dtype of the others; where all are empty, that of the arrays among them, and float64 if all are
    lists, of which nothing is known.

    Args:
        records: At least one record: a value, or a tuple or dict of records. Lists are arrays.
        ragged: Names of the columns whose rows vary in length (dots join the names of nested records; `""` names
            records that are a single value).
        where: Names a record by its number, for messages.
        name: The column that the records are, where they are part of larger ones.

    Raises:
        TypeError: If an argument is of another kind.
        DataError: If two records differ in structure, in the kind of their numbers, or in the shape of a column that
            isn't ragged. The message names both records, the column and what to do.

    Example:
        >>> import headrace as hr
        >>> batch = hr.collate([{"x": [1, 2], "ids": [5]}, {"x": [3, 4], "ids": [6, 7]}], ragged=["ids"])
        >>> batch["x"].tolist(), batch["ids"].tolist()
        ([[1, 2], [3, 4]], [[5], [6, 7]])
    """
    records = records if isinstance(records, list) else list_of("collate", "records", records, "records")
    if not records:
        raise DataError("collate needs at least one record: the columns of none aren't known")
    if isinstance(ragged, str):
        ragged = (ragged,)
    names = [*list_of("collate", "ragged", ragged, "names of columns"), name]
    if not all(isinstance(column, str) for column in names):
        raise TypeError(f"collate: columns are named by texts, got {names!r:.80}")
    if where is None:
        where = "record {}".format
    return _Collate(frozenset(names[:-1]), where).tree(records, name)


_PLAIN: dict[type, Any] = {int: np.int64, float: np.float64, bool: np.bool_}
"""Python's numbers, and the type of their arrays."""
_ARRAY_LIKE = (np.ndarray, np.generic, bool, int, float, complex, list, Ragged)


class _Collate:
    def __init__(self, ragged: frozenset[str], where: Callable[[int], str]) -> None:
        self.ragged = ragged
        self.where = where

    def tree(self, records: Sequence[Any], name: str) -> Tree:
        first = records[0]
        if not is_branch(first):
            return self.column(records, name)
        keys = list(first) if isinstance(first, dict) else list(range(len(first)))
        for i, record in enumerate(records):
            if type(record) is not type(first) or len(record) != len(first):
                self.differ(name, i, _describe(first), _describe(record), "give all records the same structure")
            if isinstance(first, dict) and record.keys() != first.keys():
                self.differ(name, i, _describe(first), _describe(record), "give all records the same keys")
        return rebuild(first, [self.tree([record[key] for record in records], child(name, key)) for key in keys])

    def column(self, values: Sequence[Any], name: str) -> Any:
        first = values[0]
        if isinstance(first, (str, bytes)):
            for i, value in enumerate(values):
                if not isinstance(value, (str, bytes)):
                    self.differ(name, i, "a text", _describe(value), "return a text for every record")
            try:
                kind = Bytes if all(isinstance(value, bytes) for value in values) else Strings
                return kind.from_rows(values)
            except ValueError as error:
                raise DataError(f"{_column(name)}the records from {self.where(0)} on: {error}") from None
        if _is_torch(first):
            values = [value.detach().cpu().numpy() if _is_torch(value) else value for value in values]
            first = values[0]
        if isinstance(first, Sparse) or is_scipy(first):
            return self.sparse(values, name)
        if not isinstance(first, _ARRAY_LIKE):
            for i, value in enumerate(values):
                if isinstance(value, (*_ARRAY_LIKE, str, bytes, tuple, dict)) or _is_torch(value):
                    remedy = "return records of one kind"
                    self.differ(name, i, f"a Python object ({type(first).__name__})", _describe(value), remedy)
            return Objects(values)
        plain = _PLAIN.get(type(first))
        if plain is not None and name not in self.ragged and set(map(type, values)) == {type(first)}:
            column = np.array(values)  # at once; of integers that don't fit something else comes, and a message below
            if column.dtype == plain:
                return column
        arrays = self.of_one_type(values, [self.array(value, name, i) for i, value in enumerate(values)], name)
        if name in self.ragged:
            try:
                return Ragged.from_rows(arrays)
            except ValueError as error:
                raise DataError(f"{_column(name)}the records from {self.where(0)} on: {error}") from None
        shape, kind = arrays[0].shape, arrays[0].dtype.kind
        for i, array in enumerate(arrays):
            if (array.dtype.kind in "US") != (kind in "US"):  # NumPy would write the numbers out as texts
                self.differ(name, i, f"{arrays[0].dtype}", _describe(values[i]), "return records of one kind")
            if array.shape != shape:
                remedy = f"make the shapes equal, or name the column: batch(..., ragged=[{name!r}])"
                if array.ndim == len(shape) == 3:  # where more than the first dimension differs, as of pictures
                    remedy = "make the shapes equal (those of pictures by decode_image(size=…)), or pad them in a map"
                self.differ(name, i, f"shape {shape}", f"shape {array.shape}", remedy)
        try:
            return np.stack(arrays)
        except TypeError as error:  # dates with numbers, say
            raise DataError(f"{_column(name)}the records from {self.where(0)} on don't fit together: {error}") from None

    def sparse(self, values: Sequence[Any], name: str) -> Any:
        """Sparse records: of one row each, or of any number where the column is named as ragged."""
        columns = []
        for i, value in enumerate(values):
            try:
                columns.append(value if isinstance(value, Sparse) else Sparse.from_scipy(value))
            except (AttributeError, TypeError, ValueError):
                self.differ(name, i, "sparse rows", _describe(value), "return records of one kind")
            if columns[i].row_type != columns[0].row_type:
                self.differ(name, i, columns[0].row_type, columns[i].row_type, "give all records one width and type")
            if name not in self.ragged and len(columns[i]) != 1:
                remedy = f"name the column where records vary in length: batch(..., ragged=[{name!r}])"
                self.differ(name, i, "one sparse row", f"{len(columns[i])} rows", remedy)
        joined = join_rows(columns)
        if name not in self.ragged:
            return joined
        return Ragged(joined, offsets_of([len(column) for column in columns]))

    def array(self, value: Any, name: str, i: int) -> np.ndarray[Any, Any]:
        try:
            array = np.asarray(value)
        except ValueError as error:  # lists of unequal lists
            raise DataError(f"{_column(name)}{self.where(i)} is no array: {error}") from None
        if isinstance(value, np.ma.MaskedArray):
            raise DataError(f"{_column(name)}{self.where(i)} is a masked array, and batches have no masks; fill it")
        if array.dtype.hasobject:
            raise DataError(
                f"{_column(name)}{self.where(i)}: expected numbers, got {_describe(value)}; convert it in a map"
            )
        # NumPy makes texts of the numbers in a list that also holds a text.
        if isinstance(value, list) and array.dtype.kind in "US" and not all(map(_is_text, _items(value))):
            raise DataError(
                f"column {name!r} of {self.where(i)}: expected numbers or texts, got both: {_describe(value)}; "
                "convert it in a map"
            )
        return array

    def of_one_type(
        self, values: Sequence[Any], arrays: list[np.ndarray[Any, Any]], name: str
    ) -> list[np.ndarray[Any, Any]]:
        """The arrays in the dtype that holds them all; `values` are what they were made of."""
        if len({array.dtype for array in arrays}) == 1:
            return arrays
        # An empty list says nothing about its type; an empty array does, where nothing else says more.
        known = [i for i, array in enumerate(arrays) if array.size]
        known = known or [i for i, value in enumerate(values) if not isinstance(value, list)]
        first = known[0]
        expected = _kind(arrays[first].dtype)
        dtype = arrays[first].dtype
        for i in known:
            try:
                wider = np.promote_types(dtype, arrays[i].dtype)
            except TypeError:
                wider = None
            # int64 and uint64 have no common integer type: NumPy would make floats of both.
            if wider is None or _kind(arrays[i].dtype) != expected or _kind(wider) != expected:
                self.differ(
                    name,
                    i,
                    f"{expected} ({arrays[first].dtype})",
                    f"{_kind(arrays[i].dtype)} ({arrays[i].dtype}): {_describe(values[i])}",
                    "convert it in a map, so that all records agree",
                    first,
                )
            else:
                dtype = wider
        return [array if array.dtype == dtype else array.astype(dtype) for array in arrays]

    def differ(self, name: str, i: int, expected: str, got: str, remedy: str, first: int = 0) -> None:
        raise DataError(
            f"{_column(name)}{self.where(i)}: expected {expected} as in {self.where(first)}, got {got}; {remedy}"
        )


def _column(name: str) -> str:
    return f"column {name!r} of " if name else ""


_KINDS = {"b": "booleans", "i": "whole numbers", "u": "whole numbers", "f": "floats", "c": "complex numbers"}
_KINDS |= {"U": "texts", "S": "bytes", "M": "dates", "m": "durations"}


def _kind(dtype: np.dtype[Any]) -> str:
    return _KINDS.get(dtype.kind, dtype.name)


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _items(item)
    else:
        yield value


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, bytes)) or (isinstance(value, np.ndarray) and value.dtype.kind in "US")


def _is_torch(value: Any) -> bool:
    # By name, so that torch is never imported for records that don't use it.
    return type(value).__module__.startswith("torch") and hasattr(value, "detach")


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return f"a dict with keys {sorted(map(str, value))}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"{type(value).__name__} {value!r:.60}"
