"""Pads rows of varying length to arrays."""

from __future__ import annotations

import operator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.columns import Ragged

Side = Literal["left", "right"]


def pad(
    column: Ragged,
    value: float = 0,
    *,
    side: Side = "right",
    width: int | None = None,
    multiple_of: int = 1,
) -> NDArray[Any]:
    """Makes an array of a ragged column by filling up its rows.

    Args:
        column: The rows.
        value: What to fill with.
        side: Where the filling goes: after the row (`"right"`) or before it.
        width: Items a row; by default those of the longest row.
        multiple_of: The width is rounded up to a multiple of this.

    Returns:
        Shape `(rows, width, ...)`, with the dtype of the values.

    Raises:
        ValueError: If a row is longer than `width`, or an argument is out of range.

    Example:
        >>> import headrace as hr
        >>> hr.pad(hr.Ragged.from_rows([[1, 2, 3], [4]]), value=-1).tolist()
        [[1, 2, 3], [4, -1, -1]]
    """
    if side not in ("left", "right"):
        raise ValueError(f"side is 'left' or 'right', got {side!r}")
    if not isinstance(column, Ragged):
        raise ValueError(f"pad takes a Ragged column, got {type(column).__name__}; make one by Ragged.from_rows")
    multiple_of = _whole("multiple_of", multiple_of, 1)
    width = None if width is None else _whole("width", width, 0)
    lengths = column.lengths
    longest = int(lengths.max()) if len(lengths) else 0
    if width is None:
        width = longest
    elif longest > width:
        row = int(lengths.argmax())
        raise ValueError(f"row {row} has {longest} items, more than the width of {width}; cut it or widen")
    width = -(-width // multiple_of) * multiple_of
    fill = _as_item(value, column.values.dtype)
    values = np.ascontiguousarray(column.values)
    padded: NDArray[Any] = _native.pad_ragged(values, column.offsets, width, fill, side == "left")
    return padded


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is an integer, got {value!r}") from None
    if number < least:
        raise ValueError(f"{name} is at least {least}, got {number}")
    return number


def _as_item(value: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The value in the type of the rows' items; refused if it would become another number."""
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            item = np.asarray(value).astype(dtype)
    except (TypeError, ValueError):
        item = None
    if item is None or value is None or item.ndim or (dtype.kind in "biu" and item != value):
        raise ValueError(f"can't pad with {value!r:.60}: the rows hold {dtype}, which has no such value")
    return item
