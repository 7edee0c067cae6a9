"""Records of 1 KB in a memory map of 200,000, shuffled, in batches of 256.

NumPy's fancy indexing over the map is the floor: it does nothing else. Reading: CPU microseconds a record; what a
loader adds to the floor is its own cost. `first batch s` includes opening the file.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable

import numpy as np

import headrace as hr
from benchmarks.measure import Measure

RECORDS, SIZE, BATCH, EPOCHS = 200_000, 1024, 256, 5


def prepare(folder: pathlib.Path) -> None:
    """Writes the records."""
    path = folder / "records.npy"
    if not path.exists():
        np.save(path, np.random.default_rng(0).integers(0, 256, (RECORDS, SIZE), np.uint8))


def _numpy(folder: pathlib.Path) -> dict[str, float]:
    with Measure() as start:
        records = np.load(folder / "records.npy", mmap_mode="r")
        rng = np.random.default_rng(0)
        _ = records[rng.permutation(RECORDS)[:BATCH]]
    total = 0
    with Measure() as m:
        for _ in range(EPOCHS):
            order = rng.permutation(RECORDS)
            for k in range(0, RECORDS, BATCH):
                total += records[order[k : k + BATCH]].shape[0]
    return _figures(total, m, start)


def _headrace(workers: int) -> Callable[[pathlib.Path], dict[str, float]]:
    def run(folder: pathlib.Path) -> dict[str, float]:
        with Measure() as start:
            records = np.load(folder / "records.npy", mmap_mode="r")
            loader = hr.Loader(hr.from_arrays(records).shuffle(seed=0).batch(BATCH), workers=workers)
            batches = iter(loader)
            next(batches)
        total = BATCH
        with Measure() as m:
            for batch in itertools.chain(batches, *(loader for _ in range(EPOCHS - 1))):
                total += len(batch)
        return _figures(total, m, start)

    return run


def _torch(folder: pathlib.Path) -> dict[str, float]:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    with Measure() as start:
        records = torch.from_numpy(np.load(folder / "records.npy", mmap_mode="c"))
        loader = DataLoader(TensorDataset(records), batch_size=BATCH, shuffle=True)
        next(iter(loader))
    total = 0
    with Measure() as m:
        for (batch,) in loader:
            total += len(batch)
    return _figures(total, m, start)


def _figures(total: int, m: Measure, start: Measure) -> dict[str, float]:
    return {"records/s": total / m.wall, "cpu us/record": 1e6 * m.cpu / total, "first batch s": start.wall}


OPTIONAL = ("torch",)  # contenders that need these are left out where they aren't installed

CONTENDERS = {
    "NumPy fancy indexing": _numpy,
    "headrace, inline": _headrace(0),
    "headrace, 1 worker": _headrace(1),
    "torch DataLoader, inline": _torch,
}
