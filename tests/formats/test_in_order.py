"""Tests of work on threads whose results come in order."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from headrace.formats.in_order import in_order


@pytest.mark.parametrize("cpus", [1, 3, 64])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_come_in_order(cpus: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cpus)

    def work(n: int) -> int:
        time.sleep(0.001 * (n % 3))
        return -n

    assert list(in_order(work, range(count))) == [-n for n in range(count)]


def test_little_is_done_ahead_and_nothing_after_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    begun: list[int] = []
    with contextlib.closing(in_order(begun.append, range(100))) as results:
        next(results)
        time.sleep(0.05)
        assert len(begun) <= 4
    count = len(begun)
    time.sleep(0.02)
    assert len(begun) == count
    assert not any(thread.name.startswith("headrace-in-order") for thread in threading.enumerate())


def test_an_error_comes_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    results = in_order(lambda n: 6 // (3 - n), range(9))
    assert [next(results) for _ in range(3)] == [2, 3, 6]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not any(thread.name.startswith("headrace-in-order") for thread in threading.enumerate())
