"""Other processes, as Linux lists them."""

from __future__ import annotations

import contextlib
import pathlib


def descendants(pid: int) -> set[int]:
    """All processes below one."""
    found: set[int] = set()
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            for child in task.read_text().split():
                found |= {int(child)} | descendants(int(child))
    return found


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it has not ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
