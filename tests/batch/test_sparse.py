from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import headrace as hr
from headrace.batch import num_rows
from headrace.batch.column import join_rows
from headrace.batch.tree import concat, num_bytes, take
from headrace.proof import same

ROWS: list[tuple[list[int], list[float]]] = [([3, 0], [1, 2]), ([], []), ([1, 1], [5, 6]), ([2], [0.5])]


def column(rows: list[tuple[list[int], list[float]]] = ROWS, width: int = 4) -> hr.Sparse:
    return hr.Sparse.from_rows(rows, width)


def dense() -> NDArray[np.float32]:
    return np.array([[2, 0, 0, 1], [0, 0, 0, 0], [0, 11, 0, 0], [0, 0, 0.5, 0]], np.float32)


def test_rows_slices_and_dense_values() -> None:
    c = column()
    assert len(c) == 4
    assert c.shape == (4, 4)
    assert c.values.dtype == np.float32
    assert np.array_equal(c.to_dense(), dense())
    assert np.array_equal(c[1:3].to_dense(), dense()[1:3])
    assert np.array_equal(c[::-1].to_dense(), dense()[::-1])
    assert np.array_equal(c[-1].to_dense(), dense()[-1:])
    assert c[3:1].shape == (0, 4)
    assert c.tolist() == ROWS
    assert [row.shape for row in c] == [(1, 4)] * 4
    with pytest.raises(IndexError):
        c[4]
    assert repr(c) == "Sparse(4 rows of 4, 5 entries, float32)"


def test_taking_and_joining_rows_keeps_what_is_written() -> None:
    c = column()
    assert c.take(np.array([2, 0, 2])).tolist() == [ROWS[2], ROWS[0], ROWS[2]]
    assert join_rows([c, c[:1]]).tolist() == [*ROWS, ROWS[0]]
    with pytest.raises(
        ValueError, match=r"can't join columns of sparse float32 \(4,\) and sparse float32 \(5,\) a row"
    ):
        join_rows([c, column(width=5)])
    with pytest.raises(ValueError, match=r"different kinds: \['Sparse', 'ndarray'\]"):
        join_rows([c, dense()])


