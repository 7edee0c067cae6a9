"""What the machine lends to this process."""

from __future__ import annotations

import contextlib
import math
import os

_CGROUP = "/sys/fs/cgroup"
_PRESSURE = "/proc/pressure/cpu"
_MEMORY = "/proc/meminfo"


def usable_cpus() -> int:
    """Processors that this process may keep busy: those it may run on, and no more than its container pays for."""
    try:
        count = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on every system
        count = os.cpu_count() or 1
    quota = _quota(_CGROUP)
    return max(1, count if quota is None else min(count, math.ceil(quota)))


def current_directory() -> str | None:
    """The current directory; None if it is gone, or can't be told."""
    try:
        return os.getcwd()
    except OSError:
        return None


def cpu_pressure() -> float:
    """The share of the last ten seconds in which something waited for a processor, 0 to 1; 0 if nobody tells."""
    return _pressure(_PRESSURE)


def available_bytes() -> int:
    """Memory that this process may still take: the machine's, or what its control group leaves. 0 if unknown."""
    found = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in _text(_MEMORY).splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) << 10)
    with contextlib.suppress(OSError, ValueError):
        most = _text(_CGROUP, "memory.max").strip()
        if most != "max":
            found.append(max(0, int(most) - int(_text(_CGROUP, "memory.current"))))
    return min(found, default=0)


def _text(*path: str | os.PathLike[str]) -> str:
    with open(os.path.join(*path)) as file:
        return file.read()


def _pressure(path: str | os.PathLike[str]) -> float:
    try:
        text = _text(path)
        return float(text.partition("avg10=")[2].split(maxsplit=1)[0]) / 100
    except (OSError, ValueError, IndexError):  # not on every system
        return 0.0


def _quota(folder: str | os.PathLike[str]) -> float | None:
    """Processors that a control group of this folder allows, by version 2 or 1; None if it sets no limit."""
    try:
        allowed, period = _text(folder, "cpu.max").split()
        return None if allowed == "max" else int(allowed) / int(period)
    except (OSError, ValueError):
        pass
    try:
        allowed = _text(folder, "cpu/cpu.cfs_quota_us")
        period = _text(folder, "cpu/cpu.cfs_period_us")
        return int(allowed) / int(period) if int(allowed) > 0 else None
    except (OSError, ValueError):
        return None
