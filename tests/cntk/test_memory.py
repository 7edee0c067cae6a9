"""Reading takes no more memory than it may, however long the file: measured from outside, in processes of their own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

STATUS = pathlib.Path("/proc/self/status")

pytestmark = pytest.mark.skipif(
    not STATUS.exists() or "VmHWM" not in STATUS.read_text(), reason="the peak of memory is read from /proc"
)

FILE_MB = 64
BUDGET_MB = FILE_MB // 4
MAPPED_MB = 4

_WIDTH = 256
_CHILD = """
import hashlib, pathlib, sys
import headrace as hr
from headrace.cntk import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs

path, way, mapped = sys.argv[1], sys.argv[2], int(sys.argv[3])
WIDTH = 256


def peak():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def cntk(file):
    streams = StreamDefs(x=StreamDef(field="x", shape=WIDTH), y=StreamDef(field="y", shape=10, is_sparse=True))
    deserializer = CTFDeserializer(file, streams, chunk_size=1 << 20)
    source = MinibatchSource(deserializer, max_sweeps=1, randomization_window_in_chunks=8)
    with source:
        while batch := source.next_minibatch(64):
            yield batch[source["x"]].asarray()


def loader(file):
    data = hr.read_ctf(file, {"x": hr.dense(WIDTH), "y": hr.sparse(10)}).shuffle(seed=3).batch(64)
    for batch in hr.Loader(data, workers=1):
        yield batch["x"]


def read(file):
    digest, count = hashlib.sha256(), 0
    for batch in {"cntk": cntk, "loader": loader}[way](file):
        digest.update(batch.tobytes())
        count += len(batch)
    return digest.hexdigest(), count


read(path + ".small")  # loads and starts what is needed whatever the file
before = peak()
print(*read(path), peak() - before)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A file of distinct records in random numbers, and one of its beginning."""
    rng = np.random.default_rng(1)
    lines = [
        f"|x {' '.join(map(str, row))} |y {row[0] % 10}:1 " for row in rng.integers(100, 1000, (500, _WIDTH)).tolist()
    ]
    path = tmp_path_factory.mktemp("memory") / "large.ctf"
    with path.open("w") as out:
        count = 0
        while out.tell() < FILE_MB << 20:
            out.write("".join(f"{line}|# {count + i}\n" for i, line in enumerate(lines)))
            count += len(lines)
    with (path.parent / "large.ctf.small").open("w") as out:
        out.write("".join(f"{line}\n" for line in lines))
    return path


def _read(file: pathlib.Path, way: str, mapped: int) -> tuple[str, int, float]:
    environment = os.environ | {"HEADRACE_MAPPED_MB": str(mapped)}
    command = [sys.executable, "-c", _CHILD, str(file), way, str(mapped)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    digest, count, grown = done.stdout.split()
    return digest, int(count), float(grown)


@pytest.mark.parametrize("way", ["cntk", "loader"])
def test_a_shuffled_sweep_stays_within_a_quarter_of_the_file(file: pathlib.Path, way: str) -> None:
    digest, count, grown = _read(file, way, MAPPED_MB)
    with file.open() as lines:
        assert count == sum(1 for _ in lines)
    assert grown < BUDGET_MB
    free, _, more = _read(file, way, 4 * FILE_MB)
    assert digest == free  # the limit changes nothing but memory
    assert more > FILE_MB / 2  # and the measure sees what is mapped


def test_nothing_need_be_mapped(file: pathlib.Path) -> None:
    assert _read(file, "cntk", 0)[2] < BUDGET_MB
