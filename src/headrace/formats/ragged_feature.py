"""Values divided into rows by other features: TensorFlow's RaggedFeature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.column import offsets_of
from headrace.batch.columns import Ragged
from headrace.errors import DataError
from headrace.formats.features import RaggedFeature

_Ints = NDArray[np.int64]


def ragged_column(
    name: str,
    feature: RaggedFeature,
    values: Any,
    offsets: list[_Ints],
    parts: list[Any],
    where: Callable[[int], str],
) -> Ragged:
    """Makes the column of a feature.

    Args:
        name: The column, for messages.
        feature: The feature.
        values: Of all records.
        offsets: Values before each record: of the values, then of each feature that partitions.
        parts: The values of each feature that partitions.
        where: Names a record by its number.

    Raises:
        DataError: If a partition doesn't fit what it divides.
    """
    rows = len(offsets[0]) - 1
    counts = np.diff(offsets[0])  # of each record, of what the partition at hand divides
    keyed = len(parts)
    column: Any = values
    for kind, by in reversed(feature.partitions):  # the innermost first
        if kind == "uniform_row_length":
            own: list[_Ints] = [np.empty(0, np.int64)] * rows
        else:
            keyed -= 1
            bounds = offsets[keyed + 1]
            own = np.split(parts[keyed], bounds[1:-1]) if rows else []
        lengths = []
        for row in range(rows):
            found = _lengths(kind, by, own[row], int(counts[row]))
            if isinstance(found, str):
                raise DataError(f"{where(row)}: feature {name!r}: {kind} {by!r} {found}")
            lengths.append(found)
        counts = np.array([len(found) for found in lengths], np.int64)
        column = Ragged(column, offsets_of(np.concatenate([np.empty(0, np.int64), *lengths])))
    return Ragged(column, offsets_of(counts))


def _lengths(kind: str, by: Any, given: _Ints, count: int) -> _Ints | str:
    """The lengths of the rows of one record, or what is wrong."""
    if kind == "uniform_row_length":
        if count % by:
            return f"doesn't divide {count} values"
        return np.full(count // by, by, np.int64)
    if kind == "value_rowids":
        if len(given) != count or (np.diff(given, prepend=0) < 0).any():
            return f"needs an ascending row for each of {count} values, found {given.tolist()!r:.60}"
        # Bounded by the values: a row number says how many rows there are.
        if count and int(given[-1]) > count + (1 << 20):
            return f"names row {int(given[-1])} for {count} values"
        return np.bincount(given, minlength=0).astype(np.int64)
    match kind:
        case "row_splits":
            splits = given
            if len(given) == 0 and count == 0:
                return given
        case "row_starts":
            splits = np.append(given, count)
        case "row_limits":
            splits = np.insert(given, 0, 0)
        case _:
            if (given < 0).any() or (given > count).any() or int(given.sum()) != count:
                return f"needs lengths that add up to {count} values, found {given.tolist()!r:.60}"
            return given
    if len(splits) == 0 or splits[0] != 0 or splits[-1] != count or (splits[1:] < splits[:-1]).any():
        return f"doesn't go from 0 to {count} without falling, found {given.tolist()!r:.60}"
    return np.diff(splits)
