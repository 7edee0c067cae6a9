from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


def test_pad_gives_lengths_beside_the_column() -> None:
    rows = hr.Ragged.from_rows([[1, 2, 3], [4]])
    (batch,) = hr.Loader(hr.from_arrays({"a": rows}).batch(2).pad({"a": 9}, multiple_of=4))
    assert batch["a"].tolist() == [[1, 2, 3, 9], [4, 9, 9, 9]]
    assert batch["a_len"].tolist() == [3, 1]
    ((array, lengths),) = hr.Loader(hr.from_arrays(rows).batch(2).pad(side="left"))
    assert array.tolist() == [[1, 2, 3], [0, 0, 4]]
    assert lengths.tolist() == [3, 1]


def test_pad_names_the_record_that_is_too_long() -> None:
    rows = hr.Ragged.from_rows([[1], [1, 2, 3]])
    with pytest.raises(hr.DataError, match=r"column 'a' of row 1 of the arrays has 3 items, more than the width of 2"):
        list(hr.Loader(hr.from_arrays({"a": rows}).batch(2).pad(width=2)))
    with pytest.raises(hr.PlanError, match=r"pad names column 'b'; the columns are \['a'\]"):
        hr.Loader(hr.from_arrays({"a": rows}).batch(2).pad(columns="b"))
    with pytest.raises(hr.DataError, match="expected Ragged; say so where batches are made"):
        list(hr.Loader(hr.from_dataset([{"a": 1}]).batch(1).pad(columns="a")))


def test_ragged_columns_of_python_records_are_padded() -> None:
    data = hr.from_dataset([{"a": [1], "b": 5}, {"a": [1, 2], "b": 6}]).batch(2, ragged="a").pad()
    (batch,) = hr.Loader(data)
    assert batch["a"].tolist() == [[1, 0], [1, 2]]
    assert batch["b"].tolist() == [5, 6]


def test_pad_names_the_column_that_cannot_hold_the_value() -> None:
    data = hr.from_arrays({"a": hr.Ragged.from_rows([[1], [2, 3]], dtype=np.uint8)}).batch(2).pad(value=-1)
    with pytest.raises(hr.DataError, match="column 'a': pad: -1 doesn't fit into a column of uint8; choose another"):
        list(hr.Loader(data))


def test_pad_does_not_replace_a_column_by_lengths() -> None:
    data = hr.from_arrays({"p": {"a_len": np.arange(2), "a": hr.Ragged.from_rows([[1], [2, 3]])}}).batch(2)
    message = r"lengths of column 'p\.a' would replace the column 'p\.a_len' that the records have; .* lengths=False"
    with pytest.raises(hr.DataError, match=message):
        list(hr.Loader(data.pad()))
    (batch,) = hr.Loader(data.pad(lengths=False))
    assert batch["p"]["a_len"].tolist() == [0, 1]
