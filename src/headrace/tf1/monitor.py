"""What a queue holds and who waits for it: one lock, and two lines of attempts that are served first come, first
served.

An attempt that can't be finished at once waits in its line. Whoever changes the queue carries out what has become
possible, for all that wait; so elements never pass over somebody who waited longer.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.tf1 import errors

__all__ = ["Fifo", "Heap", "QueueState", "Shuffled", "Store", "ended", "patient"]

Row = tuple[Any, ...]
LOOK = 1.0  # seconds between looks at whether the program ends


def ended() -> bool:
    """Whether the main thread is over, so that nobody will ever wake up those who wait."""
    return not threading.main_thread().is_alive()


def patient(event: threading.Event, deadline: float | None) -> bool:
    """Waits for an event; False when the time is over or the program ends."""
    while True:
        left = LOOK if deadline is None else min(LOOK, deadline - time.monotonic())
        if event.wait(max(left, 0)):
            return True
        if ended() or (deadline is not None and time.monotonic() >= deadline):
            return False


class Store:
    """Elements in the order of a kind of queue."""

    minimum = 0  # elements that stay behind while the queue is open

    def put(self, row: Row) -> None:
        """Adds one."""
        raise NotImplementedError

    def take(self) -> Row:
        """Removes the next one."""
        raise NotImplementedError

    def put_back(self, rows: Sequence[Row]) -> None:
        """Returns what was taken last, as if it had never been taken."""
        for row in rows:
            self.put(row)

    def __len__(self) -> int:
        raise NotImplementedError


class Fifo(Store):
    """First in, first out."""

    def __init__(self) -> None:
        self._rows: deque[Row] = deque()
        self.put = self._rows.append  # type: ignore[method-assign, assignment]
        self.take = self._rows.popleft  # type: ignore[method-assign]

    def put_back(self, rows: Sequence[Row]) -> None:
        """Returns what was taken last to the front."""
        self._rows.extendleft(reversed(rows))

    def __len__(self) -> int:
        return len(self._rows)


class Shuffled(Store):
    """Any element, each as likely; at least `minimum` stay behind while the queue is open."""

    def __init__(self, minimum: int, seed: Sequence[int] | None):
        self.minimum = minimum
        self._rows: list[Row] = []
        self._rng = np.random.default_rng(None if seed is None else list(seed))

    def put(self, row: Row) -> None:
        """Adds one."""
        self._rows.append(row)

    def take(self) -> Row:
        """Removes any one."""
        at = int(self._rng.integers(len(self._rows)))
        row, self._rows[at] = self._rows[at], self._rows[-1]
        self._rows.pop()
        return row

    def __len__(self) -> int:
        return len(self._rows)


class Heap(Store):
    """Lowest first component first; among equals, the oldest."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, Row]] = []
        self._count = 0

    def put(self, row: Row) -> None:
        """Adds one."""
        self._count += 1
        heapq.heappush(self._rows, (int(row[0]), self._count, row))

    def take(self) -> Row:
        """Removes the lowest one."""
        return heapq.heappop(self._rows)[2]

    def __len__(self) -> int:
        return len(self._rows)


class _Attempt:
    """A call that waits in a line."""

    __slots__ = ("done", "error", "rows", "step")

    def __init__(self, step: Callable[[_Attempt], bool], rows: list[Row]):
        self.step = step  # carries out what is possible; True when that is all
        self.rows = rows  # of an enqueue: still to go, last first; of a dequeue: taken so far
        self.error: errors.OpError | None = None
        self.done: threading.Event | None = None


