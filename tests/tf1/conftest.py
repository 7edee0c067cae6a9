"""Every test has a graph of its own, ends within a minute, and leaves no thread behind."""

from __future__ import annotations

import faulthandler
import threading
import time
from collections.abc import Iterator

import pytest

from headrace import tf1 as tf


@pytest.fixture(autouse=True)
def _graph_and_watchdog() -> Iterator[None]:
    before = set(threading.enumerate())
    faulthandler.dump_traceback_later(60, exit=True)
    try:
        with tf.Graph().as_default():
            yield
    finally:
        faulthandler.cancel_dump_traceback_later()
    deadline = time.monotonic() + 5
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert not left, f"threads that the test leaves behind: {sorted(t.name for t in left)}"
