"""What tests share: the profile of property tests, and a check that nothing is left behind."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("fast", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("slow", max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
collect_ignore: list[str] = []
if importlib.util.find_spec("torch") is None:
    collect_ignore.append("nmt")  # the core is tested wherever Python and NumPy are
if importlib.util.find_spec("typer") is None:
    collect_ignore.append("cli")

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


@pytest.fixture(autouse=True)
def no_worker_left() -> Iterator[None]:
    """Every test must leave no worker thread of the library behind."""
    yield
    deadline = time.monotonic() + 5
    while _workers() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _workers()


@pytest.fixture(autouse=True)
def numbers_near_zero_are_kept() -> Iterator[None]:
    """What a test (or an example) of training sets for its thread must not reach the next test."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


def _workers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("headrace-worker")]
