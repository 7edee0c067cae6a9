"""Streams and worker processes: one process iterates, many work on the records; each record exactly once."""

from __future__ import annotations

import json
import os
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.formats.record_source import RecordStream
from tests.plain import plain


class Numbers:
    """Counts who iterates it; holds a lock, so that it can't travel."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.lock = threading.Lock()
        self.began = 0

    def __iter__(self) -> Iterator[int]:
        self.began += 1
        return iter(range(self.count))


class Told:
    """A stream whose iterators tell where they are, and can't travel."""

    def __iter__(self) -> Place:
        return Place()


class Place:
    def __init__(self) -> None:
        self.at = 0
        self.lock = threading.Lock()

    def __iter__(self) -> Place:
        return self

    def __next__(self) -> int:
        if self.at == 40:
            raise StopIteration
        self.at += 1
        return self.at

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at = state["at"]


def numbers(count: int) -> hr.Dataset:
    return hr.from_iterable(Numbers(count))


def write(folder: pathlib.Path) -> str:
    for part in range(2):
        with hr.TFRecordWriter(str(folder / f"{part}.tfrecord")) as writer:
            for i in range(20):
                writer.write(f"{part}-{i}".encode())
    return str(folder / "*.tfrecord")


KINDS: dict[str, Callable[[], Any]] = {
    "plain": lambda: numbers(50).batch(7),
    "mapped": lambda: numbers(50).map(lambda n: {"n": n, "text": "x" * n}).batch(8),
    "shuffled": lambda: numbers(50).shuffle(seed=1, window=16).map(lambda n: n + 1).batch(8),
    "repeated": lambda: numbers(20).take(30).batch(8),
    "filtered": lambda: numbers(90).filter(lambda n: n % 3 != 1).batch(8),
    "zipped": lambda: hr.zip(numbers(50), numbers(50).map(lambda n: -n)).batch(8),
    "mixed": lambda: hr.mix([numbers(30), hr.from_dataset(range(100, 140))], weights=[1, 1], seed=3).batch(5),
    "mixed, filtered": lambda: hr.mix(
        [numbers(30), hr.from_dataset(range(100, 140)).filter(lambda n: n % 2 == 0)], weights=[1, 1], seed=3
    ).batch(5),
    "bucketed": lambda: (
        numbers(60).map(lambda n: {"x": np.full(n % 9 + 1, n)}).bucket(4, by="x", boundaries=[3, 6]).pad()
    ),
    "told": lambda: hr.from_iterable(Told()).map(lambda n: n * 2).batch(6),
}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_positions_are_those_of_one_reader(kind: str) -> None:
    alone = hr.Loader(KINDS[kind]())
    with hr.Loader(KINDS[kind](), workers=2, mode="processes") as loader:
        for _ in range(2):
            expected = [(plain(batch), alone.state_dict()) for batch in alone]
            assert expected
            assert [(plain(batch), loader.state_dict()) for batch in loader] == expected


def test_the_stream_is_iterated_once_and_here() -> None:
    stream = Numbers(50)
    data = hr.from_iterable(stream).map(lambda n: {"n": n, "pid": os.getpid()}).batch(5)
    with hr.Loader(data, workers=2, mode="processes") as loader:
        batches = list(loader)
    assert [n for batch in batches for n in batch["n"].tolist()] == list(range(50))
    workers = {pid for batch in batches for pid in batch["pid"].tolist()}
    assert len(workers) == 2
    assert os.getpid() not in workers
    assert stream.began == 1


@pytest.mark.parametrize("split", ["records", "batches"])
def test_ranks_share_a_stream(split: Any) -> None:
    def rank(number: int, **options: Any) -> list[Any]:
        loader = hr.Loader(KINDS["mapped"](), rank=number, world_size=3, split=split, **options)
        with loader:
            return [plain(batch) for batch in loader]

    for number in range(3):
        assert rank(number, workers=2, mode="processes") == rank(number)


def test_going_on_with_other_workers() -> None:
    whole = [plain(batch) for batch in hr.Loader(KINDS["told"]())]
    with hr.Loader(KINDS["told"](), workers=2, mode="processes") as loader:
        batches = iter(loader)
        seen = [plain(next(batches)) for _ in range(3)]
        state = json.loads(json.dumps(loader.state_dict()))
    for options in ({}, {"workers": 1, "mode": "processes"}, {"workers": 2}):
        with hr.Loader(KINDS["told"](), **options) as other:
            other.load_state_dict(state)
            assert seen + [plain(batch) for batch in other] == whole


def test_a_worker_that_dies_loses_nothing() -> None:
    whole = [plain(batch) for batch in hr.Loader(KINDS["mapped"]())]
    stream = Numbers(50)
    data = hr.from_iterable(stream).map(lambda n: {"n": n, "text": "x" * n}).batch(8)
    with hr.Loader(data, workers=2, mode="processes", prefetch=2) as loader:
        got = []
        for number, batch in enumerate(loader):
            got.append(plain(batch))
            if number in (1, 3):
                loader._workers.kill(number)
    assert got == whole
    assert stream.began == 1


def test_an_error_of_the_stream_comes_in_its_place() -> None:
    def broken() -> Iterator[int]:
        yield from range(20)
        raise OSError("torn")

    with hr.Loader(hr.from_iterable(broken).batch(8), workers=2, mode="processes") as loader:
        batches = iter(loader)
        assert [len(next(batches)), len(next(batches))] == [8, 8]
        with pytest.raises(OSError, match="torn") as caught:
            next(batches)
    assert "item 20 of the stream" in "".join(caught.value.__notes__)


def test_an_error_in_a_worker_names_file_and_record(tmp_path: pathlib.Path) -> None:
    def check(record: bytes) -> bytes:
        if record == b"1-3":
            raise ValueError("no good")
        return record

    data = hr.read_tfrecord(write(tmp_path), stream=True).map(check).batch(10)
    with hr.Loader(data, workers=2, mode="processes") as loader, pytest.raises(ValueError, match="no good") as caught:
        list(loader)
    assert "1.tfrecord, record 3" in "".join(caught.value.__notes__)


def test_bearings_travel(tmp_path: pathlib.Path) -> None:
    source = RecordStream(write(tmp_path))
    list(source.start())
    other = RecordStream(write(tmp_path))
    other.take_bearings(source.bearings())
    assert other.where(21) == source.where(21)


def test_the_number_of_workers_is_found_out_for_streams_too() -> None:
    data = numbers(400).map(lambda n: n * 2).batch(4)
    for mode in (None, "processes"):
        with hr.Loader(data, workers="auto", mode=mode) as loader:
            assert [n for batch in loader for n in batch.tolist()] == [2 * n for n in range(400)]
