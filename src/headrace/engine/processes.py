"""Runs pieces on worker processes: results in order, whatever happens to a worker."""

from __future__ import annotations

import io
import logging
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic

from headrace.clock import Clock
from headrace.engine.crew import Contract, Crew, dismiss
from headrace.engine.cuts import Carried, Cut, Cuts, Descriptors, Seconds, in_turn, is_part, is_worth_it, piece_of
from headrace.engine.feed import Feed
from headrace.engine.freight import pack
from headrace.engine.interrupts import undisturbed
from headrace.engine.job import Job
from headrace.engine.result import P, Result
from headrace.engine.shelf import Parked
from headrace.engine.stats import Observer
from headrace.engine.undone import remedy, worker_error
from headrace.engine.waiting import Waiting, check_process
from headrace.engine.workers import Worker
from headrace.errors import StuckError, WorkerDiedError

_log = logging.getLogger("headrace")

_LOOK_AROUND = 0.05  # seconds between looks at who is stuck, while waiting
_STUCK = 0.25  # seconds after which a piece may be called slow
_SLOW = 8.0  # times the average that a slow piece takes
_STRETCH = 4  # times the usual number of pieces that may be ahead of a slow one

HOLD: Any = object()
"""Given by pieces in the place of one that depends on the results before it: it is asked for again after the next."""


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

    An interrupt (Ctrl-C, or whatever a signal's handler raises) loses nothing: the next result is that which would have
    come. If it has struck anywhere but in waiting, other workers do what was under way.

    Attributes:
        held: The next result, if it is ready and nobody has it yet. Whoever gets it from `head`, empties this list.

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
        name_of: Says what a piece is, for messages; None: they tell its number.
        cut: Cuts pieces into parts, for as many as there are workers while a run begins, if they take long. What `job`
            opens carries out parts, too, and has a method `join(piece, values, clock)`.

    Raises:
        NotPicklableError: If the job can't be sent to workers.
        StuckError: From iterating: if a result takes longer than `timeout`; the message shows what the workers do.
    """

    def __init__(
        self,
        crew: Crew,
        pieces: Iterable[P],
        job: Job[P],
        stats: Observer,
        *,
        prefetch: int,
        max_bytes: int,
        timeout: float | None = None,
        in_order: bool = True,
        seat_of: Callable[[P], int] | None = None,
        fresh: bool = True,
        setup: object = None,
        retries: int = 2,
        name_of: Callable[[P], str] | None = None,
        cut: Cut | None = None,
    ) -> None:
        self._closed = True  # until there is something to close
        self._crew = crew
        self._feed = Feed(pieces)
        self.held: list[Result[P]] = []
        self._stats = stats
        self._limit = prefetch * crew.workers
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._in_order = in_order
        self._seat_of = seat_of
        self._fresh = fresh
        self._setup = setup
        self._retries = retries
        self._name_of = name_of
        self._cut = cut if crew.cuts and seat_of is None and is_worth_it(crew.pace) else None
        self._cuts = Cuts()
        self._tasks: dict[int, _Task[P]] = {}  # of which the consumer hasn't got the result
        self._ready: dict[int, Result[P] | Parked[P]] = {}
        self._taken = 0
        self._next = 0
        self._finished = 0
        self._seconds = 0.0
        self._shelf = crew.shelf
        self._contract: Contract = crew.contract(job, fresh=fresh)
        self._run = self._contract.run
        self._process = os.getpid()
        self._workers: list[Worker] = []
        self._amid = True  # in the midst of something, which an interrupt may have left half done
        self._closed = False
        try:
            self._begin(fresh)
            self._dispatch()
        except BaseException:
            self.close()
            raise
        self._amid = False

    @property
    def workers(self) -> list[Worker]:
        """The workers, by their numbers."""
        return self._workers

    def _begin(self, fresh: bool) -> None:
        self._crew.hire(self._contract, self._workers)
        self._poll = select.poll()
        for seat in range(len(self._workers)):
            self._welcome(seat, fresh)

    def _begin_again(self) -> None:
        """After an interrupt: what was under way is done by others, as nobody knows what has become of it."""
        with undisturbed():
            dismiss(self._workers)
            self._workers.clear()
            self._shelf.arena = None
            self._cuts.clear()
            for number in filter(is_part, [*self._tasks]):
                del self._tasks[number]
        self._begin(fresh=True)
        for number in sorted(self._tasks.keys() - self._ready.keys()):
            self._send(self._tasks[number])

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
        result = self.head()
        del self.held[:]
        return result

    def head(self) -> Result[P]:
        """The next result; the same one, until `held` is emptied.

        Raises:
            StopIteration: At the end.
            StuckError: If it takes longer than `timeout`, or an interrupt has left nothing to go on with.
        """
        check_process(self._process)
        began = time.perf_counter()
        if not self._closed:
            if self._amid:
                self._begin_again()
            elif not self.held:
                self._amid = True
                self._collect()
        self._amid = True
        if not self.held:
            ready = len(self._ready)
            number = self._await_next()
            if number is None:
                self._amid = False
                self.close()
                raise StopIteration
            found = self._ready[number]
            result = self._shelf.unpark(found) if isinstance(found, Parked) else found
            self._stats.waited(time.perf_counter() - began, ready=ready)
            self._stats.finished(result.clock, result.nbytes, delivered=result.error is None)
            # No call from here on: all is done, or nothing.
            self.held[:], self._next = (result,), number + 1
            del self._ready[number], self._tasks[number], found  # whose slot may be free now
        self._dispatch()
        self._amid = False
        return self.held[0]

    def _await_next(self) -> int | None:
        waiting = Waiting(self._timeout, self.stacks)
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
            try:
                waiting.look()
            except StuckError:
                self._amid = False
                raise
            if not self._collect(min(_LOOK_AROUND, waiting.left)):
                self._relieve(waiting.waited)
        return None

    # sending ---------------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Sends pieces, as long as there is room ahead of the consumer."""
        while self._has_room(self._limit) and self._send_next():
            pass

    def _has_room(self, limit: int) -> bool:
        ahead = sum(not is_part(number) for number in self._tasks)
        if ahead == 0:
            return True
        return ahead < limit and (ahead + 1) * self._shelf.typical <= self._max_bytes

    def _send_next(self, seat: int | None = None) -> bool:
        feed = self._feed
        number = self._taken
        if not feed.take():
            if feed.error is not None:  # met where the piece would have been
                failed: Any = Result(None, None, feed.error, 0, Clock())
                lost: Any = _Task(number, None, 0)
                self._ready[number], self._tasks[number], self._taken, feed.error = failed, lost, number + 1, None
            return False
        piece = feed.held[0]
        if piece is HOLD:
            del feed.held[:]
            return False
        if self._seat_of is not None:
            seat = self._seat_of(piece)
        task = _Task(number, piece, self._turn() if seat is None else seat)
        parts = self._cut(piece) if self._cut is not None and number < len(self._workers) else ()
        self._tasks[number], self._taken, feed.held[:] = task, number + 1, ()
        if len(parts) < 2:
            self._send(task)
            return True
        for i, part in enumerate(self._cuts.begin(number, len(parts))):
            self._tasks[part] = _Task(part, parts[i], (number + i) % len(self._workers))
            self._send(self._tasks[part])
        return True

    def _fail(self, task: _Task[P], error: BaseException, clock: Clock | None = None) -> None:
        self._ready[task.number] = Result(task.piece, None, error, 0, clock or Clock())

    def _turn(self) -> int:
        if self._in_order:
            return self._taken % len(self._workers)
        return min(range(len(self._workers)), key=lambda seat: len(self._workers[seat].pending))

    def _send(self, task: _Task[P]) -> None:
        worker = self._workers[task.seat]
        arena = None if is_part(task.number) else self._shelf.arena
        slot = arena.take() if arena is not None else None
        if slot is not None and worker.arena is not arena:
            worker.channel.post(("arena", slot.arena.slot_bytes), [slot.arena.fd])
            worker.arena = arena
        worker.pending[self._run, task.number] = slot
        worker.page.give_back(task.number)
        try:
            what = (self._run, task.number, task.piece, -1 if slot is None else slot.number)
            if task.number in self._cuts:
                carried = self._cuts.carried(task.number)
                worker.channel.post(("join", *what, [one.label for one in carried]), Descriptors(carried))
            else:
                worker.channel.post(("piece", *what))
        except Exception as error:
            del worker.pending[self._run, task.number]
            try:
                pack(task.piece)
            except Exception:  # a key that can't be pickled
                self._fail(task, error)
            else:
                raise  # of a signal's handler, perhaps

    # receiving -------------------------------------------------------------------------------------------------------

    def _collect(self, pause: float = 0.0) -> bool:
        """Takes in what has come, waiting for it up to some seconds; whether anything has."""
        for worker in self._workers:
            worker.channel.flush()
            events = select.POLLIN | (select.POLLOUT if worker.channel.has_mail else 0)
            self._poll.modify(worker.channel.fileno(), events)
        self._amid = False  # nothing is half done
        news = self._poll.poll(pause * 1e3)
        self._amid = True
        found = {fd for fd, _ in news}
        if not found:
            return False
        for seat, worker in enumerate(self._workers):
            if worker.channel.fileno() in found or worker.pidfd in found:
                try:
                    for message, files in worker.channel.collect():
                        self._take_in(worker, seat, message, files)
                except EOFError:
                    self._replace(seat)
                    continue
                if worker.pidfd in found:  # a process of its own making may hold its channel open
                    self._replace(seat)
        return True

    def _take_in(self, worker: Worker, seat: int, message: tuple[Any, ...], files: list[io.FileIO]) -> None:
        kind, run, number, *rest = message
        slot = worker.pending.pop((run, number), None)
        task = self._tasks.get(number) if run == self._run else None
        if task is None or kind == "skipped" or number in self._ready:
            # Of a run that is over, or done by another worker meanwhile.
            for file in files:
                file.close()
            return
        if is_part(number):
            self._take_in_part(number, seat, Carried(rest[0], rest[1], files) if kind == "done" else None, rest[-1][0])
            return
        clock = Clock(seat)
        clock.seconds, clock.began, clock.ended = rest[-1]
        clock.seconds = self._cuts.end(number, clock.seconds)
        self._finished += 1
        self._seconds += clock.seconds.get("piece", (0.0, 0.0))[0]
        if kind == "failed":
            self._fail(task, worker_error(rest[0], seat, worker.pid), clock)
        else:
            stream, sizes, used, _ = rest
            self._ready[number] = self._shelf.park(
                task.piece, stream, sizes, slot, used >= 0, files, clock, self._limit
            )

    def _take_in_part(self, number: int, seat: int, carried: Carried | None, seconds: Seconds) -> None:
        piece = piece_of(number)
        if carried is None:
            self._crew.cuts, self._cut = False, None
            self._make_whole(number)
        else:
            del self._tasks[number]
            self._cuts.keep(number, carried, seconds)
            self._tasks[piece].seat = seat
        if not self._cuts.is_waiting(piece):
            self._send(self._tasks[piece])

    def _make_whole(self, number: int) -> int:
        """If a number is that of a part: its piece is to be done without what has come of it. Gives the piece."""
        piece = piece_of(number)
        if is_part(number) and piece in self._cuts:
            self._cuts.end(piece, {})
            for part in [part for part in self._tasks if is_part(part) and piece_of(part) == piece]:
                del self._tasks[part]
        return piece

    # trouble ---------------------------------------------------------------------------------------------------------

    def _relieve(self, waited: float) -> None:
        """If a slow piece holds up others: those go to workers that have nothing to do, and these may go on ahead.

        So do the pieces of a worker that has begun none for as long as the consumer waits: it may have been stopped, be
        starting still, or be at a piece of an earlier run.
        """
        idle = [seat for seat, worker in enumerate(self._workers) if not worker.pending]
        if not idle or self._seat_of is not None:
            return
        slow = max(_STUCK, _SLOW * self._seconds / max(1, self._finished))
        for seat, worker in enumerate(self._workers):
            current = worker.page.current()
            at, spent = (current[1], current[3]) if current is not None and current[0] == self._run else (-1, waited)
            if not worker.pending or spent < slow:
                continue
            undone = (n for n in self._tasks if n not in self._ready and n != at and n not in self._cuts)
            waiting = sorted((n for n in undone if self._tasks[n].seat == seat), key=in_turn)
            for number in waiting[: len(idle)]:
                worker.page.take_away(number)
                self._tasks[number].seat = idle.pop()
                self._send(self._tasks[number])
            while idle and self._has_room(self._limit * _STRETCH):
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
        left = sorted({self._make_whole(n) for n in [n for n in mine if self._tasks[n].seat == seat]})
        with undisturbed():
            worker.bury(1.0)
        report = self._obituary(worker, seat, current)
        if left:
            culprit = piece_of(current[1]) if current is not None and piece_of(current[1]) in left else left[0]
            task = self._tasks[culprit]
            task.deaths += 1
            if task.deaths > self._retries:
                left.remove(culprit)
                text = f"{report}; {task.deaths} workers have died at it, so it is given up. {remedy(worker.exitcode)}"
                self._fail(task, WorkerDiedError(text, worker.pid, worker.exitcode))
        _log.warning("%s; another takes its place", report)
        self._contract.prepare()
        with undisturbed():
            self._workers[seat] = self._contract.start()
        self._welcome(seat, fresh=True)
        for number in left:
            self._send(self._tasks[number])

    def _obituary(self, worker: Worker, seat: int, current: tuple[int, int, int, float] | None) -> str:
        where = ""
        if current is not None and current[0] == self._run:
            record = f", at record {current[2]} of it" if current[2] >= 0 else ""
            where = f" in {self._name(current[1])}{record}"
        peak = f" (it had used {worker.page.peak_bytes / 1e6:,.0f} MB of memory)" if worker.page.peak_bytes else ""
        return f"worker process {seat} (pid {worker.pid}) {worker.how_it_ended()}{where}{peak}"

    def _name(self, number: int) -> str:
        number = piece_of(number)
        task = self._tasks.get(number)
        return f"piece {number}" if task is None or self._name_of is None else self._name_of(task.piece)

    def stacks(self) -> str:
        """What all workers are doing."""
        parts = []
        for seat, worker in enumerate(self._workers):
            current = worker.page.current()
            at = "nothing" if current is None else f"{self._name(current[1])}, for {current[3]:.1f} s"
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
        with undisturbed():
            self._closed = True
            self._feed.close()
            for waiting in (self._tasks, self._ready, self.held, self._cuts):
                waiting.clear()
            if self._finished:
                self._crew.pace = self._seconds / self._finished
            if self._amid:  # nobody knows what has become of what they were told
                dismiss(self._workers)
                self._shelf.arena = None
                return
            reusable = not self._contract.inherited
            for worker in self._workers:
                worker.page.cancel(self._run)
                worker.channel.post(("end", self._run, not self._fresh))
            self._crew.take_back(self._workers, lend=reusable and self._fresh, keep=reusable or not self._fresh)

    def __del__(self) -> None:
        if hasattr(self, "_process") and not sys.is_finalizing():  # at the very end, the crew's end is enough
            self.close()
