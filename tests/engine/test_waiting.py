"""What a consumer is told that waits, and when it gives up."""

from __future__ import annotations

import pytest

from headrace.engine import waiting
from headrace.errors import StuckError


class Clock:
    """Shows the time that it was set to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    return clock


def test_each_minute_a_warning(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    wait = waiting.Waiting(None, lambda: "line 3 of it")
    told = []
    for seconds in range(0, 200, 10):
        clock.now = 1000.0 + seconds
        wait.look()
        told.append(len(caplog.records))
    assert told == [0] * 6 + [1] * 6 + [2] * 6 + [3] * 2
    assert caplog.messages[1] == "waited for a batch for 120 s; the workers are at:\nline 3 of it"
    assert wait.left == 50.0


def test_after_the_timeout_it_is_over(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    wait = waiting.Waiting(70.0, lambda: "line 3 of it")
    assert wait.left == 60.0
    clock.now += 60.0
    wait.look()
    assert (len(caplog.records), wait.left) == (1, 10.0)
    clock.now += 10.0
    with pytest.raises(StuckError, match=r"^waited for a batch for 70 s; the workers are at:\nline 3 of it\nRaise"):
        wait.look()
    clock.now += 1.0
    assert wait.left == 0.0
