"""What the system refuses, in words that name the limit and say what to do."""

from __future__ import annotations

import errno
import os
import sys

_ADVICE = {
    errno.EMFILE: "close some, or raise the limit (ulimit -n)",
    errno.ENFILE: "the whole machine has as many as it may",
    errno.EAGAIN: "there may be no more processes and threads; ask for fewer workers, or raise the limit (ulimit -u, "
    "or pids.max of the container)",
    errno.ENOMEM: "ask for fewer workers or smaller batches, or raise the limit of memory (ulimit -v, or that of the "
    "container)",
    errno.ENOSPC: "ask for fewer workers or smaller batches, or give it more room",
    errno.EFBIG: "shared memory counts as a file here; raise the limit of file sizes (ulimit -f)",
}


def refused(error: OSError, what: str) -> OSError:
    """An error of the system with what was asked for, and advice.

    Args:
        error: The error.
        what: What couldn't be had.
    """
    number = error.errno or 0
    reason = error.strerror or str(error)
    advice = _ADVICE.get(number)
    return OSError(number, f"no {what} could be had: {reason}" + (f"; {advice}" if advice else ""))


def no_interpreter(error: OSError) -> OSError:
    """The error where a fresh interpreter can't be started."""
    if error.errno in _ADVICE:
        return refused(error, "new process")
    reason = error.strerror or str(error)
    return OSError(
        error.errno or 0,
        f"no Python could be started for worker processes: {sys.executable!r} (sys.executable): {reason}; it must name "
        "a Python that this process may run, or use threads",
    )


def too_many_files(what: str) -> OSError:
    """The error where another process has sent something that this one has no descriptor left for."""
    return refused(OSError(errno.EMFILE, os.strerror(errno.EMFILE)), what)
