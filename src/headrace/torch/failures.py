"""Errors of workers as torch gives them: of the same class where that can be, with the worker's traceback."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from torch._utils import KeyErrorMessage

from headrace.errors import StuckError, WorkerDiedError, WorkerError


def as_torch(error: BaseException, timeout: float = 0) -> BaseException:
    """The error to raise for one that came from a worker process."""
    if isinstance(error, WorkerError):
        return _rebuilt(error)
    if isinstance(error, WorkerDiedError):
        return _of_death(error)
    if isinstance(error, StuckError) and timeout > 0:
        seconds = int(timeout) if timeout == math.floor(timeout) else timeout
        late = RuntimeError(f"DataLoader timed out after {seconds} seconds; {error}")
        late.__cause__ = error
        return late
    return error


def _rebuilt(error: WorkerError) -> BaseException:
    original = error.original
    message: Any = f"Caught {error.name} in DataLoader worker process {error.seat}.\nOriginal {error.text}"
    notes = getattr(original, "__notes__", [])
    if where := [note.removeprefix("headrace: ") for note in notes if "index" in note]:
        message = message.replace(f"process {error.seat}.", f"process {error.seat}, {where[0]}.", 1)
    kind: Any = type(original) if original is not None else None
    built: BaseException | None = None
    if kind is KeyError:
        built = KeyError(KeyErrorMessage(message))
    elif kind is not None and isinstance(original, Exception) and not isinstance(original, StopIteration):
        with contextlib.suppress(Exception):
            built = kind(message=message) if getattr(kind, "message", None) else kind(message)
        if built is not None and type(built) is not kind:
            built = None
    if built is None:
        built = RuntimeError(message)
    if original is not None:
        _copy_attributes(original, built)
        original.__traceback__ = None
        built.__cause__ = original
    return built


def _copy_attributes(original: BaseException, built: BaseException) -> None:
    for name, value in getattr(original, "__dict__", {}).items():
        if name != "__notes__":
            with contextlib.suppress(Exception):
                setattr(built, name, value)
    if isinstance(original, OSError) and isinstance(built, OSError) and original.errno is not None:
        built.strerror, built.errno = str(built), original.errno
        if original.filename is not None:  # it would be shown as a name
            built.filename = original.filename


_SIGNAL_WORDS = {
    9: "Killed",
    11: "Segmentation fault",
    7: "Bus error",
    15: "Terminated",
    6: "Aborted",
    4: "Illegal instruction",
}


def _of_death(error: WorkerDiedError) -> RuntimeError:
    if error.exitcode is not None and error.exitcode < 0:
        word = _SIGNAL_WORDS.get(-error.exitcode, -error.exitcode)
        how = f"DataLoader worker (pid {error.pid}) is killed by signal: {word}. "
    else:
        how = f"DataLoader worker (pid(s) {error.pid}) exited unexpectedly. "
    death = RuntimeError(how + str(error))
    death.__cause__ = error
    return death
