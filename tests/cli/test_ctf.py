"""The commands on CNTK's text format."""

from __future__ import annotations

import gzip
import json
import pathlib

import numpy as np
import pytest

import headrace as hr
from headrace.cli import main
from headrace.formats.npz import open_npz

TEXT = "7 |word 4:1 |tag 0 1\n7 |word 17:1 |tag 1 0\n8 |word 3:1 |tag 1 0\n8 |word 19:0.1 |tag 0 1.5\n"
STREAMS = ["--streams", "word=sparse:20 tag=dense:2"]
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def ctf(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    path = pathlib.Path("train.ctf")
    path.write_text(TEXT)
    return path


def checked(capsys: Captured, *argv: str) -> dict[str, object]:
    """What `check` says as JSON."""
    main(["check", "--json", *argv])
    out, err = capsys.readouterr()
    assert err == ""
    (line,) = out.splitlines()
    return dict(json.loads(line))


def test_problems_are_told_with_their_place(ctf: pathlib.Path, capsys: Captured) -> None:
    ctf.write_text(TEXT.replace("17:1", "20:1") + "9 |word x\n")
    assert main(["check", "train.ctf", *STREAMS]) == 1
    first, second, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("train.ctf, line 2, column 9 (byte 29), sequence 7: expected an index from 0 to 19")
    assert second.startswith("train.ctf, line 5, column 9 (byte")
    assert rest[-1] == "2 problems"
    found = checked(capsys, "train.ctf", *STREAMS)
    problems = found["problems"]
    assert isinstance(problems, dict)
    place = ("train.ctf", 2, 9, 29, 7, "word")
    assert tuple(problems["listed"][0][k] for k in ("file", "line", "column", "byte", "sequence", "stream")) == place
    assert (found["good"], found["sequences"], found["dropped"]) == (False, 3, 1)


def test_repeated_ids_are_problems_but_not_numbers_of_lines(ctf: pathlib.Path, capsys: Captured) -> None:
    ctf.write_text(TEXT + "7 |word 20:1\n")
    found = checked(capsys, "train.ctf", *STREAMS)
    assert isinstance(found["problems"], dict)
    assert found["problems"]["kinds"] == {"index out of range": 1, "repeated id": 1}
    message = found["problems"]["listed"][1]["message"]
    assert message.startswith(
        "train.ctf, line 5, sequence 7: expected an id of its own for each sequence, got 7, which"
    )
    for name in ("a.ctf", "b.ctf"):
        pathlib.Path(name).write_text("|x 1\n|x 2\n")
    assert checked(capsys, "[ab].ctf", "--streams", "x=dense:1")["good"] is True


def test_warnings_count_if_asked(ctf: pathlib.Path, capsys: Captured) -> None:
    ctf.write_text(TEXT.rstrip("\n"))
    assert main(["check", "train.ctf", *STREAMS]) == 0
    assert "warning: train.ctf" in capsys.readouterr().out
    assert main(["check", "train.ctf", *STREAMS, "--strict"]) == 1
    assert "no final newline  1" in capsys.readouterr().out
    ctf.write_text("1 |word 1:1\n")
    assert main(["check", "train.ctf", *STREAMS]) == 0
    assert main(["check", "train.ctf", *STREAMS, "--strict"]) == 1
    assert "'tag'" in capsys.readouterr().out


def test_streams_are_inferred_and_said(ctf: pathlib.Path, capsys: Captured) -> None:
    assert main(["head", "train.ctf", "-n", "1"]) == 0
    out, err = capsys.readouterr()
    said = 'headrace: streams inferred from the beginning of train.ctf: --streams "word=sparse:20 tag=dense:2"\n'
    assert err == said
    assert out.splitlines()[:3] == ["sequence 7", "  word: 2 samples", "    4:1"]


def test_ways_of_reading_are_options(ctf: pathlib.Path, capsys: Captured) -> None:
    assert checked(capsys, "train.ctf", *STREAMS, "--skip-ids")["sequences"] == 4
    sized = checked(capsys, "train.ctf", "--streams", "word=sparse:20,defines_size t=dense:2,alias=tag")
    assert sized["good"] is True
    assert main(["head", "train.ctf", *STREAMS, "--json", "--double"]) == 0
    assert "[19, 0.1]" in capsys.readouterr().out
    pathlib.Path("train.ctf.gz").write_bytes(gzip.compress(TEXT.encode()))
    assert checked(capsys, "train.ctf.gz", *STREAMS)["sequences"] == 2


@pytest.mark.parametrize("ending", ["npz", "arrow", "jsonl", "ctf"])
@pytest.mark.parametrize("text", [TEXT, "|word 3:1 |tag 1 0\n|word 4:2 7:1 |tag 0.1 -0\n", "5 |tag 1e-40 2\n3 |word\n"])
def test_text_comes_back_as_it_was(ending: str, text: str, ctf: pathlib.Path, capsys: Captured) -> None:
    if ending == "arrow":
        pytest.importorskip("pyarrow")
    ctf.write_text(text)
    assert main(["convert", "train.ctf", f"b.{ending}", *STREAMS]) == 0
    again = [] if ending in ("npz", "arrow") else STREAMS
    assert main(["convert", f"b.{ending}", "c.ctf", *again]) == 0
    assert pathlib.Path("c.ctf").read_text().replace("\t", " ") == text


def test_binary_keeps_all_but_ids(ctf: pathlib.Path, capsys: Captured) -> None:
    assert main(["convert", "train.ctf", "b.cbf", *STREAMS]) == 0
    assert main(["convert", "b.cbf", "c.ctf"]) == 0
    assert pathlib.Path("c.ctf").read_text().replace("\t", " ") == TEXT.replace("7 |", "0 |").replace("8 |", "1 |")


def test_mistakes_spoil_what_they_must(ctf: pathlib.Path, capsys: Captured) -> None:
    ctf.write_text(TEXT + "9 |word x |tag 1 1\n10 |word 1:1 |tag 1 1\n")
    assert main(["convert", "train.ctf", "b.npz", *STREAMS]) == 1
    assert "line 5, column 9" in capsys.readouterr().err
    assert main(["convert", "train.ctf", "b.npz", *STREAMS, "--max-errors", "1"]) == 0
    assert open_npz("b.npz").keys().tolist() == [7, 8, 10]
    ctf.write_text("|tag 1e999 1\n")
    assert main(["convert", "train.ctf", "c.ctf", *STREAMS]) == 2
    assert "no way to write infinity" in capsys.readouterr().err
    assert not pathlib.Path("c.ctf").exists()


CONFIG = """
reader = [
    readerType = "CNTKTextFormatReader" ; file = "train.ctf" ; maxErrors = 1 ; precision = "double"
    input = [ w = [ alias = "word" ; dim = 20 ; format = "sparse" ] ; tag = [ dim = 2 ; format = "dense" ] ]
]
both = {
    deserializers = (
        {
            type = "CNTKTextFormatDeserializer" ; file = "train.ctf"
            input = { w = { alias = "word" ; dim = 20 ; format = "sparse" } }
        }
        { type = "CNTKBinaryFormatDeserializer" ; file = "b.cbf" ; input = { t = { alias = "tag" } } }
    )
}
"""


def test_configurations_say_what_is_read(ctf: pathlib.Path, capsys: Captured) -> None:
    pathlib.Path("reader.cntk").write_text(CONFIG)
    ctf.write_text(TEXT + "9 |word x |tag 1 1\n")
    config = ["--config", "reader.cntk"]
    assert main(["check", *config]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 problem, 1 tolerated"
    assert main(["check", *config, "--max-errors", "0"]) == 1
    assert main(["convert", "train.ctf", "b.npz", *config]) == 0
    assert [stream.name for stream in open_npz("b.npz").streams] == ["tag", "w"]
    capsys.readouterr()
    hr.write_cbf("b.cbf", {"tag": np.ones((3, 2), np.float32)})
    assert main(["check", *config, "--section", "both"]) == 1
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line in ("train.ctf", "b.cbf")] == ["train.ctf", "b.cbf"]
    assert "t: dense, 2 wide" in out
    assert main(["head", "b.cbf", *config, "--section", "both", "-n", "1"]) == 0
    assert capsys.readouterr().out == "sequence 0\n  t: 1 sample\n    1 1\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["check", "--config", "reader.cntk", *STREAMS], "--streams and --config both say what the streams are"),
        (["check", "--config", "reader.cntk", "--from", "ctf"], "--from and --config both say what the files are"),
        (["check", "--config", "nothing.cntk"], "nothing.cntk: "),
        (["check", "--config", "reader.cntk", "--section", "x"], "reader.cntk"),
        (["head", "other.ctf", "--config", "reader.cntk", "--section", "both"], "none of them is other.ctf"),
    ],
)
def test_what_configurations_can_not_say(argv: list[str], message: str, ctf: pathlib.Path, capsys: Captured) -> None:
    pathlib.Path("reader.cntk").write_text(CONFIG)
    pathlib.Path("b.cbf").write_bytes(b"")
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_configurations_may_lie_beside_their_data(ctf: pathlib.Path, capsys: Captured) -> None:
    pathlib.Path("data").mkdir()
    ctf.rename("data/train.ctf")
    pathlib.Path("data/reader.cntk").write_text(CONFIG)
    assert main(["check", "--config", "data/reader.cntk"]) == 2
    assert "there is one beside the configuration: give --base-dir='data'" in capsys.readouterr().err
    assert main(["check", "--config", "data/reader.cntk", "--base-dir", "data"]) == 0


def test_very_many_streams_are_not_repeated_in_a_remark(tmp_path: pathlib.Path, capsys: Captured) -> None:
    path = tmp_path / "many.ctf"
    path.write_text("0 " + " ".join(f"|n{i} 1" for i in range(300)) + "\n")
    assert main(["head", str(path)]) == 0
    assert "inferred from the beginning of" in (error := capsys.readouterr().err)
    assert "300; headrace infer lists them" in error
    assert len(error) < 500


def test_infer_takes_one_file(tmp_path: pathlib.Path, capsys: Captured) -> None:
    for name in ("a1.ctf", "a2.ctf"):
        (tmp_path / name).write_text("0 |x 1\n")
    assert main(["infer", str(tmp_path / "a*.ctf")]) == 2
    assert "expected one file, found 2; name one of them" in capsys.readouterr().err
    assert main(["infer", str(tmp_path / "b*.ctf")]) == 2
    assert "the pattern matches nothing; check the folder and the pattern" in capsys.readouterr().err
    assert main(["infer", str(tmp_path / "a2*")]) == 0
