"""Measures where the time of one piece of work goes, by stage."""

from __future__ import annotations

import time
from types import TracebackType


class Clock:
    """Adds up wall and CPU seconds of the current thread by stage name.

    One clock belongs to one piece of work and so to one thread at a time. Stages follow each other; a stage that is
    opened inside another one is counted in both.

    Args:
        worker: Number of the worker that carries out the piece; None for the consumer itself.

    Attributes:
        seconds: Wall and CPU seconds by stage.
        worker: As given.
        began: When the first stage was opened, by `time.perf_counter`, which is the same in all processes of a machine.
        ended: When a stage was last closed.
    """

    __slots__ = ("_open", "began", "ended", "seconds", "worker")

    def __init__(self, worker: int | None = None) -> None:
        self.seconds: dict[str, tuple[float, float]] = {}
        self.worker = worker
        self.began = 0.0
        self.ended = 0.0
        self._open: list[tuple[str, float, float]] = []

    def stage(self, name: str) -> Clock:
        """Opens a stage: `with clock.stage("read"): …`."""
        now = time.perf_counter()
        if not self.began:
            self.began = now
        self._open.append((name, now, time.thread_time()))
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        name, wall, cpu = self._open.pop()
        wall_before, cpu_before = self.seconds.get(name, (0.0, 0.0))
        self.ended = time.perf_counter()
        self.seconds[name] = (wall_before + self.ended - wall, cpu_before + time.thread_time() - cpu)
