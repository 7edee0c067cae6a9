"""Stops many threads together, and brings the error of one of them to whoever waits for them all."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headrace.tf1 import errors
from headrace.tf1.monitor import ended

__all__ = ["Coordinator"]

TICK = 0.02  # seconds between looks at threads, which tell nobody when they end


class Coordinator:
    """Stops threads together.

    Args:
        clean_stop_exception_types: Errors that are an ordinary end; OutOfRangeError if not given.

    Example:
        >>> from headrace import tf1 as tf
        >>> coord = tf.train.Coordinator()
        >>> with coord.stop_on_exception():
        ...     raise tf.errors.OutOfRangeError(None, None, "the end")
        >>> coord.should_stop(), coord.join()
        (True, None)
    """

    def __init__(self, clean_stop_exception_types: Iterable[type[BaseException]] | None = None):
        given = (errors.OutOfRangeError,) if clean_stop_exception_types is None else tuple(clean_stop_exception_types)
        self._clean = given
        self._changed = threading.Condition()
        self._stopped = False
        self._error: BaseException | None = None
        self._threads: set[threading.Thread] = set()
        self._joined = False

    @property
    def joined(self) -> bool:
        """Whether `join` has been called."""
        return self._joined

    @property
    def error(self) -> BaseException | None:
        """The error of the stop, if there is one."""
        return self._error

    def request_stop(self, ex: Any = None) -> None:
        """Asks all threads to stop; the first error given is what `join` raises.

        Args:
            ex: An error, or what `sys.exc_info()` gives.
        """
        error = ex[1] if isinstance(ex, tuple) else ex
        with self._changed:
            if isinstance(error, self._clean):
                error = None
            if self._joined and error is not None:
                raise error
            if not self._stopped:
                self._error = error
                self._stopped = True
                self._changed.notify_all()

    def should_stop(self) -> bool:
        """Whether somebody has asked to stop."""
        return self._stopped

    def clear_stop(self) -> None:
        """Forgets that, the error and the joining."""
        with self._changed:
            self._stopped = self._joined = False
            self._error = None

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Waits until somebody asks to stop; False when the time in seconds is over."""
        return self.wait_until(lambda: False, timeout) and self._stopped

    def wait_until(self, reason: Callable[[], bool], timeout: float | None = None) -> bool:
        """Waits for a stop or another reason, of which `wake` tells."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._stopped and not reason() and not ended():
                left = 1.0 if deadline is None else min(1.0, deadline - time.monotonic())
                if left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def wake(self) -> None:
        """Lets those who wait look again."""
        with self._changed:
            self._changed.notify_all()

    def register_thread(self, thread: threading.Thread) -> None:
        """Adds a thread to those that `join` waits for."""
        with self._changed:
            self._threads.add(thread)

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Turns an error inside into a request to stop, and goes on behind the block."""
        try:
            yield
        except Exception:
            self.request_stop(sys.exc_info())

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Waits for threads to end, or for a stop and then a while for them to end; raises the error of the stop.

        Args:
            threads: Threads to wait for besides those registered.
            stop_grace_period_secs: How long they may take to end after the stop.
            ignore_live_threads: Whether threads that don't end by then are no error.

        Raises:
            RuntimeError: If threads are still alive, with their names.
        """
        with self._changed:
            waited = self._threads | set(threads or ())
        while any(t.is_alive() for t in waited) and not self.wait_for_stop(TICK):
            pass
        deadline = time.monotonic() + stop_grace_period_secs
        for thread in waited:
            while thread.is_alive() and time.monotonic() < deadline:
                thread.join(min(TICK, max(0.0, deadline - time.monotonic())))
        alive = sorted(t.name for t in waited if t.is_alive())
        with self._changed:
            self._joined = True
            self._threads = set()
            error = self._error
        if error is not None:
            raise error
        if alive and not ignore_live_threads:
            raise RuntimeError(f"Coordinator stopped with threads still running: {' '.join(alive)}")
        if alive:
            logging.getLogger(__name__).info("threads still running: %s", " ".join(alive))

    def raise_requested_exception(self) -> None:
        """Raises the error of the stop, if there is one."""
        if self._error is not None:
            raise self._error
