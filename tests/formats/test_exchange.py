from __future__ import annotations

import pathlib
import random
import zipfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.formats.arrow import open_arrow, write_arrow
from headrace.formats.exchange import Block
from headrace.formats.jsonl import JsonLinesSource, infer_jsonl, write_jsonl
from headrace.formats.npz import open_npz, write_npz
from headrace.formats.sequences import SequenceSource, SequenceStream
from headrace.proof import same
from tests.formats.helpers import rows_of, some_block, streams_of

Write = Callable[[Any, Sequence[SequenceStream], Iterable[Block]], int]


def write(form: str, path: pathlib.Path, streams: Sequence[SequenceStream], blocks: Iterable[Block]) -> int:
    return {"jsonl": write_jsonl, "npz": write_npz, "arrow": write_arrow}[form](path, streams, blocks)


def open_(form: str, path: pathlib.Path, streams: Sequence[SequenceStream]) -> SequenceSource:
    if form == "jsonl":
        return JsonLinesSource(path, streams, index="memory")
    if form == "arrow":
        return open_arrow(path)
    return open_npz(path)


@pytest.fixture(params=["jsonl", "npz", "arrow"])
def form(request: pytest.FixtureRequest) -> str:
    if request.param == "arrow":
        pytest.importorskip("pyarrow")
    return str(request.param)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("ids", [True, False])
def test_what_was_written_reads_back_the_same(form: str, tmp_path: pathlib.Path, dtype: str, ids: bool) -> None:
    block, streams = some_block(dtype=dtype, ids=ids), streams_of(dtype)
    path = tmp_path / f"data.{form}"
    assert write(form, path, streams, (rows_of(block, a, b) for a, b in [(0, 7), (7, 7), (7, 40)])) == 40
    source = open_(form, path, streams)
    assert source.streams == tuple(streams)
    assert source.num_records == 40
    assert same(source.keys(), block.keys)
    lengths = np.maximum(block.columns["x"].lengths, block.columns["w"].lengths)
    assert source.sizes is None if not ids else (source.sizes is not None and (source.sizes == lengths).all())
    for records in (np.arange(40), np.array([3, 39, 3, 8]), np.array([6, 7]), np.empty(0, np.int64)):
        assert same(source.parse(records).columns, dict(block.take(records).columns))
    assert source.chunks(source.num_bytes).tolist() == [0, 40]
    assert source.chunks(1)[-3:].tolist() == [38, 39, 40]
    assert list(tmp_path.glob(".*")) == []
    with pytest.raises(IndexError):
        source.parse(np.array([40]))
    source.close()


def test_nothing_reads_back_as_nothing(form: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "none"
    assert write(form, path, streams_of(), []) == 0
    source = open_(form, path, streams_of())
    assert (source.num_records, source.streams, len(source.keys())) == (0, tuple(streams_of()), 0)
    assert source.chunks(100).tolist() == [0]


def test_infinite_numbers_and_none_are_kept(form: str, tmp_path: pathlib.Path) -> None:
    values = np.array([[np.inf, -np.inf, np.nan]], np.float32)
    streams = [SequenceStream("x", (3,))]
    block = Block(np.array([1], np.uint64), {"x": hr.Ragged(values, np.array([0, 1]))})
    write(form, tmp_path / "data", streams, [block])
    read = open_(form, tmp_path / "data", streams).parse(np.array([0])).columns["x"].values
    np.testing.assert_array_equal(read, values)


def test_failing_leaves_no_file(form: str, tmp_path: pathlib.Path) -> None:
    def broken() -> Iterable[Block]:
        yield some_block()
        raise hr.DataError("no more")

    with pytest.raises(hr.DataError, match="no more"):
        write(form, tmp_path / "data", streams_of(), broken())
    assert list(tmp_path.iterdir()) == []


def test_files_that_change_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.npz"
    write_npz(path, streams_of(), [some_block()])
    source = open_npz(path)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(hr.DataChangedError):
        source.parse(np.array([1]))


def test_arrays_of_npz_are_mapped_and_known_to_numpy(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.npz"
    block = some_block()
    write_npz(path, streams_of(), [block])
    with np.load(path) as arrays:
        assert same(arrays["x.values"], block.columns["x"].values)
        assert same(arrays["w.entries"], block.columns["w"].values.offsets)
        assert int(arrays["w.width"]) == 70_000
    column = open_npz(path).parse(np.arange(40)).columns["x"]
    assert column.values.ctypes.data % 64 == 0
    assert not column.values.flags.writeable


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_saved_by_hand_are_streams(save: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.npz"
    x, y = np.arange(6, dtype=np.float32).reshape(3, 2), np.arange(3)
    save(path, x=x, y=y, order=np.asfortranarray(x))
    source = open_npz(path)
    assert [stream.name for stream in source.streams] == ["x", "y", "order"]
    assert source.keys().tolist() == [0, 1, 2]
    columns = source.parse(np.array([2, 0])).columns
    assert (columns["x"].values == x[[2, 0]]).all()
    assert (columns["y"].values == y[[2, 0], None]).all()
    assert (columns["order"].values == x[[2, 0]]).all()
    assert source.where(1) == f"{path}, sequence 1 (key 1)"


def spoil(path: pathlib.Path, **arrays: Any) -> None:
    block = some_block()
    write_npz(path, streams_of(), [block])
    with np.load(path) as found:
        np.savez(path, **{**found, **arrays})


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"keys": np.arange(3)}, "stream 'x': expected 3 sequences as there are keys, got 40"),
        ({"x.offsets": np.arange(5)}, "Ragged needs int64 offsets|offsets that start at 0"),
        ({"w.width": np.array(9)}, r"stream 'w': Sparse needs indices in \[0, 9\)"),
        ({"w.indices": np.zeros(1, np.int32)}, "one int32 index for each"),
        ({"z.values": np.zeros(3)}, r"an array is missing or has too few dimensions: 'z.offsets'"),
        ({"names": np.array(["a"])}, "names.npy holds <U1, no numbers"),
    ],
)
def test_npz_that_makes_no_sequences_is_refused(arrays: Any, message: str, tmp_path: pathlib.Path) -> None:
    spoil(tmp_path / "data.npz", **arrays)
    with pytest.raises(hr.DataError, match=message):
        open_npz(tmp_path / "data.npz")


