"""Runs pieces on worker threads and gives the results in the order of the pieces.

Threads are enough where the work is native code that lets go of the interpreter lock. Workers take the next piece as
they become free, so a slow piece holds up nobody but the consumer who waits for it. What runs ahead of the consumer is
bounded in pieces and in bytes.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Generator, Iterable
from typing import Any, Generic

from headrace.clock import Clock
from headrace.engine.result import P, Result, Work, carry_out
from headrace.engine.stats import Observer
from headrace.engine.waiting import GRACE, Waiting, check_process
from headrace.errors import StuckError

_log = logging.getLogger("headrace")

_running: weakref.WeakSet[_ThreadRun[Any]] = weakref.WeakSet()


def run_threads(
    pieces: Iterable[P],
    work: Work[P],
    stats: Observer,
    *,
    workers: int,
    prefetch: int,
    max_bytes: int,
    timeout: float | None = None,
) -> Generator[Result[P]]:
    """Carries out pieces on threads, results in the order of the pieces.

    Args:
        pieces: The pieces; iterated by the workers, one at a time.
        work: Carries out one; called by several threads at once.
        stats: Is told of waiting and of results.
        workers: Threads, at least 1.
        prefetch: Pieces that may be finished or under way ahead of the consumer, for each worker.
        max_bytes: Bytes of finished results that may wait. One piece is always allowed, however big.
        timeout: Seconds to wait for a result; None waits on, with a warning each minute.

    Raises:
        RuntimeError: If the system lets no thread be started.
        StuckError: If a result takes longer than `timeout` (the message shows what the workers do), or can never come
            because the workers are gone: the process was forked, or the interpreter is ending.
    """
    run = _ThreadRun(pieces, work, limit=workers * prefetch, max_bytes=max_bytes)
    try:
        run.start(workers)
        while True:
            began = time.perf_counter()
            result, ready = run.next_result(timeout)
            if result is None:
                return
            stats.waited(time.perf_counter() - began, ready=ready)
            stats.finished(result.clock, result.nbytes, delivered=result.error is None)
            if result.error is not None:
                try:
                    raise result.error
                finally:
                    del result  # the error's traceback refers to this frame: a cycle would keep the run alive
            yield result
    finally:
        run.close()


class _ThreadRun(Generic[P]):
    """State shared by the consumer and the workers. Everything is read and changed under one lock."""

    def __init__(self, pieces: Iterable[P], work: Work[P], *, limit: int, max_bytes: int) -> None:
        self._pieces = iter(pieces)
        self._work = work
        self._limit = limit
        self._max_bytes = max_bytes
        # Reentrant, because the garbage collector may close a run (its iterator was part of a reference cycle) on one
        # of its own workers, at any point of the code below.
        self._lock = threading.RLock()
        self._room = threading.Condition(self._lock)  # workers wait here until another piece may begin
        self._news = threading.Condition(self._lock)  # the consumer waits here for its result
        self._pulling = threading.Lock()  # held by the one worker that takes the next piece
        self._done: dict[int, Result[P]] = {}
        self._taken = 0  # pieces given to workers
        self._consumed = 0  # results given to the consumer
        self._finished = 0
        self._ready_bytes = 0
        self._total_bytes = 0
        self._last: int | None = None  # how many pieces there are, once that is known
        self._stopped = False
        self._failure: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._process = os.getpid()

    def start(self, workers: int) -> None:
        """Starts the workers; fewer, with a warning, if the system gives no more.

        Raises:
            RuntimeError: If it gives none.
        """
        _running.add(self)
        # Daemons, so that a function of the user's that never returns can't keep the interpreter from exiting.
        for i in range(workers):
            thread = threading.Thread(target=self._work_on, args=(i,), name=f"headrace-worker-{i}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                what = (
                    f"{i} of {workers} worker threads could be started, then the system refused ({error}); ask for "
                    "fewer workers, or raise the limits of threads (ulimit -u, or pids.max of the container) or of "
                    "memory (ulimit -v)"
                )
                if not i:
                    raise RuntimeError(what) from error
                _log.warning("%s; those do the work", what)
                return
            self._threads.append(thread)

    # workers ---------------------------------------------------------------------------------------------------------

    def _work_on(self, worker: int) -> None:
        try:
            while (job := self._take()) is not None:
                number, piece = job
                self._finish(number, carry_out(piece, self._work, worker))
        except BaseException as error:  # no memory for a result, say: the consumer must not wait for it for ever
            with self._lock:
                self._failure = error
                self._news.notify_all()

    def _take(self) -> tuple[int, P] | None:
        with self._pulling:
            with self._room:
                self._room.wait_for(lambda: self._stopped or self._last is not None or self._has_room())
                if self._stopped or self._last is not None:
                    return None
                number = self._taken
            try:
                piece = next(self._pieces)
            except StopIteration:
                with self._news:
                    self._last = number
                    self._news.notify_all()
                return None
            except BaseException as error:  # the plan failed: the consumer meets it where the piece would have been
                with self._news:
                    self._last = number + 1
                    self._taken = number + 1
                self._finish(number, Result(None, None, error, 0, Clock()))  # type: ignore[arg-type]
                return None
            with self._lock:
                self._taken = number + 1
            return number, piece

    def _has_room(self) -> bool:
        ahead = self._taken - self._consumed
        if ahead == 0:
            return True  # the consumer waits for this very piece
        if not self._finished:
            return ahead < 1  # until the first piece is done nobody knows how large they are
        expected = self._total_bytes // self._finished
        running = ahead - len(self._done)
        return ahead < self._limit and self._ready_bytes + (running + 1) * expected <= self._max_bytes

    def _finish(self, number: int, result: Result[P]) -> None:
        with self._lock:
            self._done[number] = result
            self._finished += 1
            self._ready_bytes += result.nbytes
            self._total_bytes += result.nbytes
            if self._finished == 1:
                self._room.notify_all()
            if number == self._consumed:
                self._news.notify_all()

    # consumer --------------------------------------------------------------------------------------------------------

    def next_result(self, timeout: float | None) -> tuple[Result[P] | None, int]:
        """The next result in order (None at the end), and how many were ready when it was asked for."""
        check_process(self._process)
        waiting = Waiting(timeout, self._stacks)
        with self._lock:
            ready = len(self._done)
        while True:
            with self._lock:
                if self._news.wait_for(lambda: self._consumed in self._done or self._is_over(), waiting.left):
                    return self._take_result(), ready
            waiting.look()  # without the lock: a slow log must not hold up the workers

    def _is_over(self) -> bool:
        ended = self._last is not None and self._consumed >= self._last
        return ended or self._stopped or self._failure is not None

    def _take_result(self) -> Result[P] | None:
        if self._consumed in self._done:
            result = self._done.pop(self._consumed)
            self._consumed += 1
            self._ready_bytes -= result.nbytes
            self._room.notify_all()
            return result
        if self._last is not None and self._consumed >= self._last:
            return None
        if self._failure is not None:
            raise StuckError("a worker broke down outside the work that it was given") from self._failure
        raise StuckError("this iteration's workers have ended, as they do when the interpreter exits")

    def _stacks(self) -> str:
        frames = sys._current_frames()
        parts = []
        for thread in self._threads:
            frame = frames.get(thread.ident or 0)
            lines = "".join(traceback.format_stack(frame, limit=6)) if frame else "  (ended)\n"
            parts.append(f"{thread.name}:\n{lines}")
        return "".join(parts)

    def stop(self) -> bool:
        """Tells the workers to end with the pieces that they are in; False if this process has none."""
        if os.getpid() != self._process:
            return False  # forked: the workers stayed behind, and so may whoever held the lock
        with self._lock:
            self._stopped = True
            self._done.clear()
            self._room.notify_all()
            self._news.notify_all()
        return True

    def close(self) -> None:
        """Stops the workers. One that is still in its piece after a grace period is left to end by itself."""
        if not self.stop():
            return
        if threading.current_thread() in self._threads:
            return  # closed by the garbage collector on a worker, which can't wait for itself
        deadline = time.monotonic() + GRACE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            _log.warning(
                "a worker is still busy %.0f s after its loader was closed; it ends with its piece, or with the "
                "program:\n%s",
                GRACE,
                self._stacks(),
            )


def _close_all() -> None:
    # A thread that comes back from native code when the interpreter is gone would take the process down with it.
    runs = list(_running)
    for run in runs:
        run.stop()
    for run in runs:
        run.close()


atexit.register(_close_all)
