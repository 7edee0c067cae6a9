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


def test_to_torch_shares_memory_and_keeps_texts() -> None:
    torch = pytest.importorskip("torch")
    x = np.arange(6, dtype=np.float32)
    out = hr.to_torch({"x": x, "r": hr.Ragged.from_rows([[1, 2], [3]]), "s": hr.Strings.from_rows(["a"])})
    assert out["x"].data_ptr() == x.ctypes.data
    assert [row.tolist() for row in out["r"].unbind()] == [[1, 2], [3]]
    assert out["s"].tolist() == ["a"]
    assert isinstance(out["x"], torch.Tensor)


def test_to_torch_copies_what_cannot_be_shared() -> None:
    pytest.importorskip("torch")
    read_only = np.arange(3)
    read_only.flags.writeable = False
    foreign = np.arange(3, dtype=">i4")
    assert hr.to_torch((read_only, foreign, np.arange(3)[::-1]))[1].tolist() == [0, 1, 2]
