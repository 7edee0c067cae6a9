"""The command as a process: signals, pipes, disks."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import resource
import signal
import subprocess
import sys

import pytest

from headrace.cli import main
from headrace.formats.npz import write_npz
from tests.formats.helpers import some_block, streams_of

COMMAND = [sys.executable, "-m", "headrace.cli"]

# A conversion that waits in its midst, once it has written something.
WAITING = """
import sys, time
from headrace.cli import main
import headrace.cli.convert as convert
inner = convert._blocks
def blocks(*args):
    yield from inner(*args)
    print("ready", file=sys.stderr, flush=True)
    time.sleep(120)
convert._blocks = blocks
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def npz(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "data.npz"
    write_npz(path, streams_of(), [some_block(rows=20_000)])
    return path


def test_the_script_is_installed() -> None:
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="headrace")
    assert script.load() is main


def test_exit_codes(npz: pathlib.Path) -> None:
    good = subprocess.run([*COMMAND, "check", str(npz)], capture_output=True, text=True)
    assert (good.returncode, good.stderr) == (0, "")
    bad = subprocess.run([*COMMAND, "check", "nothing.npz"], capture_output=True, text=True)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.startswith("headrace: error: nothing.npz")


def test_a_closed_pipe_is_no_mistake(npz: pathlib.Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "head", str(npz), "-n", "20000", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b'{"key": ')
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("ending", ["jsonl", "npz"])
def test_being_stopped_leaves_nothing(npz: pathlib.Path, number: int, code: int, ending: str) -> None:
    command = [sys.executable, "-c", WAITING, "convert", str(npz), str(npz.with_name(f"out.{ending}"))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        process.send_signal(number)
        rest = process.stderr.read()
    assert process.returncode == code
    assert rest == ("headrace: error: stopped\n" if number == signal.SIGINT else "")
    assert [path.name for path in npz.parent.iterdir()] == ["data.npz"]


@pytest.mark.parametrize("ending", ["jsonl", "npz", "arrow"])
def test_a_full_disk_leaves_nothing(npz: pathlib.Path, ending: str) -> None:
    if ending == "arrow":
        pytest.importorskip("pyarrow")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    command = [*COMMAND, "convert", str(npz), str(npz.with_name(f"out.{ending}"))]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)
    assert done.returncode == 2
    assert done.stdout == ""
    named = f"out.{ending}: File too large; nothing was written: make room, or write to another disk\n"
    assert done.stderr.endswith(named)
    assert done.stderr.count("\n") == 1
    assert [path.name for path in npz.parent.iterdir()] == ["data.npz"]


@pytest.mark.parametrize("command", ["check", "head", "infer", "index", "convert"])
@pytest.mark.parametrize("name", ["pipe", "pipe.ctf"])
def test_pipes_are_refused_rather_than_waited_for(command: str, name: str, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / name)
    more = [str(tmp_path / "out.cbf")] if command == "convert" else []
    done = subprocess.run(
        [*COMMAND, command, str(tmp_path / name), *more], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert f"{name}: expected a regular file, found a pipe or device" in done.stderr


def test_a_full_output_is_told_and_what_was_written_stays(npz: pathlib.Path) -> None:
    output = npz.with_suffix(".cbf")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "convert", str(npz), str(output)], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr == (
        "headrace: error: standard output: No space left on device; make room, or write to another disk\n"
    )
    assert output.stat().st_size > 0


@pytest.mark.parametrize("closing", [">&-", "2>&-", "2>/dev/full"])
def test_closed_outputs_change_no_exit_code(closing: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.ctf"
    path.write_text("0 |x 1 2\n")
    line = " ".join([*COMMAND, "check", str(path), closing])  # infers the streams, which it says on standard error
    assert subprocess.run(["sh", "-c", line], capture_output=True).returncode == 0
    line = " ".join([*COMMAND, "check", str(tmp_path / "none.ctf"), closing])
    assert subprocess.run(["sh", "-c", line], capture_output=True).returncode == 2
