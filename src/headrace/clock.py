"""Measures where the time of one piece of work goes, by stage."""

from __future__ import annotations

import time
from types import TracebackType


class Clock:
    """Adds up wall and CPU seconds of the current thread by stage name.

    One clock belongs to one piece of work and so to one thread at a time. Stages follow each other; a stage that is
    opened inside another one is counted in both.
    """

    __slots__ = ("_open", "seconds")

    def __init__(self) -> None:
        self.seconds: dict[str, tuple[float, float]] = {}
        self._open: list[tuple[str, float, float]] = []

    def stage(self, name: str) -> Clock:
        """Opens a stage: `with clock.stage("read"): …`."""
        self._open.append((name, time.perf_counter(), time.thread_time()))
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        name, wall, cpu = self._open.pop()
        wall_before, cpu_before = self.seconds.get(name, (0.0, 0.0))
        self.seconds[name] = (
            wall_before + time.perf_counter() - wall,
            cpu_before + time.thread_time() - cpu,
        )
