"""Packing: how full rows of 2,048 items are, what a window costs to plan, and how fast batches are put together.

Lengths are log-normal, as those of documents are, or uniform. `window ms` is the packing of 131,072 shuffled records;
`batches` and `M items` count a second of reading in the caller's thread, 8 rows a batch.
"""

from __future__ import annotations

import functools
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROW, RECORDS, WINDOW = 2048, 400_000, 131_072


def prepare(folder: pathlib.Path) -> None:
    """Nothing is kept on disk."""


def _lengths(kind: str) -> Any:
    rng = np.random.default_rng(0)
    if kind == "uniform":
        return rng.integers(1, ROW + 1, RECORDS)
    return np.clip(rng.lognormal(5.6, 1.0, RECORDS).astype(int), 1, ROW)


def _pack(folder: pathlib.Path, strategy: Any, kind: str) -> dict[str, float]:
    import headrace as hr

    lengths = _lengths(kind)
    planned = (
        hr.from_dataset(range(RECORDS), lengths=lengths)
        .shuffle(seed=1)
        .pack(ROW, batch_size=8, strategy=strategy, window=WINDOW)
    )
    began = time.perf_counter()
    fill = planned.fill()
    window = (time.perf_counter() - began) * WINDOW / RECORDS
    few = lengths[:50_000]
    items = hr.Ragged(np.arange(few.sum(), dtype=np.int32), np.concatenate([[0], np.cumsum(few)]))
    loader = hr.Loader(hr.from_arrays(items).shuffle(seed=1).pack(ROW, batch_size=8, strategy=strategy))
    running = iter(loader)
    next(running)  # the window is planned
    began = time.perf_counter()
    batches = sum(1 for _ in running)
    seconds = time.perf_counter() - began
    return {
        "fill": fill,
        "window ms": 1000 * window,
        "batches": batches / seconds,
        "M items": batches * 8 * ROW / seconds / 1e6,
    }


CONTENDERS: dict[str, Callable[[pathlib.Path], dict[str, float]]] = {
    f"{strategy}, {kind}": functools.partial(_pack, strategy=strategy, kind=kind)
    for kind in ("log-normal", "uniform")
    for strategy in ("first-fit", "best-fit", "concat")
}