def test_other_files_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"|x 1 2 3\n")
    with pytest.raises(hr.DataError, match=r"data: expected a file as numpy.savez writes them"):
        open_npz(path)
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(hr.DataError, match="found no stream"):
        open_npz(path)
    pytest.importorskip("pyarrow")
    with pytest.raises(hr.DataError, match="data: expected an Arrow file"):
        open_arrow(path)


def test_arrow_files_of_others_are_read(tmp_path: pathlib.Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import feather

    samples = pa.array([[[1.0, 2.0]], [], [[3.0, 4.0], [5.0, 6.0]]], pa.list_(pa.list_(pa.float32(), 2)))
    feather.write_feather(pa.table({"a": samples}), tmp_path / "a.feather", chunksize=2)
    source = open_arrow(tmp_path / "a.feather")
    assert source.streams == (SequenceStream("a", (2,)),)
    assert source.keys().tolist() == [0, 1, 2]
    assert source.parse(np.array([2, 1, 0])).columns["a"].tolist() == [[[3, 4], [5, 6]], [], [[1, 2]]]


def test_arrow_files_without_sequences_are_refused(tmp_path: pathlib.Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import feather

    path = tmp_path / "a.arrow"
    pairs = pa.list_(pa.list_(pa.struct([("index", pa.int32()), ("value", pa.float32())])))
    lists = pa.list_(pa.list_(pa.float32(), 1))
    for array, message in [
        (pa.array([1, 2]), "expected lists of samples in column 'a'.* got int64"),
        (pa.array([[[(1, 2.0)]]], pairs), "column 'a' is sparse and nothing says how wide"),
        (pa.array([None, [[1.0]]], lists), "expected no nulls in column 'a', got 1"),
        (pa.array([[[None]]], lists), "expected no nulls in column 'a'"),
    ]:
        feather.write_feather(pa.table({"a": array}), path, compression="uncompressed")
        with pytest.raises(hr.DataError, match=message):
            open_arrow(path)
    with pytest.raises(hr.DataError, match="a stream can't be called 'key' in Arrow"):
        write_arrow(path, [SequenceStream("key", (1,))], [])


def test_json_lines_are_as_documented(tmp_path: pathlib.Path) -> None:
    sparse = hr.Sparse.from_rows([([3, 17], [1, 0.5]), ([], [])], width=20)
    dense = np.array([[1, 2.5], [0.1, -0.0]], np.float32)
    offsets = np.array([0, 2])
    block = Block(np.array([7], np.uint64), {"ä": hr.Ragged(dense, offsets), "w": hr.Ragged(sparse, offsets)})
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [SequenceStream("ä", (2,)), SequenceStream("w", (20,), sparse=True)], [block])
    assert path.read_text() == '{"key": 7, "streams": {"ä": [[1, 2.5], [0.1, -0.0]], "w": [[[3, 1], [17, 0.5]], []]}}\n'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"key": 1', "line 2, column 10: expected a JSON object, but Expecting"),
        ("", "line 2, column 1: expected a JSON object"),
        ("[1]", 'expected {"key": …, "streams": {…}}, got \'\\[1\\]\''),
        ('{"key": -1, "streams": {}}', "expected a whole number from 0 on as key, got -1"),
        ('{"key": true, "streams": {}}', "as key, got True"),
        ('{"key": 1, "streams": {"x": [[1, 2]]}}', "expected 3 numbers a sample of stream 'x', got 2 in sample 0"),
        ('{"key": 1, "streams": {"x": [1, 2, 3]}}', "expected a list of samples, each a list, as stream 'x'"),
        ('{"key": 1, "streams": {"x": [[1, 2, "3"]]}}', "expected numbers in stream 'x', got '3'"),
        ('{"key": 1, "streams": {"x": [[1, 2, 1' + "0" * 400 + "]]}}", "a number of stream 'x' is beyond all bounds"),
        ('{"key": 1, "streams": {"w": [[[1]]]}}', r"expected pairs of index and value .*'w', got \[1\]"),
        ('{"key": 1, "streams": {"w": [[[70000, 1]]]}}', "expected indices from 0 to 69999 in stream 'w', got 70000"),
        ('{"key": 1, "streams": {"w": [[[1.0, 1]]]}}', "expected indices from 0 to 69999 in stream 'w', got 1.0"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_malformed_json_lines_are_reported_and_dropped(line: str, message: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.jsonl"
    good = '{"key": 5, "streams": {"x": [[1, 2, 3]], "other": 1}}\n'
    path.write_text(good + line + "\n" + good)
    parsed = JsonLinesSource(path, streams_of(), index="memory").parse(np.arange(3))
    assert parsed.error_rows.tolist() == [1]
    assert parsed.dropped is not None
    assert parsed.dropped.tolist() == [False, True, False]
    with pytest.raises(ValueError, match=f"{path}, line 2, column"):
        raise ValueError(parsed.explain(0))
    with pytest.raises(ValueError, match=message):
        raise ValueError(parsed.explain(0))
    assert parsed.place is not None
    assert parsed.place(0).line == 2
    assert parsed.columns["x"].lengths.tolist() == [1, 0, 1]


def test_json_lines_that_are_no_utf8_are_reported(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"key": 1, "streams": {"\xff": []}}\n')
    parsed = JsonLinesSource(path, streams_of(), index="memory").parse(np.arange(1))
    assert "line 1, column 25: expected UTF-8, got the byte 0xff" in parsed.explain(0)


def test_dense_streams_of_json_lines_are_inferred(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"key": 0, "streams": {"a": []}}\n{"key": 1, "streams": {"a": [[1, 2]], "b": [[1]]}}\n')
    assert infer_jsonl(path) == [SequenceStream("a", (2,)), SequenceStream("b", (1,))]
    path.write_text('{"key": 0, "streams": {"a": [[[1, 2]]]}}\n')
    with pytest.raises(hr.DataError, match="line 1: stream 'a' is sparse, and JSON lines don't say how wide"):
        infer_jsonl(path)
    path.write_text('{"key": 0, "streams": {"a": []}}\n')
    with pytest.raises(hr.DataError, match="don't tell what streams there are"):
        infer_jsonl(path)
    path.write_text("no\n")
    with pytest.raises(hr.DataError, match="line 1: expected a JSON object"):
        infer_jsonl(path)


@pytest.mark.parametrize("seed", range(150))
def test_damaged_files_give_errors_or_sequences(form: str, seed: int, tmp_path: pathlib.Path) -> None:
    rng = random.Random(seed)
    path = tmp_path / "data"
    write(form, path, streams_of(), [some_block(rows=6)])
    data = bytearray(path.read_bytes())
    if rng.random() < 0.3:
        del data[rng.randrange(len(data)) :]
    for _ in range(rng.choice([1, 2, 5])):
        if data:
            place = rng.randrange(len(data))
            data[place] = rng.choice([0, 255, data[place] ^ 1 << rng.randrange(8)])
    path.write_bytes(data)
    try:
        source = open_(form, path, streams_of())
        parsed = source.parse(np.arange(min(source.num_records, 100)))
    except hr.DataError as error:
        message = str(error)
    else:
        message = "".join([str(path), *map(parsed.explain, range(len(parsed.error_rows)))])
    assert message.startswith(str(path))


def test_streams_may_have_no_width(form: str, tmp_path: pathlib.Path) -> None:
    streams = [SequenceStream("x", (0,)), SequenceStream("w", (1,), sparse=True)]
    offsets = np.array([0, 2, 2])
    nothing = hr.Sparse.from_rows([([], []), ([], [])], width=1)
    block = Block(
        np.array([1, 2], np.uint64),
        {"x": hr.Ragged(np.empty((2, 0), np.float32), offsets), "w": hr.Ragged(nothing, offsets)},
    )
    if form == "arrow":
        with pytest.raises(hr.DataError, match="without numbers; Arrow has no such lists"):
            write(form, tmp_path / "data", streams, [block])
        return
    write(form, tmp_path / "data", streams, [block])
    source = open_(form, tmp_path / "data", streams)
    assert source.streams == tuple(streams)
    assert same(source.parse(np.array([1, 0])).columns, dict(block.take(np.array([1, 0])).columns))
