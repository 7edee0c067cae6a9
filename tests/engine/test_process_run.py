"""Pieces on worker processes: the results, whatever happens."""

from __future__ import annotations

import contextlib
import errno
import gc
import logging
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from headrace.clock import Clock
from headrace.engine import Crew, ProcessRun, Seat, StatsCollector
from headrace.errors import NotPicklableError, StuckError, WorkerDiedError, WorkerError
from tests.processes import descendants, is_running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process workers are looked at through /proc")


class Call:
    """A job that calls a function with each piece, and the seat."""

    def __init__(self, function: Callable[[Any, Seat], Any], extra: Any = None) -> None:
        self.function = function
        self.extra = extra

    def open(self, seat: Seat) -> Callable[[Any, Clock], Any]:
        function = self.function
        return lambda piece, clock: function(piece, seat)


def run(
    crew: Crew, pieces: Any, function: Callable[[Any, Seat], Any] | Any, *, prefetch: int = 2, **options: Any
) -> ProcessRun[Any]:
    job = function if hasattr(function, "open") else Call(function)
    options.setdefault("max_bytes", 1 << 28)
    return ProcessRun(crew, pieces, job, StatsCollector(crew.workers, 8), prefetch=prefetch, **options)


def values(results: Iterator[Any]) -> list[Any]:
    found = []
    for result in results:
        if result.error is not None:
            raise result.error
        found.append(result.value)
    return found


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew(2)
    yield crew
    crew.close()


def square(piece: int, seat: Seat) -> int:
    return piece * piece


def who(piece: int, seat: Seat) -> tuple[int, int, int]:
    return piece, seat.id, os.getpid()


def rows(piece: int, seat: Seat) -> dict[str, Any]:
    return {"small": np.array([piece]), "large": np.full((50, 40), piece, np.float32), "name": f"r{piece}"}


# results -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "fork", "forkserver", "spawn"])
def test_results_come_in_order(method: Any) -> None:
    crew = Crew(2, method)
    try:
        assert values(run(crew, range(20), square)) == [i * i for i in range(20)]
        assert values(run(crew, range(3), square)) == [0, 1, 4]
    finally:
        crew.close()


def test_pieces_go_to_the_workers_in_turn(crew: Crew) -> None:
    assert [seat for _, seat, _ in values(run(crew, range(9), who))] == [i % 2 for i in range(9)]


