from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([1, -2, 3], np.int64), ([1.5, float("nan")], np.float64), ([True, False], np.bool_), ([2**63 - 1], np.int64)],
)
def test_pythons_numbers_have_the_types_of_their_arrays(values: list[Any], dtype: Any) -> None:
    column = hr.collate(values)
    assert column.dtype == dtype
    assert column.tobytes() == np.stack([np.asarray(value) for value in values]).tobytes()


def test_integers_beyond_64_bits_are_refused_as_before() -> None:
    assert hr.collate([2**63, 2**63 + 1]).dtype == np.uint64
    for values in ([1, 2**63], [2**70, 1]):
        with pytest.raises(hr.DataError):
            hr.collate(values)


def test_collate_keeps_the_structure_of_records() -> None:
    batch = hr.collate([({"x": 1.5, "s": "a"}, [1, 2]), ({"x": 2.5, "s": "b"}, [3, 4])])
    assert batch[0]["x"].tolist() == [1.5, 2.5]
    assert batch[0]["s"].tolist() == ["a", "b"]
    assert batch[1].tolist() == [[1, 2], [3, 4]]


def test_collate_names_records_column_and_remedy_when_shapes_differ() -> None:
    expected = (
        r"column 'x' of record 1: expected shape \(2,\) as in record 0, got shape \(3,\); "
        r"make the shapes equal, or name the column: batch\(..., ragged=\['x'\]\)"
    )
    with pytest.raises(hr.DataError, match=expected):
        hr.collate([{"x": [1, 2]}, {"x": [1, 2, 3]}])


def test_collate_refuses_records_of_another_structure() -> None:
    with pytest.raises(
        hr.DataError,
        match=r"^record 1: expected a dict with keys \['x'\] as in record 0, got int 5",
    ):
        hr.collate([{"x": 1}, 5])
    with pytest.raises(hr.DataError, match=r"got a dict with keys \['y'\]; give all records the same keys"):
        hr.collate([{"x": 1}, {"y": 1}])


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            [1, 2, "a"],
            r"record 2: expected whole numbers \(int64\) as in record 0, got texts \(<U1\): str 'a'; convert it",
        ),
        (
            [{"x": 1}, {"x": 0.5}],
            r"column 'x' of record 1: expected whole numbers \(int64\) as in record 0, got floats \(float64\)",
        ),
        ([True, 1], r"record 1: expected booleans \(bool\) as in record 0, got whole numbers"),
        ([1.5, 1j], r"record 1: expected floats \(float64\) as in record 0, got complex numbers"),
        ([[1, 2], [1, "a"]], r"record 1: expected numbers or texts, got both: list \[1, 'a'\]; convert it in a map"),
        (
            [np.int64(-1), np.uint64(1)],
            r"expected whole numbers \(int64\) as in record 0, got whole numbers \(uint64\)",
        ),
    ],
)
def test_collate_refuses_a_column_of_two_kinds(records: list[Any], message: str) -> None:
    with pytest.raises(hr.DataError, match=message):
        hr.collate(records)


def test_collate_names_the_first_record_that_has_a_type() -> None:
    with pytest.raises(hr.DataError, match=r"column 'x' of record 2: expected whole numbers \(int64\) as in record 1"):
        hr.collate([{"x": []}, {"x": [1]}, {"x": [0.5]}], ragged=["x"])


def test_collate_widens_sizes_of_a_kind() -> None:
    assert hr.collate([np.int32(1), np.int64(2)]).dtype == np.int64
    assert hr.collate([np.int64(1), np.int32(2)]).dtype == np.int64
    assert hr.collate([np.ones(2, np.float32), np.ones(2, np.float16)]).dtype == np.float32


def test_empty_rows_take_the_dtype_of_the_others() -> None:
    def dtype(*rows: Any) -> Any:
        return hr.collate(rows, ragged=[""]).values.dtype

    assert dtype([], [1, 2], []) == np.int64
    assert dtype(np.empty(0), np.array([1], np.int32)) == np.int32
    assert dtype([], np.empty(0, np.int32)) == np.int32
    assert dtype([], []) == np.float64
