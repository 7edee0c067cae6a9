"""Plans of a billion records: made, positioned and begun without anything that grows with their number."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as hr

N = 10**9


class Virtual:
    """A billion records, each made when it is asked for; counts what is asked of it."""

    def __init__(self, n: int = N) -> None:
        self.n = n
        self.read = 0
        self.measured = 0

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, number: int) -> int:
        self.read += 1
        return number

    def lengths(self, records: Any) -> Any:
        self.measured += len(records)
        return records % 61 + 1


def numbers(source: Virtual) -> hr.Dataset:
    return hr.from_dataset(source, lengths=source.lengths)


Make = Callable[[Virtual], hr.Batches]
DESCRIPTIONS: dict[str, Make] = {
    "in order": lambda s: numbers(s).batch(32),
    "shuffled": lambda s: numbers(s).shuffle(seed=1).batch(32),
    "shuffled in windows": lambda s: numbers(s).shuffle(seed=1, window=1 << 20).batch(32),
    "twice shuffled": lambda s: numbers(s).shuffle(seed=1).shuffle(seed=2, window=1000).batch(32),
    "sharded": lambda s: numbers(s).shuffle(seed=1).shard(7, 3).batch(32),
    "sliced": lambda s: numbers(s).skip(N // 3).take(N // 2).shuffle(seed=4).batch(32),
    "repeated": lambda s: numbers(s).shuffle(seed=1).repeat(3).batch(32),
    "without end": lambda s: numbers(s).shuffle(seed=1).repeat().batch(32),
    "joined": lambda s: hr.concat(numbers(s), numbers(s).shuffle(seed=3), numbers(s)).batch(32),
    "in turn": lambda s: hr.interleave([numbers(s), numbers(s).shuffle(seed=3)], block_length=5).batch(32),
    "mixed": lambda s: hr.mix([numbers(s).shuffle(seed=3), numbers(s)], [3, 1], seed=2, stop="all").batch(32),
    "side by side": lambda s: hr.zip(numbers(s), numbers(s).shuffle(seed=3)).map(sum).batch(32),
    "in buckets": lambda s: numbers(s).shuffle(seed=1).bucket(batch_size=32, width=8),
    "by tokens": lambda s: numbers(s).shuffle(seed=1).bucket(max_tokens=512, window=4096),
    "filtered": lambda s: numbers(s).shuffle(seed=1).filter(lambda n: n % 2 == 0).batch(32),
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_any_place_is_reached_without_what_grows(name: str) -> None:
    make = DESCRIPTIONS[name]
    hr.Loader(make(Virtual(1000)))  # whatever is imported or made once
    source = Virtual()
    tracemalloc.start()
    try:
        loader = hr.Loader(make(source))
        first = next(iter(loader))
        if name != "filtered":
            loader.set_epoch(7)
            loader.skip(20_000_000 if "batch(" in repr(loader) else 500)
        state = json.dumps(loader.state_dict())
        assert len(state) < 1024
        later = hr.Loader(make(source), rank=1, world_size=2)
        later.load_state_dict(json.loads(state))
        second = next(iter(later))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20, f"{peak / 1e6:.1f} MB"
    assert 0 < len(second) <= len(first)
    # A batch and half of one; each side of a zip; of filters the blocks that are read ahead.
    assert source.read <= 2 * (len(first) + len(second)) + (2000 if name == "filtered" else 0)
    windows = 600 if name == "by tokens" else 4
    assert source.measured <= (windows * 33_000 if "bucket" in repr(loader) else 0)
    loader.close()
    later.close()


def test_packed_rows_are_planned_window_by_window() -> None:
    source = Virtual()
    rows = hr.from_dataset(source, lengths=source.lengths).shuffle(seed=1)
    packed = rows.map(lambda n: n).batch(4)  # a map forgets lengths, and needs none
    assert len(next(iter(hr.Loader(packed)))) == 4
    loader = hr.Loader(
        hr.from_dataset(_Rows(source), lengths=source.lengths).shuffle(seed=1).pack(128, batch_size=4, window=2048)
    )
    batch = next(iter(loader))
    assert batch["tokens"].shape == (4, 128)
    assert source.measured <= 2 * 2048 + 8
    with pytest.raises(TypeError, match="have no end"):
        len(hr.Loader(rows.repeat().batch(4)))


class _Rows:
    def __init__(self, source: Virtual) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, number: int) -> Any:
        return np.full(number % 61 + 1, number)


def test_every_epoch_has_another_order() -> None:
    loader = hr.Loader(numbers(Virtual()).shuffle(seed=1).batch(1000))
    starts = []
    for epoch in (0, 1, 10**12):
        loader.set_epoch(epoch)
        starts.append(next(iter(loader)).tolist())
    assert len({*starts[0], *starts[1], *starts[2]}) > 2990


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (lambda records: records[:-1], r"one integer for each of 1 records asked for, got int64 of shape \(0,\)"),
        (lambda records: records / 2, "got float64"),
        (lambda records: records - 5, r"lengths are within 0 … 2\^31−1, got -5 for record 0"),
    ],
)
def test_functions_that_give_no_lengths_are_refused(lengths: Any, message: str) -> None:
    with pytest.raises(hr.DataError, match=message):
        hr.Loader(hr.from_dataset(range(10), lengths=lengths).bucket(batch_size=2))


def test_lengths_by_a_function_are_those_of_an_array() -> None:
    lengths = np.arange(100) * 7 % 13
    runs = []
    for given in (lengths, lengths.tolist(), lambda records: lengths[records]):
        data: Any = hr.from_dataset(range(100), lengths=given).filter_length(min=1, max=9).shuffle(seed=2)
        runs.append([batch.tolist() for batch in hr.Loader(data.bucket(batch_size=4, width=2))])
    assert runs[0] == runs[1] == runs[2]


def test_a_mixture_imports_nothing_for_its_first_batch() -> None:
    """NumPy's masked arrays, which np.unique brings along, take longer than all else together."""
    code = (
        "import sys, headrace as hr; data = hr.mix([hr.from_dataset(range(9)), hr.from_dataset(range(9))], [1, 1])\n"
        "loader = hr.Loader(hr.concat(data, data).shuffle().batch(4)); before = set(sys.modules)\n"
        "next(iter(loader)); print(sorted(m for m in set(sys.modules) - before if m.startswith('numpy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
