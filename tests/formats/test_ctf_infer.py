"""What the beginning of a file in CNTK's text format tells of its streams."""

from __future__ import annotations

import gzip
import pathlib
from random import Random

import pytest

import headrace as hr
from headrace.formats import ctf_infer as infer_module


def infer(folder: pathlib.Path, content: bytes, **options: int) -> hr.InferredCtf:
    path = folder / "a.ctf"
    path.write_bytes(content)
    return hr.infer_ctf(path, **options)  # type: ignore[arg-type]


def test_lines_of_dense_and_sparse_samples(tmp_path: pathlib.Path) -> None:
    found = infer(tmp_path, b"\xef\xbb\xbf\n|label 0:1 3:1 |x 1 2.5 -3e2 |# note |# more\r\n|x 4 5 6|label 7:2\n")
    assert not found.ids
    assert found.streams == {"label": hr.sparse(8), "x": hr.dense(3)}
    assert found.notes == (
        "looked at all 69 bytes: 2 lines, each line is a record, without ids",
        "label: sparse, dim 8 is one more than the largest index seen, so a lower bound",
        "x: dense, dim 3",
    )


def test_sequences_are_known_by_their_ids(tmp_path: pathlib.Path) -> None:
    found = infer(tmp_path, b"7|w 1:1\n|w 2:1\n007 |w 3:1\n8 |w 4:1 |t 1\n7 |w 1:1\n")
    assert found.ids
    assert found.streams == {"w": hr.sparse(5), "t": hr.dense(1)}
    assert found.notes[0] == "looked at all 49 bytes: 5 lines, 3 sequences with ids"
    one_each = infer(tmp_path, b"1 |x 1\n2 |x 1\n")
    assert one_each.notes[-1].startswith("every sequence has one line: pass sequence=False")
    lines = infer(tmp_path, b"1 |x 1\n1 |x 1\n", skip_ids=True)
    assert not lines.ids
    assert lines.streams == {"x": hr.dense(1)}


def test_streams_that_are_not_on_each_line_are_sequences(tmp_path: pathlib.Path) -> None:
    found = infer(tmp_path, b"|x 1 |y 1\n|x 2\n|x 3 |z 1 |z 1\n")
    assert found.streams == {"x": hr.dense(1), "y": hr.dense(1, sequence=True), "z": hr.dense(1, sequence=True)}
    assert "y: not one sample on each line, so a sequence" in found.notes


def test_what_looks_wrong_is_said(tmp_path: pathlib.Path) -> None:
    found = infer(tmp_path, b"|x 1 2\n|x 1\n|x one\n|x 3:1\n|y\n|\xff 1\n|y 99999999999:1\n")
    assert found.streams == {"x": hr.dense(2, sequence=True), "y": hr.sparse(1, sequence=True)}
    text = "\n".join(found.notes)
    for part in (
        "x: dense, dim 2; samples have 1 values and more, zeros follow",
        "x: 2 samples are lists and 1 are index:value; the others are wrong",
        "x: 1 samples are malformed, the first on line 3",
        "y: no sample has a value; taken for sparse of dim 1",
        "y: 1 samples are malformed, the first on line 7",
        "passed over: the name '\\udcff' holds '\\udcff'",
    ):
        assert part in text


def test_only_the_beginning_is_looked_at(tmp_path: pathlib.Path) -> None:
    content = b"|x 1 2 3\n" * 100 + b"|y 1\n"
    found = infer(tmp_path, content, max_bytes=20)
    assert found.streams == {"x": hr.dense(3)}
    assert found.notes[0] == "looked at the first 18 of 905 bytes: 2 lines, each line is a record, without ids"
    assert infer(tmp_path, content, max_bytes=1).streams == {"x": hr.dense(3)}
    (tmp_path / "a.ctf.gz").write_bytes(gzip.compress(content))
    assert list(hr.infer_ctf(tmp_path / "a.ctf.gz").streams) == ["x", "y"]


