"""The errors that headrace raises itself.

    HeadraceError
    ├── DataError (also ValueError)         malformed data: a file, a record, a column
    │   ├── DataChangedError                data that changed after it was indexed or saved
    │   └── cntk.ConfigError                a configuration of CNTK's that can't be read
    ├── PlanError (also ValueError)         a description that can't work: batch size 0, unsorted boundaries
    ├── StateError (also ValueError)        a saved state that doesn't fit and is refused
    ├── NotPicklableError (also TypeError)  something that worker processes need and that can't be sent to them
    ├── WorkerError (also RuntimeError)     an error in a worker process that can't be sent back as itself
    ├── WorkerDiedError (also RuntimeError) worker processes that ended, one after another, in the same work
    ├── StuckError (also TimeoutError)      a worker that gives no result within the time allowed
    ├── VerificationError (also AssertionError)   a run that differs from its plan (`verify`)
    ├── tf1.OpError                         errors of TensorFlow 1's surface; its kinds are in tf1/errors.py
    └── in nmt: HParamError, CheckpointError, DownloadError, DivergedError, RankError,
                ServerError, ExportError, PartError

Those with a surface before their names stand in its folder. Messages say what was expected, what came, where, and what
to do. Errors that a user's own function raises reach the user as themselves, with a note about the record; files that
can't be opened raise the usual `OSError`.
"""

from __future__ import annotations

import contextlib

__all__ = [
    "DataChangedError",
    "DataError",
    "HeadraceError",
    "NotPicklableError",
    "PlanError",
    "StateError",
    "StuckError",
    "VerificationError",
    "WorkerDiedError",
    "WorkerError",
    "add_note",
]


class HeadraceError(Exception):
    """Base of all errors of headrace; raised only as one of those below."""


class DataError(HeadraceError, ValueError):
    """The data is not what its format, its index or an operation demands."""


class DataChangedError(DataError):
    """A file is not the one that was indexed, or that a saved state belongs to."""


class PlanError(HeadraceError, ValueError):
    """A description of order or batches contradicts itself or the data's size."""


class StateError(HeadraceError, ValueError):
    """A saved state is malformed, or belongs to other data or another description."""


class NotPicklableError(HeadraceError, TypeError):
    """Something that worker processes need can't be sent to them."""


class WorkerError(HeadraceError, RuntimeError):
    """Work failed in a worker process; the error raised there can't be had as itself, or comes with this one.

    Attributes:
        seat: The worker's number.
        pid: The worker's process.
        name: The name of the class of the error raised there.
        text: Its traceback there.
        original: That error, or None if it can't be sent.
    """

    def __init__(self, seat: int, pid: int, name: str, text: str, original: BaseException | None = None) -> None:
        super().__init__(seat, pid, name, text, original)
        self.seat = seat
        self.pid = pid
        self.name = name
        self.text = text
        self.original = original

    def __str__(self) -> str:
        return f"in worker process {self.seat} (pid {self.pid}):\n{self.text}"


class WorkerDiedError(HeadraceError, RuntimeError):
    """A worker process ended in the middle of its work, and so did those that were to take its place.

    Attributes:
        pid: The last one's process.
        exitcode: How it ended, as `multiprocessing.Process` has it: minus the number of the signal that ended it; None
            if nobody knows.
    """

    def __init__(self, message: str, pid: int, exitcode: int | None) -> None:
        super().__init__(message, pid, exitcode)
        self.pid = pid
        self.exitcode = exitcode

    def __str__(self) -> str:
        return str(self.args[0])


class StuckError(HeadraceError, TimeoutError):
    """A worker gives no result within the time that the user allowed, or can't give one any more."""


class VerificationError(HeadraceError, AssertionError):
    """A run that `verify` went through differs from the plan.

    Attributes:
        epoch: The epoch of the first difference.
        batch: Its batch, counted over all ranks from the beginning of the epoch.
        rank: The rank that got it.
        record: The record's name, or None if the difference isn't one record's.
        event: Events before it.
        expected: What the plan says, in words.
        got: What came, in words.
    """

    def __init__(
        self,
        message: str,
        *,
        epoch: int,
        batch: int,
        rank: int,
        record: str | None,
        event: int,
        expected: str,
        got: str,
    ) -> None:
        super().__init__(message)
        self.epoch = epoch
        self.batch = batch
        self.rank = rank
        self.record = record
        self.event = event
        self.expected = expected
        self.got = got


def add_note(error: BaseException, text: str) -> None:
    """Adds a line of the library's to an error of the user's, once, and never fails.

    Classes of errors may refuse notes: frozen dataclasses do. The error itself matters more than the note.
    """
    with contextlib.suppress(Exception):
        if text not in getattr(error, "__notes__", ()):
            error.add_note(text)
