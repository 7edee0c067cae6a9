"""Makes crews, lets them begin, and drops them, often as garbage that only the collector finds. Leaves nothing behind.

`python -m tests.engine.cycles COUNT` does so COUNT times and prints what there was before and after.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.clock import Clock
from headrace.engine import Crew, ProcessRun, Seat, StatsCollector
from tests.processes import descendants


class Job:
    """Makes arrays large enough to travel through shared memory."""

    def open(self, seat: Seat) -> Callable[[Any, Clock], Any]:
        """Gives what makes one."""
        return lambda piece, clock: np.full(2000, piece)


def cycle(number: int) -> None:
    """One crew: a few results, then it is dropped in one of several ways."""
    crew = Crew(1 + number % 2)
    run = ProcessRun(crew, range(50), Job(), StatsCollector(2, 4), prefetch=2, max_bytes=1 << 20)
    for i in range(number % 4):
        result = next(run)
        assert result.error is None
        assert (result.value == i).all()
    if number % 3 == 0:
        run.close()
    if number % 3 == 1:
        for thing in (crew, run):
            vars(thing)["itself"] = thing  # reference counts alone won't free it
    if number % 5 == 0:
        crew.close()


def left() -> tuple[int, int, int, int]:
    """Descriptors, threads, processes below this one, and files in `/dev/shm`."""
    return (
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        len(descendants(os.getpid())),
        len(os.listdir("/dev/shm")),
    )


def run(count: int) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
    """So many cycles; what there was before and after."""
    for number in range(8):  # what is made once for all
        cycle(number)
    gc.collect()
    time.sleep(0.5)
    before = left()
    thresholds = gc.get_threshold()
    gc.set_threshold(50, 2, 2)  # so that it comes at all kinds of places
    try:
        for number in range(count):
            cycle(number)
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    deadline = time.monotonic() + 20
    while left()[2] > before[2] and time.monotonic() < deadline:
        time.sleep(0.05)
    return before, left()


if __name__ == "__main__":
    print(*run(int(sys.argv[1])))  # noqa: T201
