"""Pads rows of varying length to arrays."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.column import Column
from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse
from headrace.checks import one_of, whole

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
        ValueError: If a row is longer than `width`, the dtype of the values can't hold `value`, or an argument is out
            of range.

    Example:
        >>> import headrace as hr
        >>> hr.pad(hr.Ragged.from_rows([[1, 2, 3], [4]]), value=-1).tolist()
        [[1, 2, 3], [4, -1, -1]]
    """
    one_of("", "side", side, Side, error=ValueError)
    if not isinstance(column, Ragged):
        raise ValueError(f"pad takes a Ragged column, got {type(column).__name__}; make one by Ragged.from_rows")
    if isinstance(column.values, Sparse):
        raise ValueError(
            "pad takes rows of dense items, got sparse ones; with c for the column, Ragged(c.values.ids(), c.offsets) "
            "makes numbers of one-hot ones, Ragged(c.values.to_dense(), c.offsets) makes any dense"
        )
    if isinstance(column.values, Column):
        raise ValueError(f"pad takes rows of numbers, got rows of {column.values.row_type}")
    multiple_of = whole("multiple_of", multiple_of, 1)
    width = None if width is None else whole("width", width, 0)
    lengths = column.lengths
    longest = int(lengths.max()) if len(lengths) else 0
    if width is None:
        width = longest
    elif longest > width:
        row = int(lengths.argmax())
        raise ValueError(f"row {row} has {longest} items, more than the width of {width}; cut it or widen")
    width = -(-width // multiple_of) * multiple_of
    fill = _fill(value, column.values.dtype)
    values = np.ascontiguousarray(column.values)
    padded: NDArray[Any] = _native.pad_ragged(values, column.offsets, width, fill, side == "left")
    return padded


def _fill(value: float, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The value as one of `dtype`; a cast that makes another number of it would be found by nobody."""
    given = np.array(value)
    if given.ndim:
        raise ValueError(f"pad: the value is one number, got {value!r:.60}")
    if dtype.kind not in "biufc":
        return given.astype(dtype)
    if given.dtype.kind in "biufc":
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            fill = given.astype(dtype)
        # Floats may round (0.1 in float32), but not become infinite or lose an imaginary part.
        if dtype.kind in "fc":
            fits = np.isfinite(fill).all() or not np.isfinite(given).all()
            fits = fits and (dtype.kind == "c" or not np.iscomplex(given).any())
        else:
            fits = (fill == given).all()
        if fits:
            return fill
    raise ValueError(f"pad: {value!r} doesn't fit into a column of {dtype}; choose another value or widen the column")
