from __future__ import annotations

import gc
import logging
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headrace.clock import Clock
from headrace.engine import StatsCollector, run_inline, run_threads, threads
from headrace.errors import DataError, StuckError

TIMEOUT = 60.0  # "any of these hanging means a deadlock"


def run(pieces: Any, work: Any, workers: int = 4, prefetch: int = 2, max_bytes: int = 1 << 30) -> Iterator[Any]:
    stats = StatsCollector(workers, workers * prefetch)
    if not workers:
        return run_inline(pieces, work, stats)
    return run_threads(pieces, work, stats, workers=workers, prefetch=prefetch, max_bytes=max_bytes, timeout=TIMEOUT)


@pytest.mark.parametrize("workers", [0, 1, 2, 7])
def test_results_come_in_the_order_of_the_pieces(workers: int) -> None:
    assert [r.value for r in run(range(200), lambda n, clock: n * n, workers)] == [n * n for n in range(200)]


def test_results_come_in_order_though_pieces_end_in_another() -> None:
    ended: list[int] = []
    odd = [threading.Event() for _ in range(100)]

    def work(n: int, clock: Clock) -> int:
        if n and n % 2 == 0:  # an even piece ends after the odd one that follows it
            assert odd[n + 1].wait(TIMEOUT)
        ended.append(n)
        odd[n].set()
        return n

    assert [r.value for r in run(range(100), work, workers=2)] == list(range(100))
    assert ended.index(3) < ended.index(2)


@pytest.mark.parametrize("workers", [0, 3])
def test_an_error_comes_as_itself_after_the_results_before_it(workers: int) -> None:
    def work(n: int, clock: Clock) -> int:
        if n == 5:
            raise KeyError("five")
        return n

    seen = []
    with pytest.raises(KeyError, match="five"):
        for result in run(range(10), work, workers):
            seen.append(result.value)
    assert seen == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("workers", [0, 3])
def test_an_error_of_the_plan_comes_in_its_place(workers: int) -> None:
    def pieces() -> Iterator[int]:
        yield from range(3)
        raise ValueError("no window 3")

    seen = []
    with pytest.raises(ValueError, match="no window 3"):
        for result in run(pieces(), lambda n, clock: n, workers):
            seen.append(result.value)
    assert seen == [0, 1, 2]


def test_a_consumer_that_leaves_early_leaves_no_thread() -> None:
    for leave_after in range(20):
        results = run(range(1000), lambda n, clock: n, workers=3)
        for _, _ in zip(range(leave_after), results, strict=False):
            pass
        results.close()  # type: ignore[attr-defined]
    assert not [t for t in threading.enumerate() if t.name.startswith("headrace-worker")]


def test_pieces_ahead_are_bounded_in_number() -> None:
    total, limit = 100, 2 * 3
    consumed = 0
    ahead: list[int] = []  # how far ahead of the consumer each piece was begun
    begun = [threading.Event() for _ in range(total)]

    def pieces() -> Iterator[int]:
        for n in range(total):
            ahead.append(n - consumed)
            begun[n].set()
            yield n

    for result in run(pieces(), lambda n, clock: n, workers=2, prefetch=3):
        # The workers run ahead as far as they may …
        assert begun[min(result.piece + limit, total - 1)].wait(TIMEOUT)
        consumed = result.piece + 1
    assert max(ahead) <= limit  # … and no further; `consumed` lags by the one result that is being handed over


def test_results_ahead_are_bounded_in_bytes_but_one_always_passes() -> None:
    consumed = 0
    ahead: list[int] = []

    def pieces() -> Iterator[int]:
        for n in range(100):
            ahead.append(n - consumed)
            yield n

    for result in run(pieces(), lambda n, clock: np.zeros(1000, np.uint8), workers=4, prefetch=50, max_bytes=3000):
        consumed = result.piece + 1
    assert max(ahead) <= 3  # of 200 pieces that `prefetch` would allow
    assert len(list(run(range(5), lambda n, clock: np.zeros(1000, np.uint8), workers=2, max_bytes=1))) == 5


