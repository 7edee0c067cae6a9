"""Interrupts that strike where CPython may run a signal's handler: at the n-th such place, so that all can be tried.

CPython looks for signals as a function begins, after a call, and at a jump back.
"""

from __future__ import annotations

import dis
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

import headrace

_ROOT = str(pathlib.Path(headrace.__file__).parent) + os.sep
_PLACES = ("engine/", "torch/iterators.py", "torch/runs.py", "torch/order.py", "loader.py", "runs.py")
_FILES = tuple(_ROOT + place for place in _PLACES)
_names: dict[CodeType, dict[int, str]] = {}

MARKS = [
    pytest.mark.skipif(sys.platform != "linux", reason="process workers are looked at through /proc"),
    pytest.mark.skipif(sys.gettrace() is not None, reason="the trace function is needed here"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # what an interrupt leaves open, closes itself
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""The `pytestmark` of modules whose tests strike."""


class Strike(BaseException):
    """What the handler raises."""


class Striker:
    """A trace function that raises SIGALRM at a place.

    Args:
        at: The number of the place, from 1; 0 only counts.

    Attributes:
        count: Places that have been passed.
    """

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self.count = 0
        self._last: dict[FrameType, bool] = {}

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        # The interpreter swallows what is raised in a finaliser.
        if not frame.f_code.co_filename.startswith(_FILES) or _is_in_finaliser(frame):
            return None
        frame.f_trace_opcodes = True
        self._last[frame] = True
        return self._step

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "return":
            self._last.pop(frame, None)
        if event == "opcode":
            name = _name(frame.f_code, frame.f_lasti)
            looks = self._last.get(frame, False) and name != "PUSH_EXC_INFO"  # there the call has failed
            self._last[frame] = _looks_for_signals(name)
            if looks:
                self.count += 1
                if self.count == self.at:
                    sys.settrace(None)
                    self._last.clear()
                    signal.raise_signal(signal.SIGALRM)
        return self._step


def _is_in_finaliser(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def _looks_for_signals(name: str) -> bool:
    return name.startswith(("CALL", "RESUME")) or "BACKWARD" in name


def _name(code: CodeType, offset: int) -> str:
    if code not in _names:
        _names[code] = {step.offset: step.opname for step in dis.get_instructions(code)}
    return _names[code].get(offset, "")


def _strike(number: int, frame: FrameType | None) -> None:
    raise Strike


@pytest.fixture
def handler() -> Iterator[None]:
    """SIGALRM raises `Strike`, as Ctrl-C raises KeyboardInterrupt."""
    before = signal.signal(signal.SIGALRM, _strike)
    traced = sys.gettrace()
    try:
        yield
    finally:
        sys.settrace(traced)
        signal.signal(signal.SIGALRM, before)


def struck(striker: Striker, make: Callable[[], Iterator[Any]], each: Callable[[Any], Any]) -> tuple[list[Any], int]:
    """All that an iterator gives, though it is struck: it is used on then. And how often it was.

    Args:
        striker: Strikes.
        make: Makes the iterator; is called again, if it was struck.
        each: Is done to what the iterator gives, without strikes.
    """
    found: list[Any] = []
    strikes, results = 0, None
    assert threading.current_thread() is threading.main_thread()
    while True:
        sys.settrace(striker if not strikes else None)
        try:
            if results is None:
                results = make()
            result = next(results)
        except Strike:
            strikes += 1
            continue
        except StopIteration:
            return found, strikes
        finally:
            sys.settrace(None)
        found.append(each(result))
