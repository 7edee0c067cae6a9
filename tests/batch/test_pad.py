from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

ROWS = st.lists(st.lists(st.integers(-1000, 1000), max_size=6), max_size=12)


@given(ROWS.filter(bool), st.sampled_from(["left", "right"]), st.integers(1, 4), st.sampled_from("bhilfd"))
def test_pad_fills_up_rows(rows: list[list[int]], side: str, multiple: int, kind: str) -> None:
    rows = [[n % 100 for n in row] for row in rows]
    padded = hr.pad(hr.Ragged.from_rows(rows, dtype=kind), value=-1, side=side, multiple_of=multiple)  # type: ignore[arg-type]
    width = -(-max(map(len, rows)) // multiple) * multiple
    fill = [[-1] * (width - len(row)) for row in rows]
    expected = [f + row if side == "left" else row + f for row, f in zip(rows, fill, strict=True)]
    assert padded.shape == (len(rows), width)
    assert padded.dtype == np.dtype(kind)
    assert padded.tolist() == expected


def test_pad_refuses_a_row_longer_than_the_width() -> None:
    with pytest.raises(ValueError, match="row 1 has 3 items, more than the width of 2; cut it or widen"):
        hr.pad(hr.Ragged.from_rows([[1], [1, 2, 3]]), width=2)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("u1", -1), ("i4", 0.5), ("i8", float("nan")), ("i1", 300), ("?", 2), ("f2", 1e6), ("f8", 1j), ("i8", 1 << 70)],
)
def test_pad_refuses_a_value_that_the_dtype_cannot_hold(dtype: str, value: Any) -> None:
    message = f"pad: {value!r} doesn't fit into a column of {np.dtype(dtype)}; choose another value"
    with pytest.raises(ValueError, match=re.escape(message)):
        hr.pad(hr.Ragged.from_rows([[1], []], dtype=dtype), value=value)


@pytest.mark.parametrize(("dtype", "value"), [("f4", 0.1), ("f4", float("nan")), ("i4", -1.0), ("?", True), ("c8", 1j)])
def test_pad_takes_a_value_that_the_dtype_holds(dtype: str, value: Any) -> None:
    padded = hr.pad(hr.Ragged.from_rows([[1], []], dtype=dtype), value=value)
    assert padded.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(padded[1, 0], np.array(value, dtype))
