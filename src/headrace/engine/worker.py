"""A worker process's life: it opens jobs and carries out pieces until its channel ends."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any

from headrace.clock import Clock
from headrace.engine.arena import aligned, make_segment, map_segment, total_bytes, write_buffers
from headrace.engine.channel import Channel, Message
from headrace.engine.cuts import check_plain, is_part, open_carried
from headrace.engine.freight import open_parcel, pack
from headrace.engine.limits import too_many_files
from headrace.engine.machine import current_directory
from headrace.engine.seat import Page, Seat

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_THREAD_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

# Messages to a worker:
#   ("parcel", key, label)  with its descriptor      the job of the runs that follow; key names it
#   ("begin", run, id, count, setup, fresh, sys.path, working directory)
#   ("arena", slot bytes)   with its descriptor      where results are put
#   ("piece", run, number, piece, slot)
#   ("join", run, number, piece, slot, parts)  with their descriptors; comes before pieces that wait
#   ("end", run, keep)                               the run is over; keep: the opened job is used again
# from a worker:
#   ("done", run, number, stream, sizes, slot or -1, clock)   -1 with buffers: a segment's descriptor
#   ("failed", run, number, Failure, clock)
#   ("skipped", run, number)                     nobody waited for it any more


@dataclass(frozen=True)
class Failure:
    """An error of a worker, in a form that always travels.

    Attributes:
        name: The class of the error.
        pickled: The error itself, or None if it can't be pickled and read again.
        text: Its traceback.
    """

    name: str
    pickled: bytes | None
    text: str


@dataclass
class _Job:
    """What a worker knows of the job that its runs are about."""

    key: int = -1
    inherited: Any = None
    fd: int = -1
    label: tuple[int, int, list[int]] = (0, 0, [])
    loaded: Any = None  # a new copy that nobody has opened yet
    work: Callable[[Any, Clock], Any] | None = None
    failure: BaseException | None = None
    run: int = -1
    opened: bool = field(default=False)

    def load(self) -> Any:
        if self.inherited is not None:
            return self.inherited
        job, self.loaded = self.loaded, None
        if self.fd < 0:
            raise too_many_files("descriptor, in a worker process, of what it is to read with")
        return open_parcel(self.fd, self.label) if job is None else job

    def forget(self) -> None:
        self.work = self.failure = None
        self.opened = False


def serve(channel: Channel, page: Page, parent: int, by_signal: bool, inherited: Any = None) -> None:
    """Does what the channel asks for until it ends.

    Args:
        channel: To the process that feeds this one.
        page: Shared with it.
        parent: Number of the process that this one was forked from; this one ends with it.
        by_signal: Whether the kernel may tell of that end. It does so when the forking *thread* ends, so it may if that
            was the parent's main thread.
        inherited: The job of all runs, where this process was forked with it.
    """
    _reset_signals()
    _leave_with(parent, by_signal)
    page.dump_stacks_here()
    _use_one_core()
    _Worker(channel, page, inherited).run()


class _Worker:
    def __init__(self, channel: Channel, page: Page, inherited: Any) -> None:
        self._channel = channel
        self._page = page
        self._job = _Job(inherited=inherited)
        self._arena: mmap | None = None
        self._slot_bytes = 0
        self._id = 0
        self._pid = os.getpid()
        self._waiting: deque[Message] = deque()

    def run(self) -> None:
        """Until the other end is gone."""
        asked_for: dict[str, Callable[..., None]] = {
            "parcel": self._take_parcel,
            "begin": self._begin,
            "arena": self._take_arena,
            "piece": self._carry_out,
            "join": self._join,
            "end": self._end,
        }
        with contextlib.suppress(EOFError, OSError):
            while True:
                (kind, *what), fds = self._next()
                asked_for[kind](*what, *fds)

    def _next(self) -> Message:
        """What is to be done now. A piece that only has to be put together is somebody's next one already."""
        waiting = self._waiting
        if not waiting:
            waiting.append(self._channel.receive())
        waiting += self._channel.received()
        for i, (message, _) in enumerate(waiting):
            if message[0] == "join":
                first = waiting[i]
                del waiting[i]
                return first
            if message[0] != "piece":
                break
        return waiting.popleft()

    # jobs ------------------------------------------------------------------------------------------------------------

    def _take_parcel(self, key: int, label: tuple[int, int, list[int]], fd: int = -1) -> None:
        if self._job.fd >= 0:
            os.close(self._job.fd)
        self._job = _Job(key=key, fd=fd, label=label)

    def _begin(
        self, run: int, id: int, count: int, setup: Any, fresh: bool, path: list[str] | None, directory: str | None
    ) -> None:
        job = self._job
        job.run = run
        self._id = id
        try:
            if path is not None:
                sys.path[:] = path
            if directory is not None and directory != current_directory():
                os.chdir(directory)
            seat = Seat(id, count, setup, self._page)
            if fresh or not job.opened:
                job.forget()
                job.work = job.load().open(seat)
                job.opened = True
            elif (again := getattr(job.work, "restart", None)) is not None:
                again(seat)
        except BaseException as error:  # met by the consumer in the first result that it waits for
            job.failure = error

    def _end(self, run: int, keep: bool) -> None:
        job = self._job
        if keep or run != job.run:
            return
        job.forget()
        if job.inherited is None and job.loaded is None:
            # The next run's copy, made while nobody waits for it.
            with contextlib.suppress(BaseException):
                job.loaded = open_parcel(job.fd, job.label)
        gc.collect()

    # pieces ----------------------------------------------------------------------------------------------------------

    def _take_arena(self, slot_bytes: int, *fds: int) -> None:
        self._arena, self._slot_bytes = None, slot_bytes
        for fd in fds:  # none, if this process has too many files open
            # Without slots each result gets memory of its own, if there is any.
            with contextlib.suppress(OSError):
                self._arena = map_segment(fd, 0)
            os.close(fd)

    def _join(self, run: int, number: int, piece: Any, slot: int, labels: Any, *fds: int) -> None:
        def join(work: Any, clock: Clock) -> Any:
            return work.join(piece, open_carried(labels, fds), clock)

        self._do(run, number, slot, join)

    def _carry_out(self, run: int, number: int, piece: Any, slot: int) -> None:
        def carry_out(work: Any, clock: Clock) -> Any:
            value = work(piece, clock)
            if is_part(number):
                check_plain(value)
            return value

        self._do(run, number, slot, carry_out)

    def _do(self, run: int, number: int, slot: int, what: Callable[[Any, Clock], Any]) -> None:
        if not self._page.is_wanted(run, number):
            self._channel.send(("skipped", run, number))
            return
        clock = Clock(self._id)
        self._page.begin(run, number)
        try:
            job = self._job
            if job.failure is not None:
                raise job.failure
            assert job.work is not None
            with clock.stage("piece"):
                value = what(job.work, clock)
            self._end_if_forked()
            with clock.stage("send"):
                stream, buffers = pack(value)
            del value
        except BaseException as error:
            self._end_if_forked()
            # Not in a thread of a queue's: what can't be sent must reach the consumer as an error like any other.
            self._channel.send(("failed", run, number, _failure(error), _read(clock)))
            self._page.end()
            return
        self._deliver(run, number, stream, buffers, slot, clock)
        self._page.end()

    def _end_if_forked(self) -> None:
        """A process that the work has forked, and that came back here, has no business with the channel."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _deliver(
        self, run: int, number: int, stream: bytes, buffers: list[memoryview], slot: int, clock: Clock
    ) -> None:
        sizes = [buffer.nbytes for buffer in buffers]
        need = total_bytes(buffers)
        if not need:
            self._channel.send(("done", run, number, stream, sizes, -1, _read(clock)))
        elif self._arena is not None and slot >= 0 and need <= self._slot_bytes:
            begin = slot * self._slot_bytes
            with clock.stage("send"):
                write_buffers(memoryview(self._arena)[begin : begin + aligned(need)], buffers)
            self._channel.send(("done", run, number, stream, sizes, slot, _read(clock)))
        else:
            with clock.stage("send"):
                try:
                    file = make_segment(need)
                except OSError as error:
                    self._channel.send(("failed", run, number, _failure(_too_large(need, error)), _read(clock)))
                    return
            with file:
                with map_segment(file.fileno(), need) as segment, memoryview(segment) as view:
                    write_buffers(view, buffers)
                self._channel.send(("done", run, number, stream, sizes, -1, _read(clock)), [file.fileno()])


def _read(clock: Clock) -> tuple[dict[str, tuple[float, float]], float, float]:
    return clock.seconds, clock.began, clock.ended


def _too_large(need: int, error: OSError) -> OSError:
    return OSError(error.errno, f"a result of {need / 1e6:,.1f} MB can't be handed over: {error.strerror}")


def _failure(error: BaseException) -> Failure:
    text = "".join(traceback.format_exception(error))
    try:
        stream, buffers = pack(error)
        pickled: bytes | None = None if buffers else stream
    except Exception:
        pickled = None
    return Failure(type(error).__name__, pickled, text)


def _use_one_core() -> None:
    """Workers are many: one that takes all cores for itself slows down the others and the training."""
    for name in _THREAD_POOLS:
        os.environ.setdefault(name, "1")
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
    if (cv2 := sys.modules.get("cv2")) is not None:
        with contextlib.suppress(Exception):
            cv2.setNumThreads(0)
    gc.freeze()  # what was there before the fork stays shared with the parent, unvisited


def _reset_signals() -> None:
    """What the program has arranged for itself isn't meant for its workers."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    # The terminal sends it to the whole group; whoever feeds this process decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave_with(parent: int, by_signal: bool) -> None:
    """Ends this process when the one that it was forked from has gone, whatever it is doing then.

    A channel's end is only seen between pieces.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    if by_signal and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it went before it could be watched
            os._exit(1)
    else:
        with contextlib.suppress(RuntimeError):  # no more threads, or no memory for one: the channel's end must do
            threading.Thread(target=watch, name="headrace-parent", daemon=True).start()
