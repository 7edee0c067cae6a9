"""A clock that stands still unless it is told to go on, for tests about what takes long."""

from __future__ import annotations

import time

import pytest


class FakeTime:
    """Takes the place of `time.perf_counter` and of the thread's CPU time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.cpu = 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(time, "thread_time", lambda: self.cpu)

    def work(self, seconds: float) -> None:
        """Time goes by with computing."""
        self.now += seconds
        self.cpu += seconds

    def wait(self, seconds: float) -> None:
        """Time goes by in sleep."""
        self.now += seconds
