"""What the machine lends to this process."""

from __future__ import annotations

import math
import os
import pathlib

_CGROUP = pathlib.Path("/sys/fs/cgroup")
_PRESSURE = pathlib.Path("/proc/pressure/cpu")


def usable_cpus() -> int:
    """Processors that this process may keep busy: those it may run on, and no more than its container pays for."""
    try:
        count = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on every system
        count = os.cpu_count() or 1
    quota = _quota(_CGROUP)
    return max(1, count if quota is None else min(count, math.ceil(quota)))


def cpu_pressure() -> float:
    """The share of the last ten seconds in which something waited for a processor, 0 to 1; 0 if nobody tells."""
    return _pressure(_PRESSURE)


def _pressure(path: pathlib.Path) -> float:
    try:
        text = path.read_text()
        return float(text.partition("avg10=")[2].split(maxsplit=1)[0]) / 100
    except (OSError, ValueError, IndexError):  # not on every system
        return 0.0


def _quota(folder: pathlib.Path) -> float | None:
    """Processors that a control group of this folder allows, by version 2 or 1; None if it sets no limit."""
    try:
        allowed, period = (folder / "cpu.max").read_text().split()
        return None if allowed == "max" else int(allowed) / int(period)
    except (OSError, ValueError):
        pass
    try:
        allowed = (folder / "cpu/cpu.cfs_quota_us").read_text()
        period = (folder / "cpu/cpu.cfs_period_us").read_text()
        return int(allowed) / int(period) if int(allowed) > 0 else None
    except (OSError, ValueError):
        return None
