"""Puts together what several callers ask for at the same time: one thread carries it out, a batch at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Batcher", "Counts", "Full"]

Result = TypeVar("Result")
How = TypeVar("How", bound=Hashable)


class Full(Exception):
    """Too much waits already."""


@dataclass(frozen=True)
class Counts:
    """What a batcher has done and has to do.

    Attributes:
        batches: Batches carried out.
        items: What was in them.
        largest: Of the largest batch.
        waiting: What waits for its turn.
    """

    batches: int = 0
    items: int = 0
    largest: int = 0
    waiting: int = 0


@dataclass(frozen=True)
class _Job(Generic[How, Result]):
    items: Sequence[str]
    how: How
    future: Future[list[Result]]


class Batcher(Generic[How, Result]):
    """Collects jobs while one batch is carried out, and makes the next batch of them.

    Nobody waits for a batch to fill: the first job begins at once, and what comes while it runs goes together. The
    oldest job is always in the next batch, with all that wait behind it and are to be done the same way.

    Args:
        work: Does something with all items of a batch; its results are in their order.
        most: Items of a batch; a job with more is a batch of its own.
        waiting: Items that may wait.

    Example:
        >>> batcher = Batcher(lambda items, how: [item.upper() for item in items], most=32, waiting=100)
        >>> batcher.submit(["mill", "wheel"], how=None).result()
        ['MILL', 'WHEEL']
        >>> batcher.close()
    """

    def __init__(self, work: Callable[[list[str], How], Sequence[Result]], most: int, waiting: int) -> None:
        self._work, self._most, self._room = work, most, waiting
        self._jobs: deque[_Job[How, Result]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._counts = Counts()
        # A daemon: whoever is asked a second time to stop does not wait for the batch at hand.
        self._thread = threading.Thread(target=self._run, name="headrace-nmt-batcher", daemon=True)
        self._thread.start()

    @property
    def counts(self) -> Counts:
        """What has been done, and what waits."""
        with self._changed:
            done = self._counts
            return Counts(done.batches, done.items, done.largest, self._waiting())

    def submit(self, items: Sequence[str], how: How) -> Future[list[Result]]:
        """Asks for something; cancelling the future takes it back, if it has not begun.

        Args:
            items: What to do it with; one result each.
            how: In which way; only what is to be done in the same way goes together.

        Raises:
            Full: More than `waiting` items would wait. A job that is larger than that alone has to be smaller.
        """
        future: Future[list[Result]] = Future()
        with self._changed:
            if self._closed:
                raise Full("it is closed")
            if self._waiting() + len(items) > self._room:
                raise Full(f"{self._waiting():,} wait already, at most {self._room:,} may")
            self._jobs.append(_Job(items, how, future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Carries out what waits, and ends. Nothing may be asked for afterwards."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _waiting(self) -> int:
        return sum(len(job.items) for job in self._jobs if not job.future.cancelled())

    def _run(self) -> None:
        while batch := self._next():
            self._carry_out(batch)

    def _next(self) -> list[_Job[How, Result]]:
        """Waits for jobs; takes those of the next batch. None at the end."""
        with self._changed:
            while True:
                while not self._jobs and not self._closed:
                    self._changed.wait()
                batch: list[_Job[How, Result]] = []
                left: deque[_Job[How, Result]] = deque()
                size = 0
                for job in self._jobs:
                    fits = not batch or (job.how == batch[0].how and size + len(job.items) <= self._most)
                    if not fits:
                        left.append(job)
                    elif job.future.set_running_or_notify_cancel():  # else its caller has given up
                        batch.append(job)
                        size += len(job.items)
                self._jobs = left
                if batch or (self._closed and not left):
                    return batch

    def _carry_out(self, batch: list[_Job[How, Result]]) -> None:
        items = [item for job in batch for item in job.items]
        try:
            results = list(self._work(items, batch[0].how))
        except BaseException as error:  # whoever asked is told, and the thread goes on
            if len(batch) == 1:
                batch[0].future.set_exception(error)
                return
            for job in batch:  # one of them is at fault; the others should not pay for it
                self._carry_out([job])
            return
        with self._changed:
            done = self._counts
            self._counts = Counts(done.batches + 1, done.items + len(items), max(done.largest, len(items)))
        start = 0
        for job in batch:
            job.future.set_result(results[start : start + len(job.items)])
            start += len(job.items)
