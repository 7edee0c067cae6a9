"""TFRecord files of dense Examples of about 890 bytes: raw records, and batches of 256 parsed to columns.

An Example has 200 floats, ten whole numbers, a label and a name. All contenders verify checksums. `shuffled` is a
shuffle of the whole file for headrace, which costs no memory; for tf.data it is a buffer of 10,000 records. The first
batch includes making the index, as no sidecar is kept.

Reading: CPU microseconds a record say what feeding a model costs; tf.data parses batch by batch and prefetches one.
`peak MB` is of the whole process, with what importing takes and the pages of the file that are mapped.
"""

from __future__ import annotations

import importlib
import itertools
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import headrace as hr
from benchmarks.measure import Measure, peak_megabytes

RECORDS = 200_000
BATCH = 256
BLOCK = 10_000


def prepare(folder: pathlib.Path) -> None:
    """Writes the file."""
    path = folder / "train.tfrecord"
    if path.exists():
        return
    rng = np.random.default_rng(1)
    with hr.TFRecordWriter(path) as writer:
        for start in range(0, RECORDS, BLOCK):
            columns = {
                "x": rng.normal(size=(BLOCK, 200)).astype(np.float32),
                "ids": rng.integers(0, 100, (BLOCK, 10)),
                "label": rng.integers(0, 10, BLOCK),
                "name": hr.Bytes.from_rows([b"r%07d" % i for i in range(start, start + BLOCK)]),
            }
            writer.write_many(hr.encode_examples(columns))


FEATURES = {
    "x": hr.FixedLen((200,), "float32"),
    "ids": hr.FixedLen((10,), "int64"),
    "label": hr.FixedLen((), "int64"),
    "name": hr.FixedLen((), "bytes"),
}


def _headrace(*, parse: bool, shuffle: bool, workers: int) -> Callable[[pathlib.Path], dict[str, float]]:
    def run(folder: pathlib.Path) -> dict[str, float]:
        def make() -> hr.Loader:
            data = hr.read_tfrecord(folder / "train.tfrecord", index="memory")
            data = data.shuffle(seed=1) if shuffle else data
            data = data.parse_example(FEATURES) if parse else data
            return hr.Loader(data.batch(BATCH), workers=workers)

        return _through(make, lambda b: len(b["label"]) if parse else len(b))

    return run


def _stream(folder: pathlib.Path) -> dict[str, float]:
    data = hr.read_tfrecord(folder / "train.tfrecord", stream=True).parse_example(FEATURES)
    return _through(lambda: hr.Loader(data.batch(BATCH)), lambda b: len(b["label"]))


def _tensorflow(*, parse: bool, shuffle: bool) -> Callable[[pathlib.Path], dict[str, float]]:
    def run(folder: pathlib.Path) -> dict[str, float]:
        tf = importlib.import_module("tensorflow")

        data = tf.data.TFRecordDataset(str(folder / "train.tfrecord"))
        if shuffle:
            data = data.shuffle(10_000, seed=1)
        data = data.batch(BATCH)
        if parse:
            types = {"float32": tf.float32, "int64": tf.int64, "bytes": tf.string}
            features = {name: tf.io.FixedLenFeature(f.shape, types[f.dtype]) for name, f in FEATURES.items()}
            data = data.map(lambda serialized: tf.io.parse_example(serialized, features))
        return _through(lambda: data.prefetch(1), lambda b: len(b["label"]) if parse else len(b))

    return run


def _through(make: Callable[[], Iterable[Any]], size: Callable[[Any], int]) -> dict[str, float]:
    with Measure() as start:
        rest = iter(make())
        first = next(rest)
    total = 0
    with Measure() as m:
        for batch in itertools.chain([first], rest):
            total += size(batch)
    assert total == RECORDS
    return {
        "records/s": total / m.wall,
        "cpu us/record": 1e6 * m.cpu / total,
        "first batch s": start.wall,
        "peak MB": peak_megabytes(),
    }


OPTIONAL = ("tensorflow",)  # contenders that need these are left out where they aren't installed

CONTENDERS = {
    "headrace, raw": _headrace(parse=False, shuffle=False, workers=0),
    "headrace, raw shuffled": _headrace(parse=False, shuffle=True, workers=0),
    "headrace, parsed": _headrace(parse=True, shuffle=False, workers=0),
    "headrace, parsed shuffled": _headrace(parse=True, shuffle=True, workers=0),
    "headrace, the same, 2 workers": _headrace(parse=True, shuffle=True, workers=2),
    "headrace, stream, parsed": _stream,
    "tf.data, raw": _tensorflow(parse=False, shuffle=False),
    "tf.data, raw shuffled": _tensorflow(parse=False, shuffle=True),
    "tf.data, parsed": _tensorflow(parse=True, shuffle=False),
    "tf.data, parsed shuffled": _tensorflow(parse=True, shuffle=True),
}
