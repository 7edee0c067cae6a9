"""Streams under a loader: nobody knows where they end, and they can be read forward only."""

from __future__ import annotations

import itertools
import json
import pickle
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as hr


def stream(n: int) -> hr.Dataset:
    return hr.from_iterable(lambda: iter(range(n)))


def ranks(data: hr.Batches, world_size: int, **arguments: Any) -> list[list[list[int]]]:
    loaders = [hr.Loader(data, rank=rank, world_size=world_size, **arguments) for rank in range(world_size)]
    return [[batch.tolist() for batch in loader] for loader in loaders]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("n", range(14))
def test_ranks_make_the_same_number_of_steps_wherever_a_stream_ends(n: int, workers: int) -> None:
    for drop in (False, True):
        data = stream(n).batch(4, drop_remainder=drop)
        (whole,) = ranks(data, 1)
        assert [x for batch in whole for x in batch] == list(range(n - n % 4 if drop else n))
        for world_size in (2, 3, 5):
            parts = ranks(data, world_size, workers=workers)
            assert [len(part) for part in parts] == [len(whole)] * world_size
            for i, batch in enumerate(whole):
                assert [parts[k % world_size][i][k // world_size] for k in range(len(batch))] == batch
            dealt = ranks(data, world_size, split="batches", workers=workers)
            assert [b for step in itertools.zip_longest(*dealt) for b in step if b is not None] == whole


@pytest.mark.parametrize("workers", [0, 3])
def test_what_stands_beside_a_stream_that_ends_is_not_lost(workers: int) -> None:
    known = hr.from_dataset(range(100, 103))
    for n in range(4):
        data = hr.concat(known, stream(n)).batch(8)
        assert [b.tolist() for b in hr.Loader(data, workers=workers)] == [[100, 101, 102, *range(n)]]
    mixed = hr.mix([stream(2), stream(9)], [1, 1]).batch(3)
    assert [b.tolist() for b in hr.Loader(mixed, workers=workers)] == [[0, 0, 1], [1]]


def test_a_mixture_that_a_stream_ended_stays_ended_when_restored() -> None:
    data = hr.mix([stream(2), stream(90)], [1, 1]).batch(3)
    hr.assert_resumable(data, epochs=2)
    loader = hr.Loader(data)
    running = iter(loader)
    assert [next(running).tolist(), next(running).tolist()] == [[0, 0, 1], [1]]
    later = hr.Loader(data)
    later.load_state_dict(loader.state_dict())
    assert later.epoch == 1


def test_a_stream_comes_last_or_is_refused() -> None:
    for first in (stream(3), stream(3).take(2), hr.zip(stream(3), stream(3)).take(2)):
        with pytest.raises(hr.PlanError, match=r"concat (takes a stream as its last part only|needs known lengths)"):
            hr.Loader(hr.concat(first, first).batch(2))


@pytest.mark.parametrize("operation", [hr.Dataset.shuffle, hr.Dataset.repeat, lambda d: d.skip(0).shuffle(window=3)])
def test_what_needs_all_records_refuses_a_stream_even_after_take(operation: Any) -> None:
    for data in (stream(3), stream(3).take(10)):
        with pytest.raises(hr.PlanError, match="needs a known number of records"):
            hr.Loader(operation(data).batch(2))


def test_bucket_measures_a_stream_window_by_window() -> None:
    rows = hr.from_iterable(lambda: ([n] * (n % 3) for n in range(11)))
    batches = rows.bucket(2, width=1, window=6, ragged="")
    found = [[row.tolist() for row in batch] for batch in hr.Loader(batches)]
    assert found == [[[], []], [[1], [4]], [[2, 2], [5, 5]], [[], []], [[7], [10]], [[8, 8]]]
    hr.assert_resumable(batches.map(lambda batch: batch), epochs=2)


@pytest.mark.parametrize("workers", [0, 2])
def test_records_that_are_passed_over_are_not_kept(workers: int) -> None:
    class Record:
        pass

    alive: weakref.WeakSet[Record] = weakref.WeakSet()

    def make() -> Iterator[Record]:
        for _ in range(4000):
            record = Record()
            alive.add(record)
            yield record

    everything = hr.from_iterable(make)
    for data, arguments in (
        (everything.slice(0, None, 100).batch(2), {}),
        (everything.skip(2000).batch(2), {}),
        (everything.batch(100), {"rank": 7, "world_size": 50}),
        (everything.batch(2), {"rank": 30, "world_size": 50, "split": "batches"}),
    ):
        loader = hr.Loader(data, workers=workers, prefetch=2, **arguments)
        most = 0
        for _ in loader:
            most = max(most, len(alive))
        assert most <= 4 * (workers * 2 + 2), (data, most)


def test_loaders_of_one_stream_do_not_disturb_each_other() -> None:
    starts = []

    def make() -> Iterator[int]:
        starts.append(1)
        return iter(range(30))

    data = hr.from_iterable(make).batch(4)
    one, two = hr.Loader(data, workers=2), hr.Loader(data)
    pairs = [(a.tolist(), b.tolist()) for a, b in zip(one, two, strict=True)]
    assert all(a == b for a, b in pairs)
    assert len(starts) == 2
    assert [b[0].tolist() for b in hr.Loader(hr.zip(stream(5), stream(5)).batch(3))] == [[0, 1, 2], [3, 4]]
    same = stream(5)
    assert [b[1].tolist() for b in hr.Loader(hr.zip(same, same).batch(3))] == [[0, 1, 2], [3, 4]]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_in_the_stream_comes_in_its_place(workers: int) -> None:
    def make() -> Iterator[int]:
        yield from range(5)
        raise OSError("cut off")

    seen = []
    with pytest.raises(OSError, match="cut off") as info:
        for batch in hr.Loader(hr.from_iterable(make).batch(2), workers=workers):
            seen.append(batch.tolist())
    assert seen == [[0, 1], [2, 3]]
    assert info.value.__notes__ == ["headrace: in reading item 5 of the stream"]


def test_a_function_that_gives_nothing_to_iterate_is_named() -> None:
    with pytest.raises(TypeError, match="the function given to from_iterable returned int, not an iterable"):
        list(hr.Loader(hr.from_iterable(lambda: 5).batch(2)))  # type: ignore[arg-type, return-value]


def test_a_stream_restores_with_other_ranks() -> None:
    data = stream(50).slice(1, None, 2).batch(4)
    (whole,) = ranks(data, 1)
    loader = hr.Loader(data)
    first = [batch.tolist() for batch in itertools.islice(loader, 3)]
    state = json.loads(json.dumps(loader.state_dict()))
    parts = []
    for rank in range(2):
        later = hr.Loader(data, workers=1, rank=rank, world_size=2, split="batches")
        later.load_state_dict(state)
        parts.append([batch.tolist() for batch in later])
    assert first + [b for step in itertools.zip_longest(*parts) for b in step if b is not None] == whole


def test_take_promises_no_number_of_records() -> None:
    for sized in (stream(3).take(5), hr.Loader(stream(3).take(5).batch(2))):
        with pytest.raises(TypeError, match="isn't known"):
            len(sized)
    assert list(stream(3).take(5)) == [0, 1, 2]


def test_a_stream_can_be_pickled() -> None:
    data = pickle.loads(pickle.dumps(hr.from_iterable(range(5)).batch(2)))
    assert [batch.tolist() for batch in hr.Loader(data)] == [[0, 1], [2, 3], [4]]
