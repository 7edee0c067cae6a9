from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

ROWS = st.lists(st.lists(st.integers(-1000, 1000), max_size=6), max_size=12)


@given(ROWS)
def test_ragged_gives_back_its_rows(rows: list[list[int]]) -> None:
    column = hr.Ragged.from_rows(rows, dtype=np.int64)
    assert column.tolist() == rows
    assert column.lengths.tolist() == [len(row) for row in rows]


@given(ROWS.filter(bool), st.data())
def test_ragged_take_copies_rows_in_the_order_asked_for(rows: list[list[int]], data: st.DataObject) -> None:
    index = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=20))
    taken = hr.Ragged.from_rows(rows, dtype=np.int32).take(np.array(index, np.int64))
    assert taken.tolist() == [rows[i] for i in index]
    assert taken.values.dtype == np.int32


def test_ragged_rows_may_have_more_dimensions() -> None:
    column = hr.Ragged.from_rows([np.ones((2, 3)), np.zeros((0, 3)), np.full((1, 3), 7.0)])
    assert column.values.shape == (3, 3)
    assert column.take(np.array([2, 0]))[0].tolist() == [[7.0, 7.0, 7.0]]


def test_ragged_refuses_rows_that_differ_beyond_the_first_dimension() -> None:
    with pytest.raises(ValueError, match=r"may differ in their first dimension only, got \(2, 3\) and \(2, 4\)"):
        hr.Ragged.from_rows([np.ones((2, 3)), np.ones((2, 4))])


@pytest.mark.parametrize("offsets", [[1, 3], [0, 2], [0, 3, 2, 3], []])
def test_ragged_checked_refuses_offsets_that_do_not_fit(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets"):
        hr.Ragged.checked(np.arange(3), np.array(offsets, np.int64))


@given(st.lists(st.binary(max_size=8), max_size=10))
def test_strings_keep_any_bytes(rows: list[bytes]) -> None:
    column = hr.Strings.from_rows(rows)
    assert [column.bytes_at(i) for i in range(len(column))] == rows
    assert [s.encode("utf-8", "surrogateescape") for s in column] == rows


def test_ragged_take_looks_at_the_rows_asked_for_alone() -> None:
    column = hr.Ragged(np.arange(4), np.array([0, 1, 3, 2, 9], np.int64))
    assert column.take(np.array([1, 0])).tolist() == [[1, 2], [0]]
    with pytest.raises(ValueError, match=r"offsets of row 2 are wrong: expected .* <= 4 \(.*\), got 3 to 2"):
        column.take(np.array([0, 2]))
    with pytest.raises(ValueError, match="offsets of row 3 are wrong"):
        column.take(np.array([3]))
