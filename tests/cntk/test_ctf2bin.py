from __future__ import annotations

import logging
import pathlib
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.cntk.ctf2bin import ctf2bin, main, read_header
from headrace.formats.cbf import CbfSource

HEADER = "A a dense 2\nB b sparse 10\n"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "header").write_text(HEADER)
    return tmp_path


def convert(folder: pathlib.Path, text: str | bytes, **options: Any) -> dict[str, list[Any]]:
    (folder / "text").write_bytes(text.encode() if isinstance(text, str) else text)
    ctf2bin(folder / "text", folder / "header", folder / "out", **{"chunk_size": 1 << 20, **options})
    assert sorted(p.name for p in folder.iterdir()) == ["header", "out", "text"]
    source = CbfSource(folder / "out", sequence=True)
    return {name: [row.tolist() for row in c] for name, c in source.read(np.arange(source.num_records)).items()}


def test_the_bytes_are_those_of_the_format(folder: pathlib.Path) -> None:
    convert(folder, "7 |a 1 2 |b 3:1 1:2.5\n7 |b 4:1\n8 |a 5 6 |b 0:1\n")
    magic = struct.pack("<Q", 0x636E746B5F62696E)
    expected = b"".join(
        [
            magic,
            struct.pack("<I", 1),
            struct.pack("<2I", 2, 1),
            struct.pack("<I2fI2f", 1, 1, 2, 1, 5, 6),
            struct.pack("<Ii3f3i2i", 2, 3, 2.5, 1, 1, 1, 3, 4, 2, 1),
            struct.pack("<Iifii", 1, 1, 1, 0, 1),
        ]
    )
    place = len(expected)
    expected += magic + struct.pack("<II", 1, 2)
    expected += struct.pack("<BI", 0, 1) + b"A" + struct.pack("<BI", 0, 2)
    expected += struct.pack("<BI", 1, 1) + b"B" + struct.pack("<BI", 0, 10)
    expected += struct.pack("<qIIq", 12, 2, 3, place)
    assert (folder / "out").read_bytes() == expected


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("|a 1 2\n|a 3 4\n", [[[1, 2]], [[3, 4]]]),
        ("0 |a 1 2\n|a 3 4\n0|a 5 6\n", [[[1, 2], [3, 4], [5, 6]]]),
        ("|a 1 2\n0 |a 3 4\n|a 5 6\n", [[[1, 2]], [[3, 4], [5, 6]]]),
        ("1 |a 1 2\n01 |a 3 4\n", [[[1, 2]], [[3, 4]]]),
        ("x y |a 1 2\n x y\t|a 3 4\n", [[[1, 2], [3, 4]]]),
        ("0 |a 1 2\n1 |a 3 4\n0 |a 5 6\n", [[[1, 2]], [[3, 4]], [[5, 6]]]),
        ("0 |# note |# more |a 1 2 |#\r\n0 |a .5 1e2 |a 7 8", [[[1, 2], [0.5, 100], [7, 8]]]),
        (b"\xef\xbb\xbf0 |a 1 2 |# caf\xe9\n", [[[1, 2]]]),
        ("0 |a inf 1e60\n", [[[float("inf"), float("inf")]]]),
    ],
)
def test_lines_become_sequences_as_with_cntk(folder: pathlib.Path, text: str | bytes, rows: list[Any]) -> None:
    assert convert(folder, text)["A"] == rows


def test_indices_come_in_order_and_twice(folder: pathlib.Path) -> None:
    found = convert(folder, "0 |b 4:1 2:0.1 4:3\n", precision="double")
    assert found == {"A": [[]], "B": [[([2, 4, 4], [0.1, 1, 3])]]}


def test_samples_without_values_are_left_out_with_a_warning(
    folder: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "headrace"):
        assert convert(folder, "0 |a 1 2 |b\n0 |a 3 4 |b 1:1\n1 |a |b 2:1\n")["B"] == [
            [([1], [1.0])],
            [([2], [1.0])],
        ]
    first, second = caplog.messages
    assert "samples without values were left out, as CNTK's converter does: 2 of them, the first in line 1, s" in first
    assert "1 sequences have no sample in one of the streams" in second


