"""Ctrl-C that waits for the end of a step, when the weights are those of a step and can be saved."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interrupt"]


class Interrupt:
    """Remembers a Ctrl-C while it is entered; a second one interrupts at once.

    Only the main thread is told of signals: in others, and where someone else deals with Ctrl-C, this does nothing.

    Attributes:
        asked: Whether there was one.

    Example:
        >>> with Interrupt() as interrupt:
        ...     signal.raise_signal(signal.SIGINT)
        ...     interrupt.asked
        True
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if usual and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self._before)
        # Not sys.stderr, which may be in the middle of a line.
        os.write(2, b"\nstopping after this step, which is then saved; Ctrl-C once more stops at once\n")
