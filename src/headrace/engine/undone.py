"""Why a piece has no result, in words: an error in the worker, or its end."""

from __future__ import annotations

import contextlib
import pickle
import signal
from typing import Any

from headrace.engine.worker import Failure
from headrace.errors import WorkerError


def remedy(exitcode: int | None) -> str:
    """What may help where workers end so."""
    if exitcode == -signal.SIGKILL:
        return "If the system ran out of memory, make batches smaller or take fewer workers."
    return "Read it without workers to see what ends the process."


def worker_error(failure: Failure, seat: int, pid: int) -> WorkerError:
    """An error as it was raised in a worker."""
    original: Any = None
    if failure.pickled is not None:
        with contextlib.suppress(Exception):  # a class whose errors can't be built from their args
            original = pickle.loads(failure.pickled)
    return WorkerError(seat, pid, failure.name, failure.text, original if isinstance(original, BaseException) else None)