def test_a_stuck_worker_is_reported_with_what_it_does() -> None:
    release = threading.Event()

    def never_ends(n: int, clock: Clock) -> int:
        release.wait(TIMEOUT)
        return n

    stats = StatsCollector(1, 1)
    with pytest.raises(
        StuckError, match=r"(?s)waited for a batch for \d+ s; the workers are at:\n.*never_ends"
    ) as info:
        try:
            next(run_threads(range(1), never_ends, stats, workers=1, prefetch=1, max_bytes=1, timeout=0.2))
        finally:
            release.set()
    assert "Raise the timeout" in str(info.value)


def test_a_function_that_never_returns_does_not_hold_up_the_end(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()

    def work(n: int, clock: Clock) -> int:
        if n:
            release.wait(TIMEOUT)
        return n

    results = run(range(3), work, workers=2)
    next(results)
    with caplog.at_level(logging.WARNING, "headrace"):
        results.close()  # type: ignore[attr-defined]
    assert "a worker is still busy" in caplog.text
    release.set()


def test_many_starts_and_stops_from_many_threads() -> None:
    def once(number: int) -> None:
        for _ in range(25):
            total = 0
            for result in run(range(20), lambda n, clock: n, workers=2):
                total += result.value
                if result.piece == number:
                    break
            assert total == sum(range(number + 1)) or number >= 20

    starters = [threading.Thread(target=once, args=(n,)) for n in range(8)]
    for thread in starters:
        thread.start()
    for thread in starters:
        thread.join(TIMEOUT)
        assert not thread.is_alive()


def test_a_run_that_the_garbage_collector_closes_on_its_own_worker_ends() -> None:
    collected = threading.Event()

    class Cycle:
        def __init__(self) -> None:
            self.itself = self
            self.results = run(pieces(), lambda n, clock: n, workers=2)

    def pieces() -> Iterator[int]:
        for n in range(1_000_000):
            if n > 10:
                gc.collect()  # on the worker that takes this piece
                collected.set()
            yield n

    cycle = Cycle()
    next(cycle.results)
    del cycle
    gc.collect()
    deadline = time.monotonic() + TIMEOUT
    while [t for t in threading.enumerate() if t.name.startswith("headrace-worker")]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_closing_inside_the_lock_does_not_hang() -> None:
    threaded = threads._ThreadRun(range(100), lambda n, clock: n, limit=4, max_bytes=1 << 20)
    done = threading.Event()

    def close_while_holding_the_lock() -> None:
        with threaded._lock:
            threaded.close()
        done.set()

    threaded.start(1)
    closer = threading.Thread(target=close_while_holding_the_lock, daemon=True)
    closer.start()
    assert done.wait(TIMEOUT)
    with pytest.raises(StuckError, match="workers have ended"):
        threaded.next_result(None)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_result_that_cannot_be_measured_is_no_error(workers: int) -> None:
    class Odd:
        @property
        def nbytes(self) -> int:
            raise ZeroDivisionError

    loop: list[Any] = []
    loop += [loop] * 20
    odd = [loop, Odd, Odd()]
    assert [r.value for r in run(odd, lambda piece, clock: piece, workers)] == odd


@pytest.mark.parametrize("workers", [0, 2])
def test_stop_iteration_does_not_end_the_loop(workers: int) -> None:
    def work(n: int, clock: Clock) -> int:
        return next(iter(()), n) if n < 3 else next(iter(()))

    with pytest.raises(DataError, match=r"raised StopIteration; let it catch that, as by next\(iterator, None\)"):
        list(run(range(5), work, workers))


def test_a_worker_that_breaks_down_does_not_keep_the_consumer_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(piece: Any, work: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(threads, "carry_out", broken)
    with pytest.raises(StuckError, match="a worker broke down outside the work that it was given"):
        list(run(range(5), lambda n, clock: n, 2))


@pytest.mark.parametrize("most", [0, 3])
def test_as_many_workers_as_the_system_gives_do_the_work(
    most: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        if self.name == f"headrace-worker-{most}":
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    words = rf"{most} of 5 worker threads could be started, .*can't start new thread.*ulimit -u"
    if not most:
        with pytest.raises(RuntimeError, match=words):
            list(run(range(5), lambda n, clock: n, 5))
        return
    assert [result.value for result in run(range(50), lambda n, clock: n, 5)] == list(range(50))
    assert re.search(words, caplog.text)
