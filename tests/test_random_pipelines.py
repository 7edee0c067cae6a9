"""Random descriptions of every kind of source and step: the same batches for any workers, exact resuming, ranks agree.

A description is drawn from a seed by plain `random`, so that a failing one is made again by its number.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import random
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.batch import num_rows
from headrace.proof import same

KINDS = ["numbers", "objects", "matrix", "ragged", "strings", "text", "stream"]
STEPS, STEPS_OF_KNOWN = ["take", "skip", "slice", "shard"], ["shuffle", "shuffle", "repeat"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    folder, rng = tmp_path_factory.mktemp("texts"), random.Random(5)
    paths = []
    for number, lines in enumerate([0, 1, 37, 60]):
        content = "".join(
            " ".join(f"w{rng.randrange(12)}" for _ in range(rng.choice([0, 1, 2, 9]))) + rng.choice(["\n", "\r\n"])
            for _ in range(lines)
        )
        paths.append(folder / f"{number}.txt")
        paths[-1].write_bytes(content.encode())
    return paths


def in_part(parts: int, record: Any) -> bool:
    """Whether a record is in the first of some parts, as good as at random."""
    return zlib.crc32(repr(record).encode()) % parts == 0


class Draw:
    """Draws one description."""

    def __init__(self, seed: int, files: list[pathlib.Path]) -> None:
        self.random = random.Random(seed)
        self.files = files
        self.vocab = hr.Vocab(["<unk>", "<s>", "</s>", "w1", "w2"])

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def source(self, kind: str) -> hr.Dataset:
        n = self.one(0, 1, 2, 7, 20, 40)
        make: dict[str, Callable[[], hr.Dataset]] = {
            "numbers": lambda: hr.from_arrays(np.arange(n) * 10),
            "objects": lambda: hr.from_dataset(range(n), lengths=[i % 6 for i in range(n)]),
            "matrix": lambda: hr.from_arrays(np.arange(n * 3).reshape(n, 3)),
            "ragged": lambda: hr.from_arrays(hr.Ragged.from_rows([[i] * (i % 6) for i in range(n)], dtype=np.int64)),
            "strings": lambda: hr.from_arrays(hr.Strings.from_rows([" ".join(["w1"] * (i % 5)) for i in range(n)])),
            "text": lambda: hr.read_text([self.one(*self.files) for _ in range(self.one(1, 1, 3))]),
            "stream": lambda: hr.from_iterable(lambda: iter(range(n))),
        }
        return make[kind]()

    def order(self, data: hr.Dataset, kind: str) -> hr.Dataset:
        for _ in range(self.one(0, 1, 2, 3)):
            data = self.step(data, self.one(*(STEPS if kind == "stream" else STEPS + STEPS_OF_KNOWN)))
        return data

    def step(self, data: hr.Dataset, name: str) -> hr.Dataset:
        count = self.one(1, 2, 3)
        match name:
            case "take":
                return data.take(self.one(0, 1, 30, 1000))
            case "skip":
                return data.skip(self.one(0, 1, 3))
            case "slice":
                return data.slice(self.one(0, 1), self.one(None, 30), self.one(1, 2))
            case "shard":
                return data.shard(count, self.random.randrange(count))
            case "shuffle":
                return data.shuffle(seed=self.one(-3, 0, 5), window=self.one(None, None, 1, 2, 7, 500))
            case _:
                return data.repeat(count)

    def records(self, kind: str) -> hr.Dataset:
        parts = [self.source(kind) for _ in range(self.one(1, 2, 3))]
        if kind == "stream":
            parts = [self.one(part, part.filter(partial(in_part, 2))) for part in parts]
        joined = self.one("one", "one", "concat", "interleave", "mix")
        if kind == "stream":
            joined = self.one("one", "mix", "beside", "zip")
        data = parts[0]
        if joined == "concat":
            data = hr.concat(*parts)
        elif joined == "interleave":
            data = hr.interleave(parts, cycle_length=self.one(None, 1, 2), block_length=self.one(1, 2, 5))
        elif joined == "mix":
            weights = [self.one(1, 2, 0.7, 5) for _ in parts]
            data = hr.mix(parts, weights, seed=self.one(None, 3), stop=self.one("first", "all"))
        elif joined == "beside":
            data = hr.concat(self.source("objects"), data)
        elif joined == "zip":
            data = hr.zip(data, self.one(data, hr.from_iterable(range(15))), shortest=True).map(sum)
        if kind in ("text", "ragged") and self.one(True, False, False):
            data = data.filter_length(min=self.one(0, 1, 2), max=self.one(None, 4))
        return self.order(data, kind)

    def filtered(self, data: hr.Dataset) -> hr.Dataset:
        for _ in range(self.one(1, 1, 2)):
            parts = self.one(1, 2, 5, 100)
            data = data.filter(partial(in_part, parts), block=self.one(1, 4, 99))
        return self.step(data, self.one(*STEPS)) if self.one(True, False) else data

    def batches(self) -> hr.Batches:
        kind = self.one(*KINDS)
        data = self.records(kind)
        known = kind in ("text", "ragged", "objects")
        if kind in ("text", "strings") and self.one(True, True, False):
            ends = {"eos": self.one(None, "</s>"), "bos": self.one(None, "<s>"), "max_length": self.one(None, 0, 3)}
            data, kind = data.tokens(self.vocab, **ends), "ragged" if known else "tokens"
        elif kind in ("numbers", "objects", "stream") and self.one(True, False):
            draws = self.one(True, False)
            data, known = data.map((lambda n, rng: n + rng.random()) if draws else (lambda n: n + 1), rng=draws), False
        if self.one(True, False, False):
            data = self.filtered(data)
        known = known or kind in ("ragged", "tokens")  # those without an index are measured
        size, drop = self.one(1, 2, 3, 7, 50), self.one(True, False, False)
        if known and self.one(True, True, False):
            limits: dict[str, Any] = self.one({"batch_size": size}, {"max_tokens": self.one(1, 6, 40)})
            window = self.one("auto", None, 1, 5, 17)
            if kind == "ragged" and self.one(True, False):
                how = {"strategy": self.one("first-fit", "best-fit", "concat"), "window": window}
                overlong = self.one("split", "cut", "drop")
                return data.pack(self.one(1, 4, 9), batch_size=size, overlong=overlong, drop_remainder=drop, **how)
            batches = data.bucket(**limits, width=self.one(1, 2, 5), window=window, drop_remainder=drop)
        else:
            batches = data.batch(size, drop_remainder=drop)
        if kind in ("ragged", "tokens") and self.one(True, False):
            batches = batches.pad(-1, side=self.one("left", "right"), multiple_of=self.one(1, 4))
        return batches.map(lambda batch: batch) if self.one(True, False, False) else batches


def read(loader: hr.Loader, epochs: int = 2) -> list[Any]:
    batches: list[Any] = []
    while loader.epoch < epochs:
        batches += loader
    return batches


def equal(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(map(same, some, others))


def rest_by_ranks(data: hr.Batches, state: Any, world_size: int, split: Any, steps: int) -> tuple[list[Any], list[Any]]:
    """What each rank gets in some steps from a state on, and the states that they would save then."""
    runs, states = [], []
    for rank in range(world_size):
        loader = hr.Loader(data, rank=rank, world_size=world_size, split=split, workers=rank % 2)
        loader.load_state_dict(state)
        runs.append(list(itertools.islice(loader, steps)))
        loader.close()
        states.append(loader.state_dict())
    return runs, states


@given(seed=st.integers(0, 1 << 32))
def test_random_descriptions_keep_the_promises(seed: int, files: list[pathlib.Path]) -> None:
    draw = Draw(seed, files)
    data = draw.batches()
    try:
        loader = hr.Loader(data)
    except hr.PlanError:
        return  # refused: mix(stop="all") of nothing, lengths that nobody knows …
    whole, states = [], [json.dumps(loader.state_dict())]
    while loader.epoch < 2:
        for batch in loader:
            whole.append(batch)
            states.append(json.dumps(loader.state_dict()))
    assert equal(read(hr.Loader(data, workers=3, prefetch=draw.one(1, 2, 9), max_bytes=draw.one(1, 1 << 30))), whole)
    for position in draw.random.sample(range(len(states)), min(len(states), 5)):
        resumed = hr.Loader(data, workers=draw.one(0, 2))
        resumed.load_state_dict(json.loads(states[position]))
        assert equal(read(resumed), whole[position:]), position

    first = read(hr.Loader(data), epochs=1)
    split, state, done = draw.one("records", "batches"), json.loads(states[0]), 0
    for world_size in (1, 3, 2, 11, 2):
        runs, saved = rest_by_ranks(data, state, world_size, split, steps=draw.one(1, 2, 5))
        if split == "records":
            assert len(set(map(len, runs))) == 1
            sizes = [sum(map(num_rows, step)) for step in zip(*runs, strict=True)]
            assert sizes == list(map(num_rows, first[done : done + len(sizes)]))
            done += len(sizes)
        else:
            dealt = [batch for step in itertools.zip_longest(*runs) for batch in step if batch is not None]
            assert equal(dealt, first[done : done + len(dealt)])
            done += len(dealt)
        if done == len(first):
            break
        assert all(state == saved[0] for state in saved)
        state = json.loads(json.dumps(saved[0]))
