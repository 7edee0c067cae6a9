"""A consumer's waiting for a result: what it is told meanwhile, and when it gives up."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

from headrace.errors import StuckError

_log = logging.getLogger("headrace")

_WARN_AFTER = 60.0  # seconds, and each time as many again
GRACE = 2.0  # seconds that workers get to finish their piece when they are to end


class Waiting:
    """Waits for one result. Ask for `left` to know how long to wait before the next `look`.

    Args:
        timeout: Seconds to wait at most; None: any time.
        stacks: Tells what the workers are doing.
    """

    def __init__(self, timeout: float | None, stacks: Callable[[], str]) -> None:
        self._timeout = timeout
        self._stacks = stacks
        self._began = time.monotonic()
        self._warned = 0

    @property
    def waited(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds before there is something to tell."""
        warn = _WARN_AFTER * (self._warned + 1)
        return max(0.0, self._began + (warn if self._timeout is None else min(warn, self._timeout)) - time.monotonic())

    def look(self) -> None:
        """Logs a warning if it is time for one.

        Raises:
            StuckError: If the timeout is over.
        """
        waited = self.waited
        if self._timeout is not None and waited >= self._timeout:
            raise StuckError(f"{self._report(waited)}\nRaise the timeout if this is only slow.")
        if waited >= _WARN_AFTER * (self._warned + 1):
            self._warned += 1
            _log.warning(self._report(waited))

    def _report(self, waited: float) -> str:
        return f"waited for a batch for {waited:.0f} s; the workers are at:\n{self._stacks()}"


def check_process(process: int) -> None:
    """That this is the process in which an iteration began.

    Args:
        process: That one's number.

    Raises:
        StuckError: If it isn't, which therefore has no workers.
    """
    if process != os.getpid():
        raise StuckError(
            "this iteration's workers stayed in the process that this one was forked from; iterate the loader anew"
        )
