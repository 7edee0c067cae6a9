"""What a worker process and the one that feeds it share beside their channel: numbers, and a place for stacks."""

from __future__ import annotations

import faulthandler
import io
import os
import resource
import signal
import time

from headrace.engine.arena import make_segment, map_segment

# Numbers on the page; after them, the pieces that were taken away.
_CANCELLED, _RUN, _PIECE, _RECORD, _BEGAN, _PEAK, _LISTENS = range(7)
_TAKEN = 8
_MOST_TAKEN = 256
_PAGE = 4096
STACK_SIGNAL = signal.SIGUSR2


class Page:
    """Numbers in shared memory, each written by one side alone.

    The worker says what it is at, so that its death or its silence can be told with the record in hand. The other side
    says which runs are over and which pieces others have taken, so that a worker needn't do what nobody waits for.

    Args:
        fd: Descriptor of the page as another process made it; None makes one.
    """

    def __init__(self, fd: int | None = None) -> None:
        self._file = make_segment(_PAGE) if fd is None else io.FileIO(fd, "r+b")
        self._map = map_segment(self.fd, _PAGE)
        self._numbers = memoryview(self._map).cast("q")
        if fd is None:
            self._numbers[_PIECE] = -1
            self.forget_taken()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    @property
    def fd(self) -> int:
        """Its descriptor."""
        return self._file.fileno()

    # the worker's side -----------------------------------------------------------------------------------------------

    def begin(self, run: int, piece: int) -> None:
        """The worker begins a piece."""
        numbers = self._numbers
        numbers[_RUN] = run
        numbers[_RECORD] = -1
        numbers[_BEGAN] = time.monotonic_ns()
        numbers[_PEAK] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        numbers[_PIECE] = piece

    def at(self, record: int) -> None:
        """The worker is at a record of its piece."""
        self._numbers[_RECORD] = record

    def end(self) -> None:
        """The worker has done its piece."""
        self._numbers[_PIECE] = -1

    def is_wanted(self, run: int, piece: int) -> bool:
        """Whether somebody still waits for a piece."""
        return run > self._numbers[_CANCELLED] and self._numbers[_TAKEN + piece % _MOST_TAKEN] != piece

    def dump_stacks_here(self) -> None:
        """From now on `STACK_SIGNAL` writes all threads' stacks behind the page, whatever the threads do."""
        os.lseek(self.fd, _PAGE, os.SEEK_SET)
        faulthandler.register(STACK_SIGNAL, file=self.fd, all_threads=True, chain=False)
        self._numbers[_LISTENS] = 1

    # the other side --------------------------------------------------------------------------------------------------

    def cancel(self, run: int) -> None:
        """Nobody waits for pieces of a run, or of those before it, any more."""
        self._numbers[_CANCELLED] = run

    def take_away(self, piece: int) -> None:
        """Another worker does a piece."""
        self._numbers[_TAKEN + piece % _MOST_TAKEN] = piece

    def give_back(self, piece: int) -> None:
        """The worker is to do a piece, whether it was taken away from it before or not."""
        at = _TAKEN + piece % _MOST_TAKEN
        if self._numbers[at] == piece:
            self._numbers[at] = -1

    def forget_taken(self) -> None:
        """A new run begins, whose pieces are counted from 0 again."""
        for i in range(_TAKEN, _TAKEN + _MOST_TAKEN):
            self._numbers[i] = -1

    def current(self) -> tuple[int, int, int, float] | None:
        """Run, piece and record (-1: none) that the worker is at, and for how many seconds; None if at none."""
        numbers = self._numbers
        if (piece := numbers[_PIECE]) < 0 or numbers[_BEGAN] == 0:
            return None
        return numbers[_RUN], piece, numbers[_RECORD], (time.monotonic_ns() - numbers[_BEGAN]) / 1e9

    @property
    def peak_bytes(self) -> int:
        """The most memory that the worker has held up to the beginning of its last piece; 0 if it has begun none."""
        return self._numbers[_PEAK] << 10

    def stacks(self, pid: int) -> str:
        """What a worker's threads are doing, as a traceback."""
        if not self._numbers[_LISTENS]:
            return "(it is starting)"  # the signal would be its end
        begin = os.fstat(self.fd).st_size
        try:
            os.kill(pid, STACK_SIGNAL)
        except ProcessLookupError:
            return "(it has ended)"
        deadline = time.monotonic() + 1.0
        size = begin
        while time.monotonic() < deadline:
            time.sleep(0.02)
            now = os.fstat(self.fd).st_size
            if now == size > begin:  # it has stopped growing
                break
            size = now
        return os.pread(self.fd, max(0, size - begin), begin).decode(errors="replace") or "(it gives no sign)"


class Seat:
    """A worker's place in a run, as the job that it opens sees it.

    Attributes:
        id: The worker's number, from 0.
        count: How many workers the run has.
        setup: What the run was given for its workers.
    """

    __slots__ = ("_page", "count", "id", "setup")

    def __init__(self, id: int, count: int, setup: object, page: Page) -> None:
        self.id = id
        self.count = count
        self.setup = setup
        self._page = page

    def at(self, record: int) -> None:
        """Notes which record of its piece the worker is at, for the report of its death or silence. Costs little."""
        self._page.at(record)
