"""Runs pieces on worker processes: results in order, whatever happens to a worker."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from headrace.clock import Clock
from headrace.engine.arena import give_back
from headrace.engine.crew import Contract, Crew
from headrace.engine.result import P, Result
from headrace.engine.seat import Seat
from headrace.engine.shelf import Parked, Shelf
from headrace.engine.stats import StatsCollector
from headrace.engine.worker import Failure
from headrace.engine.workers import Worker
from headrace.errors import StuckError, WorkerDiedError, WorkerError

_log = logging.getLogger("headrace")

_WARN_AFTER = 60.0  # seconds that a consumer waits before it is told what the workers do
_LOOK_AROUND = 0.05  # seconds between looks at who is stuck, while waiting
_STUCK = 0.25  # seconds after which a piece may be called slow
_SLOW = 8.0  # times the average that a slow piece takes
_STRETCH = 4  # times the usual number of pieces that may be ahead of a slow one

P_contra = TypeVar("P_contra", contravariant=True)

HOLD: Any = object()
"""Given by pieces in the place of one that depends on the results before it: it is asked for again after the next."""


class Job(Protocol[P_contra]):
    """What worker processes are to do. It is sent to them by pickling."""

    def open(self, seat: Seat) -> Callable[[P_contra, Clock], Any]:
        """Called in each worker as a run begins; gives what carries out one piece.

        If that has a method `restart(seat)`, it is called when a further run goes on with what an earlier one opened.
        """
        ...


@dataclass(slots=True)
class _Task(Generic[P]):
    number: int
    piece: P
    seat: int
    deaths: int = 0


class ProcessRun(Generic[P]):
    """Carries out pieces on the workers of a crew. Iterate it for the results; errors are among them, not raised.

    Pieces go to the workers in turn, `i` to worker `i % count`, ahead of the consumer. A piece whose worker is stuck in
    a slow one is done by another that has nothing to do, and more pieces than usual may then be ahead.

    Args:
        crew: Has the workers.
        pieces: The pieces; iterated in this process as there is room.
        job: What to do with them.
        stats: Is told of waiting and of results.
        prefetch: Pieces that may be finished or under way ahead of the consumer, for each worker.
        max_bytes: Bytes of results that may be ahead. One piece is always allowed, however big.
        timeout: Seconds to wait for a result; None waits on, with a warning each minute.
        in_order: Whether results come in the order of the pieces; otherwise as they are ready.
        seat_of: Names the worker of a piece, which alone may do it; None: any may.
        fresh: Whether workers open the job anew; otherwise they go on with what they have open.
        setup: Given to the job as it is opened, in the worker (`Seat.setup`).
        retries: How often a piece is tried again whose worker dies in it.

    Raises:
        NotPicklableError: If the job can't be sent to workers.
        StuckError: From iterating: if a result takes longer than `timeout`; the message shows what the workers do.
    """

    def __init__(
        self,
        crew: Crew,
        pieces: Iterable[P],
        job: Job[P],
        stats: StatsCollector,
        *,
        prefetch: int,
        max_bytes: int,
        timeout: float | None = None,
        in_order: bool = True,
        seat_of: Callable[[P], int] | None = None,
        fresh: bool = True,
        setup: object = None,
        retries: int = 2,
    ) -> None:
        self._closed = True  # until there is something to close
        self._crew = crew
        self._pieces: Iterator[P] | None = iter(pieces)
        self._stats = stats
        self._limit = prefetch * crew.workers
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._in_order = in_order
        self._seat_of = seat_of
        self._fresh = fresh
        self._setup = setup
        self._retries = retries
        self._tasks: dict[int, _Task[P]] = {}  # of which the consumer hasn't got the result
        self._ready: dict[int, Result[P] | Parked[P]] = {}
        self._taken = 0
        self._next = 0
        self._finished = 0
        self._seconds = 0.0
        self._shelf: Shelf = crew.shelf
        self._contract: Contract = crew.contract(job, fresh=fresh)
        self._run = self._contract.run
        self._process = os.getpid()
        self._workers = crew.hire(self._contract)
        self._closed = False
        try:
            self._poll = select.poll()
            for seat in range(len(self._workers)):
                self._welcome(seat, fresh)
            self._dispatch()
        except BaseException:
            self.close()
            raise

    @property
    def workers(self) -> list[Worker]:
        """The workers, by their numbers."""
        return self._workers

    def _welcome(self, seat: int, fresh: bool) -> None:
        worker = self._workers[seat]
        self._contract.equip(worker)
        worker.page.forget_taken()
        where = self._contract.surroundings()
        worker.channel.post(("begin", self._run, seat, self._crew.workers, self._setup, fresh, *where))
        self._poll.register(worker.channel.fileno(), select.POLLIN)
        if worker.pidfd >= 0:
            self._poll.register(worker.pidfd, select.POLLIN)

    # consumer --------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Result[P]]:
        return self

    def __next__(self) -> Result[P]:
        if self._process != os.getpid():
            raise StuckError(
                "this iteration's workers stayed in the process that this one was forked from; iterate the loader anew"
            )
        began = time.perf_counter()
        if not self._closed:
            self._collect()
        ready = len(self._ready)
        number = self._await_next()
        if number is None:
            self.close()
            raise StopIteration
        result = self._ready[number]
        if isinstance(result, Parked):
            result = self._shelf.unpark(result)
        # From here on it is the consumer's. An interrupt before leaves it to be had again, by the check in _relieve.
        self._next += 1
        del self._ready[number], self._tasks[number]
        self._stats.waited(time.perf_counter() - began, ready=ready)
        self._stats.finished(result.clock, result.nbytes, delivered=result.error is None)
        self._dispatch()
        return result

    def _await_next(self) -> int | None:
        began = time.monotonic()
        warned = 0
        while not self._closed:
            if self._in_order and self._next in self._ready:
                return self._next
            if not self._in_order and self._ready:
                return next(iter(self._ready))
            if not self._tasks:
                self._dispatch()
                if not self._tasks:
                    return None
                continue
            waited = time.monotonic() - began
            if self._timeout is not None and waited >= self._timeout:
                raise StuckError(
                    f"waited for a batch for {waited:.0f} s; the workers are at:\n{self.stacks()}\n"
                    "Raise timeout=… if this is only slow."
                )
            if waited >= _WARN_AFTER * (warned + 1):
                warned += 1
                _log.warning("waiting for a batch for %.0f s; the workers are at:\n%s", waited, self.stacks())
            pause = _LOOK_AROUND if self._timeout is None else min(_LOOK_AROUND, self._timeout - waited)
            if not self._collect(pause):
                self._relieve()
        return None

    # sending ---------------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Sends pieces, as long as there is room ahead of the consumer."""
        while self._pieces is not None and self._has_room(self._limit):
            if not self._send_next():
                return

    def _has_room(self, limit: int) -> bool:
        ahead = len(self._tasks)
        if ahead == 0:
            return True
        return ahead < limit and (ahead + 1) * self._shelf.typical <= self._max_bytes

    def _send_next(self, seat: int | None = None) -> bool:
        assert self._pieces is not None
        try:
            piece = next(self._pieces)
        except StopIteration:
            self._pieces = None
            return False
        except BaseException as error:  # met where the piece would have been
            self._pieces = None
            self._fail(self._new_task(None, 0), error)  # type: ignore[arg-type]
            return False
        if piece is HOLD:
            return False
        if self._seat_of is not None:
            seat = self._seat_of(piece)
        self._send(self._new_task(piece, self._turn() if seat is None else seat))
        return True

    def _new_task(self, piece: P, seat: int) -> _Task[P]:
        task = self._tasks[self._taken] = _Task(self._taken, piece, seat)
        self._taken += 1
        return task

    def _fail(self, task: _Task[P], error: BaseException, clock: Clock | None = None) -> None:
        self._ready[task.number] = Result(task.piece, None, error, 0, clock or Clock())

    def _turn(self) -> int:
        if self._in_order:
            return self._taken % len(self._workers)
        return min(range(len(self._workers)), key=lambda seat: len(self._workers[seat].pending))

    def _send(self, task: _Task[P]) -> None:
        worker = self._workers[task.seat]
        arena = self._shelf.arena
        slot = arena.take() if arena is not None else None
        if slot is not None and worker.arena is not arena:
            worker.channel.post(("arena", slot[0].slot_bytes), [slot[0].fd])
            worker.arena = arena
        try:
            worker.channel.post(("piece", self._run, task.number, task.piece, -1 if slot is None else slot[1]))
        except Exception as error:  # a key that can't be pickled
            give_back(slot)
            self._fail(task, error)
        else:
            worker.pending[self._run, task.number] = slot

    # receiving -------------------------------------------------------------------------------------------------------

    def _collect(self, pause: float = 0.0) -> bool:
        """Takes in what has come, waiting for it up to some seconds; whether anything has."""
        for worker in self._workers:
            worker.channel.flush()
            events = select.POLLIN | (select.POLLOUT if worker.channel.has_mail else 0)
            self._poll.modify(worker.channel.fileno(), events)
        found = {fd for fd, _ in self._poll.poll(pause * 1e3)}
        if not found:
            return False
        for seat, worker in enumerate(self._workers):
            if worker.channel.fileno() in found or worker.pidfd in found:
                try:
                    for message, fds in worker.channel.collect():
                        self._take_in(worker, seat, message, fds)
                except EOFError:
                    self._replace(seat)
                    continue
                if worker.pidfd in found:  # a process of its own making may hold its channel open
                    self._replace(seat)
        return True

    def _take_in(self, worker: Worker, seat: int, message: tuple[Any, ...], fds: list[int]) -> None:
        kind, *what = message
        if kind == "ready":
            return
        run, number, *rest = what
        slot = worker.pending.pop((run, number), None)
        task = self._tasks.get(number) if run == self._run else None
        if task is None or kind == "skipped" or number in self._ready:
            # Of a run that is over, or done by another worker meanwhile.
            give_back(slot)
            for fd in fds:
                os.close(fd)
            return
        clock = Clock(seat)
        clock.seconds, clock.began, clock.ended = rest[-1]
        self._finished += 1
        self._seconds += clock.seconds.get("piece", (0.0, 0.0))[0]
        if kind == "failed":
            give_back(slot)
            self._fail(task, _worker_error(rest[0], seat, worker.pid), clock)
        else:
            stream, sizes, used, _ = rest
            self._ready[number] = self._shelf.park(task.piece, stream, sizes, slot, used >= 0, fds, clock, self._limit)

    # trouble ---------------------------------------------------------------------------------------------------------

    def _relieve(self) -> None:
        """If a slow piece holds up others: those go to workers that have nothing to do, and these may go on ahead."""
        for number in sorted(self._tasks.keys() - self._ready.keys()):
            # Nobody is at it: an interrupt came between the arrival of its result and its keeping.
            if not any((self._run, number) in worker.pending for worker in self._workers):
                self._send(self._tasks[number])
        idle = [seat for seat, worker in enumerate(self._workers) if not worker.pending]
        if not idle or self._seat_of is not None:
            return
        slow = max(_STUCK, _SLOW * self._seconds / max(1, self._finished))
        for seat, worker in enumerate(self._workers):
            current = worker.page.current()
            if current is None or current[0] != self._run or current[3] < slow:
                continue
            waiting = sorted(
                n for n, task in self._tasks.items() if task.seat == seat and n != current[1] and n not in self._ready
            )
            for number in waiting[: len(idle)]:
                worker.page.take_away(number)
                self._tasks[number].seat = idle.pop()
                self._send(self._tasks[number])
            while idle and self._pieces is not None and self._has_room(self._limit * _STRETCH):
                if not self._send_next(idle.pop()):
                    break
            return

    def _replace(self, seat: int) -> None:
        """Puts another worker in the place of one that has died, and has it do what that one leaves undone."""
        worker = self._workers[seat]
        self._poll.unregister(worker.channel.fileno())
        if worker.pidfd >= 0:
            self._poll.unregister(worker.pidfd)
        current = worker.page.current()
        mine = (n for (run, n) in worker.pending if run == self._run and n in self._tasks and n not in self._ready)
        left = sorted(n for n in mine if self._tasks[n].seat == seat)
        worker.bury(1.0)
        report = self._obituary(worker, seat, current)
        if left:
            culprit = current[1] if current is not None and current[1] in left else left[0]
            task = self._tasks[culprit]
            task.deaths += 1
            if task.deaths > self._retries:
                left.remove(culprit)
                text = f"{report}; {task.deaths} workers have died at this piece: it is given up"
                self._fail(task, WorkerDiedError(text, worker.pid, worker.exitcode))
        _log.warning("%s; another takes its place", report)
        self._workers[seat] = self._contract.start()
        self._welcome(seat, fresh=True)
        for number in left:
            self._send(self._tasks[number])

    def _obituary(self, worker: Worker, seat: int, current: tuple[int, int, int, float] | None) -> str:
        where = ""
        if current is not None and current[0] == self._run:
            record = f", at record {current[2]} of it" if current[2] >= 0 else ""
            where = f" in piece {current[1]}{record}"
        peak = f" (it had used {worker.page.peak_bytes / 1e6:,.0f} MB of memory)" if worker.page.peak_bytes else ""
        return f"worker process {seat} (pid {worker.pid}) {worker.how_it_ended()}{where}{peak}"

    def stacks(self) -> str:
        """What all workers are doing."""
        parts = []
        for seat, worker in enumerate(self._workers):
            current = worker.page.current()
            at = "no piece" if current is None else f"piece {current[1]}, for {current[3]:.1f} s"
            parts.append(f"worker process {seat} (pid {worker.pid}), at {at}:\n{worker.page.stacks(worker.pid)}")
        return "\n".join(parts)

    def kill(self, number: int) -> bool:
        """Ends one of the worker processes by SIGKILL, to see that the run doesn't notice; whether there was one."""
        alive = [] if self._closed else [worker for worker in self._workers if worker.is_alive()]
        if not alive:
            return False
        return alive[number % len(alive)].kill()

    def close(self) -> None:
        """Ends the run. Its workers rest, or finish what nobody waits for any more first."""
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        self._tasks.clear()
        self._ready.clear()
        reusable = not self._contract.inherited
        for worker in self._workers:
            worker.page.cancel(self._run)
            worker.channel.post(("end", self._run, not self._fresh))
        self._crew.take_back(self._workers, lend=reusable and self._fresh, keep=reusable or not self._fresh)

    def __del__(self) -> None:
        if hasattr(self, "_process") and not sys.is_finalizing():  # at the very end, the crew's end is enough
            self.close()


def _worker_error(failure: Failure, seat: int, pid: int) -> WorkerError:
    original: Any = None
    if failure.pickled is not None:
        with contextlib.suppress(Exception):  # a class whose errors can't be built from their args
            original = pickle.loads(failure.pickled)
    return WorkerError(seat, pid, failure.name, failure.text, original if isinstance(original, BaseException) else None)
