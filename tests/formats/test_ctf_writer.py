from __future__ import annotations

import pathlib
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.formats.ctf import CtfSource
from headrace.proof import same
from tests.formats.sequence_columns import columns, numbers, pieces


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data.ctf"


def written(path: pathlib.Path, data: Any, **options: Any) -> list[str]:
    hr.write_ctf(path, data, **options)
    return path.read_text().splitlines()


def read_back(lines: list[str], like: dict[str, hr.Ragged]) -> dict[str, hr.Ragged]:
    """A reader of the format that knows nothing but what the writer writes."""
    rows: dict[str, list[list[Any]]] = {name: [] for name in like}
    before = None
    for line in lines:
        own, _, rest = line.partition("\t")
        if own != before:
            for name in like:
                rows[name].append([])
        before = own
        for sample in rest.split("|")[1:]:
            name, *values = sample.split()
            rows[name][-1].append(values)
    found = {}
    for name, column in like.items():
        samples: list[Any] = [sample for row in rows[name] for sample in row]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows[name]])])
        if isinstance(column.values, hr.Sparse):
            pairs = [[entry.split(":") for entry in sample] for sample in samples]
            dtype = column.values.values.dtype
            sparse = hr.Sparse.from_rows(
                [([int(i) for i, _ in row], [dtype.type(v) for _, v in row]) for row in pairs],
                column.values.width,
                dtype,
            )
            found[name] = hr.Ragged(sparse, offsets)
        else:
            dtype = column.values.dtype
            dense = np.array([[dtype.type(v) for v in sample] for sample in samples], dtype)
            found[name] = hr.Ragged(dense.reshape(column.values.shape), offsets)
    return found


def bits(data: dict[str, hr.Ragged]) -> Any:
    """All arrays as bytes: so that −0 isn't 0."""
    return {name: [(a.dtype, a.tobytes()) for a in arrays(column)] for name, column in data.items()}


def arrays(column: Any) -> list[Any]:
    return [part for p in column.parts() for part in (arrays(p) if isinstance(p, hr.Sparse) else [p])]


@given(columns(least=1), st.integers(0, 1 << 32))
def test_every_number_comes_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, data: dict[str, hr.Ragged], seed: int
) -> None:
    path = tmp_path_factory.mktemp("round") / "x"
    lines = written(path, iter(pieces(data, np.random.default_rng(seed))))
    assert bits(read_back(lines, data)) == bits(data)
    assert written(path, data) == lines


@given(st.sampled_from([np.float32, np.float64]), st.data())
def test_the_reader_of_the_format_gives_it_back(
    tmp_path_factory: pytest.TempPathFactory, dtype: Any, data: st.DataObject
) -> None:
    found = data.draw(columns(dtype, least=1))
    path = tmp_path_factory.mktemp("round") / "x"
    hr.write_ctf(path, found)
    source = CtfSource(path, {name: of(column) for name, column in found.items()}, dtype=np.dtype(dtype).name)
    assert bits(source.read(np.arange(source.num_records))) == bits(found)
    source.close()


