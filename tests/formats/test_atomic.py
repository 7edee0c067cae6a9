"""What killed processes left half written goes away, and nothing else does."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import headrace as hr
from headrace.formats import atomic
from headrace.formats.atomic import unfinished_path, write_atomic
from headrace.formats.columnar import cached
from headrace.formats.ctf import CtfSource

pytestmark = pytest.mark.skipif(os.name != "posix", reason="tells by POSIX whether a process is there")


def killed(program: str, *arguments: object) -> None:
    """Runs a program that kills itself."""
    text = "import os, signal, sys\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", text, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(autouse=True)
def unlisted() -> None:
    atomic._left_by_dead.cache_clear()


def test_files_of_the_dead_are_removed_when_their_name_is_written(tmp_path: pathlib.Path) -> None:
    program = """
    from headrace.formats.atomic import open_atomic
    with open_atomic(sys.argv[1]) as a, open_atomic(sys.argv[2]) as b:
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed(program, tmp_path / "words", tmp_path / "words.old")
    killed(program, tmp_path / "words", tmp_path / "more")
    assert len(names(tmp_path)) == 3  # the second one has removed what the first had left
    write_atomic(tmp_path / "words", [b"to the mill"])
    left = names(tmp_path)
    assert [re.sub(r"[0-9a-f]{8}-[0-9]+-[0-9a-f]{8}", "X", name) for name in left] == [
        ".more.X.tmp",
        ".words.old.X.tmp",
        "words",
    ]
    write_atomic(tmp_path / "more", [b""])
    write_atomic(tmp_path / "words.old", [b""])
    assert names(tmp_path) == ["more", "words", "words.old"]


def test_the_living_other_machines_and_strangers_are_left_alone(tmp_path: pathlib.Path) -> None:
    own = pathlib.Path(unfinished_path(str(tmp_path / "a"))).name
    machine, process, number = re.fullmatch(r"\.a\.(.*)-(.*)-(.*)\.tmp", own).groups()  # type: ignore[union-attr]
    assert int(process) == os.getpid()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    kept = [
        own,
        f".a.{machine}-{os.getppid()}-{number}.tmp",
        f".a.{machine}-1-{number}.tmp",
        f".a.{machine}-0-{number}.tmp",
        f".a.{machine}-{1 << 40}-{number}.tmp",
        f".a.{'0' * 8}-{dead.pid}-{number}.tmp",
        f".a.{dead.pid}-{number}.tmp",
        f"a.{machine}-{dead.pid}-{number}.tmp",
        f".a.{machine}-{dead.pid}-{number}.tmp.txt",
    ]
    for name in [*kept, f".a.{machine}-{dead.pid}-{number}.tmp"]:
        (tmp_path / name).write_bytes(b"")
    atomic._left_by_dead.cache_clear()
    write_atomic(tmp_path / "a", [b""])
    assert names(tmp_path) == sorted(["a", *kept])


def test_a_cache_that_was_half_made_is_removed(tmp_path: pathlib.Path) -> None:
    data = tmp_path / "a.ctf"
    data.write_text("|x 1\n|x 2\n")
    program = """
    import headrace as hr
    from headrace.formats import columnar
    from headrace.formats.ctf import CtfSource
    source = CtfSource(sys.argv[1], {"x": hr.dense(1)}, index="memory")
    if sys.argv[3] == "moving":
        columnar.cached(source, sys.argv[2])
        rename = os.rename
        os.rename = lambda a, b: (rename(a, b), os.kill(os.getpid(), signal.SIGKILL))
        source = CtfSource(sys.argv[1], {"x": hr.dense(2)}, index="memory")
    else:
        columnar.write_atomic = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    columnar.cached(source, sys.argv[2])
    """
    cache = tmp_path / "cache"
    killed(program, data, cache, "writing")
    killed(program, data, cache, "moving")
    assert not cache.exists()
    assert len(names(tmp_path)) == 3  # with what was made and what was there before, of which the first went away
    found = cached(CtfSource(data, {"x": hr.dense(1)}, index="memory"), cache)
    assert found.read(np.arange(2))["x"].tolist() == [[1], [2]]
    found.close()
    assert names(tmp_path) == ["a.ctf", "cache"]


def test_parts_of_a_tfrecord_file_are_removed(tmp_path: pathlib.Path) -> None:
    program = """
    import headrace as hr
    writer = hr.TFRecordWriter(sys.argv[1], shard_size=100)
    for _ in range(9):
        writer.write(bytes(60))
    os.kill(os.getpid(), signal.SIGKILL)
    """
    killed(program, tmp_path / "a.tfrecord")
    assert len(names(tmp_path)) > 1
    with hr.TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        writer.write(b"")
    assert names(tmp_path) == ["a.tfrecord"]


def test_no_file_takes_the_place_of_a_pipe(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match="expected a file to write, found a pipe or a device") as caught:
            write_atomic(tmp_path / name, [b"text"])
        assert caught.value.filename == str(tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
