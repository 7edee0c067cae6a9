from __future__ import annotations

import importlib.abc
import re
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.batch.convert import DELIVERIES, deliver

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
        match=r"the record of record 1: expected a dict with keys \['x'\] as in record 0, got int 5",
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


def test_ragged_take_looks_at_the_rows_asked_for_alone() -> None:
    column = hr.Ragged(np.arange(4), np.array([0, 1, 3, 2, 9], np.int64))
    assert column.take(np.array([1, 0])).tolist() == [[1, 2], [0]]
    with pytest.raises(ValueError, match=r"offsets of row 2 are wrong: expected .* <= 4 \(.*\), got 3 to 2"):
        column.take(np.array([0, 2]))
    with pytest.raises(ValueError, match="offsets of row 3 are wrong"):
        column.take(np.array([3]))


@pytest.mark.parametrize(("name", "package"), [("torch", "'headrace\\[torch\\]'"), ("jax", "jax")])
def test_a_framework_that_is_not_installed_is_named(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [m for m in sys.modules if m.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Missing(name), *sys.meta_path])
    message = f"handing batches to {name} needs it installed: pip install {package}$"
    with pytest.raises(ImportError, match=message):
        DELIVERIES[name]({"x": np.arange(2)})
    with pytest.raises(ImportError, match=message):
        deliver(name)


class Missing(importlib.abc.MetaPathFinder):
    """Hides a package from imports."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname.partition(".")[0] == self.name:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=self.name)


def test_deliver_knows_its_names() -> None:
    batch = {"x": np.arange(2)}
    assert deliver("numpy")(batch) is batch
    with pytest.raises(ValueError, match="handed over as one of 'numpy', 'torch', 'jax'; got 'tensorflow'"):
        deliver("tensorflow")


def test_jax_takes_numbers_and_leaves_the_rest() -> None:
    jax = pytest.importorskip("jax")
    batch = {"x": np.arange(3, dtype=np.float32), "big": np.arange(2, dtype=">i4"), "s": hr.Strings.from_rows(["a"])}
    out = deliver("jax")(batch)
    assert isinstance(out["x"], jax.Array)
    assert out["x"].tolist() == [0.0, 1.0, 2.0]
    assert out["big"].tolist() == [0, 1]
    assert out["s"] is batch["s"]
