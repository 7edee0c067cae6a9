"""Who a worker is: what `get_worker_info` tells, in processes and in threads."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

from torch.utils.data._utils import worker as torch_worker

_WATCHED = ("id", "num_workers")


class WorkerInfo(torch_worker.WorkerInfo):
    """What torch tells a worker about itself; notes besides whether its number was looked at.

    A stream that never asks for its worker's number isn't divided among workers by its author.
    """

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name in _WATCHED:
            _here.looked = True
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


class _Here(threading.local):
    info: WorkerInfo | None = None
    looked: bool = False


_here = _Here()


def get_worker_info() -> Any:
    """Who this worker is: `id`, `num_workers`, `seed`, `dataset`, `rng`, `worker_method`; None outside of workers.

    In a worker process torch's own `get_worker_info` gives the same. In a worker thread only this one does, as torch's
    knows one answer a process.

    Example:
        >>> get_worker_info() is None
        True
    """
    if _here.info is not None:
        return _here.info
    return torch_worker.get_worker_info()


def make_info(id: int, count: int, seed: int, dataset: Any, *, rng: Any = None, method: str = "multiprocessing") -> Any:
    """The information for one worker, as this version of torch has it."""
    fields = {"id": id, "num_workers": count, "seed": seed, "dataset": dataset}
    if not dataclasses.is_dataclass(torch_worker.WorkerInfo):  # before torch 2.12
        return torch_worker.WorkerInfo(**fields)
    known = {field.name for field in dataclasses.fields(torch_worker.WorkerInfo)}
    if "rng" in known:
        fields |= {"rng": rng, "worker_method": method}
    info = object.__new__(WorkerInfo)
    for name, value in fields.items():
        object.__setattr__(info, name, value)
    return info


def become(info: Any, *, process: bool) -> None:
    """This thread is the worker that `info` tells of, or none (None); with `process` all of the process is."""
    _here.info = info
    _here.looked = False
    if process and hasattr(torch_worker, "_worker_info"):
        torch_worker._worker_info = info


def has_looked() -> bool:
    """Whether the worker's number was asked for since it became one."""
    return _here.looked or not isinstance(_here.info, WorkerInfo)
