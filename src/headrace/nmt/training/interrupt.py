"""Ctrl-C and SIGTERM wait for the end of a step, when the weights are those of a step and can be saved."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interrupt", "Terminated"]


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM, as schedulers of jobs do, and saved what it had."""


class Interrupt:
    """Remembers a Ctrl-C or SIGTERM while it is entered; a second one stops at once.

    Only the main thread is told of signals: in others, and where someone else deals with a signal, this does nothing.

    Attributes:
        asked: The signal that came, 0 for none.

    Example:
        >>> with Interrupt() as interrupt:
        ...     signal.raise_signal(signal.SIGINT)
        ...     interrupt.asked == signal.SIGINT
        True
    """

    def __init__(self) -> None:
        self.asked = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
        if threading.current_thread() is threading.main_thread():
            ours = [number for number, handler in usual.items() if signal.getsignal(number) is handler]
            self._before = {number: signal.signal(number, self._note) for number in ours}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._put_back()

    def stop(self) -> KeyboardInterrupt:
        """Returns the error that ends what was asked to end."""
        return Terminated() if self.asked == signal.SIGTERM else KeyboardInterrupt()

    def _put_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = number
        self._put_back()
        # Not sys.stderr, which may be in the middle of a line.
        os.write(2, b"\nstopping after this step, which is then saved; Ctrl-C once more stops at once\n")