def test_pieces_can_be_pinned(crew: Crew) -> None:
    found = values(run(crew, range(9), who, seat_of=lambda piece: piece // 3 % 2))
    assert [seat for _, seat, _ in found] == [i // 3 % 2 for i in range(9)]


def test_arrays_come_whole_and_writeable(crew: Crew) -> None:
    for i, batch in enumerate(values(run(crew, range(40), rows))):
        assert batch["name"] == f"r{i}"
        assert batch["small"].tolist() == [i]
        assert (batch["large"] == i).all()
        batch["large"][:] = -1


def test_tensors_of_all_kinds_come_whole(crew: Crew) -> None:
    torch = pytest.importorskip("torch")

    def make(piece: int, seat: Seat) -> Any:
        import torch

        return [
            torch.arange(600, dtype=torch.bfloat16).reshape(20, 30).t(),
            torch.zeros(0, 3),
            torch.tensor(3.5, requires_grad=True),
            torch.ones(600, dtype=torch.complex64).conj(),
            torch.eye(4).to_sparse(),
            torch.ones(1000, dtype=torch.bool),
        ]

    for got in values(run(crew, range(6), make)):
        for tensor, expected in zip(got, make(0, None), strict=True):  # type: ignore[arg-type]
            assert tensor.dtype == expected.dtype
            assert tensor.shape == expected.shape
            assert tensor.requires_grad == expected.requires_grad
            assert torch.equal(tensor.to_dense(), expected.to_dense())


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "complex32"])
def test_tensors_of_young_kinds_come_whole(crew: Crew, name: str) -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(torch, name):
        pytest.skip(f"this PyTorch has no {name}")

    def make(piece: int, seat: Seat) -> Any:
        import torch

        octets = torch.arange(2000).to(torch.uint8)
        return octets.view(getattr(torch, name)).reshape(2, -1), octets[:8].view(getattr(torch, name))

    for got in values(run(crew, range(5), make)):
        for tensor, expected in zip(got, make(0, None), strict=True):  # type: ignore[arg-type]
            assert tensor.dtype == expected.dtype
            assert tensor.shape == expected.shape
            assert torch.equal(tensor.view(torch.uint8), expected.view(torch.uint8))


def test_results_that_are_kept_stay_what_they_were(crew: Crew) -> None:
    kept = values(run(crew, range(200), rows))
    assert all((batch["large"] == i).all() for i, batch in enumerate(kept))


def test_kept_results_hold_no_descriptors(crew: Crew) -> None:
    values(run(crew, range(20), rows))
    before = len(os.listdir("/proc/self/fd"))
    kept = values(run(crew, range(100), rows))
    assert len(kept) == 100
    assert len(os.listdir("/proc/self/fd")) <= before


def test_results_may_grow(crew: Crew) -> None:
    sizes = [10, 100_000, 10, 1_000_000, 20, 3_000_000, 5]
    found = values(run(crew, sizes, lambda piece, seat: np.full(piece, piece)))
    assert [(len(array), int(array[0])) for array in found] == [(size, size) for size in sizes]


def test_without_room_for_slots_results_come_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.engine.shelf.available_bytes", lambda: 10_000)
    crew = Crew(1)
    found = values(run(crew, range(30), rows))
    assert [int(batch["large"][0, 0]) for batch in found] == list(range(30))
    assert crew.shelf.arena is None
    crew.close()


def test_without_memory_for_slots_results_come_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(slots: int, slot_bytes: int) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("headrace.engine.shelf.Arena", refuse)
    crew = Crew(1)
    found = values(run(crew, range(10), rows))
    assert [int(batch["large"][0, 0]) for batch in found] == list(range(10))
    assert "No space left" in caplog.text
    crew.close()


def test_what_is_ahead_is_bounded_in_bytes(crew: Crew) -> None:
    taken = []

    def pieces() -> Iterator[int]:
        for i in range(12):
            taken.append(i)
            yield i

    results = run(crew, pieces(), lambda piece, seat: np.zeros(100_000), prefetch=5, max_bytes=2_000_000)
    for i, _ in enumerate(results):
        if i > 0:
            assert len(taken) <= i + 4
    assert len(taken) == 12


def test_out_of_order_the_ready_come_first(crew: Crew) -> None:
    def slow_first(piece: int, seat: Seat) -> int:
        if piece == 0:
            time.sleep(0.5)
        return piece

    found = values(run(crew, range(8), slow_first, in_order=False))
    assert sorted(found) == list(range(8))
    assert found[0] != 0


def test_a_slow_piece_holds_up_no_other(crew: Crew, tmp_path: pathlib.Path) -> None:
    def sometimes_slow(piece: int, seat: Seat) -> int:
        if piece == 0:
            while not (tmp_path / "go").exists():
                time.sleep(0.01)
        (tmp_path / str(piece)).touch()
        return piece

    results = run(crew, range(30), sometimes_slow, prefetch=2)

    def open_gate() -> None:
        while not (tmp_path / "6").exists():  # was to be done by the slow worker, and is beyond its usual four ahead
            time.sleep(0.01)
        (tmp_path / "go").touch()

    helper = threading.Thread(target=open_gate)
    helper.start()
    assert values(results) == list(range(30))
    helper.join()


def test_a_worker_that_was_stopped_holds_up_no_other() -> None:
    crew = Crew(2)
    values(run(crew, range(4), who))
    os.kill(crew.resting[1].pid, signal.SIGSTOP)
    assert [piece for piece, _, _ in values(run(crew, range(12), who, timeout=30))] == list(range(12))
    crew.close()


# errors --------------------------------------------------------------------------------------------------------------


class Odd(Exception):
    def __init__(self, code: int, path: str) -> None:
        super().__init__(code, path)
        self.code = code


def fails_at_three(piece: int, seat: Seat) -> int:
    if piece == 3:
        raise Odd(5, "a.jpg")
    return piece


def test_an_error_costs_one_piece_and_arrives_as_it_was(crew: Crew) -> None:
    results = list(run(crew, range(6), fails_at_three))
    assert [result.value for result in results] == [0, 1, 2, None, 4, 5]
    error = results[3].error
    assert isinstance(error, WorkerError)
    assert isinstance(error.original, Odd)
    assert error.original.code == 5
    assert "fails_at_three" in error.text
    assert error.name == "Odd"


def standard_output() -> Any:
    return sys.__stdout__


@pytest.mark.parametrize("thing", [threading.Lock, lambda: (i for i in "ab"), standard_output])
def test_a_result_that_cannot_be_sent_is_an_error(crew: Crew, thing: Callable[[], Any]) -> None:
    (result,) = run(crew, [1], lambda piece, seat: thing())
    assert isinstance(result.error, WorkerError)
    assert "pickle" in str(result.error)


def leave(how: str) -> None:
    raise {"stop": StopIteration, "exit": SystemExit, "key": KeyboardInterrupt, "value": ValueError}[how]("there")


class Leaves:
    def __init__(self, how: str) -> None:
        self.how = how

    def __reduce__(self) -> Any:
        return leave, (self.how,)


@pytest.mark.parametrize(
    ("how", "kind"), [("stop", RuntimeError), ("exit", RuntimeError), ("key", RuntimeError), ("value", ValueError)]
)
def test_a_result_that_cannot_be_read_is_an_error_of_its_own(crew: Crew, how: str, kind: Any) -> None:
    results = list(run(crew, range(3), lambda piece, seat: Leaves(how) if piece == 1 else piece))
    assert [result.value for result in results] == [0, None, 2]
    assert type(results[1].error) is kind
    assert "there" in str(results[1].error)


@pytest.mark.parametrize("fails", [False, True])
def test_a_fork_that_comes_back_into_the_worker_ends(crew: Crew, tmp_path: pathlib.Path, fails: bool) -> None:
    def forks(piece: int, seat: Seat) -> int:
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        elif fails:
            raise ValueError("in the fork")
        return os.getpid()

    found = values(run(crew, range(20), forks))
    assert len(set(found)) <= 2


def test_leaving_is_an_error_of_the_piece(crew: Crew) -> None:
    (result,) = run(crew, [1], lambda piece, seat: sys.exit(3))
    assert isinstance(result.error, WorkerError)
    assert result.error.name == "SystemExit"


def test_errors_in_opening_come_with_each_piece(crew: Crew) -> None:
    class Broken:
        def open(self, seat: Seat) -> Any:
            raise ValueError("no such folder")

    results = list(run(crew, range(3), Broken()))
    assert ["no such folder" in str(result.error) for result in results] == [True] * 3
    assert values(run(crew, range(3), square)) == [0, 1, 4]


def test_errors_of_the_plan_come_in_their_turn(crew: Crew) -> None:
    def pieces() -> Iterator[int]:
        yield from (1, 2)
        raise KeyError("plan")

    results = list(run(crew, pieces(), square))
    assert [result.value for result in results] == [1, 4, None]
    assert isinstance(results[2].error, KeyError)


def test_a_piece_that_cannot_be_sent_is_an_error(crew: Crew) -> None:
    results = list(run(crew, [1, threading.Lock(), 3], lambda piece, seat: piece))
    assert [result.value for result in results] == [1, None, 3]
    assert "pickle" in str(results[1].error)


def test_the_attribute_that_cannot_travel_is_named() -> None:
    class Files:
        def __init__(self, file: Any) -> None:
            self.names = ["a"]
            self.opened = {"a": file}

    crew = Crew(1, "forkserver")
    with (
        open(os.devnull) as file,
        pytest.raises(NotPicklableError, match=r"extra\.opened\['a'\] \(TextIOWrapper\)"),
    ):
        run(crew, [1], Call(square, Files(file)))
    crew.close()


def test_a_lock_in_a_closure_is_named() -> None:
    lock = threading.Lock()

    def locked(piece: int, seat: Seat) -> int:
        with lock:
            return piece

    crew = Crew(1, "forkserver")
    with pytest.raises(NotPicklableError, match=r"function\.lock \(lock\)"):
        run(crew, [1], locked)
    crew.close()


def test_what_cannot_travel_can_be_inherited() -> None:
    lock = threading.Lock()
    crew = Crew(2, "fork")
    assert values(run(crew, range(5), lambda piece, seat: (piece, lock.locked()))) == [(i, False) for i in range(5)]
    crew.close()


# deaths --------------------------------------------------------------------------------------------------------------


def test_a_worker_that_dies_is_replaced(crew: Crew, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    def dies_once(piece: int, seat: Seat) -> int:
        seat.at(7)
        if piece in (3, 8) and not (tmp_path / str(piece)).exists():
            (tmp_path / str(piece)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return piece

    with caplog.at_level(logging.WARNING):
        assert values(run(crew, range(20), dies_once)) == list(range(20))
    assert "was killed by signal 9 (SIGKILL)" in caplog.text
    assert "in piece 3, at record 7 of it" in caplog.text


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "SIGSEGV"),
        (lambda: os._exit(3), "exited unexpectedly with code 3"),
        (lambda: os._exit(0), "exited unexpectedly with code 0"),
    ],
)
def test_a_piece_that_kills_every_worker_is_given_up(crew: Crew, end: Callable[[], None], words: str) -> None:
    def deadly(piece: int, seat: Seat) -> int:
        if piece == 3:
            end()
        return piece

    results = list(run(crew, range(8), deadly))
    assert [result.value for result in results] == [0, 1, 2, None, 4, 5, 6, 7]
    assert isinstance(results[3].error, WorkerDiedError)
    assert words in str(results[3].error)
    assert "3 workers have died" in str(results[3].error)


