"""Reading CNTK's text format: from text to minibatches of 256 samples, making the index included.

Four files of 100 MB (`ctf_files`). For each: one sweep in order on one core; the same on two; shuffled in one window; a
second sweep over data kept in memory; a batch loader over the same file; and the index alone, first made, then found.
Figures are MB of text a second of wall time, CPU seconds, and the peak of memory.

CNTK 2.7, measured on a like machine when it was quiet, one core, in order: 132 (integers), 221 (decimals), 113 (words)
and 34 MB/s (tagged). `copy` reads a file and adds up its bytes: what this machine does now, to compare runs by.
"""

from __future__ import annotations

import functools
import os
import pathlib
import warnings
from collections.abc import Callable, Iterable

import numpy as np

import headrace as hr
from benchmarks.ctf_files import KINDS, STREAMS, write_ctf_file
from benchmarks.measure import Measure, peak_megabytes
from headrace.cntk import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs

SIZE = 100_000_000
BATCH = 256


def prepare(folder: pathlib.Path) -> None:
    """Writes the files."""
    for kind in KINDS:
        write_ctf_file(folder / f"{kind}.ctf", kind, SIZE)


def _use_cores(count: int) -> None:
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:count]))


def _timed(path: pathlib.Path, work: Callable[[], object]) -> dict[str, float]:
    with path.open("rb") as file:  # into the page cache
        while file.read(1 << 20):
            pass
    with Measure() as took:
        work()
    return {"MB/s": path.stat().st_size / 1e6 / took.wall, "cpu_s": took.cpu, "peak_mb": peak_megabytes()}


def _source(path: pathlib.Path, kind: str, **options: object) -> MinibatchSource:
    streams = {
        name: StreamDef(field=name, shape=dim, is_sparse=sparse) for name, (dim, sparse) in STREAMS[kind].items()
    }
    own = {name: options.pop(name) for name in ("keep_data_in_memory",) if name in options}
    return MinibatchSource(CTFDeserializer(str(path), StreamDefs(**streams), **own), **options)  # type: ignore[arg-type]


def _sweep(source: MinibatchSource) -> int:
    samples = 0
    while batch := source.next_minibatch(BATCH):
        samples += max(data.num_samples for data in batch.values())
    return samples


def _in_order(kind: str, cores: int, randomize: bool, folder: pathlib.Path) -> dict[str, float]:
    _use_cores(cores)
    path = folder / f"{kind}.ctf"

    def work() -> None:
        _sweep(_source(path, kind, max_sweeps=1, randomize=randomize, multithreaded_deserializer=cores > 1))

    return _timed(path, work)


def _kept(kind: str, folder: pathlib.Path) -> dict[str, float]:
    _use_cores(1)
    path = folder / f"{kind}.ctf"
    source = _source(path, kind, max_sweeps=2, randomize=False, keep_data_in_memory=True)
    while not any(data.end_of_sweep for data in source.next_minibatch(BATCH).values()):
        pass
    return _timed(path, lambda: _sweep(source))


def _loader(kind: str, workers: int, folder: pathlib.Path) -> dict[str, float]:
    _use_cores(max(1, workers))
    path = folder / f"{kind}.ctf"

    def work() -> int:
        streams = {n: (hr.sparse if sparse else hr.dense)(dim) for n, (dim, sparse) in STREAMS[kind].items()}
        data = hr.read_ctf(path, streams, index="memory").batch(BATCH)
        return _count(hr.Loader(data, workers=workers))

    return _timed(path, work)


def _count(batches: Iterable[object]) -> int:
    return sum(1 for _ in batches)


def _index(kind: str, folder: pathlib.Path) -> dict[str, float]:
    _use_cores(1)
    path = folder / f"{kind}.ctf"
    streams = {n: (hr.sparse if sparse else hr.dense)(dim) for n, (dim, sparse) in STREAMS[kind].items()}
    hr.read_ctf(path, streams, index="rebuild")
    made = _timed(path, lambda: hr.read_ctf(path, streams, index="rebuild"))
    with Measure() as took:
        hr.read_ctf(path, streams)
    return {**made, "found_ms": 1e3 * took.wall}


def _copy(folder: pathlib.Path) -> dict[str, float]:
    _use_cores(1)
    path = folder / "integers.ctf"
    return _timed(path, lambda: int(np.fromfile(path, np.uint64, SIZE // 8).sum()))


CONTENDERS: dict[str, Callable[[pathlib.Path], dict[str, float]]] = {"copy": _copy}
for _kind in KINDS:
    CONTENDERS |= {
        f"{_kind}: in order, 1 core": functools.partial(_in_order, _kind, 1, False),
        f"{_kind}: in order, 2 cores": functools.partial(_in_order, _kind, 2, False),
        f"{_kind}: shuffled, 1 core": functools.partial(_in_order, _kind, 1, True),
        f"{_kind}: kept in memory": functools.partial(_kept, _kind),
        f"{_kind}: loader, 1 core": functools.partial(_loader, _kind, 0),
        f"{_kind}: loader, 2 workers": functools.partial(_loader, _kind, 2),
        f"{_kind}: index": functools.partial(_index, _kind),
    }

warnings.simplefilter("ignore")
