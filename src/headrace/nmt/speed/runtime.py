"""Settings of the process that make training on a CPU fast; they change no result."""

from __future__ import annotations

import ctypes
import os

import torch

__all__ = ["place", "prepare_process"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # from glibc's malloc.h


def prepare_process(threads: int = 0) -> None:
    """Prepares a process that trains or translates; call it before the first tensor operation.

    * Denormal numbers count as zero: gradients of rare words shrink into that range, where every operation takes many
      times as long (Adam 10 to 25 times, after some hundred steps).
    * Freed memory stays with the process: the allocator would give blocks of some megabytes back to the system and ask
      for them again in each step, which costs as much as a quarter of the step in page faults.

    Args:
        threads: Threads of one operation; 0: PyTorch's choice, one for each core.
    """
    if threads > 0:
        torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # another C library than glibc
    for threshold in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
        mallopt(threshold, 1 << 30)


def place(device: str) -> torch.device:
    """Returns where a model is to be: what the setting `device` names, else a GPU, if there is one.

    Each of the processes that torchrun starts on a machine gets a GPU of its own.

    Raises:
        ValueError: There is no such device; the message says which there are.
    """
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not device:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % found) if found else torch.device("cpu")
    kind, _, number = device.partition(":")
    known = kind in ("cpu", "cuda") and (number.isdecimal() or number == "")
    if not known or (kind == "cuda" and int(number or 0) >= found):
        there = ", ".join(["cpu", *(f"cuda:{i}" for i in range(found))])
        raise ValueError(f"device must be one of this machine's ({there}), got {device!r}")
    return torch.device(device)
