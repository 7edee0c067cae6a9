"""headrace.torch beside torch.utils.data and torchdata's StatefulDataLoader, the same program with another import.

Workloads: a) a TensorDataset of rows of 784 floats; b) dicts of Python objects made with some 20 µs of NumPy; c) JPEG
files decoded and resized; d) ragged lists of tokens, padded by a collate function. With 0, 1 and 2 workers each, one
thread for PyTorch. Figures: samples a second of the second epoch, microseconds of this process's CPU for each sample,
milliseconds until the first batch of the first epoch and of the second, with workers that are kept.
"""

from __future__ import annotations

import functools
import importlib
import io
import os
import pathlib
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ["OMP_NUM_THREADS"] = "1"
OPTIONAL = ("torchdata", "PIL")

_IMPLEMENTATIONS = {
    "headrace": ("headrace.torch", "DataLoader"),
    "torch": ("torch.utils.data", "DataLoader"),
    "torchdata": ("torchdata.stateful_dataloader", "StatefulDataLoader"),
}
_PICTURES = 64


def prepare(folder: pathlib.Path) -> None:
    """Writes the pictures of workload c, smooth noise as photographs are."""
    try:
        from PIL import Image
    except ImportError:
        return
    random = np.random.default_rng(0)
    for i in range(_PICTURES):
        coarse = Image.fromarray(random.integers(0, 256, (15, 20, 3), np.uint8))
        if not (path := folder / f"{i}.jpg").exists():
            coarse.resize((320, 240), Image.Resampling.BICUBIC).save(path, quality=90)


class Dicts:
    """Workload b."""

    def __len__(self) -> int:
        return 20_000

    def __getitem__(self, index: int) -> dict[str, Any]:
        x = np.full(64, index, np.float32)
        for _ in range(8):
            x = x * 1.01 + 0.5
        return {"x": x, "y": index, "name": str(index)}


class Pictures:
    """Workload c."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.files = [(folder / f"{i}.jpg").read_bytes() for i in range(_PICTURES)]

    def __len__(self) -> int:
        return 1_000

    def __getitem__(self, index: int) -> Any:
        import torch
        from PIL import Image

        image = Image.open(io.BytesIO(self.files[index % _PICTURES])).convert("RGB").resize((224, 224))
        return torch.from_numpy(np.asarray(image).copy()), index


class Tokens:
    """Workload d."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self.rows: list[list[int]] = [random.integers(0, 1000, n).tolist() for n in random.integers(5, 60, 20_000)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> list[int]:
        return self.rows[index]


def pad(rows: list[list[int]]) -> Any:
    """The collate function of workload d."""
    import torch

    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


def _workload(name: str, folder: pathlib.Path) -> tuple[Any, dict[str, Any]]:
    import torch

    if name == "a":
        return torch.utils.data.TensorDataset(torch.rand(50_000, 784), torch.arange(50_000)), {"batch_size": 256}
    if name == "b":
        return Dicts(), {"batch_size": 64}
    if name == "c":
        return Pictures(folder), {"batch_size": 16}
    return Tokens(), {"batch_size": 64, "collate_fn": pad}


def contend(implementation: str, workload: str, workers: int, folder: pathlib.Path) -> dict[str, float]:
    """Three epochs; the last two are measured."""
    module, name = _IMPLEMENTATIONS[implementation]
    loader_class = getattr(importlib.import_module(module), name)
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dataset, options = _workload(workload, folder)
    if workers:
        options["persistent_workers"] = True
    loader = loader_class(dataset, shuffle=True, num_workers=workers, **options)
    firsts, walls, cpus = [], [], []
    for _ in range(3):
        began, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
        batches = iter(loader)
        next(batches)
        firsts.append(time.perf_counter() - began)
        for _ in batches:
            pass
        after = resource.getrusage(resource.RUSAGE_SELF)
        walls.append(time.perf_counter() - began)
        cpus.append(after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime)
    samples = len(dataset)
    return {
        "samples_per_s": samples / min(walls[1:]),
        "consumer_us_per_sample": 1e6 * min(cpus[1:]) / samples,
        "first_batch_ms": 1e3 * firsts[0],
        "next_epoch_first_batch_ms": 1e3 * min(firsts[1:]),
    }


CONTENDERS: dict[str, Callable[[pathlib.Path], dict[str, float]]] = {
    f"{workload} {implementation} {workers}": functools.partial(contend, implementation, workload, workers)
    for workload in "abcd"
    for workers in (0, 1, 2)
    for implementation in _IMPLEMENTATIONS
}
