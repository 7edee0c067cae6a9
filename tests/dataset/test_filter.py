"""Filters by what is in records."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

import headrace as hr


def even(n: Any) -> bool:
    return bool(n % 2 == 0)


def never(n: Any) -> bool:
    return False


def read(data: hr.Batches, **arguments: Any) -> list[list[Any]]:
    return [batch.tolist() for batch in hr.Loader(data, **arguments)]


@pytest.mark.parametrize("size", [1, 4, 7, 100])
@pytest.mark.parametrize("drop", [False, True])
def test_batches_are_those_of_the_records_that_are_left(size: int, drop: bool) -> None:
    data = hr.from_dataset(range(50)).shuffle(seed=2)
    left = [n for n in data if n % 3 == 0]
    expected = [left[i : i + size] for i in range(0, len(left), size)]
    if drop and len(expected[-1]) < size:
        expected.pop()
    for block in (1, 5, 256):
        batches = data.filter(lambda n: n % 3 == 0, block=block).batch(size, drop_remainder=drop)
        for workers in (0, 3):
            assert read(batches, workers=workers) == expected
        if expected:
            hr.assert_resumable(batches, epochs=2, workers=(0, 2))


def test_columns_pad_and_tensors_come_as_without_a_filter() -> None:
    rows = hr.Ragged.from_rows([[i] * (i % 5) for i in range(40)], dtype=np.int64)
    kept = hr.Ragged.from_rows([[i] * (i % 5) for i in range(40) if i % 5 > 2], dtype=np.int64)
    batches = hr.from_arrays({"x": rows}).filter(lambda r: len(r["x"]) > 2, block=6).batch(5).pad()
    wanted = list(hr.Loader(hr.from_arrays({"x": kept}).batch(5).pad()))
    for got, want in zip(hr.Loader(batches, workers=2), wanted, strict=True):
        assert got.keys() == want.keys()
        assert all(np.array_equal(got[name], want[name]) for name in got)
    far = list(hr.Loader(batches, rank=6, world_size=7))  # no record of a batch of five is this rank's
    assert [b["x"].shape[0] for b in far] == [0] * len(wanted)


def test_batched_takes_columns() -> None:
    data = hr.from_arrays({"x": np.arange(30), "y": np.arange(30) % 4})
    assert [r["x"] for r in data.filter(lambda c: c["y"] == 1, batched=True, block=7)] == list(range(1, 30, 4))
    objects = hr.from_dataset(range(9)).filter(lambda column: column > 6, batched=True).batch(2)
    assert read(objects) == [[7, 8]]
    for wrong in (lambda c: c["y"], lambda c: True, lambda c: np.ones(3, bool)):
        with pytest.raises(hr.DataError, match="expected an array of 30 bools"):
            list(hr.Loader(data.filter(wrong, batched=True).batch(2)))
    with pytest.raises(hr.DataError, match="needs columns"):
        list(hr.from_dataset([[1], [2, 3]]).filter(lambda c: c, batched=True))


def test_take_skip_slice_and_shard_count_what_is_left() -> None:
    data = hr.from_dataset(range(40)).filter(even, block=3)
    left = list(range(0, 40, 2))
    cases = {
        data.take(5): left[:5],
        data.take(0): [],
        data.skip(18): left[18:],
        data.slice(3, 11, 2).skip(1): left[3:11:2][1:],
        data.shard(3, 1).take(4): left[1::3][:4],
        data.skip(1 << 70): [],
    }
    for cut, expected in cases.items():
        assert list(cut) == expected
        assert list(itertools.chain(*read(cut.batch(3)))) == expected
        if expected:
            hr.assert_resumable(cut.batch(3), epochs=2)
    seen: list[int] = []

    def see(n: int) -> bool:
        seen.append(n)
        return True

    assert read(hr.from_dataset(range(40)).filter(see, block=2).take(2).batch(2)) == [[0, 1]]
    assert seen == [0, 1]  # and nothing beyond what take() needs


def test_repeat_shuffle_map_and_concat_follow() -> None:
    data = hr.from_dataset(range(10)).filter(even, block=4)
    assert list(data.repeat(2)) == [0, 2, 4, 6, 8] * 2
    assert sorted(data.shuffle(seed=1)) == [0, 2, 4, 6, 8]
    assert list(data.map(lambda n: n + 1).filter(lambda n: n > 4)) == [5, 7, 9]
    assert list(data.concat(hr.from_dataset(range(3)))) == [0, 2, 4, 6, 8, 0, 1, 2]
    assert list(data.repeat().take(7)) == [0, 2, 4, 6, 8, 0, 2]
    hr.assert_resumable(data.repeat().batch(4), max_batches=20)


@pytest.mark.parametrize(
    "operation",
    [
        lambda d: hr.zip(d, d).shuffle(),
        lambda d: hr.mix([d, d], [1, 1]).repeat(2),
        lambda d: d.take(3).bucket(batch_size=2),
        lambda d: d.take(3).shuffle(),
        lambda d: d.take(3).repeat(2),
        lambda d: d.take(3).filter(even),
        lambda d: d.take(3).concat(d),
        lambda d: d.skip(3).filter_length(),
    ],
)
def test_what_must_come_before_a_filter_is_refused(operation: Any) -> None:
    data = operation(hr.from_dataset(range(9), lengths=list(range(9))).filter(even))
    with pytest.raises(hr.PlanError, match=r"comes before take, skip|can't follow take|needs a known number"):
        hr.Loader(data if isinstance(data, hr.Batches) else data.batch(2))


@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_left_ends_or_is_an_error(workers: int) -> None:
    for data in (hr.from_dataset(range(1000)), hr.from_iterable(range(1000)), hr.from_dataset(range(9)).repeat(100)):
        loader = hr.Loader(data.filter(never, block=16).batch(3), workers=workers)
        assert (list(loader), loader.epoch) == ([], 1)
    endless = hr.from_dataset(range(5)).repeat().filter(never)
    with pytest.raises(hr.PlanError, match="nothing would ever come"):
        list(hr.Loader(endless.batch(2), workers=workers))
    with pytest.raises(hr.PlanError, match="nothing would ever come"):
        list(endless)


def test_the_number_of_records_is_not_known() -> None:
    data = hr.from_dataset(range(5)).filter(even)
    for sized in (data, hr.Loader(data.batch(2))):
        with pytest.raises(TypeError, match="isn't known"):
            len(sized)
    with pytest.raises(TypeError, match="can only be gone through"):
        data[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_names_the_record_and_comes_in_its_place(workers: int) -> None:
    data = hr.from_dataset(range(10)).filter(lambda n: 1 // (6 - n) < 99, block=2).batch(2)
    loader, seen = hr.Loader(data, workers=workers), []
    with pytest.raises(ZeroDivisionError) as info:
        for batch in loader:
            seen.append(batch.tolist())
    assert seen == [[0, 1], [2, 3], [4, 5]]
    assert len(info.value.__notes__) == 1
    assert "in filter(" in info.value.__notes__[0]
    assert "6" in info.value.__notes__[0]
    assert loader.state_dict()["batch"] == 3
    with pytest.raises(hr.DataError, match="expected True or False, got NoneType"):
        list(hr.from_dataset(range(3)).filter(lambda n: None))


@pytest.mark.parametrize("make", [lambda: hr.from_dataset(range(60)), lambda: hr.from_iterable(range(60))])
def test_a_state_restores_with_other_ranks_and_workers(make: Any) -> None:
    data = make().filter(lambda n: n % 4 > 0, block=5).batch(4)
    whole = read(data)
    for stop in range(len(whole)):
        loader = hr.Loader(data, rank=1, world_size=2)
        list(itertools.islice(loader, stop))
        state = json.loads(json.dumps(loader.state_dict()))
        for split in ("records", "batches"):
            parts = []
            for rank in range(3):
                later = hr.Loader(data, rank=rank, world_size=3, split=split, workers=rank)
                later.load_state_dict(state)
                parts.append([batch.tolist() for batch in later])
            steps = itertools.zip_longest(*parts)
            if split == "batches":
                rest = [b for step in steps for b in step if b is not None]
            else:
                rest = [[n for row in itertools.zip_longest(*step) for n in row if n is not None] for step in steps]
            assert rest == whole[stop:]


def test_damaged_states_are_refused() -> None:
    loader = hr.Loader(hr.from_dataset(range(60)).filter(even, block=8).batch(4))
    state = loader.state_dict()
    for window, batch in (([0, 9], 1), ([8, 0], 2), ([0, 0], 1)):
        with pytest.raises(hr.StateError, match="damaged"):
            loader.load_state_dict({**state, "window": window, "batch": batch})


def test_zip_and_mix_of_what_is_left() -> None:
    data = hr.from_dataset(range(40)).shuffle(seed=3)
    left = [n for n in data if n % 2 == 0]
    numbers = hr.from_iterable(itertools.count)
    pairs = hr.zip(n=data.filter(even, block=7), i=numbers, shortest=True)
    assert [(pair["n"], pair["i"]) for pair in pairs] == [(n, i) for i, n in enumerate(left)]
    same_side = hr.zip(data.filter(even), data.filter(lambda n: n % 2 == 0, block=3))
    assert list(same_side) == [(n, n) for n in left]
    thirds = hr.zip(data.filter(even).take(3), data.filter(even).skip(1).take(3))
    assert list(thirds) == [*itertools.pairwise(left[:4])]
    mixed = hr.mix([data.filter(even), hr.from_dataset(range(-100, 0))], [1, 2])
    assert [n for n in mixed if n >= 0] == left
    first = list(mixed)[:30]
    assert all(sum(n >= 0 for n in first[i : i + 3]) == 1 for i in range(0, 30, 3))
    for batches in (
        pairs.batch(3),
        same_side.batch(4),
        thirds.batch(2),
        mixed.batch(5),
        pairs.filter(lambda r: r["i"] > 2).batch(3),
    ):
        whole = [*hr.Loader(batches)]
        parted = [*hr.Loader(batches, workers=2)]
        assert list(map(repr, whole)) == list(map(repr, parted))
        hr.assert_resumable(batches, epochs=3)


def test_what_is_left_is_another_order_in_each_epoch() -> None:
    data = hr.from_dataset(range(40)).shuffle(seed=3).filter(even)
    loader, epochs = hr.Loader(hr.zip(data, data).batch(20)), []
    for _ in range(3):
        epochs += [batch[0].tolist() for batch in loader]
    assert len(epochs) == 3
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert [sorted(epoch) for epoch in epochs] == [list(range(0, 40, 2))] * 3
    loader.set_epoch(5)  # nothing has been read of it yet
    (fifth,) = [batch[0].tolist() for batch in loader]
    assert fifth not in epochs
    fresh = hr.Loader(hr.zip(data, data).batch(20))
    fresh.set_epoch(5)
    assert [batch[0].tolist() for batch in fresh] == [fifth]


def test_sides_that_end_apart_are_told() -> None:
    data = hr.from_dataset(range(40))
    with pytest.raises(hr.DataError, match="one side ended 1 records or more before another"):
        list(hr.Loader(hr.zip(data.filter(even), data.filter(lambda n: n % 2 == 0 or n == 1)).batch(50)))
    with pytest.raises(hr.DataError, match=r"0: endless or unknown .*, 1: 40"):
        hr.Loader(hr.zip(data.filter(even), data).batch(2))
    with pytest.raises(ZeroDivisionError) as info:
        list(hr.Loader(hr.zip(data.filter(lambda n: 1 // (6 - n) < 9), data, shortest=True).batch(2)))
    assert "in filter(" in info.value.__notes__[0]