def test_a_piece_may_come_back_to_a_worker_that_it_was_taken_from(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does if those who help out die of it."""
    monkeypatch.setattr("headrace.engine.processes._LOOK_AROUND", 0.001)
    monkeypatch.setattr("headrace.engine.processes._STUCK", 0.0)

    def deadly(piece: int, seat: Seat) -> int:
        if piece == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return piece

    results = list(run(crew, range(8), deadly, retries=9, timeout=30))
    assert [result.value for result in results] == [0, 1, 2, None, 4, 5, 6, 7]


def test_the_epoch_is_the_same_whoever_is_killed(crew: Crew) -> None:
    results = run(crew, range(300), rows, prefetch=4)
    random = np.random.default_rng(0)
    found = []
    for i, result in enumerate(results):
        found.append(result)
        if i % 6 == 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(results.workers[int(random.integers(2))].pid, signal.SIGKILL)
    assert [result.error for result in found] == [None] * 300
    assert [(result.value["name"], float(result.value["large"].sum())) for result in found] == [
        (f"r{i}", 2000.0 * i) for i in range(300)
    ]


def test_a_worker_that_dies_at_rest_is_replaced(crew: Crew) -> None:
    values(run(crew, range(4), square))
    for worker in crew.resting:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait(5)
    assert values(run(crew, range(4), square)) == [0, 1, 4, 9]


def test_the_zygote_may_die_too() -> None:
    crew = Crew(2, "forkserver")
    results = run(crew, range(60), square)
    assert next(results).value == 0
    zygote = results.workers[0]._zygote
    if zygote is not None:
        os.kill(zygote._process.pid, signal.SIGKILL)
    assert values(results) == [i * i for i in range(1, 60)]
    crew.close()


def test_a_wait_that_is_too_long_shows_what_the_workers_do(crew: Crew) -> None:
    def dozing(piece: int, seat: Seat) -> None:
        time.sleep(3)

    results = run(crew, range(2), dozing, timeout=0.5)
    with pytest.raises(StuckError, match="in dozing"):
        next(results)
    results.close()


# ends ----------------------------------------------------------------------------------------------------------------


def children() -> set[int]:
    found = set()
    for task in pathlib.Path("/proc/self/task").iterdir():
        found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def test_dropped_crews_leave_nothing() -> None:
    values(run(Crew(2), range(4), rows))  # whatever is made once for all
    gc.collect()
    before = children(), len(os.listdir("/proc/self/fd")), threading.active_count(), descendants(os.getpid())
    for i in range(10):
        results = run(Crew(2), range(100), rows)
        for _ in range(i % 3):
            next(results)
        del results
    gc.collect()
    deadline = time.monotonic() + 20
    while len(descendants(os.getpid())) > len(before[3]) and time.monotonic() < deadline:
        time.sleep(0.05)  # a zygote collects its workers as it finds the time
    after = children(), len(os.listdir("/proc/self/fd")), threading.active_count(), descendants(os.getpid())
    assert (after[1], after[2], len(after[0]), len(after[3])) == (before[1], before[2], len(before[0]), len(before[3]))


def test_an_early_end_does_not_wait_for_pieces_that_nobody_wants(crew: Crew) -> None:
    def dozes(piece: int, seat: Seat) -> int:
        time.sleep(0.1)
        return os.getpid()

    results = run(crew, range(1000), dozes, prefetch=50)
    pid = next(results).value
    results.close()
    again = run(crew, range(4), who)
    assert {p for _, _, p in values(again)} >= {pid}


def test_training_and_evaluation_share_workers() -> None:
    train, evaluate = Crew(2), Crew(2)
    first = {pid for _, _, pid in values(run(train, range(8), who))}
    assert {pid for _, _, pid in values(run(evaluate, range(8), who))} == first
    assert {pid for _, _, pid in values(run(train, range(8), who))} == first
    two = run(train, range(8), who), run(evaluate, range(8), who)
    assert not {pid for _, _, pid in values(two[0])} & {pid for _, _, pid in values(two[1])}
    train.close()
    evaluate.close()


class Counting:
    """Says how often this copy of it was used."""

    def __init__(self) -> None:
        self.calls = 0

    def open(self, seat: Seat) -> Any:
        return self

    def __call__(self, piece: int, clock: Clock) -> int:
        self.calls += 1
        return self.calls


@pytest.mark.parametrize("method", ["auto", "fork"])
def test_jobs_are_fresh_or_go_on(method: Any) -> None:
    crew, job = Crew(1, method), Counting()
    assert values(run(crew, range(3), job)) == [1, 2, 3]
    assert values(run(crew, range(3), job)) == [1, 2, 3]
    assert values(run(crew, range(3), job, fresh=False)) == [1, 2, 3] if method == "fork" else True
    crew.close()
    crew = Crew(1, method)
    assert values(run(crew, range(3), job, fresh=False)) == [1, 2, 3]
    assert values(run(crew, range(3), job, fresh=False)) == [4, 5, 6]
    crew.close()
    assert job.calls == 0


def test_what_changes_here_between_runs_reaches_the_workers(crew: Crew) -> None:
    class Adds:
        def __init__(self) -> None:
            self.table = np.arange(1000)

        def open(self, seat: Seat) -> Any:
            return lambda piece, clock: int(self.table[piece])

    job = Adds()
    assert values(run(crew, range(3), job)) == [0, 1, 2]
    job.table[1] = 50
    assert values(run(crew, range(3), job)) == [0, 50, 2]
    job.table = job.table + 1
    assert values(run(crew, range(3), job)) == [1, 51, 3]


def test_the_same_job_is_sent_once_for_several_crews(crew: Crew) -> None:
    class Reads:
        def __init__(self) -> None:
            self.table = np.arange(10_000)

        def open(self, seat: Seat) -> Any:
            return lambda piece, clock: int(self.table[piece])

    job, other = Reads(), Crew(2)
    assert values(run(crew, range(3), job)) == [0, 1, 2]
    assert values(run(other, range(3), job)) == [0, 1, 2]
    assert {worker.key for worker in other.resting} == {key for key, _, _ in crew._parcels.values()}
    job.table[1] = 7
    assert values(run(other, range(3), job)) == [0, 7, 2]
    other.close()


def test_workers_do_not_see_each_others_writes(crew: Crew) -> None:
    class Writes:
        def __init__(self) -> None:
            self.table = np.zeros(5000)

        def open(self, seat: Seat) -> Any:
            def work(piece: int, clock: Clock) -> float:
                self.table[0] += 1
                return float(self.table[0])

            return work

    job = Writes()
    assert values(run(crew, range(6), job)) == [1, 1, 2, 2, 3, 3]
    assert values(run(crew, range(2), job)) == [1, 1]
    assert job.table[0] == 0


SCRIPT = """
import os, sys, time
from headrace.engine import *
class Job:
    def open(self, seat):
        return lambda piece, clock: (time.sleep(0.01), os.getpid())[1]
crew = Crew(2, {method!r})
seen = set()
for n, result in enumerate(ProcessRun(crew, range(10**6), Job(), StatsCollector(2, 4), prefetch=2, max_bytes=1 << 20)):
    seen.add(result.value)
    if n == 5:
        print(*seen, flush=True)
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_go_with_the_program(method: str, ending: signal.Signals) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(method=method)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert program.stdout is not None
    workers = [int(word) for word in program.stdout.readline().split()]
    assert len(workers) == 2
    family = descendants(program.pid)
    assert family >= set(workers)
    program.send_signal(ending)
    program.wait()
    program.stdout.close()
    deadline = time.monotonic() + 20
    while alive := [pid for pid in family if is_running(pid)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)


def test_garbage_leaves_nothing_wherever_it_is_collected() -> None:
    command = [sys.executable, "-c", "from tests.engine.cycles import run; a, b = run(40); assert a == b, (a, b)"]
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=200)
    assert done.returncode == 0, done.stderr
