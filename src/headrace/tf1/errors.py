"""TensorFlow's errors, by its names and codes.

    OpError (also HeadraceError)
    ├── CancelledError            queue or session closed while a call waited, or before
    ├── UnknownError              an error of the user's own function
    ├── InvalidArgumentError      data or arguments that don't fit
    ├── DeadlineExceededError     the time limit of `RunOptions`
    ├── NotFoundError             no such file
    ├── FailedPreconditionError   not initialised, a directory, written after closing
    ├── OutOfRangeError           the end of the data
    ├── DataLossError             a corrupt or truncated file
    └── …                         the rest of TensorFlow's list

An error of headrace, of the operating system or of a user's function that an operation meets is its `__cause__`.
"""

from __future__ import annotations

from typing import Any

from headrace.errors import DataError, HeadraceError


class OpError(HeadraceError):
    """Base of all errors of operations.

    Args:
        node_def: Ignored; TensorFlow's description of the operation.
        op: The operation, if one is known.
        message: What is wrong.
        error_code: TensorFlow's number of the kind.
    """

    code = 2

    def __init__(self, node_def: Any, op: Any, message: str, error_code: int | None = None):
        super().__init__(message)
        self.node_def = node_def
        self.op = op
        self.message = message
        self.error_code = self.code if error_code is None else error_code

    def __str__(self) -> str:
        name = getattr(self.op, "name", None)
        return f"{self.message} [operation '{name}']" if name else self.message

    def __reduce__(self) -> Any:
        return type(self), (None, None, self.message)


class CancelledError(OpError):
    """A call was cancelled: its queue or session was closed."""

    code = 1


class UnknownError(OpError):
    """An error without a kind of its own."""

    code = 2


class InvalidArgumentError(OpError):
    """Data or arguments that an operation can't take."""

    code = 3


class DeadlineExceededError(OpError):
    """The time that was allowed for a call is over."""

    code = 4


class NotFoundError(OpError):
    """A file or a name doesn't exist."""

    code = 5


class AlreadyExistsError(OpError):
    """Something that was to be made exists already."""

    code = 6


class PermissionDeniedError(OpError):
    """The user may not do that."""

    code = 7


class ResourceExhaustedError(OpError):
    """Memory, or another thing of which there is an end."""

    code = 8


class FailedPreconditionError(OpError):
    """The state doesn't allow it: not initialised, closed, a directory."""

    code = 9


class AbortedError(OpError):
    """A call was aborted."""

    code = 10


class OutOfRangeError(OpError):
    """The end: no more records, no more elements."""

    code = 11


class UnimplementedError(OpError):
    """This operation doesn't do that."""

    code = 12


class InternalError(OpError):
    """A mistake in the library itself."""

    code = 13


class UnavailableError(OpError):
    """A service isn't there."""

    code = 14


class DataLossError(OpError):
    """A file is corrupt or cut."""

    code = 15


class UnauthenticatedError(OpError):
    """The user isn't known."""

    code = 16


_SYSTEM: tuple[tuple[type[BaseException], type[OpError]], ...] = (
    (FileNotFoundError, NotFoundError),
    (IsADirectoryError, FailedPreconditionError),
    (NotADirectoryError, FailedPreconditionError),
    (PermissionError, PermissionDeniedError),
    (FileExistsError, AlreadyExistsError),
    (MemoryError, ResourceExhaustedError),
    (NotImplementedError, UnimplementedError),
    (DataError, DataLossError),
    (ValueError, InvalidArgumentError),
    (TypeError, InvalidArgumentError),
    (IndexError, InvalidArgumentError),
    (KeyError, InvalidArgumentError),
)


def translate(error: BaseException, op: Any = None) -> OpError:
    """TensorFlow's error for one of ours, which becomes its cause."""
    if isinstance(error, OpError):
        if error.op is None:
            error.op = op
        return error
    kind = next((ours for theirs, ours in _SYSTEM if isinstance(error, theirs)), UnknownError)
    if isinstance(error, OSError) and error.filename is not None:
        name = error.filename.decode(errors="replace") if isinstance(error.filename, bytes) else error.filename
        message = f"{name}; {error.strerror}"
    else:
        message = str(error) if kind is not UnknownError else f"{type(error).__name__}: {error}"
    made = kind(None, op, message)
    made.__cause__ = error
    return made


def again(error: OpError) -> OpError:
    """The same error, to be raised once more, in another thread: tracebacks of threads must not mix."""
    made = type(error)(error.node_def, error.op, error.message)
    made.__cause__ = error
    return made
