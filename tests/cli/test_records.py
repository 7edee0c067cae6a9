"""`headrace` on TFRecord files: check, head, convert and index."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.cli import main
from headrace.formats.example_sequences import ExampleSequences, infer_example_streams
from headrace.formats.exchange import Block
from headrace.formats.jsonl import write_jsonl
from headrace.formats.npz import open_npz, write_npz
from headrace.formats.sequences import SequenceStream
from headrace.proof import same
from tests.formats.helpers import some_block, streams_of

Captured = pytest.CaptureFixture[str]


def write(path: pathlib.Path, *records: bytes, compression: str = "") -> str:
    with hr.TFRecordWriter(path, compression) as writer:
        writer.write_many(records)
    return str(path)


def mills(count: int = 3) -> list[bytes]:
    return [
        hr.encode_example({"wheels": i, "power": [0.5, i + 0.25], "name": f"mill {i}", "data": b"\xff\x00" * 9})
        for i in range(count)
    ]


def run(capsys: Captured, *argv: str, code: int = 0) -> str:
    assert main(argv) == code
    return capsys.readouterr().out


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_check_sums_up_what_is_good(tmp_path: pathlib.Path, capsys: Captured, compression: str) -> None:
    path = write(tmp_path / "a.tfrecord", *mills(), compression=compression)
    out = run(capsys, "check", path)
    assert out.startswith("3 records, ")
    assert "  wheels    int64        3       1\n" in out
    assert out.endswith("\ngood\n")
    found = json.loads(run(capsys, "check", path, "--json"))
    assert found["good"] is True
    assert found["records"] == 3
    assert found["problems"] == {"count": 0, "kinds": {}, "listed": []}
    power = next(feature for feature in found["features"] if feature["name"] == "power")
    assert power == {"name": "power", "list": False, "type": "float32", "records": 3, "least": 2, "most": 2}


def test_check_names_every_damaged_place(tmp_path: pathlib.Path, capsys: Captured) -> None:
    records = mills(600)
    path = pathlib.Path(write(tmp_path / "a.tfrecord", *records))
    offsets = np.cumsum([0, *(len(record) + 16 for record in records)])
    data = bytearray(path.read_bytes())
    data[offsets[3] + 20] ^= 1  # the data of one
    data[offsets[400] + 2] ^= 1  # the length of another
    path.write_bytes(data[: offsets[599] + 30])  # and the last is cut
    found = json.loads(run(capsys, "check", str(path), "--json", code=1))
    assert found["records"] == 597
    assert found["problems"]["count"] == 3
    listed = found["problems"]["listed"]
    assert [(one["byte"], one["bytes"]) for one in listed] == [
        (offsets[3], offsets[4] - offsets[3]),
        (offsets[400], offsets[401] - offsets[400]),
        (offsets[599], 30),
    ]
    assert [one["kind"] for one in listed] == ["damaged", "damaged", "truncated"]
    out, err = main(["check", str(path)]), capsys.readouterr()
    assert out == 1
    assert err.err == ""  # nothing is said twice
    assert f"{path}: corrupted record at {offsets[3] + 12}" in err.out  # of its data
    assert f"{path}: corrupted record at {offsets[400]}" in err.out
    assert err.out.count("copy or write the file again, or read it with recover='skip'") == 3
    assert "\n3 problems\n" in err.out
    assert run(capsys, "check", str(path), "--max-errors", "3").endswith("3 problems, 3 tolerated\n")
    path.write_bytes(path.read_bytes()[:5])
    assert "0 records" in run(capsys, "check", str(path), "--from", "tfrecord", code=1)


def test_check_finds_records_that_are_no_examples_and_mixed_types(tmp_path: pathlib.Path, capsys: Captured) -> None:
    path = write(tmp_path / "a.tfrecord", *mills(300), b"\x0a\xff", hr.encode_example({"wheels": 1.5}), *mills(2))
    out = run(capsys, "check", path, code=1)
    assert f"{path}, record 300 (at byte " in out
    assert "feature 'wheels': expected values of one type, got float32 and int64; write it as one type" in out
    assert "304 records" in out
    found = json.loads(run(capsys, "check", path, "--json", code=1))
    assert found["problems"]["kinds"] == {"no Example": 1, "feature of several types": 1}
    other = write(tmp_path / "b.tfrecord", b"\xff\xff\xff", b"plain")
    assert "2 records, 8 bytes of data, the longest 5\nthe records are no Examples; all" in run(capsys, "check", other)
    assert run(capsys, "check", str(tmp_path / "*.tfrecord"), "--all", code=1).count("record 300") == 1


def test_head_shows_features(tmp_path: pathlib.Path, capsys: Captured) -> None:
    long = hr.encode_example({"n": list(range(100)), "text": "x" * 99, "none": np.empty(0, np.int64)})
    lists = hr.encode_sequence_example({"id": 1}, {"words": [["a"], ["b", "c"]], "x": np.ones((20, 2))})
    path = write(tmp_path / "a.tfrecord", mills()[1], long, lists, b"no Example \xff", b"")
    out = run(capsys, "head", path).splitlines()
    assert out[0] == f"record 0 (at byte 0, {len(mills()[1])} bytes)"
    assert "  wheels: 1" in out
    assert "  power: 0.5 1.25" in out
    assert "  name: 'mill 1'" in out
    assert r"  data: b'\xff\x00\xff\x00\xff\x00\xff\x00'… (18 bytes)" in out
    assert "  n: 0 1 2 3 4 5 6 7 8 9 10 11 … 88 more" in out
    assert f"  text: '{'x' * 60}…' (99 bytes)" in out
    assert "  none: (nothing)" in out
    assert "    'b' 'c'" in out
    assert "    … 8 more steps" in out
    assert r"  b'no Examp'… (12 bytes)" in out
    assert out[-1] == "  ''"
    told = [json.loads(text) for text in run(capsys, "head", path, "--json").splitlines()]
    assert told[0]["features"]["power"] == [0.5, 1.25]
    assert told[0]["features"]["data"] == [{"base64": "/wD/AP8A/wD/AP8A/wD/AP8A"}]
    assert told[2]["lists"]["words"] == [["a"], ["b", "c"]]
    assert told[3]["data"] == {"base64": "bm8gRXhhbXBsZSD/"}
    assert len(run(capsys, "head", path, "-n", "2", "--json").splitlines()) == 2


def in_order(samples: hr.Sparse) -> hr.Sparse:
    rows = np.repeat(np.arange(len(samples)), np.diff(samples.offsets))
    order = np.lexsort((samples.indices, rows))
    return hr.Sparse(samples.values[order], samples.indices[order], samples.offsets, samples.width)


@pytest.mark.parametrize("ending", ["ctf", "cbf", "npz", "jsonl", "arrow"])
def test_sequences_come_back_from_every_format(tmp_path: pathlib.Path, capsys: Captured, ending: str) -> None:
    if ending == "arrow":
        pytest.importorskip("pyarrow")
    streams, block = streams_of(), some_block()
    write_npz(tmp_path / "a.npz", streams, [block])
    options = ["--streams", "x=dense:3 w=sparse:70000"]
    first, back = str(tmp_path / "b.tfrecord"), str(tmp_path / f"c.{ending}")
    again = str(tmp_path / "d.npz")
    run(capsys, "convert", str(tmp_path / "a.npz"), first)
    run(capsys, "convert", first, back, *options)
    given = options if ending in ("ctf", "jsonl") else []
    run(capsys, "convert", back, again, *given)
    source = open_npz(again)
    found = source.read(np.arange(source.num_records))
    expected = dict(block.columns)
    if ending == "cbf":  # which sorts the indices of sparse samples
        found["w"], expected["w"] = (hr.Ragged(in_order(c.values), c.offsets) for c in (found["w"], expected["w"]))
    assert same(found, expected)
    if ending != "cbf":
        assert source.keys().tolist() == block.keys.tolist()


def test_one_sample_each_makes_examples(tmp_path: pathlib.Path, capsys: Captured) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(5, 4)).astype(np.float32)
    streams = [SequenceStream("x", (4,)), SequenceStream("y", (1,)), SequenceStream("w", (9,), sparse=True)]
    sparse = hr.Sparse(
        np.array([1, 2.5], np.float32), np.array([3, 8], np.int32), np.array([0, 1, 1, 2, 2, 2], np.int64), 9
    )
    each = np.arange(6)
    columns = {
        "x": hr.Ragged(x, each),
        "y": hr.Ragged(x[:, :1], each),
        "w": hr.Ragged(sparse, each),
    }
    write_npz(tmp_path / "a.npz", streams, [Block(np.array([7, 1, 2, 3, 4], np.uint64), columns)])
    path = str(tmp_path / "b.tfrecord")
    run(capsys, "convert", str(tmp_path / "a.npz"), path)
    features = {
        "x": hr.FixedLen(4, "float32"),
        "y": hr.FixedLen((), "float32"),
        "w": hr.SparseFeature("w.indices", "w.values", "float32", 9),
        "key": hr.FixedLen((), "int64"),
    }
    data = hr.read_tfrecord(path).parse_example(features)
    batch = next(iter(hr.Loader(data.batch(5))))
    assert (batch["x"] == x).all()
    assert batch["w"].values.tolist() == [1, 2.5]
    assert batch["w"].indices.tolist() == [3, 8]
    assert batch["key"].tolist() == [7, 1, 2, 3, 4]
    out = run(capsys, "head", path, "-n", "1", "--streams", "x=dense:4 w=sparse:9")
    assert out.startswith("sequence 7\n  x: 1 sample\n")
    out = run(capsys, "check", path, "--streams", "x=dense:4 w=sparse:9")
    assert "x: dense, 4 wide" in out
    assert out.endswith("good\n")


def test_numbers_of_others_examples(tmp_path: pathlib.Path, capsys: Captured) -> None:
    records = [hr.encode_example({"n": list(range(i)), "id": 3, "name": "a"}) for i in (1, 3, 2)]
    path = write(tmp_path / "a.tfrecord", *records)
    assert main(["convert", path, str(tmp_path / "a.jsonl")]) == 0
    err = capsys.readouterr().err
    assert "features that hold bytes are left out: name" in err
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert json.loads(lines[1]) == {"key": 1, "streams": {"id": [[3]], "n": [[0], [1], [2]]}}


def failed(capsys: Captured, *argv: str, code: int = 2) -> str:
    assert main(argv) == code
    return capsys.readouterr().err


def test_what_can_not_be_converted(tmp_path: pathlib.Path, capsys: Captured) -> None:
    large = write(tmp_path / "a.tfrecord", hr.encode_example({"n": 5}), hr.encode_example({"n": (1 << 24) + 1}))
    out = str(tmp_path / "a.jsonl")
    err = failed(capsys, "convert", large, out, code=1)
    assert "a.tfrecord, record 1: stream 'n' has 16777217, which float32 can't hold" in err
    run(capsys, "convert", large, out, "--double")
    assert (tmp_path / "a.jsonl").read_text().count("16777217") == 1
    assert run(capsys, "convert", large, out, "--overwrite", "--max-errors", "1").startswith(f"{out}: 1 sequence,")
    for record, streams, message in (
        ({"w.indices": [1], "w.values": [0.5]}, None, "make a sparse stream 'w', .* (--streams does)"),
        ({"w.indices": [9], "w.values": [0.5]}, "w=sparse:9", "expected indices from 0 to 8 in stream 'w', got 9"),
        ({"w.indices": [1, 2], "w.values": [0.5]}, "w=sparse:9", "expected one index for each value of stream 'w'"),
        ({"x": [1.0, 2.0, 3.0]}, "x=dense:2", "expected 2 numbers a sample of stream 'x', got 3"),
        ({"x": [1.0]}, "y=dense:2", "stream 'y' needs the feature 'y'; the records have ['x']"),
        ({"x": "text"}, "x=dense:2", "stream 'x': feature 'x' holds bytes, not numbers"),
        ({"x": "text"}, None, "expected Examples with features of numbers, found ['x']"),
    ):
        path = write(tmp_path / "b.tfrecord", hr.encode_example(record))
        assert main(["convert", path, out, "--overwrite", *(["--streams", streams] if streams else [])]) in (1, 2)
        err = capsys.readouterr().err
        for part in message.split(".*"):
            assert part.strip() in err
    write_npz(tmp_path / "d.npz", [SequenceStream("x", (1,), dtype=np.dtype(np.float64))],
              [Block(np.array([0], np.uint64), {"x": hr.Ragged(np.array([[0.1]]), np.array([0, 1]))})])  # fmt: skip
    err = failed(capsys, "convert", str(tmp_path / "d.npz"), str(tmp_path / "d.tfrecord"))
    assert "stream 'x' has " in err
    assert "Examples hold 32-bit floats" in err
    assert not (tmp_path / "d.tfrecord").exists()


def test_damaged_records_end_a_conversion(tmp_path: pathlib.Path, capsys: Captured) -> None:
    path = pathlib.Path(write(tmp_path / "a.tfrecord", *mills()))
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    assert "corrupted record at" in failed(capsys, "convert", str(path), str(tmp_path / "a.npz"))
    assert "corrupted record at" in failed(capsys, "head", str(path))


def test_records_that_make_no_sequence_are_dropped_and_named(tmp_path: pathlib.Path) -> None:
    records = [hr.encode_example({"x": [1.0, i]}) for i in range(100)]
    for bad in (13, 14, 99):
        records[bad] = hr.encode_example({"x": [1.0]})
    path = write(tmp_path / "a.tfrecord", *records)
    found = infer_example_streams(path, [SequenceStream("x", (2,))])
    source = ExampleSequences(path, found)
    parsed = source.parse(np.arange(100))
    assert parsed.error_rows.tolist() == [13, 14, 99]
    assert parsed.dropped is not None
    assert np.flatnonzero(parsed.dropped).tolist() == [13, 14, 99]
    assert parsed.explain(2) == (
        f"{path}, record 99: expected 2 numbers a sample of stream 'x', got 1; leave the record out, or write it again"
    )
    assert parsed.columns["x"].lengths.sum() == 97
    with pytest.raises(hr.DataError, match="record 13: expected 2 numbers"):
        source.read(np.arange(100))
    assert source.sizes is not None
    source.close()


def test_index(tmp_path: pathlib.Path, capsys: Captured) -> None:
    path = write(tmp_path / "a.tfrecord", *mills())
    assert "3 records, indexed with" in run(capsys, "index", path)
    assert pathlib.Path(path + ".hrindex").exists()
    assert "3 records, the index was there already" in run(capsys, "index", path)
    assert json.loads(run(capsys, "index", path, "--rebuild", "--json"))["made"] is True
    assert "1 index removed" in run(capsys, "index", path, "--remove")
    assert not pathlib.Path(path + ".hrindex").exists()
    packed = write(tmp_path / "b.tfrecord", *mills(), compression="GZIP")
    assert "no index can be kept beside it: it is packed" in failed(capsys, "index", packed)


def test_files_without_an_ending_are_known_by_their_beginning(tmp_path: pathlib.Path, capsys: Captured) -> None:
    for number in range(2):
        write(tmp_path / f"train.tfrecord-0000{number}-of-00002", *mills())
    pattern = str(tmp_path / "train.tfrecord-*")
    assert run(capsys, "check", pattern).startswith("6 records")
    assert len(run(capsys, "head", pattern, "--json", "-n", "5").splitlines()) == 5
    assert any("record 1 " in text for text in run(capsys, "head", pattern, "-n", "5").splitlines())
    streams: Any = ["--streams", "power=dense:2"]
    assert "6 sequences" in run(capsys, "check", pattern, *streams)
    write_jsonl(tmp_path / "x", streams_of(), [some_block()])
    assert "40 sequences" in run(capsys, "check", str(tmp_path / "x"), "--streams", "x=dense:3 w=sparse:70000")