def test_much_text_is_converted_in_blocks(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.cntk.ctf2bin._BLOCK", 50)
    text = "".join(f"{n // 3} |a {n} {-n} |b {n % 10}:1\n" for n in range(300))
    found = convert(folder, text, chunk_size=1000)
    assert [value for row in found["A"] for value, _ in row] == list(range(300))
    assert {len(row) for row in found["B"]} == {3}
    assert len(CbfSource(folder / "out").chunks(0)) > 3
    content = (folder / "out").read_bytes()
    monkeypatch.undo()
    assert convert(folder, text, chunk_size=1000) == found
    assert (folder / "out").read_bytes() == content


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 |a 1 2\n\n", r"text, line 2: expected a sample, which begins with \|, found ''"),
        ("0 |a 1\n", r"line 1: stream 'A': expected 2 numbers, found 1"),
        ("0 |a 1 2 3\n", r"line 1: stream 'A': expected 2 numbers, found 3"),
        ("0 |a 1 x\n", r"line 1: stream 'A': expected a number, found 'x'"),
        ("0 |b 10:1\n", r"line 1: stream 'B': expected an index in \[0, 10\), found 10"),
        ("0 |b -1:1\n", r"line 1: stream 'B': expected index:value, found '-1:1'"),
        ("0 |b 1\n", r"line 1: stream 'B': expected index:value, found '1'"),
        ("0 |b 1:\n", r"line 1: stream 'B': expected a number, found ''"),
        ("0 |a 1 2\n0 |c 1\n", r"line 2: expected the alias of a stream of the header \(a, b\) after \|, found 'c 1"),
        ("0 | a 1 2\n", r"line 1: expected the alias of a stream"),
        ("0 ||a 1 2\n", r"line 1: expected the alias of a stream"),
        ("", r"text: expected lines of samples, found none"),
    ],
)
def test_mistakes_in_the_text_are_named(folder: pathlib.Path, text: str, message: str) -> None:
    (folder / "text").write_text(text)
    with pytest.raises(hr.DataError, match=message):
        ctf2bin(folder / "text", folder / "header", folder / "out", chunk_size=100)
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("", "header: expected a line for each stream, found none"),
        ("A a dense\n", "header, line 1: expected 'name alias dense dim' or .* found 'A a dense'"),
        ("\nA a rare 2\n", "header, line 2: expected"),
        ("A a dense 0\n", "header, line 1: expected"),
        ("A a dense -2\n", "header, line 1: expected"),
        ("A a dense 2\nA b dense 2\n", "line 2: expected a name and an alias of its own .* found 'A' and 'b' after"),
        ("A a dense 2\nB a dense 2\n", "line 2: expected a name and an alias of its own"),
    ],
)
def test_mistakes_in_the_header_are_named(folder: pathlib.Path, header: str, message: str) -> None:
    (folder / "header").write_text(header)
    (folder / "text").write_text("0 |a 1 2\n")
    with pytest.raises(hr.DataError, match=message):
        ctf2bin(folder / "text", folder / "header", folder / "out", chunk_size=100)


def test_the_command_converts(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "text").write_text("0 |a 1 2 |b 1:1\n")
    flags = [f"--{name}={folder / file}" for name, file in [("input", "text"), ("header", "header"), ("output", "out")]]
    assert main([*flags, "--chunk_size=100"]) == 0
    assert CbfSource(folder / "out").streams[0].dtype == np.float32
    assert main([*flags, "--chunk_size=100", "--precision=double"]) == 0
    assert CbfSource(folder / "out").streams[0].dtype == np.float64
    for chunk_size in ("0", "-1", "1e6", ""):
        with pytest.raises(SystemExit, match="2"):
            main([*flags, f"--chunk_size={chunk_size}"])
    assert "chunk_size: expected a number of bytes from 1 to 10^18, got '0'" in capsys.readouterr().err
    (folder / "text").write_text("0 |a 1\n")
    command = [sys.executable, "-m", "headrace.cntk.ctf2bin", *flags, "--chunk_size=100"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"ctf2bin: {folder / 'text'}, line 1: stream 'A': expected 2 numbers")


def test_precision_is_looked_at(folder: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="precision is 'float' or 'double', got 'half'"):
        ctf2bin("a", "b", "c", chunk_size=1, precision="half")


def test_what_is_read_is_not_written_over(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, header = tmp_path / "a.ctf", tmp_path / "a.header"
    text.write_text("0 |x 1 2\n")
    header.write_text("x x dense 2\n")
    for output in (text, header):
        arguments = ["--input", str(text), "--header", str(header), "--output", str(output), "--chunk_size", "9"]
        assert main(arguments) == 1
        assert "is to be written and is read, too; write to another file" in capsys.readouterr().err
    assert text.read_text() == "0 |x 1 2\n"


@pytest.mark.parametrize("digits", ["9" * 20, "9" * 5000])
def test_numbers_of_very_many_digits_are_refused(
    digits: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, header, output = tmp_path / "a.ctf", tmp_path / "a.header", tmp_path / "a.cbf"
    arguments = ["--input", str(text), "--header", str(header), "--output", str(output), "--chunk_size"]
    text.write_text(f"0 |x {digits}:1\n")
    header.write_text("x x sparse 2\n")
    assert main([*arguments, "9"]) == 1
    assert "line 1: stream 'x': expected an index in [0, 2), found 999" in capsys.readouterr().err
    header.write_text(f"x x sparse {digits}\n")
    assert main([*arguments, "9"]) == 1
    assert "line 1: expected 'name alias dense dim'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*arguments, digits])
    assert "expected a number of bytes from 1 to 10^18" in capsys.readouterr().err


def test_a_header_is_short(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.header").write_text("x" * 100_000)
    with pytest.raises(hr.DataError, match=r"a\.header, line 1: expected a short line of a header; is it data\?"):
        read_header(tmp_path / "a.header")
