"""Sequences of files in CNTK's text format: keys, chunks, what is parsed, what is refused."""

from __future__ import annotations

import gzip
import logging
import os
import pathlib
import pickle
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.formats import ctf_survey
from headrace.formats.ctf import CtfSource
from headrace.formats.kept import KeptSequences
from headrace.formats.mistakes import Mistakes
from headrace.proof import same

# As in the description of the format: five sequences, of which 333 has no sample of `a`.
EXTENDED = b"""\
100 |a 1 2 3 |b 10 20
100 |a 4 5 6 |b 30 40 |# the third line has its samples in another order
100 |b 50 60 |a 7 8 9
100 |a 7 8 9
200 |b 300 400 |a 10 20 30
333 |b 500 100
333 |b 600 -900
400 |a 1 2 3 |b 100 200
|a 4 5 6 |b 101 201
|a 4 5 6 |b 101 201
500 |a 1 2 3 |b 100 200
"""
STREAMS = {"A": hr.dense(3, alias="a"), "B": hr.dense(2, alias="b")}
X = {"x": hr.dense(2)}


def write(path: pathlib.Path, content: bytes) -> pathlib.Path:
    path.write_bytes(content)
    return path


def source_of(folder: pathlib.Path, content: bytes, streams: Mapping[str, hr.CtfStream] = X, **rest: Any) -> CtfSource:
    return CtfSource(write(folder / "a.ctf", content), streams, **{"index": "memory"} | rest)


def everything(source: CtfSource) -> dict[str, Any]:
    return source.read(np.arange(source.num_records))


def test_the_extended_example(tmp_path: pathlib.Path) -> None:
    source = source_of(tmp_path, EXTENDED, STREAMS)
    assert source.ids
    assert source.keys().tolist() == [100, 200, 333, 400, 500]
    assert source.sizes is not None
    assert source.sizes.tolist() == [4, 1, 2, 3, 1]
    assert [source.where(i).removeprefix(f"{tmp_path}/") for i in (0, 2, 4)] == [
        "a.ctf, line 1, sequence 100",
        "a.ctf, line 6, sequence 333",
        "a.ctf, line 11, sequence 500",
    ]
    read = everything(source)
    assert read["A"].lengths.tolist() == [4, 1, 0, 3, 1]
    assert read["B"].lengths.tolist() == [3, 1, 2, 3, 1]
    assert read["A"][0].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [7, 8, 9]]
    assert read["B"][2].tolist() == [[500, 100], [600, -900]]
    lengths = source.lengths()
    assert lengths is not None
    assert {name: column.tolist() for name, column in lengths.items()} == {
        name: column.lengths.tolist() for name, column in read.items()
    }
    with pytest.raises(hr.DataError, match=r"333.*stream"):
        everything(source_of(tmp_path, EXTENDED, STREAMS, require_all=True))


def test_by_a_stream_that_defines_the_size(tmp_path: pathlib.Path) -> None:
    streams = {"A": hr.dense(3, alias="a", defines_size=True), "B": hr.dense(2, alias="b")}
    source = source_of(tmp_path, EXTENDED, streams)
    assert source.keys().tolist() == [100, 200, 400, 500]
    assert source.sizes is not None
    assert source.sizes.tolist() == [4, 1, 3, 1]
    assert everything(source)["A"].lengths.tolist() == [4, 1, 3, 1]
    assert [stream.defines_size for stream in source.streams] == [True, False]


sample = st.lists(st.integers(-99, 99), min_size=1, max_size=2)
entries = st.dictionaries(st.integers(0, 8), st.integers(1, 9), max_size=3)


@st.composite
def sequences(draw: st.DrawFn) -> list[tuple[list[list[int]], list[dict[int, int]]]]:
    """Sequences of samples of two streams, the longer of which has at least one."""
    found = []
    for _ in range(draw(st.integers(1, 8))):
        dense, sparse = draw(st.lists(sample, max_size=4)), draw(st.lists(entries, max_size=4))
        found.append((dense, sparse) if dense or sparse else ([[1]], sparse))
    return found


