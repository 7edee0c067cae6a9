from __future__ import annotations

import json
import pathlib
import sys

import pytest

from headrace.cli import main

SCRIPT = """
import headrace as hr
calls = iter(range(10**6))
data = hr.from_dataset(range(50)).shuffle(seed=2).batch(4)
broken = hr.from_dataset(range(50)).map(lambda n: n + (next(calls) > 90)).batch(4)
class names:
    @staticmethod
    def make(workers, rank, world_size):
        return hr.Loader(data, workers=workers, rank=rank, world_size=world_size)
"""
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def script(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "described_here.py"
    path.write_text(SCRIPT)
    return str(path)


def test_a_script_is_verified(script: str, capsys: Captured) -> None:
    assert main(["verify", f"{script}:data", "--events", "20", "--seed", "5"]) == 0
    assert "20 events" in capsys.readouterr().out
    assert main(["verify", f"{script}:names.make", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verified"]
    assert found["events"] == 50


def test_a_module_is_verified(script: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pathlib.Path(script).parent)
    assert main(["verify", "described_here:data"]) == 0
    assert capsys.readouterr().out.startswith("Verified: ")


def test_what_does_not_hold_is_told(script: str, capsys: Captured) -> None:
    assert main(["verify", f"{script}:broken"]) == 1
    assert capsys.readouterr().out.startswith("NOT VERIFIED: the run differs from the plan in batch ")
    assert main(["verify", f"{script}:broken", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["verified"]
    assert found["record"].endswith("of range")


@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        ("{folder}/nowhere.py:data", 2, "there is no such file"),
        ("no_such_module_here:data", 2, "there is no module 'no_such_module_here'"),
        ("{script}:date", 2, "has no 'date'; it has broken, data"),
        ("{script}", 2, "say which of"),
        ("{script}:calls", 2, "verify takes batches, a dataset, a loader or a function"),
        ("{folder}/bad.py:data", 1, "ZeroDivisionError: integer division"),
        ("{folder}/worse.py:data", 1, "SyntaxError"),
        ("{folder}/exits.py:data", 1, "SystemExit: 3"),
    ],
)
def test_targets_that_lead_nowhere(
    target: str, code: int, message: str, script: str, tmp_path: pathlib.Path, capsys: Captured
) -> None:
    (tmp_path / "bad.py").write_text("x = 1\ny = 1 // 0\n")
    (tmp_path / "worse.py").write_text("x = (\n")
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(3)\n")
    assert main(["verify", target.format(folder=tmp_path, script=script)]) == code
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
