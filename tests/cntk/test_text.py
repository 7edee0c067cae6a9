from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from headrace import DataError, PlanError
from headrace.cntk import sequence_to_cntk_text_format
from headrace.cntk.txt2ctf import main, txt2ctf


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        ({"b": [{2: 1, 0: 5}], "a": [[1, 2], [3, 4]]}, "7\t|a 1 2 |b 0:5 2:1\n7\t|a 3 4"),
        ({"x": np.array([[0.5, -1e-30]], np.float32)}, "7\t|x 0.5 -1e-30"),
        ({"x": np.arange(4).reshape(1, 2, 2)}, "7\t|x 0 1 2 3"),
        ({"x": [1, 2]}, "7\t|x 1\n7\t|x 2"),
        ({"s": [{}, {3: 0.25}]}, "7\t|s \n7\t|s 3:0.25"),
        ({"x": np.array([[True, False]])}, "7\t|x 1 0"),
        ({"x": []}, ""),
        ({}, ""),
    ],
)
def test_a_sequence_is_a_line_a_step(streams: dict[str, Any], expected: str) -> None:
    assert sequence_to_cntk_text_format(7, streams) == expected


def test_float32_values_come_back_bit_for_bit() -> None:
    values = np.random.default_rng(1).standard_normal((1, 500)).astype(np.float32)
    text = sequence_to_cntk_text_format(0, {"x": values})
    assert np.array_equal(np.array(text.split()[2:], np.float32), values[0])


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ({"a b": [1]}, "name without blanks"),
        ({"": [1]}, "name without blanks"),
        ({"a|": [1]}, "name without blanks"),
        ({"x": [float("nan")]}, "infinite numbers or NaN"),
        ({"x": [{0: float("inf")}]}, "infinite numbers or NaN"),
        ({"x": ["a"]}, "stream 'x': expected numbers"),
        ({"x": 5}, "single number 5"),
        ({"x": [{0: 1}, [1]]}, "step 1: expected a dict"),
        ({"x": [{-1: 1}]}, "indices from 0 on, got -1"),
        ({"x": [{0: "a"}]}, "a number for each index"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(streams: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sequence_to_cntk_text_format(0, streams)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "words").write_text("ich\ngehe \nnach|haus\nich\n")
    (tmp_path / "tags").write_text("P\nV\nunk\n")
    return tmp_path


def convert(folder: pathlib.Path, text: str, **options: Any) -> str:
    (folder / "in").write_text(text)
    txt2ctf([folder / "words", folder / "tags"], [folder / "in"], folder / "out", **options)
    assert sorted(p.name for p in folder.iterdir()) == ["in", "out", "tags", "words"]
    return (folder / "out").read_text()


def test_columns_become_streams(folder: pathlib.Path) -> None:
    assert convert(folder, "ich  gehe\tP V\n\t\ngehe\tV P\r\n") == (
        "0\t|S0 3:1\t|S1 0:1\n0\t|S0 1:1\t|S1 1:1\n2\t|S0 1:1\t|S1 1:1\n2\t\t|S1 0:1\n"
    )


def test_tokens_are_written_as_comments(folder: pathlib.Path) -> None:
    assert convert(folder, "nach|haus\tV\n", annotated=True) == "0\t|S0 2:1 |# nach|#haus\t|S1 1:1 |# V\n"


def test_unknown_tokens_have_an_index_of_their_own_where_asked_for(folder: pathlib.Path) -> None:
    assert convert(folder, "ich\tX\n", unk="unk") == "0\t|S0 3:1\t|S1 2:1\n"


@pytest.mark.parametrize(
    ("text", "unk", "message"),
    [
        ("ich\tP\nich\n", None, r"in, line 2: expected 2 columns .* found 1"),
        ("ich\tP\tP\n", None, "found 3"),
        ("ich\tP\nich\tX\n", None, r"in, line 2, column 2: the token 'X' is not in .*--unk"),
        ("du\tP\n", "unk", r"line 1, column 1: the token 'du' is not in .* nor is 'unk'"),
    ],
)
def test_mistakes_name_line_and_column_and_leave_nothing(
    folder: pathlib.Path, text: str, unk: str | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        convert(folder, text, unk=unk)
    assert sorted(p.name for p in folder.iterdir()) == ["in", "tags", "words"]


def test_text_that_is_not_utf8_is_refused(folder: pathlib.Path) -> None:
    (folder / "in").write_bytes(b"\xff\tP\n")
    with pytest.raises(DataError, match="expected UTF-8"):
        txt2ctf([folder / "words", folder / "tags"], [folder / "in"], folder / "out")
    (folder / "words").write_bytes(b"\xff\n")
    with pytest.raises(DataError, match="words: expected UTF-8"):
        txt2ctf([folder / "words"], [folder / "in"], folder / "out")


def test_the_command_takes_the_flags_of_the_script(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "in").write_text("ich\n")
    words, text, out = str(folder / "words"), str(folder / "in"), str(folder / "out")
    assert main(["--map", words, "--input", text, "--output", out, "--annotated", "True"]) == 0
    assert (folder / "out").read_text() == "0\t|S0 3:1 |# ich\n"
    assert main(["--map", words, "--input", text, text]) == 0
    assert capsys.readouterr().out == "0\t|S0 3:1\n" * 2
    assert main(["--map", words, "--input", str(folder / "none")]) == 1
    assert "No such file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--map", words, "--annotated", "perhaps"])
    assert "expected True or False" in capsys.readouterr().err


def test_the_command_reads_standard_input(folder: pathlib.Path) -> None:
    command = [sys.executable, "-m", "headrace.cntk.txt2ctf", "--map", str(folder / "words")]
    done = subprocess.run(command, input="gehe ich\n", capture_output=True, text=True, check=True)
    assert done.stdout == "0\t|S0 1:1\n0\t|S0 3:1\n"
    assert done.stderr == ""


def test_what_is_read_is_not_written_over(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "in").write_text("go\tVERB\n")
    words = (folder / "words").read_text()
    for name in ("words", "in"):
        with pytest.raises(PlanError, match="is to be written and is read, too; write to another file"):
            txt2ctf([folder / "words", folder / "tags"], [folder / "in"], folder / name)
    assert main(["--map", str(folder / "words"), "--input", str(folder / "in"), "--output", str(folder / "in")]) == 1
    assert "write to another file" in capsys.readouterr().err
    assert ((folder / "words").read_text(), (folder / "in").read_text()) == (words, "go\tVERB\n")
