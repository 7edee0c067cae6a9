"""Columns and records that aren't what they should be: refused with their place, never made something else of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr

ARRAYS = {
    "big-endian": np.arange(6, dtype=">i4"),
    "a view with steps": np.arange(48).reshape(12, 4)[::2, ::2],
    "backwards": np.arange(6)[::-1],
    "Fortran order": np.asfortranarray(np.arange(18).reshape(6, 3)),
    "broadcast": np.broadcast_to(np.arange(3), (6, 3)),
    "halves": np.arange(6, dtype="f2"),
    "bools": np.arange(6) > 2,
    "dates": np.arange(6).astype("M8[s]"),
    "structured": np.array([(i, i / 2) for i in range(6)], dtype=[("a", "i4"), ("b", ">f8")]),
    "no width": np.zeros((6, 0)),
    "long doubles": np.arange(6, dtype=np.longdouble),
    "texts": np.array(["a", "bb", "", "d", "e", "f"]),
    "raw": np.zeros(6, "V3"),
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("writeable", [True, False])
def test_every_kind_of_array_comes_out_as_indexing_gives_it(name: str, writeable: bool) -> None:
    array = ARRAYS[name].view()
    array.flags.writeable = writeable and array.flags.writeable
    order = np.concatenate(list(hr.Loader(hr.from_arrays(np.arange(6)).shuffle(seed=3).batch(4))))
    batches = list(hr.Loader(hr.from_arrays({"x": array}).shuffle(seed=3).batch(4), workers=1))
    assert [len(batch["x"]) for batch in batches] == [4, 2]
    assert all(batch["x"].dtype == array.dtype for batch in batches)
    assert [row for batch in batches for row in batch["x"].tolist()] == array[order].tolist()


def test_rows_of_no_items_keep_their_number() -> None:
    column = hr.Ragged.from_rows([np.zeros((2, 0)), np.zeros((0, 0)), np.zeros((3, 0))])
    assert column.values.shape == (5, 0)
    assert [len(row) for row in column] == [2, 0, 3]
    assert hr.pad(column).shape == (3, 3, 0)
    with pytest.raises(ValueError, match=r"may differ in their first dimension only, got \(2, 0\) and \(1, 3\)"):
        hr.Ragged.from_rows([np.zeros((2, 0)), np.zeros((1, 3))])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ("abc", "the value is str 'abc', expected an array with rows"),
        (None, "the value is NoneType None, expected an array with rows"),
        (np.float64(3), "the value is a single number, expected an array with rows"),
        ({"x": [[1], [2, 3]]}, r"x can't be taken as an array: .* make rows of unequal length .* Ragged\.from_rows"),
        (np.ma.masked_array([1, 2], [True, False]), "is a masked array, and batches have no masks; fill it"),
        ({"a.b": [1], "a": {"b": [2]}}, r"needs a name for each array, got 'a\.b' for 2 of them"),
        (hr.Ragged(np.arange(3), np.array([0, 9])), "offsets that start at 0, never fall and end at 3, got 0 … 9"),
        (hr.Ragged(np.arange(3), np.array([0, 3, 1, 3])), "offsets that start at 0, never fall"),
        (hr.Ragged(np.arange(3), np.array([], np.int64)), r"int64 offsets of shape \(rows \+ 1,\), got int64 \(0,\)"),
        (hr.Ragged(np.array([None]), np.array([0, 1])), "needs an array of numbers as values, got object"),
        (hr.Ragged([1], [0, 1]), "needs an array of numbers as values, got list"),  # type: ignore[arg-type]
        (hr.Strings(np.zeros(3, np.int8), np.array([0, 3])), "needs uint8 data of one dimension, got int8"),
        (hr.Strings(np.zeros(3, np.uint8), np.array([1, 3])), "Strings needs offsets that start at 0"),
    ],
)
def test_what_is_no_array_with_rows_is_refused(arrays: Any, message: str) -> None:
    with pytest.raises(hr.DataError, match=message):
        hr.from_arrays(arrays)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([1, "a"], r"^record 1: expected whole numbers \(int64\) as in record 0, got texts .* convert it in a map"),
        (["a", 1], "^record 1: expected a text as in record 0, got int 1"),
        ([None, 1], r"^record 1: expected a Python object \(NoneType\) as in record 0, got int 1"),
        ([None, {"x": 1}], "^record 1: expected a Python object .*, got a dict with keys"),
        ([1, None], "^record 1: expected numbers, got NoneType None; convert it in a map"),
        ([2**70, 1], "^record 0: expected numbers, got int 1180591620717411303424"),
        ([[[1], [2, 3]]], "^record 0 is no array: "),
        (
            [np.datetime64(1, "s"), 3],
            r"^record 1: expected dates \(datetime64\[s\]\) as in record 0, got whole numbers",
        ),
        ([{"t": "\ud800"}], "^column 't' of the records from record 0 on: row 0 is no text that UTF-8 can hold"),
        ([np.ma.masked_array([1], [True])], "^record 0 is a masked array"),
        ([], "collate needs at least one record"),
    ],
)
def test_records_that_do_not_fit_together_are_refused(records: Any, message: str) -> None:
    with pytest.raises(hr.DataError, match=message):
        hr.collate(records)


def test_rows_that_are_no_rows_are_named() -> None:
    with pytest.raises(ValueError, match="rows with at least one dimension, got 5 as row 1"):
        hr.Ragged.from_rows([[1], 5])
    with pytest.raises(ValueError, match="Strings needs rows of str or bytes, got int 5 as row 1"):
        hr.Strings.from_rows(["a", 5])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.int64, 2.5),
        (np.uint8, 300),
        (np.uint8, -1),
        (np.int32, float("nan")),
        (bool, 2),
        (float, "x"),
        (float, None),
    ],
)
def test_padding_with_another_number_than_was_asked_for_is_refused(dtype: Any, value: Any) -> None:
    column = hr.Ragged.from_rows([[1, 0], [1]], dtype=dtype)
    with pytest.raises(ValueError, match=f"pad: {value!r} doesn't fit into a column of {np.dtype(dtype)}"):
        hr.pad(column, value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 2.5}, "width is an integer, got 2.5"),
        ({"width": -1}, "width is at least 0, got -1"),
        ({"multiple_of": 1.5}, "multiple_of is an integer, got 1.5"),
        ({"multiple_of": 0}, "multiple_of is at least 1, got 0"),
    ],
)
def test_widths_out_of_range_are_refused(arguments: Any, message: str) -> None:
    for rows in ([], [[1]]):
        with pytest.raises(ValueError, match=message):
            hr.pad(hr.Ragged.from_rows(rows), **arguments)
    with pytest.raises(ValueError, match=r"pad takes a Ragged column, got ndarray; make one by Ragged\.from_rows"):
        hr.pad(np.zeros(3))  # type: ignore[arg-type]


def test_torch_leaves_what_it_has_no_type_for() -> None:
    pytest.importorskip("torch")
    long = np.arange(2, dtype=np.longdouble)
    assert hr.to_torch({"x": long})["x"] is long
