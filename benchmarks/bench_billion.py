"""A plan of a billion records: what it costs to make it, to go to a place in the middle of epoch 7, and to read there.

The records are virtual: each is a number that is made when it is asked for, so what is measured is the plan. `first
batch ms` is everything from the description to the first batch of 256 at that place; `peak MB` what the process has
held more than before. `records` counts a second of reading on from there.
"""

from __future__ import annotations

import functools
import pathlib
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.measure import peak_megabytes

N, SIZE = 10**9, 256


class _Virtual:
    def __len__(self) -> int:
        return N

    def __getitem__(self, number: int) -> int:
        return number

    def __getitems__(self, numbers: list[int]) -> list[int]:
        return numbers


def _lengths(records: Any) -> Any:
    return records % 61 + 1


def _make(kind: str) -> Any:
    import headrace as hr

    data = hr.from_dataset(_Virtual(), lengths=_lengths)
    match kind:
        case "shuffle":
            return data.shuffle(seed=1).batch(SIZE)
        case "windows":
            return data.shuffle(seed=1, window=1 << 20).batch(SIZE)
        case "shard":
            return data.shuffle(seed=1).shard(8, 3).batch(SIZE)
        case "mix":
            return hr.mix([data.shuffle(seed=1), data.shuffle(seed=2)], [3, 1], seed=1).batch(SIZE)
        case _:
            return data.shuffle(seed=1).bucket(batch_size=SIZE, window=32_768)


def prepare(folder: pathlib.Path) -> None:
    """Nothing is kept on disk."""


def _run(folder: pathlib.Path, kind: str) -> dict[str, float]:
    import headrace as hr

    next(iter(hr.Loader(hr.from_dataset(range(9), lengths=np.ones(9, int)).shuffle().bucket(batch_size=2))))
    before = peak_megabytes()
    began = time.perf_counter()
    loader = hr.Loader(_make(kind))
    loader.set_epoch(7)
    loader.skip(500_000 if kind != "bucket" else 0)
    running = iter(loader)
    next(running)
    first = time.perf_counter() - began
    grown = peak_megabytes() - before
    began = time.perf_counter()
    records = sum(map(len, islice(running, 500)))
    seconds = time.perf_counter() - began
    return {"first batch ms": 1000 * first, "peak MB": grown, "records": records / seconds}


CONTENDERS: dict[str, Callable[[pathlib.Path], dict[str, float]]] = {
    kind: functools.partial(_run, kind=kind) for kind in ("shuffle", "windows", "shard", "mix", "bucket")
}