def test_sequences_of_sparse_samples_are_ragged_over_sparse() -> None:
    ragged = hr.Ragged(column(), np.array([0, 3, 3, 4]))
    assert [len(row) for row in ragged] == [3, 0, 1]
    turned = ragged.take(np.array([2, 1, 0]))
    assert turned.tolist() == [[ROWS[3]], [], ROWS[:3]]
    assert ragged.take(np.array([], np.int64)).tolist() == []
    for outside in (3, -1):
        with pytest.raises(IndexError, match=f"row {outside} at position 1 of the index is not there"):
            ragged.take(np.array([0, outside]))
    joined = concat([{"x": ragged}, {"x": turned}])["x"]
    assert joined.tolist() == [*ragged.tolist(), *turned.tolist()]
    assert num_rows(take({"x": ragged}, np.array([0, 0]))) == 2
    assert num_bytes(ragged) == ragged.nbytes == column().nbytes + 4 * 8
    assert same(ragged, hr.Ragged(column(), np.array([0, 3, 3, 4])))
    assert not same(ragged, hr.Ragged(column(width=5), np.array([0, 3, 3, 4])))
    with pytest.raises(ValueError, match=r"got sparse ones; with c for the column, Ragged\(c.values.ids"):
        hr.pad(ragged)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((np.ones((2, 2)), np.zeros(2, np.int32), np.array([0, 2])), "numbers of one dimension"),
        ((np.ones(2), np.zeros(2, np.int64), np.array([0, 2])), "one int32 index for each of 2 values, got int64"),
        ((np.ones(2), np.zeros(3, np.int32), np.array([0, 2])), "one int32 index for each of 2 values"),
        ((np.ones(2), np.zeros(2, np.int32), np.array([0, 3])), "end at 2"),
        ((np.ones(2), np.array([0, 4], np.int32), np.array([0, 1, 2])), r"indices in \[0, 4\), got 4 in row 1"),
        ((np.ones(2), np.array([-1, 0], np.int32), np.array([0, 1, 2])), r"indices in \[0, 4\), got -1 in row 0"),
    ],
)
def test_arrays_from_outside_are_checked(parts: tuple[object, object, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hr.Sparse.checked(*parts, width=4)


def test_from_rows_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"as many values as indices, got \(1,\) and \(2,\) in row 0"):
        column([([1, 2], [1])])
    with pytest.raises(ValueError, match=r"indices in \[0, 4\), got \[4\] in row 0"):
        column([([4], [1])])
    assert column([]).shape == (0, 4)


def test_ids_are_the_indices_of_one_hot_rows() -> None:
    assert column([([2], [1]), ([0], [1])]).ids().tolist() == [2, 0]
    with pytest.raises(ValueError, match="one entry each, got 0 in row 1"):
        column([([2], [1]), ([], [])]).ids()


def test_canonical_sorts_and_adds_only_where_need_be() -> None:
    c = column().canonical()
    assert c.tolist() == [([0, 3], [2, 1]), ([], []), ([1], [11]), ([2], [0.5])]
    assert c.canonical() is c
    assert np.array_equal(c.to_dense(), dense())
    assert column([]).canonical().shape == (0, 4)
    assert column([([], [])]).canonical().tolist() == [([], [])]


def test_scipy_gives_and_takes() -> None:
    scipy = pytest.importorskip("scipy.sparse", reason="SciPy is an optional dependency")
    assert np.array_equal(column().to_scipy().toarray(), dense())
    for kind in (scipy.csr_matrix, scipy.csc_array, scipy.coo_matrix):
        assert np.array_equal(hr.Sparse.from_scipy(kind(dense())).to_dense(), dense())
    batch = next(iter(hr.Loader(hr.from_arrays({"x": scipy.csr_matrix(dense())}).batch(4))))
    assert isinstance(batch["x"], hr.Sparse)
    assert np.array_equal(batch["x"].to_dense(), dense())


def test_torch_gets_sorted_sums() -> None:
    torch = pytest.importorskip("torch", reason="torch is an optional dependency")
    found = hr.to_torch({"x": column(), "seq": hr.Ragged(column(), np.array([0, 3, 4]))})
    assert found["x"].layout == torch.sparse_csr
    assert np.array_equal(found["x"].to_dense().numpy(), dense())
    assert np.array_equal(found["seq"].values.to_dense().numpy(), dense())
    assert found["seq"].offsets.tolist() == [0, 3, 4]


def test_arrow_keeps_every_type() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is an optional dependency")
    rows: dict[str, object] = {
        "words": column(),
        "pair": (np.arange(8).reshape(4, 2), np.array([True, False, True, False])),
        "text": hr.Strings.from_rows(["a", "ü", "", "b"]),
        "bytes": hr.Strings.from_rows([b"\xff", b"", b"a", b"b"]),
        "seq": hr.Ragged(column(), np.array([0, 2, 2, 2, 4])),
    }
    batch = hr.to_arrow(rows)
    first = batch.to_pylist()[0]
    assert first["words"] == [{"index": 3, "value": 1.0}, {"index": 0, "value": 2.0}]
    assert (first["pair.0"], first["pair.1"], first["text"], first["bytes"]) == ([0, 1], True, "a", b"\xff")
    assert [len(s) for s in batch.column("seq").to_pylist()] == [2, 0, 0, 2]
    assert hr.to_arrow(np.arange(2)).to_pydict() == {"value": [0, 1]}
    loader = hr.Loader(hr.from_arrays(np.arange(3)).batch(3), to="arrow")
    assert next(iter(loader)).num_rows == 3
    with pytest.raises(hr.DataError, match="'x' holds Python objects"):
        hr.to_arrow({"x": [object()]})
    with pytest.raises(hr.DataError, match=r"rows of shape \(0,\), without numbers"):
        hr.to_arrow({"x": np.empty((2, 0))})


def test_sparse_records_are_collated() -> None:
    records = [{"x": column()[i : i + 1]} for i in range(4)]
    assert hr.collate(records)["x"].tolist() == ROWS
    ragged = hr.collate([{"x": column()[:2]}, {"x": column()[2:2]}], ragged=["x"])["x"]
    assert ragged.tolist() == [ROWS[:2], []]
    with pytest.raises(hr.DataError, match=r"expected one sparse row .* got 2 rows; name the column"):
        hr.collate([{"x": column()[:1]}, {"x": column()[:2]}])
    with pytest.raises(hr.DataError, match="expected sparse rows"):
        hr.collate([{"x": column()[:1]}, {"x": 1.0}])
    with pytest.raises(hr.DataError, match="one width and type"):
        hr.collate([{"x": column()[:1]}, {"x": column(width=5)[:1]}])


def test_sparse_arrays_are_a_source_like_any_other() -> None:
    data = hr.from_arrays({"x": column(), "n": np.arange(4)}).shuffle(seed=3).batch(3)
    hr.assert_resumable(data, epochs=2)
    batch = next(iter(hr.Loader(data)))
    assert np.array_equal(batch["x"].to_dense(), dense()[batch["n"]])
