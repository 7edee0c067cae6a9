"""Measures wall and CPU time of a piece of work in this process."""

from __future__ import annotations

import pathlib
import resource
import time
from types import TracebackType


class Measure:
    """Seconds that pass, and CPU seconds that all threads use, between entry and exit."""

    def __enter__(self) -> Measure:
        self.wall = time.perf_counter()
        self.cpu = time.process_time()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.wall = time.perf_counter() - self.wall
        self.cpu = time.process_time() - self.cpu


def peak_megabytes() -> float:
    """The most memory that this process has held, in MB."""
    # Not getrusage where it can be helped: its peak includes that of the process before it began this program.
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
