"""Interrupts: the exceptions of signal handlers, which may come in the middle of anything that the main thread does.

CPython runs handlers where a function begins, after a call, and at a jump back in a loop. So attributes and items that
are set one after the other without a call between them are all set, or none is. What can't be written so is either put
right when it is found half done, or done while handlers are put off.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_Handler = Callable[[int, FrameType | None], Any]
_put_off: dict[int, _Handler] = {}
_came: list[tuple[int, _Handler]] = []  # signals whose handlers have been put off


def is_pressed() -> bool:
    """Whether a handler waits for the end of a block of `undisturbed`, which should be soon."""
    return bool(_came) and threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """No signal handler of the program's runs before the end of this block; none ever does beside the main thread."""
    if _put_off or threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        for number in signal.valid_signals():
            handler = signal.getsignal(number)
            if callable(handler):
                _put_off[number] = handler
                signal.signal(number, _note(handler))
        yield
    finally:
        _put_back()


def forget() -> None:
    """This process has been forked in such a block, which isn't its own."""
    _put_off.clear()
    _came.clear()


def _note(handler: _Handler) -> _Handler:
    return lambda number, _: _came.append((number, handler))


def _put_back() -> None:
    # A handler that is back may strike at once; the others are to be back then all the same.
    try:
        while _put_off:
            number, handler = next(iter(_put_off.items()))
            signal.signal(number, handler)
            _put_off.pop(number, None)
        while _came:
            number, handler = _came.pop(0)
            handler(number, sys._getframe())
    finally:
        if _put_off or _came:
            _put_back()
