"""Where sequences of CNTK's text format stand, and what is kept of that beside the file."""

from __future__ import annotations

import logging
import os
import pathlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import headrace as hr
from headrace import _native
from headrace.formats.ctf_index import CtfFile, check_alike, open_ctf, warn_of_repeats
from headrace.formats.ctf_schema import alias_of, check_streams
from headrace.formats.sidecar import IndexMode

THREE = b"|# first |x 1\n10 |x 1\n10 |y 2\n20 |x 3\n|y 4\n30 |x 5\n"


def write(path: pathlib.Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def opened(path: str, index: IndexMode = "auto", main: str = "", skip_ids: bool = False) -> CtfFile:
    return open_ctf(path, skip_ids=skip_ids, main=main, index=index)


def tables(file: CtfFile) -> list[object]:
    found: list[NDArray[Any]] = [file.begins, file.ends, file.keys, file.samples]
    facts = [file.ids, file.first_line, file.key_range, file.num_repeats, file.repeats]
    return [[array.tolist() for array in found], facts]


def test_a_sidecar_gives_what_was_indexed(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a.ctf", THREE.split(b"\n", 1)[1] + b"10 |x 9\n")
    first = opened(path)
    assert first.beside is None
    assert sorted(os.listdir(tmp_path)) == ["a.ctf", "a.ctf.ctf.hrindex"]
    second = opened(path)
    assert second.beside is not None
    assert tables(first) == tables(second) == tables(opened(path, "memory"))
    assert [second.where(i) for i in range(4)] == [
        f"{path}, line {line}, sequence {key}" for line, key in ((1, 10), (3, 20), (5, 30), (6, 10))
    ]
    assert (second.num_repeats, second.repeats) == (1, (0, 3))
    assert second.keys_of_all().tolist() == [10, 20, 30, 10]
    assert [a.tolist() for a in second.spans()] == [[0, 16, 29, 37], [16, 29, 37, 45]]


def test_each_way_of_counting_has_its_own_sidecar(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a.ctf", THREE)
    ways = [("", False), ("", True), ("x", False), ("y", False), ("y", True)]
    for main, skip_ids in ways:
        assert opened(path, main=main, skip_ids=skip_ids).beside is None
    found = [opened(path, main=main, skip_ids=skip_ids) for main, skip_ids in ways]
    assert all(file.beside for file in found)
    assert [file.num_records for file in found] == [6, 6, 4, 2, 2]
    assert found[3].where(1) == f"{path}, line 5"  # the first line has no id: every line is a record
    assert found[3].keys_of_all().tolist() == [2, 4]


@pytest.mark.parametrize("change", ["grown", "touched", "damaged", "short", "other"])
def test_a_stale_or_damaged_sidecar_is_made_anew(change: str, tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "a.ctf", THREE)
    beside = tmp_path / "a.ctf.ctf.hrindex"
    opened(path)
    if change == "grown":
        write(tmp_path / "a.ctf", THREE + b"|x 7\n")
    elif change == "touched":
        os.utime(path, ns=(1, 1))
    elif change == "damaged":
        beside.write_bytes(beside.read_bytes()[:-1] + b"\x7f")
    elif change == "short":
        beside.write_bytes(beside.read_bytes()[:100])
    else:
        write(tmp_path / "b.ctf", THREE + THREE)
        opened(str(tmp_path / "b.ctf"))
        os.replace(tmp_path / "b.ctf.ctf.hrindex", beside)
    file = opened(path)
    assert file.beside is None
    assert tables(file) == tables(opened(path, "memory")) == tables(opened(path))
    assert opened(path).beside is not None
    assert opened(path, "rebuild").beside is None


def test_a_folder_that_cannot_be_written_costs_a_warning(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.ctf", THREE)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("headrace.formats.sidecar.write_atomic", refuse)
    with caplog.at_level(logging.WARNING, "headrace"):
        assert opened(path).num_records == 6
    assert "can't keep the index" in caplog.text
    assert os.listdir(tmp_path) == ["a.ctf"]


def test_repeats_are_named(tmp_path: pathlib.Path) -> None:
    a = opened(write(tmp_path / "a.ctf", b"7 |x 1\n8 |x 1\n7 |x 2\n8 |x 3\n7 |x 4\n8 |x 5\n"))
    b = opened(write(tmp_path / "b.ctf", b"9 |x 1\n"))
    c = opened(write(tmp_path / "c.ctf", b"9 |x 1\n8 |x 1\n"))
    (warning,) = warn_of_repeats([a, b])
    assert warning.count == 4
    assert "7 on lines 1 and 3, 8 on lines 2 and 4, 7 on lines 3 and 5 and 1 more; each is read" in warning.message
    _, other = warn_of_repeats([a, b, c])
    assert other.count == 2
    assert f"9 in {b.path} line 1 and {c.path} line 1, 8 in {a.path} line 6 and {c.path} line 2;" in other.message
    assert warn_of_repeats([b]) == []
    lines = opened(write(tmp_path / "l.ctf", b"|x 1\n"))
    assert warn_of_repeats([lines, lines]) == []
    with pytest.raises(hr.DataError, match=r"b.ctf has sequence ids and .*l.ctf has none, expected files of one kind"):
        check_alike([lines, b])


def test_line_feeds_are_counted_within_the_file(tmp_path: pathlib.Path) -> None:
    file = _native.FileBytes.open(write(tmp_path / "a", b"\na\n\n"))
    assert [_native.count_line_feeds(file, 0, end) for end in range(5)] == [0, 1, 1, 2, 3]
    with pytest.raises(IndexError):
        _native.count_line_feeds(file, 0, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": -1}, "dim is at least 0, got -1"),
        ({"dim": 1 << 31}, "dim is at most 2147483647"),
        ({"dim": 1.5}, "dim is an integer, got 1.5"),
        ({"dim": 3, "alias": ""}, "alias is empty"),
        ({"dim": 3, "alias": "a b"}, "holds ' '"),
        ({"dim": 3, "alias": "a|b"}, r"holds '\|'"),
        ({"dim": 3, "alias": "a\t"}, r"holds '\\t'"),
        ({"dim": 3, "alias": "a\x7f"}, r"holds '\\x7f'"),
        ({"dim": 3, "alias": "\ud800"}, r"holds '\\ud800'"),
        ({"dim": 3, "alias": "#a"}, "begins a comment"),
        ({"dim": 3, "alias": 3}, "alias is a str, got int 3"),
        ({"dim": 3, "defines_size": 1}, "defines_size is True or False, got 1"),
        ({"dim": 3, "sequence": 1}, "sequence is True, False or None, got 1"),
    ],
)
def test_streams_that_cannot_be_are_refused(arguments: dict[str, object], message: str) -> None:
    for make in (hr.dense, hr.sparse):
        with pytest.raises(ValueError, match=message):
            make(**arguments)  # type: ignore[arg-type]


def test_streams_that_contradict_each_other_are_refused() -> None:
    a, main = hr.dense(1), hr.sparse(2, defines_size=True)
    cases = [
        ({}, hr.PlanError, "streams is empty"),
        ({"x": a, "y": hr.dense(1, alias="x")}, hr.PlanError, "streams 'x' and 'y' are both called 'x' in the file"),
        ({"x": main, "y": main}, hr.PlanError, "streams 'x' and 'y' both define the size"),
        ({"a b": a}, ValueError, "the name of a stream without an alias 'a b' holds ' '"),
        ({"": a}, TypeError, "named by str"),
        ({"x": 3}, TypeError, r"stream 'x' is hr.dense\(…\) or hr.sparse\(…\), got int"),
        ([a], TypeError, "streams is a dict"),
    ]
    for streams, error, message in cases:
        with pytest.raises(error, match=message):
            check_streams(streams)
    named = check_streams({"a b": hr.dense(1, alias="x"), "c": main})
    assert [alias_of(name, stream) for name, stream in named.items()] == ["x", "c"]


def test_lines_are_named_in_any_order(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.ctf"
    lengths = [1 + i * 7 % 5 for i in range(60)]
    path.write_text("".join(f"{i} |x {step}\n" for i, length in enumerate(lengths) for step in range(length)))
    file = open_ctf(str(path), skip_ids=False, main="", index="memory")
    first = [sum(lengths[:i]) + 1 for i in range(60)]
    order = np.random.default_rng(0).integers(0, 60, 400)
    assert [file.line(record) for record in order.tolist()] == [first[record] for record in order.tolist()]
    assert [file.line(record) for record in range(59, -1, -1)] == first[::-1]
