"""States in files: shown, compared and moved on, and never trusted."""

from __future__ import annotations

import json
import pathlib
import random
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.cli import main
from headrace.cli.state_file import moved, read_state

Captured = pytest.CaptureFixture[str]

SCRIPT = """
import headrace as hr
records = hr.from_dataset(range(200), lengths=[n % 7 for n in range(200)]).shuffle(seed=2)
fixed = records.batch(16)
data = records.bucket(batch_size=8, width=2, window=64)
loader = hr.Loader(data)
def make():
    return data
left = records.filter(lambda n: n % 2).batch(4)
"""


@pytest.fixture
def script(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "for_states.py"
    path.write_text(SCRIPT)
    return str(path)


def batches(n: int = 200, size: int = 16) -> hr.Batches:
    return hr.from_dataset(range(n)).shuffle(seed=2).batch(size)


def save(path: pathlib.Path, data: hr.Batches, count: int) -> str:
    loader = hr.Loader(data)
    for _ in range(count):
        next(iter(loader), None)
    path.write_text(json.dumps(loader.state_dict()))
    return str(path)


def states(data: hr.Batches, epochs: int) -> list[dict[str, Any]]:
    loader = hr.Loader(data)
    found = [loader.state_dict()]
    while loader.epoch < epochs:
        for _ in loader:
            found.append(loader.state_dict())
    return found


DESCRIPTIONS = {
    "fixed": hr.from_dataset(range(20)).batch(3),
    "whole": hr.from_dataset(range(20)).batch(4),
    "dropping": hr.from_dataset(range(20)).batch(3, drop_remainder=True),
    "two windows": hr.from_dataset(range(140_000)).batch(20_000),
    "bucket": hr.from_dataset(range(60), lengths=np.arange(60) % 7).bucket(batch_size=4, width=2, window=20),
    "bucket, dropping": hr.from_dataset(range(60), lengths=np.arange(60) // 9).bucket(
        batch_size=4, width=2, window=7, drop_remainder=True
    ),
    "pack": hr.from_arrays(hr.Ragged(np.arange(90), np.arange(0, 91, 3)))
    .shuffle(seed=1)
    .pack(7, batch_size=2, window=9),
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_skipping_leads_where_reading_does(name: str) -> None:
    data = DESCRIPTIONS[name]
    found = states(data, 3)
    draw = random.Random(1)
    for _ in range(60):
        start, end = sorted(draw.choices(range(len(found)), k=2))
        loader = hr.Loader(data)
        loader.load_state_dict(found[start])
        loader.skip(end - start)
        assert loader.state_dict() == found[end], (start, end)
        if "batches" in found[start]:
            assert moved(found[start], end - start) == found[end]
        else:
            with pytest.raises(hr.StateError, match="name the description: --data"):
                moved(found[start], end - start)


def test_skipping_far_takes_no_time() -> None:
    loader = hr.Loader(batches(10**9, 10))
    loader.skip(10**12 + 5)
    assert (loader.epoch, loader.state_dict()["batch"]) == (10_000, 5)
    endless = hr.Loader(hr.from_dataset(range(10)).repeat().batch(4))
    endless.skip(10**12)
    assert endless.state_dict()["batch"] == 10**12
    assert moved(hr.Loader(batches(10**9, 10)).state_dict(), 10**12 + 5) == loader.state_dict()


def test_what_only_reading_tells_is_not_skipped() -> None:
    for data in (
        hr.from_dataset(range(10)).filter(lambda n: n % 2).batch(2),
        hr.from_dataset([[1], [2, 3]]).map(lambda x: x).bucket(batch_size=2),
    ):
        loader = hr.Loader(data)
        loader.skip(0)
        with pytest.raises(hr.StateError, match="can't be skipped without reading"):
            loader.skip(1)
    with pytest.raises(hr.StateError, match="no batches to skip: the epoch is empty"):
        hr.Loader(batches(0)).skip(1)
    with pytest.raises(hr.PlanError, match="batches is at least 0"):
        hr.Loader(batches()).skip(-1)
    stream = hr.Loader(hr.from_iterable(range(100)).batch(5))
    stream.skip(3)
    assert next(iter(stream)).tolist() == [15, 16, 17, 18, 19]


def test_a_state_is_shown(tmp_path: pathlib.Path, capsys: Captured) -> None:
    path = save(tmp_path / "state.json", batches(), 4)
    assert main(["state", "show", path]) == 0
    text = capsys.readouterr().out
    assert "epoch    0" in text
    assert "4 of 13 (30.8%) of it have been handed over" in text
    assert "source 0 records 200, type range" in text
    assert "step 1   shuffle(seed=2)" in text
    assert main(["state", "show", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(pathlib.Path(path).read_text())


def test_states_are_compared(tmp_path: pathlib.Path, capsys: Captured) -> None:
    one, two = save(tmp_path / "a", batches(), 4), save(tmp_path / "b", batches(), 15)
    assert main(["state", "diff", one, one]) == 0
    assert capsys.readouterr().out == "the same\n"
    assert main(["state", "diff", one, two]) == 1
    text = capsys.readouterr().out
    assert "epoch: 0 → 1" in text
    assert f"{two} is 11 batches after {one}" in text
    other = save(tmp_path / "c", batches(100).map(lambda b: b), 4)
    assert main(["state", "diff", one, other, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {d["what"] for d in found["differences"]} >= {"source 0", "step 3"}
    assert found["batches"] is None


def test_states_are_moved_on(tmp_path: pathlib.Path, script: str, capsys: Captured) -> None:
    path, out = save(tmp_path / "state", batches(), 4), tmp_path / "later"
    assert main(["state", "skip", path, "11", "-o", str(out)]) == 0
    assert json.loads(out.read_text()) == json.loads(pathlib.Path(save(tmp_path / "b", batches(), 15)).read_text())
    assert "epoch 1, batch 2" in capsys.readouterr().err
    for name in ("data", "loader", "make"):
        module: dict[str, Any] = {}
        exec(SCRIPT, module)
        state = save(tmp_path / "bucketed", module["data"], 3)
        assert main(["state", "skip", state, "40"]) == 2
        assert "name the description: --data" in capsys.readouterr().err
        assert main(["state", "skip", state, "40", "--data", f"{script}:{name}"]) == 0
        later = json.loads(capsys.readouterr().out)
        assert later == json.loads(pathlib.Path(save(tmp_path / "c", module["data"], 43)).read_text())
    assert main(["state", "skip", path, "3", "--data", f"{script}:data"]) == 2
    assert "saved with another" in capsys.readouterr().err


HOSTILE = {
    "empty": (b"", "the file is empty"),
    "cut": (b'{"headrace": 1, "epoch"', "cut short"),
    "cut in a text": (b'{"headrace": 1, "pipeline": ["dat', "cut short"),
    "no json": (b"hello\n", "not JSON: line 1"),
    "binary": (b"\x80\x04\x95", "pickle"),
    "zip": (b"PK\x03\x04...", "torch.save"),
    "latin-1": (b'{"headrace": "\xe4"}', "not UTF-8: byte 14 is 0xe4"),
    "list": (b"[1]", "expected an object with a loader's state, got list"),
    "null": (b"null", "got NoneType"),
    "deep": (b"[" * 100_000, "damaged"),
    "huge number": (b'{"headrace": 1, "epoch": ' + b"9" * 5000 + b"}", "damaged"),
    "nan": (b'{"headrace": NaN}', "NaN is no number"),
    "large": (b" " * (2 << 20), "larger than 1 MB"),
    "old": (b'{"headrace": 0}', "expected a loader's state of version 1, got version 0"),
    "new": (b'{"headrace": 7}', "saved by a newer headrace"),
    "other": (b'{"epoch": 1}', "its keys are ['epoch']"),
    "inner": (b'{"step": 3, "loader": {"headrace": 1}}', "say --key loader"),
    "no numbers": (b'{"headrace":1,"epoch":true,"batch":0,"window":[0,0],"data":[],"pipeline":[]}', "is no position"),
    "negative": (b'{"headrace":1,"epoch":-1,"batch":0,"window":[0,0],"data":[],"pipeline":[]}', "is no position"),
    "window": (b'{"headrace":1,"epoch":1,"batch":0,"window":{},"data":[],"pipeline":[]}', "expected two numbers"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_are_no_states_are_refused(name: str, tmp_path: pathlib.Path, capsys: Captured) -> None:
    content, message = HOSTILE[name]
    path = tmp_path / "state.json"
    path.write_bytes(content)
    good = save(tmp_path / "good.json", batches(), 1)
    for command in (
        ["show", str(path)],
        ["diff", str(path), good],
        ["diff", good, str(path)],
        ["skip", str(path), "3"],
    ):
        assert main(["state", *command]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert "state.json" in err
        assert err.count("\n") == 1
        assert len(err) < 700


def test_a_missing_file_is_told(capsys: Captured) -> None:
    assert main(["state", "show", "/nowhere/state.json"]) == 2
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize("given", [[1], [0, 5], [4, -1], ["4", 5], "x", [4, 1.5], [True, 5]])
def test_batches_that_make_no_sense_are_refused(given: Any) -> None:
    state = {**hr.Loader(batches()).state_dict(), "batches": given}
    with pytest.raises(hr.StateError, match="batches is"):
        moved(state, 2)
    hr.Loader(batches()).load_state_dict(state)  # which needs none of it


def test_what_could_move_the_cursor_is_escaped(tmp_path: pathlib.Path, capsys: Captured) -> None:
    state = hr.Loader(batches()).state_dict()
    state["pipeline"] = ["\x1b[2Jdataset()", {"x": "\x07"}]
    (tmp_path / "state").write_text(json.dumps(state))
    assert main(["state", "show", str(tmp_path / "state")]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\\x1b[2Jdataset()" in text


def test_a_state_inside_a_checkpoint_is_found(tmp_path: pathlib.Path, capsys: Captured) -> None:
    state = hr.Loader(batches()).state_dict()
    (tmp_path / "checkpoint").write_text(json.dumps({"step": 4, "parts": {"loader": state}}))
    assert main(["state", "skip", str(tmp_path / "checkpoint"), "2", "--key", "parts.loader"]) == 0
    assert json.loads(capsys.readouterr().out)["batch"] == 2
    assert main(["state", "show", str(tmp_path / "checkpoint"), "--key", "parts.nothing"]) == 2
    assert "there is no 'parts.nothing' in it" in capsys.readouterr().err


@given(st.data())
def test_damaged_states_are_refused_or_harmless(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    content = bytearray(json.dumps(hr.Loader(batches()).state_dict()).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("state") / "state.json"
    path.write_bytes(bytes(content[: data.draw(st.integers(1, len(content)))]))
    try:
        state = read_state(path)
        moved(state, data.draw(st.integers(0, 1 << 40)))
        hr.Loader(batches()).load_state_dict(state)
    except hr.StateError:
        pass