def of(column: hr.Ragged) -> hr.CtfStream:
    values = column.values
    return hr.sparse(values.width) if isinstance(values, hr.Sparse) else hr.dense(values.shape[1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_single_samples_are_read_back_as_they_were(path: pathlib.Path, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    x = numbers(rng, (500, 3), np.dtype(dtype).type)
    y = hr.Sparse.from_rows([([n % 7, 9], [n, -0.5]) for n in range(500)], 10, dtype)
    hr.write_ctf(path, {"x": x, "y": y}, streams={"x": "a", "y": "y"})
    data = hr.read_ctf(path, {"x": hr.dense(3, alias="a"), "y": hr.sparse(10)}, dtype=dtype)
    (batch,) = hr.Loader(data.batch(500))
    assert batch["x"].tobytes() == x.tobytes()
    assert same(batch["y"], y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_numbers_come_back_bit_for_bit(path: pathlib.Path, dtype: Any) -> None:
    values = numbers(np.random.default_rng(5), (40_000, 3), dtype)
    found = np.array([line.split()[1:] for line in written(path, {"x": values})]).astype(dtype)
    assert found.tobytes() == values.tobytes()


def test_numbers_near_zero_are_written_when_threads_flush_them(path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    values = np.array([5e-324, -1e-310, 0.0])
    torch.set_flush_denormal(True)
    try:
        assert written(path, {"x": values}) == ["|x 5e-324", "|x -1e-310", "|x 0"]
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (np.array([0.1, 1e-45, 3.4028235e38], np.float32), ["0.1", "1e-45", "3.4028235e+38"]),
        (np.array([0.1, 5e-324, -1.5e300]), ["0.1", "5e-324", "-1.5e+300"]),
        (
            np.array([1.0, -0.0, 0.0, 100000.0, -16777216.0, 1e15], np.float64),
            ["1", "-0", "0", "100000", "-16777216", "1e+15"],
        ),
        (np.array([-(2**63), 2**63 - 1]), ["-9223372036854775808", "9223372036854775807"]),
        (np.array([2**64 - 1], np.uint64), ["18446744073709551615"]),
        (np.array([-5, 7], np.int8), ["-5", "7"]),
        (np.array([True, False]), ["1", "0"]),
        (np.array([0.5, 2], np.float16), ["0.5", "2"]),
        (np.array([0.5, 2], ">f8"), ["0.5", "2"]),
    ],
)
def test_numbers_are_short(path: pathlib.Path, values: Any, text: list[str]) -> None:
    assert written(path, {"x": values}) == [f"|x {number}" for number in text]


def test_sequences_have_a_line_a_step(path: pathlib.Path) -> None:
    data = {
        "word": hr.Ragged(hr.Sparse.from_rows([([3, 1], [1, 0.5]), ([], []), ([7], [1])], 9), np.array([0, 2, 3])),
        "tag": hr.Ragged.from_rows([[[1, 2]], [[3, 4]]]),
    }
    expected = ["0\t|word 3:1 1:0.5 |tag 1 2", "0\t|word", "1\t|word 7:1 |tag 3 4"]
    assert written(path, data) == expected
    assert written(path, data, streams={"tag": "t"}, first_id=7) == ["7\t|t 1 2", "8\t|t 3 4"]
    assert written(path, data, streams=["tag"], ids=False) == ["|tag 1 2", "|tag 3 4"]
    assert written(path, data, streams=["tag"], ids=[5, 2])[1] == "2\t|tag 3 4"
    assert written(path, [{**data, "key": np.array([9, 3])}], ids="key") == [
        line.replace("0\t", "9\t").replace("1\t", "3\t") for line in expected
    ]


def test_samples_of_no_width_are_names_alone(path: pathlib.Path) -> None:
    column = hr.Ragged(np.zeros((3, 0)), np.array([0, 1, 3]))
    assert written(path, {"x": column}) == ["0\t|x", "1\t|x", "1\t|x"]


def test_rows_of_arrays_are_single_samples(path: pathlib.Path) -> None:
    data = {"x": np.arange(8).reshape(2, 2, 2), "y": hr.Sparse.from_rows([([1], [1]), ([0, 2], [1, 2])], 3)}
    assert written(path, data) == ["|x 0 1 2 3 |y 1:1", "|x 4 5 6 7 |y 0:1 2:2"]
    assert written(path, data, ids=True)[1] == "1\t|x 4 5 6 7 |y 0:1 2:2"
    assert written(path, [data, data], ids=True)[2] == "2\t|x 0 1 2 3 |y 1:1"


def test_python_rows_and_scipy_are_written(path: pathlib.Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix(np.eye(2))
    assert written(path, {"x": [1.5, 2], "m": matrix}) == ["|x 1.5 |m 0:1", "|x 2 |m 1:1"]
    assert written(path, {"x": [[[1], [2]], [[3]]], "m": [matrix, matrix[:1]]}) == [
        "0\t|x 1 |m 0:1",
        "0\t|x 2 |m 1:1",
        "1\t|x 3 |m 0:1",
    ]


def test_a_loader_is_an_iterable_of_batches(path: pathlib.Path) -> None:
    data = hr.from_arrays({"x": np.arange(5)}).shuffle(seed=1).batch(2)
    assert sorted(written(path, hr.Loader(data))) == [f"|x {n}" for n in range(5)]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_name_of_a_packer_is_packed(path: pathlib.Path, suffix: str) -> None:
    if suffix == ".zst":
        pytest.importorskip("zstandard")
    packed = path.with_name("data.ctf" + suffix)
    hr.write_ctf(packed, {"x": np.arange(100_000)})
    assert packed.stat().st_size < 500_000
    assert list(hr.read_text(packed)) == [f"|x {n}" for n in range(100_000)]


@pytest.mark.parametrize("old", [None, "", "\ufeff \n\n"])
def test_adding_to_no_lines_is_writing(path: pathlib.Path, old: str | None) -> None:
    if old is not None:
        path.write_text(old, encoding="utf-8")
    assert written(path, {"x": np.arange(2)}, append=True) == ["|x 0", "|x 1"]
    assert written(path, {"x": np.arange(1)}, append=True) == ["|x 0", "|x 1", "|x 0"]


@pytest.mark.parametrize(
    ("old", "first"),
    [
        ("7 |x 1\n", 8),
        ("7 |x 1", 8),
        ("\ufeff\n 7 |x 1\n", 8),
        ("3 |x 1\n009|x 2\n |x 3\n 55 |x\n", 10),
        ("6 |x 1\n" + "|x 2\n" * 30, 7),
        ("1 |x 1\n4" + " |# " + "7" * 99 + "\n", 5),
    ],
)
@pytest.mark.parametrize("piece", [1 << 20, 64, 3])
def test_ids_go_on_where_the_file_ends(
    path: pathlib.Path, old: str, first: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text(old, encoding="utf-8")
    if piece > 100 or not old.startswith("\ufeff"):
        monkeypatch.setattr("headrace.formats.ctf_append._PIECE", piece)
    hr.write_ctf(path, {"x": np.arange(2)}, append=True)
    added = f"{first}\t|x 0\n{first + 1}\t|x 1\n"
    assert path.read_text(encoding="utf-8") == old + ("" if old.endswith("\n") else "\n") + added


@pytest.mark.parametrize(
    ("old", "options", "message"),
    [
        ("|x 1\n", {"ids": True}, "lines of the file have no ids, and those to be added some; leave ids=… out"),
        ("0 |x 1\n", {"ids": False}, "lines of the file have ids, and those to be added none"),
        ("7 |x 1\n", {"ids": [7]}, "the id 7 comes twice"),
        ("7 |x 1\n", {"first_id": 7}, "the id 7 is that of the file's last sequence"),
        ("hello\n", {}, "expected lines that begin with an id or |, to add to, found b'h'"),
    ],
)
def test_what_cannot_be_added_leaves_the_file(
    path: pathlib.Path, old: str, options: dict[str, Any], message: str
) -> None:
    path.write_text(old)
    with pytest.raises(hr.DataError, match=re.escape(message)):
        hr.write_ctf(path, {"x": np.arange(1)}, append=True, **options)
    assert path.read_text() == old
    with pytest.raises(hr.DataError, match="can't be added to a packed file"):
        hr.write_ctf(path.with_suffix(".gz"), {"x": np.arange(1)}, append=True)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ({"x": np.array([[1, 2], [3, NAN]])}, {}, "row 1, stream 'x', sample 0 of it: .* no way to write NaN; replace"),
        ({"x": np.array([-INF], np.float32)}, {}, "row 0, stream 'x', sample 0 of it: .* no way to write infinity"),
        ({"x": hr.Ragged.from_rows([[1.0], [1.0, INF]])}, {}, "row 1, stream 'x', sample 1 of it"),
        ([{"x": np.ones(3)}, {"x": np.array([INF])}], {}, "row 3, stream 'x'"),
        ({"x": hr.Sparse.from_rows([([0], [NAN])], 1)}, {}, "row 0, stream 'x'"),
        ({"x": hr.Ragged.from_rows([[1.0], []])}, {}, "row 1: no stream has a sample, .*; leave the row out"),
        ({"x": hr.Ragged.from_rows([[1.0, 2.0]])}, {"ids": False}, "row 0: 2 samples need as many lines.*write ids"),
        ({"x": np.ones(2)}, {"ids": [4, 4]}, "the id 4 comes twice"),
        ({"x": np.ones(2)}, {"ids": [4]}, "expected 2 ids, whole numbers from 0 on, got int64 of shape \\(1,\\)"),
        ({"x": np.ones(2)}, {"ids": [4, -1]}, "expected 2 ids, .* with -1"),
        ({"x": np.ones(2)}, {"ids": [0.5, 1]}, "expected 2 ids, .* got float64"),
        ({"x": np.ones(2)}, {"ids": "k"}, "ids names the column 'k'; there are 'x'"),
        ({"x": np.ones(2)}, {"ids": True, "first_id": -1}, "64 bits from 0 on, got first_id=-1"),
        ([{"x": np.ones(2)}], {"ids": [0, 1]}, "the data comes in batches; put the ids into a column"),
        ([{"x": np.ones(1), "k": np.array([3])}] * 2, {"ids": "k"}, "the id 3 comes twice"),
        ({"a b": np.ones(2)}, {}, "name in the file 'a b' holds ' '.*; give another one by streams"),
        ({"#a": np.ones(2)}, {}, "'#a' begins with '#'"),
        ({"a\x7f": np.ones(2)}, {}, "holds .*x7f"),
        ({"": np.ones(2)}, {}, "name in the file is empty"),
        ([{"x": np.ones(2)}, {"x": np.ones((2, 2))}], {}, "'x': expected dense samples of 1 as .* dense samples of 2"),
        ([{"x": np.ones(2)}, {"y": np.ones(2)}], {}, "'y': expected no such column as in the first batch, got dense"),
        ([{"x": np.ones(1), "y": np.ones(1)}, {"x": np.ones(1)}], {}, "'y': expected dense .*, got no such column"),
        ({"x": np.ones((0, 2))}, {}, "at least one row"),
        ([], {}, "at least one batch"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(
    path: pathlib.Path, data: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(hr.DataError, match=message):
        hr.write_ctf(path, data, **options)
    assert list(path.parent.iterdir()) == []
