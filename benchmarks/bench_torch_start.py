"""A list of a million strings read by two workers: how long until the first batch, and what memory they come to hold.

The dataset is Python objects of some 90 MB. `first batch ms` counts from making the loader; `again ms` is a second
loader of the same process. `workers MB` is the memory that processes below this one hold alone, after the first batch
and at the end of a shuffled epoch: objects that are shared by forking are copied as they are looked at.
"""

from __future__ import annotations

import functools
import importlib
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

STRINGS = 1_000_000


class Strings:
    """The dataset."""

    def __init__(self) -> None:
        self.rows = [f"x{i}" * 8 for i in range(STRINGS)]

    def __len__(self) -> int:
        return STRINGS

    def __getitem__(self, index: int) -> int:
        return len(self.rows[index])


def prepare(folder: pathlib.Path) -> None:
    """Nothing is needed."""


def _below(pid: int) -> set[int]:
    found: set[int] = set()
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found |= {int(child)} | _below(int(child))
    return found


def _private_megabytes() -> float:
    total = 0
    for pid in _below(os.getpid()):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Private_"):
                total += int(line.split()[1])
    return total / 1024


def contend(module: str, context: str | None, folder: pathlib.Path) -> dict[str, float]:
    """Two loaders of one dataset."""
    loader_class: Callable[..., Any] = importlib.import_module(module).DataLoader
    options = {"batch_size": 1000, "shuffle": True, "num_workers": 2, "multiprocessing_context": context}
    dataset = Strings()
    began = time.perf_counter()
    loader = loader_class(dataset, **options)
    batches = iter(loader)
    next(batches)
    first = time.perf_counter() - began
    before = after = _private_megabytes()
    for number, _ in enumerate(batches):
        if number == STRINGS // 1000 - 20:
            after = _private_megabytes()
    began = time.perf_counter()
    again = loader_class(dataset, **options)
    next(iter(again))
    second = time.perf_counter() - began
    return {
        "first_batch_ms": 1e3 * first,
        "again_ms": 1e3 * second,
        "workers_MB": before,
        "workers_MB_at_the_end": after,
    }


CONTENDERS: dict[str, Callable[[pathlib.Path], dict[str, float]]] = {
    f"{name}, {context or 'default'}": functools.partial(contend, module, context)
    for context in (None, "forkserver", "spawn")
    for name, module in (("torch", "torch.utils.data"), ("headrace", "headrace.torch"))
}
