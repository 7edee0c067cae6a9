"""The native reader of CNTK's text format: what its arrays are, and what it tells about mistakes."""

from __future__ import annotations

import pathlib
import threading

import numpy as np
import pytest

from headrace import DataChangedError, DataError, _native

STREAMS = [("a", False, 2), ("x", True, 10)]


def open_reader(
    path: pathlib.Path, *, ids: bool = True, main: int = -1, double: bool = False, require_all: bool = False
) -> _native.CtfReader:
    file = _native.FileBytes.open(str(path))
    alias = "" if main < 0 else STREAMS[main][0]
    has_ids, first_line, begins, ends, keys, _ = _native.index_ctf(file, not ids, alias, 1)
    return _native.CtfReader(file, begins, ends, has_ids, keys, first_line, STREAMS, main, double, require_all)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "t.ctf"
    path.write_bytes(b"1 |a 1 2\n1 |a 3 4 |x 5:0.5 2:1\n2 |x\n3 |a 5\n")
    return path


@pytest.mark.parametrize("double", [False, True])
def test_columns(path: pathlib.Path, double: bool) -> None:
    reader = open_reader(path, double=double)
    (dense, sparse), dropped, rows, problems, warnings = reader.parse(np.arange(3))
    values, offsets = dense
    assert values.dtype == (np.float64 if double else np.float32)
    np.testing.assert_array_equal(values, [[1, 2], [3, 4], [5, 0]])
    np.testing.assert_array_equal(offsets, [0, 2, 2, 3])
    values, indices, entries, offsets = sparse
    assert [str(array.dtype) for array in (indices, entries, offsets)] == ["int32", "int64", "int64"]
    np.testing.assert_array_equal(values, [0.5, 1])
    np.testing.assert_array_equal(indices, [5, 2])
    np.testing.assert_array_equal(entries, [0, 2, 2])
    np.testing.assert_array_equal(offsets, [0, 1, 2, 2])
    assert len(dropped) == len(rows) == len(problems) == 0
    assert [(kind, count) for kind, count, _ in warnings] == [("short dense sample", 1)]
    assert f"{path} (byte 42), sequence 3: a sample of stream 'a' has fewer than 2 values" in warnings[0][2]


def test_no_records(path: pathlib.Path) -> None:
    (dense, sparse), *_ = open_reader(path).parse(np.arange(0))
    assert dense[0].shape == (0, 2)
    assert [len(array) for array in sparse] == [0, 0, 1, 1]


def test_mistakes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.ctf"
    path.write_bytes(b"1 |a 1 2\n2 |a 1 two\n3 |a 3 4\n3 |x 10:1\n")
    (dense, _), dropped, rows, problems, _ = open_reader(path).parse(np.array([2, 1, 0]))
    assert dropped.dtype == np.bool_
    np.testing.assert_array_equal(dropped, [True, True, False])
    np.testing.assert_array_equal(dense[0], [[1, 2]])
    np.testing.assert_array_equal(dense[1], [0, 0, 0, 1])
    np.testing.assert_array_equal(rows, [0, 1])
    assert problems.place(0) == (0, 1, 34, 4, 6, "index out of range")
    assert problems.place(1) == (1, 0, 16, 2, 8, "not a number")
    assert problems.explain(1).startswith(
        f"{path}, line 2, column 8 (byte 16), sequence 2: expected a number of stream 'a', got 'two'; "
    )
    with pytest.raises(IndexError, match="there are 2 problems"):
        problems.explain(2)


def test_problems_keep_their_reader(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.ctf"
    path.write_bytes(b"|a 1 2 3\n")
    *_, problems, _ = open_reader(path).parse(np.arange(1))
    assert "expected at most 2 values" in problems.explain(0)


def test_streams_may_be_demanded(path: pathlib.Path) -> None:
    *_, dropped, rows, _, _ = open_reader(path, require_all=True).parse(np.arange(3))
    np.testing.assert_array_equal(dropped, [False, True, True])
    np.testing.assert_array_equal(rows, [1, 2])


def test_a_file_that_changed_is_not_read(path: pathlib.Path) -> None:
    reader = open_reader(path)
    path.write_bytes(b"1 |a 1 2\n")
    with pytest.raises(DataChangedError, match=r"t\.ctf"):
        reader.parse(np.arange(3))


def test_records_and_indexes_are_checked(path: pathlib.Path) -> None:
    reader = open_reader(path)
    with pytest.raises(IndexError, match="sequence 3 is not there: expected 0 to 2"):
        reader.parse(np.array([3]))
    file = _native.FileBytes.open(str(path))
    none = np.empty(0, np.uint64)
    damaged = _native.CtfReader(
        file, np.array([0, 4, 46], np.uint64), none, True, np.array([1, 2], np.uint64), 0, STREAMS, -1, False, False
    )
    with pytest.raises(DataError, match=r"does not fit the file at sequence 1.*index='rebuild'"):
        damaged.parse(np.arange(2))


def test_threads_share_a_reader(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.ctf"
    lines = (f"|a {i} {i / 4} |x {i % 10}:{i}\n" if i % 5 else f"|a {i} ?\n" for i in range(4000))
    path.write_text("".join(lines))
    reader = open_reader(path, ids=False)
    order = np.random.default_rng(1).permutation(4000)
    wanted = reader.parse(order)
    messages = [wanted[3].explain(i) for i in range(0, 800, 50)]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(10):
                columns, dropped, rows, problems, _ = reader.parse(order)
                np.testing.assert_array_equal(columns[0][0], wanted[0][0][0])
                np.testing.assert_array_equal(columns[1][1], wanted[0][1][1])
                np.testing.assert_array_equal(dropped, wanted[1])
                np.testing.assert_array_equal(rows, wanted[2])
                assert [problems.explain(i) for i in range(0, 800, 50)] == messages
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def test_of_many_mistakes_alike_the_first_are_told_and_all_are_counted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.ctf"
    path.write_bytes(b"1 |a 1 2 " + 5000 * b"|" + b"\n2 |a 1 2 |\n3 |a 1 2 " + 300 * b"|a ? " + b"\n")
    *_, rows, problems, _ = open_reader(path).parse(np.array([2, 1, 0]))
    assert np.bincount(rows).tolist() == [100, 1, 100]
    times = problems.times()
    assert times.dtype == np.int64
    assert np.bincount(rows, times).tolist() == [300, 1, 5000]
    assert np.unique(times).tolist() == [1, 201, 4901]
    assert problems.explain(len(rows) - 1).endswith("(and 4900 more like it further on in the sequence)")
    assert "more like it" not in problems.explain(len(rows) - 2)
