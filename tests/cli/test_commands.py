from __future__ import annotations

import gzip
import importlib.util
import json
import pathlib
import re
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import headrace as hr
import headrace.cntk as hr_cntk
from headrace.cli import main
from headrace.cli.check import examine
from headrace.cli.inputs import format_of
from headrace.formats.exchange import Block
from headrace.formats.jsonl import write_jsonl
from headrace.formats.npz import open_npz, write_npz
from headrace.formats.sequences import ParseWarning
from headrace.proof import same
from tests.formats.helpers import Given, some_block, streams_of

STREAMS = ["--streams", "x=dense:3 w=sparse:70000"]
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def npz(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "data.npz"
    write_npz(path, streams_of(), [some_block()])
    return str(path)


def failed(capsys: Captured, *argv: str, code: int = 2) -> str:
    """Runs a command that must fail, and gives what it says: one line, and nothing else."""
    assert main(argv) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("headrace: error: ")
    assert err.count("\n") == 1
    return err


def test_version_and_help(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"headrace {hr.__version__}\n"
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "Exit codes: 0 good, 1 problems" in text
    for command in re.findall(r"^  (\w+)  +", text.split("Commands:")[1], re.MULTILINE):
        assert main([command, "--help"]) == 0
        text = capsys.readouterr().out
        assert "Examples:\n    headrace " + command in text
        assert "--json" in text or command == "nmt"  # programs of their own
    assert main([]) == 2
    assert "Commands:" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["chek"], "No such command 'chek'"),
        (["convert", "a.npz"], "Missing argument 'OUT'"),
        (["check", "--max-errors", "x", "a.npz"], "Invalid value for '--max-errors'"),
        (["check"], "expected files to read, got none"),
        (["check", "nothing.npz"], "nothing.npz: "),
        (["check", "a*.npz"], "a*.npz: "),
        (["head", "nothing.npz", "-n", "0"], "Invalid value for '-n'"),
        (["check", "a.npz", "b.npz"], "expected one file of npz, got 2; name them one by one"),
        (
            ["check", "a", "--from", "csv"],
            "expected one of ctf, cbf, npz, arrow, jsonl, tfrecord as the format, got",
        ),
        (["check", "a.npz", "--streams", "x"], "--streams, 'x': expected NAME=FORMAT:DIM"),
        (["convert", "a.npz", "b.csv"], "b.csv: the ending doesn't say what to write; give --to"),
        (["convert", "a.npz", "b.jsonl.gz"], "the ending doesn't say"),
        (["convert", "a.npz", "nowhere/b.jsonl"], "nowhere/b.jsonl: there is no folder nowhere; make it first"),
        (["convert", "a.npz", "/dev/null", "--to", "jsonl", "--overwrite"], "/dev/null is no file (a folder, a pipe"),
        (["convert", "a.npz", "/tmp", "--to", "jsonl", "--overwrite"], "/tmp is no file"),
    ],
)
def test_mistakes_in_the_command_are_one_line(argv: list[str], message: str, capsys: Captured) -> None:
    assert message in failed(capsys, *argv)


