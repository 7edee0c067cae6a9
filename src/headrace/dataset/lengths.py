"""The length that decides a record's bucket: from an index, or measured when the record has been read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Objects, Ragged
from headrace.batch.tree import Tree, leaves
from headrace.dataset.length_filter import known_lengths
from headrace.dataset.node import Reader, function_name
from headrace.errors import DataError, PlanError
from headrace.plan import Rows
from headrace.plan.windowed import check_range

LengthKey = Callable[[Mapping[str, NDArray[np.int64]]], NDArray[np.int64]]


class BucketLengths:
    """The lengths that an index knows.

    Args:
        reader: Reads the records.
        by: Columns whose longest counts, or a function of all columns' lengths; None takes all known.
    """

    def __init__(self, reader: Reader, by: tuple[str, ...] | LengthKey | None) -> None:
        self.reader = reader
        self.by = by

    def known(self, rows: Rows) -> bool:
        """Whether the index knows all lengths that are used."""
        columns = self.reader.lengths(rows)
        return bool(columns) and (callable(self.by) or set(self.by or ()) <= set(columns))

    def __call__(self, rows: Rows) -> NDArray[np.integer]:
        """One length for each row, shape `(rows,)`."""
        if callable(self.by):
            return of_function(self.by, known_lengths(self.reader, rows, None, "bucket"), len(rows))
        # In whatever type they came: the plan refuses what is out of range.
        return longest(known_lengths(self.reader, rows, self.by, "bucket"))


class FoundLengths(BucketLengths):
    """The lengths of records that have been read: the index's where it knows them, else those of their rows."""

    def of(self, rows: Rows, tree: Tree) -> NDArray[np.integer]:
        """One length for each record.

        Raises:
            DataError: If a column that is used has none.
            PlanError: If the function gives no lengths.
        """
        if self.known(rows):
            lengths = self(rows)
        else:
            named = () if callable(self.by) else self.by or ()
            advice = "name others by=…, give lengths= to from_dataset, or use batch(…)"
            measured = measured_lengths("bucket", named, self.reader, rows, tree, advice)
            lengths = of_function(self.by, measured, len(rows)) if callable(self.by) else longest(measured)
        check_range("bucket", lengths)
        return lengths


def of_function(by: LengthKey, known: dict[str, NDArray[np.int64]], count: int) -> NDArray[np.integer]:
    """What a user's function makes of the lengths of all columns.

    Raises:
        PlanError: If that isn't one integer a record.
    """
    lengths: NDArray[np.integer] = np.asarray(by(known))
    if lengths.shape != (count,) or lengths.dtype.kind not in "iu":
        raise PlanError(
            f"bucket(by={function_name(by)}) must give one integer for each of {count} records, "
            f"got {lengths.dtype} of shape {lengths.shape}"
        )
    return lengths


def longest(known: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """The longest of each record's columns."""
    columns = list(known.values())
    return columns[0] if len(columns) == 1 else np.maximum.reduce(columns)


def measured_lengths(
    what: str, named: Sequence[str], reader: Reader, rows: Rows, tree: Tree, advice: str
) -> dict[str, NDArray[np.int64]]:
    """The lengths of columns of records that have been read.

    Args:
        what: The operation, for messages.
        named: The columns; none: all that have lengths.
        reader: Has read them.
        rows: Which records they are.
        tree: The records.
        advice: What to do where there are none.

    Raises:
        DataError: If one has no lengths.
    """
    measured = measure(tree)
    missing = [name for name in named if name not in measured]
    if missing or not measured:
        column = f"column {missing[0]!r}" if missing else "columns"
        raise DataError(
            f"{what} needs {column} with rows of some length (Ragged columns, lists, arrays), and found lengths of "
            f"{sorted(measured) or 'no column'} in {reader.where(rows.ids[:, 0])}; {advice}"
        )
    return {name: measured[name] for name in named or measured}


def measure(tree: Tree) -> dict[str, NDArray[np.int64]]:
    """The lengths of each column of rows, by name; of Python objects those that every record has.

    Example:
        >>> from headrace.batch import Objects
        >>> from headrace.dataset.lengths import measure
        >>> measure(Objects([{"x": [1, 2], "n": 7}, {"x": [], "n": 8}]))
        {'x': array([2, 0])}
    """
    found: dict[str, NDArray[np.int64]] = {}
    for name, column in leaves(tree):
        if isinstance(column, Ragged):
            found[name] = np.asarray(column.lengths, np.int64)
        elif isinstance(column, Objects):
            found |= _of_objects(name, column)
    return found


def _of_objects(name: str, objects: Sequence[Any]) -> dict[str, NDArray[np.int64]]:
    counts: dict[str, list[int]] = {}
    for number, record in enumerate(objects):
        for column, value in leaves(record, name):
            if isinstance(value, list) or getattr(value, "ndim", None):
                lengths = counts.setdefault(column, [])
                if len(lengths) == number:  # else an earlier record lacks it
                    lengths.append(len(value))
    return {column: np.array(lengths) for column, lengths in counts.items() if len(lengths) == len(objects)}