class QueueState:
    """A queue in a session.

    Args:
        kind: The class's name, for messages.
        name: The queue's name, for messages.
        capacity: Elements that fit; −1 for no bound.
        store: Where they lie.
    """

    def __init__(self, kind: str, name: str, capacity: int, store: Store):
        self.label = f"{kind} '{name}'"
        self.capacity = capacity
        self.cause: BaseException | None = None  # why it was closed: TensorFlow has no place for that
        self._store = store
        self._lock = threading.Lock()
        self._putting: deque[_Attempt] = deque()
        self._taking: deque[_Attempt] = deque()
        self._closed = False
        self._failure: errors.OpError | None = None

    @property
    def closed(self) -> bool:
        """Whether `close` has been carried out."""
        return self._closed

    def __len__(self) -> int:
        return len(self._store)

    def put(self, rows: list[Row], deadline: float | None = None) -> None:
        """Adds elements, waiting for room; what fits goes in at once."""
        rows.reverse()
        self._call(self._putting, _Attempt(self._put, rows), deadline)

    def take(self, count: int, up_to: bool = False, deadline: float | None = None) -> list[Row]:
        """Removes elements, waiting until there are enough.

        Args:
            count: How many.
            up_to: From a closed queue, fewer will do.
            deadline: Until when, by the monotonic clock; what was taken by then goes back.
        """
        if not count:
            return []
        attempt = _Attempt(lambda attempt: self._take(attempt, count, up_to), [])
        self._call(self._taking, attempt, deadline)
        return attempt.rows

    def close(self, cancel: bool = False, deadline: float | None = None) -> None:
        """Ends adding: at once with `cancel`, else after those who already wait to add."""
        if not cancel:
            self._call(self._putting, _Attempt(self._close, []), deadline)
            return
        with self._lock:
            self._closed = True
            self._cancel(self._putting, "Enqueue operation was cancelled")
            self._flush()

    def fail(self, error: errors.OpError) -> None:
        """Ends adding because of an error, which those who take see once the queue is empty."""
        with self._lock:
            self._failure = self._failure or error
        self.close(cancel=True)

    def abort(self) -> None:
        """Ends everything: the session is closed."""
        with self._lock:
            self._closed = True
            self._failure = errors.CancelledError(None, None, f"{self.label}: the session has been closed")
            self._cancel(self._putting, self._failure.message)
            self._cancel(self._taking, self._failure.message)

    def _cancel(self, line: deque[_Attempt], message: str) -> None:
        for attempt in line:
            attempt.error = errors.CancelledError(None, None, message)
            attempt.error.__cause__ = self.cause
            if attempt.done is not None:
                attempt.done.set()
        line.clear()

    def _call(self, line: deque[_Attempt], attempt: _Attempt, deadline: float | None) -> None:
        with self._lock:
            if line or not attempt.step(attempt):
                attempt.done = threading.Event()
                line.append(attempt)
            self._flush()
        if attempt.done is not None and not patient(attempt.done, deadline):
            self._give_up(line, attempt)
        if attempt.error is not None:
            raise attempt.error

    def _give_up(self, line: deque[_Attempt], attempt: _Attempt) -> None:
        with self._lock:
            if attempt not in line:
                return  # done after all
            line.remove(attempt)
            if line is self._taking:
                self._store.put_back(attempt.rows)
            self._flush()
        if ended():
            raise errors.CancelledError(None, None, f"{self.label}: the program ends")
        raise errors.DeadlineExceededError(None, None, f"{self.label}: the time allowed for the call is over")

    def _flush(self) -> None:
        """Carries out what has become possible, until nothing more is."""
        moved = bool(self._putting or self._taking)
        while moved:
            moved = False
            for line in (self._putting, self._taking):
                while line:
                    before = len(self._store)
                    if not line[0].step(line[0]):
                        moved = moved or len(self._store) != before
                        break
                    done = line.popleft().done
                    moved = True
                    if done is not None:
                        done.set()

    def _put(self, attempt: _Attempt) -> bool:
        if self._closed:
            attempt.error = errors.CancelledError(None, None, f"{self.label} is closed.")
            attempt.error.__cause__ = self.cause
            return True
        room = len(attempt.rows) if self.capacity < 0 else self.capacity - len(self._store)
        while attempt.rows and room > 0:
            self._store.put(attempt.rows.pop())
            room -= 1
        return not attempt.rows

    def _take(self, attempt: _Attempt, count: int, up_to: bool) -> bool:
        have = len(self._store)
        if self._closed and have + len(attempt.rows) < count:
            self._store.put_back(attempt.rows)
            attempt.rows = []
            if not up_to or not len(self._store):
                attempt.error = self._empty(count)
                return True
            count = have = len(self._store)
        if not self._closed:
            have -= self._store.minimum
        take = self._store.take
        for _ in range(min(have, count - len(attempt.rows))):
            attempt.rows.append(take())
        return len(attempt.rows) == count

    def _empty(self, count: int) -> errors.OpError:
        if self._failure is not None:
            return errors.again(self._failure)
        message = f"{self.label} is closed and has insufficient elements (requested {count}, current size {len(self)})"
        made = errors.OutOfRangeError(None, None, message)
        made.__cause__ = self.cause
        return made

    def _close(self, attempt: _Attempt) -> bool:
        if self._closed:
            attempt.error = errors.CancelledError(None, None, f"{self.label} is already closed.")
        self._closed = True
        return True