def test_missing_extras_are_named(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setitem(__import__("sys").modules, "headrace.cli.app", None)
    with pytest.raises(ModuleNotFoundError, match=r"headrace\.cli\.app"):
        main(["--version"])  # not an extra: a mistake of ours, which must show
    monkeypatch.delitem(__import__("sys").modules, "headrace.cli.app")
    monkeypatch.setitem(__import__("sys").modules, "typer", None)
    assert failed(capsys, "--version") == "headrace: error: the command needs typer: pip install 'headrace[cli]'\n"


def test_check_sums_up_what_is_good(npz: str, capsys: Captured) -> None:
    assert main(["check", npz]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[0] == "40 sequences"
    assert "x: dense, 3 wide" in out
    assert "w: sparse, 70,000 wide" in out
    assert out.splitlines()[-1] == "good"
    assert main(["check", npz, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["good"] is True
    assert found["problems"] == {"count": 0, "kinds": {}, "listed": []}
    assert [stream["stream"] for stream in found["streams"]] == ["x", "w"]


def spoiled(path: pathlib.Path, lines: dict[int, str]) -> str:
    """JSON lines of which some are replaced, by their numbers from 1."""
    write_jsonl(path, streams_of(), [some_block(rows=200)])
    text = path.read_text().splitlines()
    for number, line in lines.items():
        text[number - 1] = line
    path.write_text("\n".join(text) + "\n")
    return str(path)


def test_check_reports_problems(tmp_path: pathlib.Path, capsys: Captured) -> None:
    path = spoiled(tmp_path / "a.jsonl", {3: "oops", 7: '{"key": 1, "streams": {"x": [[1]]}}'})
    assert main(["check", path, *STREAMS]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    first, second, *_ = out.splitlines()
    assert first.startswith(f"{path}, line 3, column 1: expected a JSON object")
    assert second.startswith(f"{path}, line 7, column 1: expected 3 numbers a sample of stream 'x', got 1 in sample 0")
    assert re.search(r"^  malformed line  2$", out, re.MULTILINE)
    assert "  2 sequences can't be used at all" in out
    assert out.splitlines()[-1] == "2 problems"
    assert main(["check", path, *STREAMS, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["good"], found["dropped"]) == (False, 2)
    assert found["problems"]["kinds"] == {"malformed line": 2}
    problem = found["problems"]["listed"][1]
    assert (problem["line"], problem["column"], problem["stream"], problem["sequence"]) == (7, 1, "x", 1)


def test_problems_are_tolerated_up_to_a_number(tmp_path: pathlib.Path, capsys: Captured) -> None:
    path = spoiled(tmp_path / "a.jsonl", {3: "oops", 7: "oops"})
    assert main(["check", path, *STREAMS, "--max-errors", "1"]) == 1
    assert main(["check", path, *STREAMS, "--max-errors", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 problems, 2 tolerated"


def test_the_first_problems_of_a_kind_are_listed(tmp_path: pathlib.Path, capsys: Captured) -> None:
    short = '{"key": 1, "streams": {"x": [[1]]}}'
    path = spoiled(tmp_path / "a.jsonl", dict.fromkeys(range(10, 130), "oops") | dict.fromkeys(range(8, 18, 2), short))
    assert main(["check", path, *STREAMS]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [i for i, text in enumerate(lines) if text.startswith(f"{path}, line ")] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert lines[10] == "… and 111 more of these (malformed line); --all lists them"
    assert main(["check", path, *STREAMS, "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]["listed"]) == 100
    assert main(["check", path, *STREAMS, "--all"]) == 1
    assert capsys.readouterr().out.count(": expected ") == 121


def test_repeated_ids_are_problems() -> None:
    block = some_block(rows=5)
    source = Given(streams_of(), Block(np.array([4, 9, 4, 1, 4], np.uint64), block.columns))
    report = examine(source)
    assert (report.problems, dict(report.kinds)) == (2, {"repeated id": 2})
    assert report.listed[1]["message"] == (
        "given, line 5: expected an id of its own for each sequence, got 4, which given, line 3 has too; give one of "
        "them another id, or put their lines together"
    )
    assert report.listed[1]["sequence"] == 4


def test_warnings_are_problems_if_asked(capsys: Captured) -> None:
    warnings = [ParseWarning("short", 3, "given, line 2: a short sample"), ParseWarning("odd", 1, "odd")]
    source = Given(streams_of(), some_block(), warnings=warnings)
    report = examine(source)
    assert (report.problems, report.warnings["short"].count) == (0, 3)
    report.show()
    assert "warning: given, line 2: a short sample (3 of this kind)\nwarning: odd\n" in capsys.readouterr().out
    report = examine(source, strict=True)
    assert (report.problems, dict(report.kinds), report.warnings) == (4, {"short": 3, "odd": 1}, {})


def test_problems_have_their_place_and_sequence() -> None:
    block = some_block()
    source = Given(streams_of(), block, bad=[3, 8])
    report = examine(source, limit=1)
    assert (report.problems, report.dropped, len(report.listed)) == (2, 2, 1)
    place = {"file": "given", "kind": "bad", "line": 4, "column": 3, "byte": 100, "stream": "x"}
    message = "given, line 4, column 3: expected good, got bad; mend it"
    assert report.listed[0] == {**place, "message": message, "sequence": int(block.keys[3])}


def test_head_shows_the_first_sequences(npz: str, capsys: Captured) -> None:
    assert main(["head", npz, "-n", "2"]) == 0
    out = capsys.readouterr().out
    keys = some_block().keys.tolist()
    assert re.findall(r"^sequence (\d+)$", out, re.MULTILINE) == [str(key) for key in keys[:2]]
    assert main(["head", npz, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["key"] for line in lines] == keys[:5]
    assert list(lines[0]["streams"]) == ["x", "w"]


def test_head_shortens_what_is_long(tmp_path: pathlib.Path, capsys: Captured) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(40, dtype=np.float32).reshape(1, 40))
    assert main(["head", str(tmp_path / "a.npz")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "sequence 0",
        "  x: 1 sample",
        "    0 1 2 3 4 5 6 7 8 9 10 11 … 28 more",
    ]


def test_head_stops_at_problems(tmp_path: pathlib.Path, capsys: Captured) -> None:
    path = spoiled(tmp_path / "a.jsonl", {3: "oops"})
    assert main(["head", path, *STREAMS, "-n", "2"]) == 0
    capsys.readouterr()
    assert "line 3, column 1: expected" in failed(capsys, "head", path, *STREAMS, code=1)


def test_converting_to_binary_and_text(npz: str, tmp_path: pathlib.Path, capsys: Captured) -> None:
    binary, text = str(tmp_path / "a.cbf"), tmp_path / "a.ctf.gz"
    assert main(["convert", npz, binary]) == 0
    assert main(["convert", binary, str(tmp_path / "b.npz")]) == 0
    assert main(["check", binary]) == 0
    block, back = some_block(), open_npz(tmp_path / "b.npz")
    assert back.keys().tolist() == list(range(40))
    found = back.parse(np.arange(40)).columns
    assert same(found["x"], block.columns["x"])
    assert same(found["w"].offsets, block.columns["w"].offsets)
    assert main(["convert", npz, str(text)]) == 0
    lines = gzip.decompress(text.read_bytes()).decode().splitlines()
    assert len(lines) == int(np.maximum(block.columns["x"].lengths, block.columns["w"].lengths).sum())
    assert lines[0].startswith(f"{block.keys[0]}\t|x")
    assert capsys.readouterr().err == ""


def test_whole_numbers_stay_whole(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "a.npz", y=np.array([[3], [4]], np.int16))
    chain = ["a.npz", "b.arrow", "c.npz", "d.jsonl"] if importlib.util.find_spec("pyarrow") else ["a.npz", "d.jsonl"]
    for before, after in pairwise(chain):
        assert main(["convert", str(tmp_path / before), str(tmp_path / after)]) == 0
    assert (tmp_path / "d.jsonl").read_text().splitlines()[1] == '{"key": 1, "streams": {"y": [[4]]}}'


def test_text_gets_ids_only_where_they_say_something(tmp_path: pathlib.Path) -> None:
    block = some_block(ids=False)
    write_npz(tmp_path / "a.npz", streams_of(), [block])
    write_npz(tmp_path / "b.npz", streams_of(), [Block(block.keys * np.uint64(2), block.columns)])
    short = Block(block.keys, {**block.columns, "x": hr.Ragged(np.ones((39, 3)), np.array([*range(39), 39, 39]))})
    write_npz(tmp_path / "c.npz", streams_of(), [short])
    for name, start in [("a", "|x"), ("b", "2\t|x"), ("c", "1\t|x")]:
        out = tmp_path / f"{name}.ctf"
        assert main(["convert", str(tmp_path / f"{name}.npz"), str(out)]) == 0
        lines = out.read_text().splitlines()
        assert len(lines) == 40
        assert lines[1].startswith(start)


@pytest.mark.parametrize("chain", [["arrow", "npz"], ["jsonl", "arrow", "feather", "jsonl", "npz"]])
def test_converting_round_keeps_all(chain: list[str], npz: str, tmp_path: pathlib.Path, capsys: Captured) -> None:
    if {"arrow", "feather"} & {*chain}:
        pytest.importorskip("pyarrow")
    path = npz
    for number, ending in enumerate(chain):
        new = str(tmp_path / f"{number}.{ending}")
        assert main(["convert", path, new, *(STREAMS if path.endswith("jsonl") else [])]) == 0
        path = new
    first, last = open_npz(npz), open_npz(path)
    assert same(first.keys(), last.keys())
    assert same(first.parse(np.arange(40)).columns, last.parse(np.arange(40)).columns)
    assert capsys.readouterr().out.startswith(f"{tmp_path}/0.{chain[0]}: 40 sequences, ")


def test_converting_says_what_it_wrote(npz: str, tmp_path: pathlib.Path, capsys: Captured) -> None:
    out = tmp_path / "b"
    assert main(["convert", npz, str(out), "--to", "jsonl", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"file": str(out), "sequences": 40, "bytes": out.stat().st_size, "problems": 0}


def test_files_are_replaced_only_if_asked(npz: str, tmp_path: pathlib.Path, capsys: Captured) -> None:
    out = tmp_path / "b.jsonl"
    out.write_text("precious")
    assert "is there already; --overwrite replaces it" in failed(capsys, "convert", npz, str(out))
    assert out.read_text() == "precious"
    assert main(["convert", npz, str(out), "--overwrite"]) == 0
    assert len(out.read_text().splitlines()) == 40
    capsys.readouterr()
    assert "is the file that is read" in failed(capsys, "convert", npz, npz, "--overwrite")


def test_converting_leaves_out_what_is_spoiled_if_asked(tmp_path: pathlib.Path, capsys: Captured) -> None:
    path, out = spoiled(tmp_path / "a.jsonl", {3: "oops", 7: "oops"}), tmp_path / "b.npz"
    argv = ["convert", path, str(out), *STREAMS]
    assert "line 3, column 1" in failed(capsys, *argv, code=1)
    assert "line 7, column 1" in failed(capsys, *argv, "--max-errors", "1", code=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl"]
    assert main([*argv, "--max-errors", "2"]) == 0
    assert "warning: 2 problems" in capsys.readouterr().err
    assert open_npz(out).num_records == 198


def test_formats_go_by_endings_and_beginnings(npz: str, tmp_path: pathlib.Path, capsys: Captured) -> None:
    assert [format_of(name) for name in ("a.CTF.gz", "a.txt.zst", "a.b.bin", "a.feather", "a")] == [
        "ctf",
        "ctf",
        "cbf",
        "arrow",
        None,
    ]
    plain = tmp_path / "data"
    pathlib.Path(npz).rename(plain)
    assert main(["check", str(plain)]) == 0
    assert main(["convert", str(plain), str(tmp_path / "lines"), "--to", "jsonl"]) == 0
    assert main(["check", str(tmp_path / "lines"), *STREAMS]) == 0


def test_streams_must_be_those_of_the_file(npz: str, capsys: Captured) -> None:
    assert main(["check", npz, *STREAMS]) == 0
    capsys.readouterr()
    err = failed(capsys, "check", npz, "--streams", "x=dense:4")
    assert "data.npz has the streams 'x=dense:3 w=sparse:70000', and --streams says 'x=dense:4'; leave" in err


def test_a_bar_is_shown_on_terminals_only(npz: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["check", npz]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert main(["check", npz]) == 0
    assert "checking" in capsys.readouterr().err


def test_headings_stand_out_on_terminals_only(npz: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["head", npz, "-n", "1"]) == 0
    assert capsys.readouterr().out.startswith("sequence ")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert main(["head", npz, "-n", "1"]) == 0
    assert capsys.readouterr().out.startswith("\033[1msequence ")
    monkeypatch.setenv("TERM", "dumb")
    assert main(["head", npz, "-n", "1"]) == 0
    assert capsys.readouterr().out.startswith("sequence ")


def test_library_warnings_go_to_standard_error(capsys: Captured, monkeypatch: pytest.MonkeyPatch, npz: str) -> None:
    import logging

    def warn(*args: Any, **options: Any) -> Any:
        logging.getLogger("headrace").warning("no room for %s", "an index")
        return open_npz(npz)

    monkeypatch.setattr("headrace.cli.check.open_input", warn)
    assert main(["check", npz]) == 0
    assert capsys.readouterr().err == "headrace: warning: no room for an index\n"


def test_index_is_made_kept_and_removed(tmp_path: pathlib.Path, capsys: Captured) -> None:
    for name in ("b.ctf", "a.ctf"):
        (tmp_path / name).write_text("1 |x 1\n1 |x 2\n2 |x 3\n")
    pattern = str(tmp_path / "*.ctf")
    assert main(["index", pattern]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(f"{tmp_path}/a.ctf: 2 sequences, 3 lines, indexed with [0-9,]+ MB/s", first)
    assert second.startswith(f"{tmp_path}/b.ctf: ")
    assert len(list(tmp_path.glob("*.hrindex"))) == 2
    assert main(["index", pattern]) == 0
    assert "a.ctf: 2 sequences, 3 lines, the index was there already\n" in capsys.readouterr().out
    assert main(["index", str(tmp_path / "a.ctf"), "--rebuild", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sequences"], found["lines"], found["bytes"], found["ids"], found["made"]) == (2, 3, 21, True, True)
    assert main(["index", str(tmp_path / "a.ctf"), "--defines-size", "x", "--skip-ids", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 3
    assert main(["index", pattern, "--remove"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/a.ctf: 2 indexes removed",
        f"{tmp_path}/b.ctf: 1 index removed",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ctf", "b.ctf"]


def test_index_says_what_it_can_not_do(tmp_path: pathlib.Path, capsys: Captured) -> None:
    packed = tmp_path / "a.ctf.gz"
    packed.write_bytes(gzip.compress(b"|x 1\n"))
    assert "no index can be kept beside it: it is packed" in failed(capsys, "index", str(packed))
    (tmp_path / "b.ctf").write_text("x\n")
    assert "b.ctf" in failed(capsys, "index", str(tmp_path / "b.ctf"))
    (tmp_path / "c.ctf").write_text("1 |x 1\n2 |x 1\n1 |x 1\n")
    assert main(["index", str(tmp_path / "c.ctf")]) == 0
    assert "c.ctf: 1 id again; headrace check names them" in capsys.readouterr().err


def test_infer_prints_a_configuration(tmp_path: pathlib.Path, capsys: Captured) -> None:
    path, config = tmp_path / "train.ctf", tmp_path / "reader.cntk"
    path.write_text("1 |word 4:1 |pos 0.5 1\n1 |word 7:1\n2 |word 5:1 |pos 1 0\n")
    assert main(["infer", str(path)]) == 0
    out = capsys.readouterr().out
    assert '# on the command line: --streams "word=sparse:8 pos=dense:2"\n' in out
    assert f"# in Python: hr.read_ctf({str(path)!r}, {{'word': hr.sparse(8), 'pos': hr.dense(2)}})\n" in out
    config.write_text(out)
    read = hr_cntk.read_config(config).deserializers[0]
    assert (read.file, {name: (s.format, s.dim) for name, s in read.streams.items()}) == (
        str(path),
        {"word": ("sparse", 8), "pos": ("dense", 2)},
    )
    assert main(["infer", str(path), "--skip-ids", "--all", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ids"], found["option"]) == (False, "word=sparse:8 pos=dense:2")
    assert found["streams"]["word"] == {"format": "sparse", "dim": 8, "alias": "word"}
    assert "skip_ids=True" in found["python"]
    assert "skipSequenceIds = true" in found["config"]
    path.write_text("|a=b 1\n")
    assert main(["infer", str(path)]) == 0
    assert "# no configuration can be written: " in capsys.readouterr().out
    path.write_text("")
    assert "train.ctf" in failed(capsys, "infer", str(path))


def test_usage_errors_name_the_command_whose_help_says_more(capsys: Captured) -> None:
    assert "(headrace head --help says more)" in failed(capsys, "head", "--nonsense")


def test_check_tells_of_streams_that_never_occur(tmp_path: pathlib.Path, capsys: Captured) -> None:
    path = tmp_path / "a.ctf"
    path.write_text("1 |x 1 2\n1 |x 3 4\n2 |x 5 6\n")
    assert main(["check", str(path), "--streams", "x=dense:2 y=sparse:3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert any("no sequence has a sample of 'y'" in json.dumps(one) for one in report["warnings"])


def test_failures_are_json_if_that_was_asked_for(tmp_path: pathlib.Path, capsys: Captured) -> None:
    bad = spoiled(tmp_path / "a.jsonl", {3: "oops"})
    commands = [
        (2, ["check", str(tmp_path / "none.npz")], "none.npz"),
        (2, ["check", bad, "--streams", "x=round:3"], "round"),
        (2, ["check", bad, "--rows"], "(headrace check --help says more)"),
        (1, ["convert", bad, str(tmp_path / "a.npz"), *STREAMS], "expected a JSON object"),
    ]
    for code, command, part in commands:
        assert main(command) == code
        out, err = capsys.readouterr()
        assert out == ""
        assert main([*command, "--json"]) == code
        printed = capsys.readouterr()
        assert printed.err == err
        found = json.loads(printed.out)
        assert list(found) == ["error"]
        assert part in found["error"]
        assert err.endswith(f"headrace: error: {found['error']}\n")


def test_loading_may_be_stopped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Loading:
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "headrace.cli.app", Loading())
    assert main(["--help"]) == 130
    assert capsys.readouterr().err == "headrace: error: stopped\n"
