"""Workers and the life of their process: forks, and the end of the interpreter."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ENDS = """
import pathlib, sys
import headrace as hr

path, workers = pathlib.Path(sys.argv[1]), int(sys.argv[2])
path.write_text("the mill stands by the brook and turns all day long\\n" * 50_000)
data = hr.read_text(path).tokens(hr.build_vocab(path)).bucket(batch_size=500, width=10).pad()
kept = iter(hr.Loader(data, workers=workers))  # lives until the interpreter ends
next(kept)
"""

FORKS = """
import os, signal
import numpy as np
import headrace as hr

def child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # a deadlock ends the child by a signal
        try:
            print(work(), flush=True)
        except hr.StuckError as error:
            print(error, flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

def count(batches):
    return sum(map(len, batches))

for source in (hr.from_arrays(np.arange(5000)).map(lambda n: n), hr.from_iterable(lambda: range(5000))):
    data = source.batch(10)
    loader = hr.Loader(data, workers=3)
    running = iter(loader)
    next(running)
    child(lambda: count(running))
    child(lambda: count(loader))
    child(loader.close)
    child(lambda: count(hr.Loader(data, workers=2)))
    print(count(running))
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("workers", [1, 4])
def test_the_interpreter_ends_quietly_under_a_running_loader(workers: int, tmp_path: pathlib.Path) -> None:
    for _ in range(3):
        ended = python(ENDS, str(tmp_path / "text"), str(workers))
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="needs fork")
def test_a_forked_process_finds_no_workers_and_does_not_wait_for_them() -> None:
    ended = python(FORKS)
    stayed = "this iteration's workers stayed in the process that this one was forked from; iterate the loader anew"
    assert ended.stdout.splitlines() == [stayed, "4990", "None", "5000", "4990"] * 2, ended.stderr


MANY_FILES = """
import os, resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(2000, hard), hard))
kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(1200)]
import numpy as np
import headrace as hr
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()  # so that workers come from the zygote
data = hr.from_arrays(np.arange(100)).map(lambda n: n).batch(10)
print(sum(map(len, hr.Loader(data, workers=2, mode="processes"))))
"""


def test_a_program_may_have_more_than_1024_files_open() -> None:
    done = python(MANY_FILES)
    assert done.stdout == "100\n", done.stderr
