"""Rows of what was parsed: taking some of them, and putting parts together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.batch.tree import interleave
from headrace.formats.sequences import Parsed, Place


def take_parsed(parsed: Parsed, rows: NDArray[np.int64]) -> Parsed:
    """Some rows of what was parsed, with their errors; views, where the rows are neighbours in ascending order."""
    start, count = int(rows[0]), len(rows)
    if int(rows[-1]) - start == count - 1 and (count == 1 or bool((np.diff(rows) == 1).all())):
        columns = {name: column[start : start + count] for name, column in parsed.columns.items()}
    else:
        columns = {name: column.take(rows) for name, column in parsed.columns.items()}
    dropped = None if parsed.dropped is None else parsed.dropped[rows]
    if not len(parsed.error_rows):
        return Parsed(columns, dropped, warnings=parsed.warnings)
    first = np.searchsorted(parsed.error_rows, rows, side="left")
    errors = np.searchsorted(parsed.error_rows, rows, side="right") - first
    numbers = [i for a, n in zip(first.tolist(), errors.tolist(), strict=True) for i in range(a, a + n)]
    whole = parsed.place
    return Parsed(
        columns,
        dropped,
        np.repeat(np.arange(count), errors),
        lambda i: parsed.explain(numbers[i]),
        parsed.warnings,
        None if whole is None else lambda i: whole(numbers[i]),
        error_times=None if parsed.error_times is None else parsed.error_times[numbers],
    )


def join_parsed(parts: Sequence[tuple[NDArray[np.int64], Parsed]], count: int) -> Parsed:
    """Puts together what was parsed in parts.

    Args:
        parts: Pairs of places and what was parsed: row `k` of a part comes to place `where[k]` of the whole.
        count: Rows of the whole; the places are 0 … count−1, each once.
    """
    dropped = np.zeros(count, bool)
    errors: list[tuple[int, Parsed, int]] = []
    for where, part in parts:
        errors += [(int(where[row]), part, i) for i, row in enumerate(part.error_rows.tolist())]
        if part.dropped is not None:
            dropped[where] = part.dropped
    errors.sort(key=lambda error: error[0])

    def explain(i: int) -> str:
        _, part, own = errors[i]
        return part.explain(own)

    def place(i: int) -> Place:
        _, part, own = errors[i]
        assert part.place is not None
        return part.place(own)

    return Parsed(
        interleave([(where, part.columns) for where, part in parts]),
        dropped if dropped.any() else None,
        np.array([row for row, _, _ in errors], np.int64),
        explain,
        [warning for _, part in parts for warning in part.warnings],
        place if all(part.place is not None for _, part in parts) else None,
        error_times=np.array([part.times[i] for _, part, i in errors], np.int64),
    )