def as_text(records: list[tuple[list[list[int]], list[dict[int, int]]]], end: str) -> bytes:
    lines = []
    for key, (dense, sparse) in enumerate(records):
        for i in range(max(len(dense), len(sparse))):
            parts = [str(key)]
            if i < len(dense):
                parts.append("|d " + " ".join(map(str, dense[i])))
            if i < len(sparse):
                parts.append("|s " + " ".join(f"{k}:{v}" for k, v in sparse[i].items()))
            lines.append(" ".join(parts) + end)
    return "".join(lines).encode()


@settings(deadline=None)
@given(sequences(), st.sampled_from(["\n", "\r\n"]), st.randoms(), st.sampled_from(["float32", "float64"]))
def test_what_was_written_is_read(records: Any, end: str, random: Any, dtype: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        content = as_text(records, end)
        streams = {"s": hr.sparse(9), "d": hr.dense(2)}
        path = write(pathlib.Path(folder, "a.ctf"), content)
        source = CtfSource(path, streams, dtype=dtype, index="memory")
        order = [random.randrange(len(records)) for _ in range(5)]
        read = source.read(np.array(order))
        assert [row.tolist() for row in read["d"]] == [[[*s, 0][:2] for s in records[i][0]] for i in order]
        assert [[dict(zip(indices, values, strict=True)) for indices, values in row.tolist()] for row in read["s"]] == [
            records[i][1] for i in order
        ]
        assert read["d"].values.dtype == read["s"].values.values.dtype == np.dtype(dtype)
        lengths = source.lengths()
        assert lengths is not None
        assert lengths["d"].tolist() == [len(dense) for dense, _ in records]
        source.close()


def test_several_files_are_one_list_of_records(tmp_path: pathlib.Path) -> None:
    parts = [b"1 |x 1\n1 |x 2\n", b"2 |x 3\n3 |x 4\n", b"4 |x 5\n5 |x 6\n5 |x 7\n6 |x 8\n"]
    for name, part in zip("abc", parts, strict=True):
        write(tmp_path / f"{name}.ctf", part)
    whole = CtfSource(write(tmp_path / "whole", b"".join(parts)), X)
    source = CtfSource(tmp_path / "?.ctf", X)
    assert [pathlib.Path(path).name for path in source.paths] == ["a.ctf", "b.ctf", "c.ctf"]
    assert source.keys().tolist() == whole.keys().tolist() == [1, 2, 3, 4, 5, 6]
    for order in ([0, 1, 2, 3, 4, 5], [5, 0, 3, 0, 2], [4], []):
        assert same(source.read(np.array(order, np.int64)), whole.read(np.array(order, np.int64)))
    assert source.sizes is not None
    assert source.sizes.tolist() == [2, 1, 1, 1, 2, 1]
    assert source.where(5) == f"{tmp_path}/c.ctf, line 4, sequence 6"
    assert source.num_bytes == whole.num_bytes
    # Chunks: none reaches over the end of a file.
    assert source.chunks(1 << 40).tolist() == [0, 1, 3, 6]
    assert source.chunks(16).tolist() == [0, 1, 3, 4, 5, 6]
    assert whole.chunks(16).tolist() == [0, 2, 3, 4, 5, 6] or whole.chunks(16)[-1] == 6
    assert source.chunks(1).tolist() == [0, 1, 2, 3, 4, 5, 6]
    with pytest.raises(ValueError, match="limit is at least 1, got 0"):
        source.chunks(0)
    lines = CtfSource([write(tmp_path / "l", b"|x 1\n|x 2\n"), write(tmp_path / "m", b"|x 3\n")], X)
    assert lines.keys().tolist() == [0, 1, 0]
    assert lines.sizes is None
    assert lines.lengths() is None
    assert everything(lines)["x"].tolist() == [[1, 0], [2, 0], [3, 0]]
    with pytest.raises(hr.DataError, match="expected files of one kind"):
        CtfSource([tmp_path / "l", tmp_path / "a.ctf"], X)


def test_mistakes_in_several_files_keep_their_places(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.ctf", b"1 |x 1\n2 |x one\n")
    write(tmp_path / "b.ctf", b"3 |x 1\n4 |x two |x\n")
    source = CtfSource(tmp_path / "?.ctf", X)
    parsed = source.parse(np.array([3, 0, 1, 2]))
    assert parsed.error_rows.tolist()[:1] == [0]
    assert set(parsed.error_rows.tolist()) == {0, 2}
    assert "b.ctf, line 2" in parsed.explain(0)
    last = len(parsed.error_rows) - 1
    assert "a.ctf, line 2" in parsed.explain(last)
    assert parsed.place is not None
    assert (parsed.place(last).line, parsed.place(last).stream) == (2, "x")
    assert parsed.dropped is not None
    assert parsed.dropped[2]
    with pytest.raises(hr.DataError, match=r"b\.ctf, line 2"):
        source.read(np.array([0, 3, 1]))


def test_packed_files(tmp_path: pathlib.Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    plain = CtfSource(write(tmp_path / "a.ctf", EXTENDED), STREAMS, index="memory")
    for name, packed in (("b.ctf.gz", gzip.compress(EXTENDED)), ("c.ctf.zst", zstandard.compress(EXTENDED))):
        source = CtfSource(write(tmp_path / name, packed), STREAMS)
        assert same(everything(source), everything(plain))
        assert source.fingerprint() == plain.fingerprint()
    assert sorted(os.listdir(tmp_path)) == ["a.ctf", "b.ctf.gz", "c.ctf.zst"]


def test_one_sample_a_record(tmp_path: pathlib.Path) -> None:
    lines = b"|x 1 2 |w 3:1\n|x 3 4 |w 5:1 6:1\n"
    streams = {"x": hr.dense(2), "w": hr.sparse(9)}
    source = source_of(tmp_path, lines, streams)
    read = everything(source)
    assert read["x"].tolist() == [[1, 2], [3, 4]]
    assert read["w"].tolist() == [([3], [1]), ([5, 6], [1, 1])]
    kept = KeptSequences(source)
    assert same(kept.read(np.array([1, 0])), source.read(np.array([1, 0])))
    assert kept.kind == source.kind == "ctf"
    ragged = source_of(tmp_path, lines, {"x": hr.dense(2, sequence=True)})
    assert everything(ragged)["x"].tolist() == [[[1, 2]], [[3, 4]]]
    lengths = ragged.lengths()
    assert lengths is not None
    assert lengths["x"].tolist() == [1, 1]
    plain = source_of(tmp_path, b"7 |x 1\n8 |x 2\n9 |x 3\n9 |x 4\n", {"x": hr.dense(2, sequence=False)})
    assert plain.read(np.array([1, 0]))["x"].tolist() == [[2, 0], [1, 0]]
    message = r"a.ctf, line 3, sequence 9: expected one sample of stream 'x', got 2; pass sequence=True"
    for one in (plain, KeptSequences(plain)):
        with pytest.raises(hr.DataError, match=message):
            one.read(np.array([0, 2, 1]))
    missing = source_of(tmp_path, b"|x 1\n|y 1\n", {"x": hr.dense(2), "y": hr.dense(1)})
    with pytest.raises(hr.DataError, match=r"line 2: expected one sample of stream 'x', got 0"):
        everything(missing)


def test_streams_of_no_width_hold_nothing(tmp_path: pathlib.Path) -> None:
    streams = {"x": hr.dense(0), "w": hr.sparse(0)}
    read = everything(source_of(tmp_path, b"1 |x |w\n1 |x\n", streams))
    assert read["x"].values.shape == (2, 0)
    assert (read["x"].lengths.tolist(), read["w"].lengths.tolist()) == ([2], [1])
    for content, message in ((b"1 |x 1\n", "at most 0 values"), (b"1 |w 0:1\n", "expected no value in a sample")):
        with pytest.raises(hr.DataError, match=message):
            everything(source_of(tmp_path, content, streams))


# What a file may not hold, with the line that a message must name.
REFUSED = {
    "too many values": (b"1 |x 1 2\n2 |x 1 2 3\n", 2),
    "no number": (b"1 |x 1 2\n2 |x a\n", 2),
    "no name": (b"1 |x 1 2\n2 | 1\n", 2),
    "empty line": (b"1 |x 1\n1 |x 2\n1\n2 |x 3\n", 3),
    "a line of comment": (b"1 |x 1\n1 |# nothing |# |y 2\n2 |x 3\n", 2),
    "more lines than samples": (b"1 |x 1\n1 |x 2\n1 |w 2:1\n2 |x 3\n", 1),
    "more samples than lines": (b"1 |x 1 |x 2\n2 |x 3\n", 1),
    "a negative id": (b"1 |x 1\n-2 |x 3\n", 2),
    "an index beyond dim": (b"1 |w 1:1\n2 |w 9:1\n", 2),
    "no colon": (b"1 |w 1:1\n2 |w 3\n", 2),
    "no value": (b"1 |w 1:1\n2 |w 3:\n", 2),
}


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_refused_where_they_stand(case: str, tmp_path: pathlib.Path) -> None:
    content, line = REFUSED[case]
    source = source_of(tmp_path, content, {"x": hr.dense(2), "w": hr.sparse(9)})
    with pytest.raises(hr.DataError, match=re.escape(f"a.ctf, line {line}")):
        everything(source)
    with pytest.raises(hr.DataError, match="Reached the maximum number of allowed errors") as info:
        source_of(tmp_path, content + b"8 |x a\n9 |x b\n", {"x": hr.dense(2), "w": hr.sparse(9)}, max_errors=1)
    assert f"a.ctf, line {line}" in str(info.value)


def test_mistakes_within_the_budget_are_left_out(tmp_path: pathlib.Path) -> None:
    content = b"1 |x 1 |y 1\n2 |x a |y 2\n3 |x 3 |y 3\n3 |x 4 |y b\n4 |x 5 |y 6\n"
    streams = {"x": hr.dense(1), "y": hr.dense(1)}
    path = write(tmp_path / "a.ctf", content)
    source = CtfSource(path, streams, max_errors=2)
    assert source.num_records == 3
    assert source.keys().tolist() == [1, 3, 4]
    assert source.sizes is not None
    assert source.sizes.tolist() == [1, 2, 1]
    assert source.where(1).endswith("line 3, sequence 3")
    assert source.chunks(1).tolist() == [0, 1, 2, 3]
    read = everything(source)
    assert read["x"].tolist() == [[[1]], [[3], [4]], [[5]]]
    assert read["y"].tolist() == [[[1]], [[3]], [[6]]]
    (warning,) = source.warnings
    assert warning.count == 2
    assert "2 mistakes are left out (max_errors=2), and 1 sequence with them; the first: " in warning.message
    lengths = source.lengths()
    assert lengths is not None
    assert lengths["y"].tolist() == [1, 1, 1]
    with pytest.raises(hr.DataError, match=r"max_errors=1\); correct the data") as info:
        CtfSource(path, streams, max_errors=1)
    assert "line 2" in str(info.value)
    assert "line 4" in str(info.value)
    copy = pickle.loads(pickle.dumps(source))
    assert same(everything(copy), read)
    with pytest.raises(IndexError, match="there are records 0 to 2, got 3"):
        source.parse(np.array([3]))


def test_the_budget_is_for_all_files_together(tmp_path: pathlib.Path) -> None:
    for name in "ab":
        write(tmp_path / f"{name}.ctf", f"|x 1\n|x {name}\n|x 3\n".encode())
    source = CtfSource(tmp_path / "?.ctf", X, max_errors=2)
    assert everything(source)["x"][:, 0].tolist() == [1, 3, 1, 3]
    assert source.chunks(1 << 20).tolist() == [0, 2, 4]
    assert source.where(3) == f"{tmp_path}/b.ctf, line 3"
    with pytest.raises(hr.DataError, match="Reached the maximum number of allowed errors"):
        CtfSource(tmp_path / "?.ctf", X, max_errors=1)


def test_a_survey_is_kept_beside_the_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctf_survey, "BLOCK_BYTES", 40)  # several blocks, on several threads
    lines = [f"{i} |x {i}" if i % 7 else f"{i} |x bad" for i in range(100)]
    path = write(tmp_path / "a.ctf", "\n".join(lines).encode() + b"\n")
    first = CtfSource(path, X, max_errors=50)
    assert first.keys().tolist() == [i for i in range(100) if i % 7]
    assert len(os.listdir(tmp_path)) == 3

    def refuse(*_: object) -> None:
        raise AssertionError("looked at the file again")

    monkeypatch.setattr(ctf_survey, "_look", refuse)
    again = CtfSource(path, X, max_errors=15)
    assert again.keys().tolist() == first.keys().tolist()
    assert again.warnings[0].count == 15
    with pytest.raises(hr.DataError, match="allowed errors"):
        CtfSource(path, X, max_errors=14)
    with pytest.raises(AssertionError, match="again"):
        CtfSource(path, X, max_errors=50, require_all=True)
    with pytest.raises(AssertionError, match="again"):
        CtfSource(path, X, max_errors=50, skip_ids=True)


def test_repeated_ids_are_counted_or_refused(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    content = b"1 |x 1\n2 |x 2\n1 |x 3\n"
    source = source_of(tmp_path, content)
    assert source.keys().tolist() == [1, 2, 1]
    assert [warning.kind for warning in source.warnings] == ["repeated id"]
    with pytest.raises(hr.DataError, match="1 sequence has an id that came before, apart from it: 1 on lines 1 and 3"):
        source_of(tmp_path, content, strict=True)
    assert source_of(tmp_path, b"1 |x 1\n2 |x 2\n", strict=True).warnings == ()


def test_warnings_of_the_text_are_told_once(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    source = source_of(tmp_path, b"1 |x 1\n2 |x 2\n3 |x 4 5")
    with caplog.at_level(logging.WARNING, "headrace"):
        for _ in range(3):
            everything(source)
    assert len(caplog.records) == 2  # too few values, no final newline
    assert "a.ctf" in caplog.text


def test_a_file_that_is_written_to_is_refused(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a.ctf", EXTENDED)
    source = CtfSource(path, STREAMS)
    packed = pickle.dumps(source)
    assert same(everything(pickle.loads(packed)), everything(source))
    write(path, EXTENDED + b"600 |a 1\n")
    with pytest.raises(hr.DataChangedError, match=r"a\.ctf"):
        everything(source)
    with pytest.raises(hr.DataChangedError, match="changed since the source was sent here"):
        pickle.loads(packed)
    source.close()
    for call in (source.keys, source.lengths, source.fingerprint, lambda: source.chunks(9), lambda: source.where(0)):
        with pytest.raises(ValueError, match="is closed"):
            call()


def test_a_damaged_index_never_gives_wrong_sequences(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a.ctf", EXTENDED)
    wanted = everything(CtfSource(path, STREAMS))
    (beside,) = tmp_path.glob("*.hrindex")
    good = beside.read_bytes()
    for place in range(0, len(good), 11):
        bad = bytearray(good)
        bad[place] ^= 0x41
        beside.write_bytes(bad)
        assert same(everything(CtfSource(path, STREAMS)), wanted)
        beside.write_bytes(good[:place])
        assert same(everything(CtfSource(path, STREAMS)), wanted)


@pytest.mark.parametrize("streams", [STREAMS, {"A": hr.dense(3, alias="a", defines_size=True), "w": hr.sparse(9)}])
def test_a_file_cut_anywhere_is_read_or_refused(streams: Any, tmp_path: pathlib.Path) -> None:
    content = EXTENDED + b"600 |w 1:1 2:3e1 |a 1\n"
    for size in range(len(content)):
        results: list[Any] = []
        for _ in range(2):
            try:
                source = source_of(tmp_path, content[:size], streams)
                columns = source.parse(np.arange(source.num_records))
                results.append((source.keys().tolist(), {n: c.tolist() for n, c in columns.columns.items()}))
                everything(source)
            except hr.DataError as error:
                results.append(str(error))
        assert results[: len(results) // 2] == results[len(results) // 2 :]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dtype": "int32"}, ValueError, "dtype is 'float32' or 'float64', got 'int32'"),
        ({"dtype": "no type"}, ValueError, "got 'no type'"),
        ({"index": "none"}, ValueError, "index is one of 'auto', 'memory', 'rebuild'"),
        ({"max_errors": -1}, ValueError, "max_errors is at least 0, got -1"),
        ({"streams": {}}, hr.PlanError, "streams is empty"),
        ({"files": []}, hr.DataError, "at least one file"),
        ({"files": "no such file"}, FileNotFoundError, "no such file"),
    ],
)
def test_arguments_that_make_no_sense(
    arguments: dict[str, Any], error: type[Exception], message: str, tmp_path: pathlib.Path
) -> None:
    path = write(tmp_path / "a.ctf", EXTENDED)
    with pytest.raises(error, match=message):
        CtfSource(**{"files": path, "streams": STREAMS, **arguments})


def test_fingerprints_tell_data_and_ways_of_reading_apart(tmp_path: pathlib.Path) -> None:
    prints = [
        source_of(tmp_path, EXTENDED, streams, **rest).fingerprint()
        for streams, rest in (
            (STREAMS, {}),
            (STREAMS, {"skip_ids": True}),
            (STREAMS, {"max_errors": 1}),
            ({"A": hr.dense(3, alias="a")}, {"max_errors": 9}),
            ({"A": hr.dense(2, alias="b")}, {"max_errors": 9}),
            ({"A": hr.dense(2, alias="b", sequence=False)}, {"max_errors": 9}),
        )
    ]
    assert len({str(print_) for print_ in prints}) == len(prints)


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (
            b"|x 1 2 |lable 0\n",
            "absent stream",
            r"no sample of 'label' \(alias 'labels'\) in .*a.ctf, .*of 'lable'; is",
        ),
        (b"|x 1 2 |labels\n", None, ""),
        (b"|x 1 2 |labels 1\n", None, ""),
        (b"|x 1 2 |labelsome 1\n", "absent stream", "labelsome"),
    ],
)
def test_streams_that_never_occur_are_told_of(
    tmp_path: pathlib.Path, content: bytes, kind: str | None, message: str
) -> None:
    streams = {"x": hr.dense(2), "label": hr.dense(1, alias="labels")}
    source = source_of(tmp_path, content, streams)
    assert [warning.kind for warning in source.warnings] == ([kind] if kind else [])
    for warning in source.warnings:
        assert re.search(message, warning.message)
    assert source_of(tmp_path, content, streams, require_all=True).warnings == ()


def test_mistakes_that_are_not_told_one_by_one_count(tmp_path: pathlib.Path) -> None:
    for number, count in enumerate((150, 250)):
        write(tmp_path / f"{number}.ctf", f"{number}1 |x 1\n{number}2 |x 2 {count * '|'}\n{number}3 |x 3\n".encode())
    source = CtfSource(tmp_path / "?.ctf", X)
    for one in (source, KeptSequences(source)):
        parsed = one.parse(np.array([4, 0, 1, 3]))
        assert (len(parsed.error_rows), parsed.times.sum()) == (200, 400)
        assert parsed.slice(1, 3).times.sum() == 150
        assert one.parse(np.array([1])).times.max() == 51
    assert Mistakes(400).left == 400
    mistakes = Mistakes(400)
    mistakes.settle(np.array([4, 0, 1, 3]), parsed)
    assert mistakes.left == 0
    for _ in range(2):  # found, and taken from the survey
        (warning,) = CtfSource(tmp_path / "?.ctf", X, max_errors=400).warnings
        assert (warning.kind, warning.count) == ("mistakes", 400)
        with pytest.raises(hr.DataError, match=r"\(max_errors=399\)(.|\n)*more like it"):
            CtfSource(tmp_path / "?.ctf", X, max_errors=399)
