"""Machines that refuse: each time the right results, or an error that names the limit."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import pathlib
import resource
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from headrace.clock import Clock
from headrace.engine import Auto, Crew, ProcessRun, Result, Seat, StatsCollector, run_auto
from headrace.engine.channel import Channel
from headrace.engine.worker import _Worker
from headrace.engine.workers import _above_streams, _interpreter

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits are Linux's")


class Squares:
    """Squares numbers."""

    def open(self, seat: Seat) -> Any:
        """Gives what does."""
        return lambda piece, clock: piece * piece


def squares(crew: Crew) -> list[Any]:
    run = ProcessRun(crew, range(6), Squares(), StatsCollector(1, 2), prefetch=2, max_bytes=1 << 20)
    return [result.error or result.value for result in run]


SQUARES = [0, 1, 4, 9, 16, 25]


@contextlib.contextmanager
def no_more_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.dup(0)  # the lowest number that is free
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EMFILE, "Too many open files; .*ulimit -n"),
        (errno.EAGAIN, "ask for fewer workers, .*ulimit -u"),
        (errno.EFBIG, "File too large; .*ulimit -f"),
        (errno.ENOMEM, "memory; .*ulimit -v"),
    ],
)
def test_what_the_system_refuses_names_the_limit(number: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise OSError(number, os.strerror(number))

    crew = Crew(2, method="fork")
    for where in (socket, "socketpair"), (os, "memfd_create"), (os, "fork"), (os, "pidfd_open"):
        with monkeypatch.context() as patch:
            patch.setattr(*where, refuse)
            with pytest.raises(OSError, match=rf"0 of 2 worker processes could be started; then no .*{words}") as info:
                squares(crew)
            assert info.value.errno == number
    assert squares(crew) == SQUARES
    crew.close()


def test_an_interpreter_that_cannot_be_started_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(OSError, match=r"'/no/such/python' \(sys\.executable\): No such file.*or use threads"):
        squares(Crew(1, method="spawn"))


def test_interpreters_begin_elsewhere_if_the_directory_is_gone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: asked.append(options["cwd"]))
    monkeypatch.chdir(tmp_path)
    _interpreter("fork_workers", [])
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    _interpreter("fork_workers", [])
    assert asked == [None, "/"]


def test_workers_come_back_from_a_directory_that_is_gone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    crew = Crew(1, method="fork")
    assert squares(crew) == SQUARES
    monkeypatch.chdir(tmp_path)
    assert squares(crew) == SQUARES
    crew.close()


def test_processes_of_a_pool_may_have_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    crew = Crew(1, method="fork")
    assert squares(crew) == SQUARES
    assert multiprocessing.current_process()._config["daemon"]  # type: ignore[attr-defined]
    crew.close()


def test_descriptors_that_were_lost_are_nobody_elses() -> None:
    left, other = Channel.pair()
    right = Channel(other)
    with open(os.devnull) as file, open(__file__) as this:
        left.send("lost", [file.fileno()])
        left.send("there", [this.fileno()])
        with no_more_files():
            right._read(0)
        right._read(0)
        assert right.receive() == ("lost", [])
        assert right.receive() == ("there", [])
        left.send("after", [this.fileno()])
        what, fds = right.receive()
        assert what == "after"
        assert os.path.samestat(os.fstat(fds[0]), os.fstat(this.fileno()))
        os.close(fds[0])
    left.close()
    right.close()


def test_a_worker_without_slots_forgets_those_that_it_had() -> None:
    worker: Any = _Worker.__new__(_Worker)
    worker._arena, worker._slot_bytes = object(), 1
    worker._take_arena(4096)
    assert (worker._arena, worker._slot_bytes) == (None, 4096)


def test_descriptors_of_interpreters_are_no_standard_streams() -> None:
    with contextlib.ExitStack() as stack:
        copy = _above_streams(1, stack)
        assert copy > 2
        assert os.path.samestat(os.fstat(copy), os.fstat(1))
        assert _above_streams(copy, stack) == copy
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(copy)


# choices -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.engine.auto._START", 0.0)  # processes are tried at once


def _auto(runner: Any, pieces: Iterator[int]) -> list[int]:
    auto = Auto(["inline", "processes"], cpus=2)

    def inline(pieces: Iterator[int], _: int) -> Generator[Result[int]]:
        for piece in pieces:
            clock = Clock()
            clock.seconds = {"piece": (1.0, 1.0)}
            yield Result(piece, piece, None, 0, clock)

    return [
        one.value
        for one in run_auto(pieces, auto, {"inline": inline, "processes": runner}, StatsCollector(0, 0), prefetch=2)
    ]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("error", [OSError(errno.EAGAIN, "no more"), RuntimeError("no more")])
def test_a_choice_does_without_workers_that_the_system_refuses(error: Exception) -> None:
    tried: list[int] = []

    def refused(pieces: Iterator[int], workers: int) -> Generator[Result[int]]:
        tried.append(workers)
        raise error
        yield

    assert _auto(refused, iter(range(100))) == list(range(100))
    assert tried


@pytest.mark.usefixtures("hasty")
def test_a_choice_hides_no_error_of_what_is_read() -> None:
    def reading(pieces: Iterator[int], workers: int) -> Generator[Result[int]]:
        next(pieces)
        raise OSError(errno.EIO, "torn")
        yield

    with pytest.raises(OSError, match="torn"):
        _auto(reading, iter(range(100)))