@pytest.mark.parametrize("block", [1, 10, 25, 1000])
@pytest.mark.parametrize("max_bytes", [1, 30, 70, 1 << 40])
def test_blocks_make_no_difference(
    block: int, max_bytes: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"\n\n1 |x 1 2 3 4 5 6 7 8 9\n1 |w 3:1\n2 |x 1\n2 |x 2 |w 9:1\n3 |z 7 |w 1:1" + b" 2:1" * 20 + b"\n4 |x 1"
    wanted = infer(tmp_path, content, max_bytes=max_bytes)
    monkeypatch.setattr("headrace.formats.ctf_infer._BLOCK", block)
    assert infer(tmp_path, content, max_bytes=max_bytes) == wanted
    if max_bytes > len(content):
        assert wanted.streams == {"x": hr.dense(9), "w": hr.sparse(10), "z": hr.dense(1)}
        assert wanted.notes[0] == f"looked at all {len(content)} bytes: 6 lines, 4 sequences with ids"


PIECES = [
    "|x 1 2 3",
    "|x 4 5 6",
    "|w 3:1 2:2",
    "|w",
    "|w 9:1",
    "|x 1",
    "|x",
    "|y 2 ",
    "|y 1 2",
    "|z 1:1 ",
    "|w 1",
    "|x a",
]
PIECES += ["|# note", "|\xe9 1", "| 1", "", "|x 1 2 3 |x 1 2 3", "|y 4:1"]


@pytest.mark.parametrize("seed", range(60))
def test_parsing_tells_the_same_as_reading_line_by_line(
    seed: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    pieces = PIECES[: random.choice([3, 5, len(PIECES)])]
    lines = []
    for i in range(random.randrange(1, 40)):
        id_ = "" if seed % 2 else random.choice(["", f"{i // 3} ", f"{i} "]) if i else "0 "
        lines.append(id_ + " ".join(random.choice(pieces) for _ in range(random.randrange(1, 3))))
    lines[0] = lines[0] if lines[0].strip() and lines[0][0] in "0|" else "|x 1 2 3"
    content = random.choice(["\n", "\r\n"]).join(lines).encode("latin1") + random.choice([b"", b"\n"])
    try:
        wanted = infer(tmp_path, content)
    except hr.DataError:
        return
    monkeypatch.setattr("headrace.formats.ctf_infer._BLOCK", random.choice([1, 20, 50]))
    assert infer(tmp_path, content) == wanted


def test_most_of_a_large_file_is_parsed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"".join(b"%d |x 1 2 |w %d:1\n" % (i, i) for i in range(2000)) + b"|# odd\n"
    monkeypatch.setattr("headrace.formats.ctf_infer._BLOCK", 1000)
    taken = []
    take = infer_module._Look.take_lines

    def spy(self: infer_module._Look, text: bytes) -> None:
        taken.append(len(text))
        take(self, text)

    monkeypatch.setattr(infer_module._Look, "take_lines", spy)
    found = infer(tmp_path, content, max_bytes=len(content))
    assert found.streams == {"x": hr.dense(2), "w": hr.sparse(2000)}
    assert len(taken) == 2  # the beginning, and the end with its comment
    assert found.notes[0].endswith(": 2,001 lines, 2,000 sequences with ids")


@pytest.mark.parametrize("value", [b"1", b"-1", b"+1.5", b"1.", b"1e5", b"1.5e-3", b"12E+3"])
def test_numbers(value: bytes, tmp_path: pathlib.Path) -> None:
    assert infer(tmp_path, b"|x " + value + b"\t2\r\n|w 3:" + value).notes[1:] == (
        "x: dense, dim 2",
        "x: not one sample on each line, so a sequence",
        "w: sparse, dim 4 is one more than the largest index seen, so a lower bound",
        "w: not one sample on each line, so a sequence",
    )


@pytest.mark.parametrize("value", [b".5", b"1.e5", b"inf", b"0x1", b"1_0", b"1e", b"--1"])
def test_what_is_no_number_is_said(value: bytes, tmp_path: pathlib.Path) -> None:
    notes = infer(tmp_path, b"|x 1 2\n|x 3 " + value + b"\n").notes
    assert "x: 1 samples are malformed, the first on line 2" in notes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty, expected lines such as"),
        (b" \n", "holds nothing but white space"),
        (b"hello\n", "expected '\\|' or a sequence id"),
        (b"|# nothing else\n", "expected samples such as .* found none in the first 16 bytes"),
        (b"\xff\xfe|\x00", "UTF-16"),
    ],
)
def test_other_files_are_refused(content: bytes, message: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(hr.DataError, match=message):
        infer(tmp_path, content)
    with pytest.raises(FileNotFoundError):
        hr.infer_ctf(tmp_path / "b.ctf")


LONG = [b" 1 2.5\t-3e2 ", b" 1:1  7:2", b" 1.   2 ", b"      ", b" 4:0.5\t3:1 "]
LONG += [b" 1 2:1 3", b" 2:1 3", b" 1 2 x", b" 4294967296:1", b" 2 3 \xff"]


@pytest.mark.parametrize("values", LONG)
def test_long_samples_are_parsed(values: bytes, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"|x" + values + b"|y 1\n|x 1\n"
    wanted = infer(tmp_path, content)
    regular = infer_module._look_at_values

    def refuse(text: bytes) -> tuple[int, int, bool]:
        if len(text) > 4:
            raise AssertionError("looked at value by value")
        return regular(text)

    monkeypatch.setattr(infer_module, "_look_at_values", refuse)
    monkeypatch.setattr(infer_module, "_LONG", 4)
    found = infer(tmp_path, content)
    if values in LONG[:5]:
        assert found == wanted
    assert [n for n in found.notes if "malformed" in n] == [n for n in wanted.notes if "malformed" in n]


def test_a_long_malformed_sample_is_looked_at_where_it_begins(tmp_path: pathlib.Path) -> None:
    dense = infer(tmp_path, b"|x" + 50_000 * b" 1" + b" oops\n")
    assert dense.streams == {"x": hr.dense(50_001)}
    sparse = infer(tmp_path, b"|x" + b"".join(b" %d:1" % i for i in range(50_000)) + b" oops\n")
    assert 5_000 < sparse.streams["x"].dim < 50_000
    for found in (dense, sparse):
        assert "x: 1 samples are malformed, the first on line 1" in found.notes
