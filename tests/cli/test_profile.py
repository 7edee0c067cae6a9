"""`headrace profile`: the program runs as under python, and the report follows however it ends."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys

import pytest

from headrace.cli import main

SCRIPT = """
import sys
import numpy as np
import headrace as hr
import beside

loader = hr.Loader(hr.from_arrays(np.arange(20)).batch(2))
hr.Loader(hr.from_arrays(np.arange(20)).batch(2))
for number, batch in enumerate(loader):
    if number == 4 and "--fail" in sys.argv:
        raise ValueError("no good")
    if number == 5 and "--exit" in sys.argv:
        sys.exit(7)
print("done", __name__, sys.argv[1:], beside.NAME)
"""


@pytest.fixture
def script(tmp_path: pathlib.Path) -> str:
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.fixture(autouse=True)
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "beside", raising=False)


def test_a_program_and_its_report(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.argv, sys.path[:], sys.modules["__main__"]
    assert main(["profile", script, "--html", "-n", "3"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[:3] == ["done __main__ ['--html', '-n', '3'] beside", "", f"Loader made at {script}:7"]
    assert lines[3].startswith("10 batches, 20 records")
    assert err == "headrace: 1 loader more gave no batch\n"
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before


def test_a_module(script: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pathlib.Path(script).parent)
    assert main(["profile", "-m", "train", "-m"]) == 0
    assert capsys.readouterr().out.startswith("done __main__ ['-m'] beside\n\nLoader made at")


def test_a_program_that_fails(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", script, "--fail"]) == 1
    out, err = capsys.readouterr()
    assert "5 batches, 10 records" in out
    assert err.splitlines()[:2] == ["Traceback (most recent call last):", f'  File "{script}", line 11, in <module>']
    assert "ValueError: no good\n" in err
    assert "runpy" not in err


def test_a_program_that_exits(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--json", script, "--exit"]) == 7
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["exit_code"] == 7
    assert [loader["stats"]["batches"] for loader in found["loaders"]] == [6]


def test_a_message_at_exit(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "it.py").write_text("raise SystemExit('enough')")
    assert main(["profile", str(tmp_path / "it.py")]) == 1
    assert capsys.readouterr().err == "enough\nheadrace: no loader gave a batch to this process\n"


def test_a_page(script: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "it.html"
    assert main(["profile", "--html", str(page), script]) == 0
    text = page.read_text()
    assert "<svg" in text
    assert "train.py" in text
    assert f"the timeline is in {page}" in capsys.readouterr().err


def test_mistakes(tmp_path: pathlib.Path, script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(tmp_path / "nothing.py")]) == 2
    assert "nothing.py: No such file" in capsys.readouterr().err
    assert main(["profile", "-m", "no_such_module_here"]) == 2
    assert "no_such_module_here" in capsys.readouterr().err
    assert main(["profile", "--html", str(tmp_path / "no/it.html"), script]) == 2
    assert "doesn't exist" in capsys.readouterr().err
    (tmp_path / "it.py").write_text("import no_such_module_here")
    assert main(["profile", str(tmp_path / "it.py")]) == 1  # the program's own mistake
    assert "Traceback" in capsys.readouterr().err


def test_interrupted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "it.py"
    path.write_text(
        "import time, numpy as np, headrace as hr\n"
        "for batch in hr.Loader(hr.from_arrays(np.arange(4)).batch(2), workers=1):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(120)\n"
    )
    command = [sys.executable, "-m", "headrace.cli", "profile", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"Loader made at {path}:2\n1 batches, 2 records" in out
