"""Memory of shuffled reading: a file of 4 GB in CNTK's text format within a budget of 1 GB.

One sweep through `MinibatchSource` with the default window (128 chunks of 32 MB: the whole file), and one through
`hr.read_ctf(...).shuffle(...)` and a loader; the index is made before, in another process. Figures are MB of text a
second, CPU seconds, the peak of memory (and how much of it is above what the process had before it opened the file),
and whether that is within the budget of a quarter of the file.

HEADRACE_BENCH_CTF_MB=1000 takes a smaller file; HEADRACE_MAPPED_MB how much of it may be mapped (256).
"""

from __future__ import annotations

import functools
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import headrace as hr
from benchmarks.ctf_files import KINDS, STREAMS
from benchmarks.measure import Measure, peak_megabytes
from headrace.cntk import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs

SIZE = int(os.environ.get("HEADRACE_BENCH_CTF_MB", "4000")) * 1_000_000
BATCH = 256
_DISTINCT = 64_000_000  # bytes that are made; the file repeats them
_STREAMS = STREAMS["integers"]


def _open(path: pathlib.Path) -> hr.Dataset:
    return hr.read_ctf(path, {name: hr.dense(dim) for name, (dim, _) in _STREAMS.items()})


def prepare(folder: pathlib.Path) -> None:
    """Writes the file and its index."""
    path = folder / "memory.ctf"
    if not path.exists() or path.stat().st_size < SIZE:
        import numpy as np

        texts, made = [], 0
        for text in KINDS["integers"](np.random.default_rng(1)):
            texts.append(text.encode())
            made += len(texts[-1])
            if made >= _DISTINCT:
                break
        with path.open("wb") as file:
            while file.tell() < SIZE:
                file.writelines(texts)
    code = f"import pathlib; from benchmarks.bench_ctf_memory import _open; _open(pathlib.Path({str(path)!r}))"
    subprocess.run([sys.executable, "-c", code], check=True)


def _measured(path: pathlib.Path, work: Callable[[], int]) -> dict[str, float]:
    before = peak_megabytes()
    with Measure() as took:
        work()
    peak = peak_megabytes()
    size = path.stat().st_size / 1e6
    return {
        "MB/s": size / took.wall,
        "cpu_s": took.cpu,
        "peak_mb": peak,
        "above_start_mb": peak - before,
        "within_budget": float(peak < size / 4),
    }


def _minibatches(folder: pathlib.Path, threads: bool | None = None) -> dict[str, float]:
    path = folder / "memory.ctf"

    def work() -> int:
        streams = StreamDefs(**{n: StreamDef(field=n, shape=dim) for n, (dim, _) in _STREAMS.items()})
        source = MinibatchSource(CTFDeserializer(str(path), streams), max_sweeps=1, multithreaded_deserializer=threads)
        samples = 0
        while batch := source.next_minibatch(BATCH):
            samples += max(data.num_samples for data in batch.values())
        source.close()
        return samples

    return _measured(path, work)


def _loader(folder: pathlib.Path) -> dict[str, float]:
    path = folder / "memory.ctf"
    return _measured(path, lambda: sum(1 for _ in hr.Loader(_open(path).shuffle(seed=1).batch(BATCH), workers=1)))


CONTENDERS: dict[str, Callable[[pathlib.Path], dict[str, float]]] = {
    "minibatches, shuffled": _minibatches,
    "minibatches, shuffled, threads": functools.partial(_minibatches, threads=True),
    "loader, shuffled": _loader,
}
