"""`verify` proves what holds, and finds whatever doesn't."""

from __future__ import annotations

import json
import pathlib
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.plan import BucketBatches
from headrace.proof.compare import difference, same
from headrace.schedule import Piece, Schedule
from headrace.state import Position
from tests.test_random_pipelines import Draw, files

assert files  # a fixture


verify: Any = hr.verify  # for calls that a type checker would refuse
Kind: Any = hr.Stop


def numbers(n: int = 100) -> hr.Dataset:
    return hr.from_dataset(range(n), lengths=np.arange(n) % 9)


@given(seed=st.integers(0, 1 << 32))
def test_random_descriptions_are_proven(seed: int, files: list[pathlib.Path]) -> None:
    """Every kind of source and step, through changes of workers and ranks at every stop."""
    draw = random.Random(seed)
    data = Draw(seed, files).batches()
    try:
        split: Any = draw.choice(["records", "batches"])
        uneven: Any = draw.choice(["short", "drop"]) if split == "batches" else "short"
        loader = hr.Loader(data, split=split, uneven=uneven, prefetch=draw.choice([1, 3]))
    except hr.PlanError:
        return
    proven = hr.verify(loader, events=7, seed=seed, workers=(0, 0, 2), ranks=(1, 2, 3, 7), max_batches=30)
    assert proven.events == 7


def test_the_report_says_what_was_proven() -> None:
    proven = hr.verify(numbers().shuffle(seed=1).batch(8), events=40)
    assert proven.events == proven.restores + proven.breaks + proven.rewinds == 40
    assert proven.epochs == proven.counted >= 2
    assert proven.batches >= 13 * proven.epochs
    text = repr(proven)
    assert text.startswith(f"Verified: {proven.records:,} records in {proven.batches:,} batches are those of the plan")
    assert "40 events" in text
    assert "seed 0" in text
    assert "dataset() → shuffle(seed=1) → batch(8)" in text
    assert json.loads(json.dumps(proven.to_dict()))["ranks"] == [1, 2, 3]
    assert proven == hr.verify(numbers().shuffle(seed=1).batch(8), events=40)


def test_a_chain_can_be_given() -> None:
    chain = [
        hr.Stop(2, "restore", workers=3),
        hr.Stop(1, "restore", world_size=5),
        hr.Stop(0, "break"),
        hr.Stop(20, "rewind", back=99),
        hr.Stop(0, "restore"),
    ]
    proven = hr.verify(numbers(50).bucket(batch_size=4, window=16), events=chain)
    assert (proven.events, proven.restores, proven.breaks, proven.rewinds) == (5, 3, 1, 1)
    assert (proven.workers, proven.ranks, proven.seed) == ((0, 3), (1, 5), None)
    assert "seed" not in repr(proven)


@pytest.mark.parametrize("split", ["records", "batches"])
def test_functions_and_loaders_are_taken(split: Any) -> None:
    data = numbers(40).batch(3)

    def make(workers: int, rank: int, world_size: int) -> hr.Loader:
        return hr.Loader(data, workers=workers, rank=rank, world_size=world_size, split=split, prefetch=1)

    for given_data in (
        make,
        lambda: hr.Loader(data, split=split),
        hr.Loader(data, split=split),
        hr.Loader(data, to="torch"),
    ):
        if "torch" in repr(vars(given_data) if isinstance(given_data, hr.Loader) else ""):
            pytest.importorskip("torch")
        assert hr.verify(given_data, events=12).batches > 14
    assert hr.verify(numbers(40), events=3).description == "dataset() → batch(16)"
    assert hr.verify(lambda: numbers(40).batch(2), events=3).records >= 40


def test_killed_processes_change_nothing() -> None:
    data = numbers(200).shuffle(seed=1).map(lambda n, rng: n + rng.random(), rng=True)
    for batches in (data.batch(4), data.filter(lambda x: x % 3 < 2, block=8).batch(4)):
        chain = [
            hr.Stop(2, workers=2),
            *[hr.Stop(3, "kill")] * 3,
            hr.Stop(1, "restore", 1, 2),
            hr.Stop(2, "kill"),
        ]
        proven = hr.verify(batches, events=chain, mode="processes")
        assert proven.kills >= 3  # one may have died already and not been missed yet
        assert f"{proven.kills} kills" in repr(proven)
    assert hr.verify(hr.Loader(data.batch(9)), events=25, workers=(2,), mode="processes").kills


def test_nothing_at_all_is_proven_too() -> None:
    proven = hr.verify(numbers(0).batch(4), events=9)
    assert (proven.batches, proven.records) == (0, 0)


def shifted(walk: Any, change: Any) -> Any:
    """The loader's walk through the plan, with a mistake in it; that of the proof is another one."""

    def wrong(self: Schedule, start: Position) -> Iterator[Piece]:
        return change(list(walk(self, start)), start)  # type: ignore[no-any-return]

    return wrong


def swap(batches: list[Piece], start: Position) -> Any:
    if len(batches) > 4 and start.done:
        batches[1], batches[2] = Piece(batches[2].rows, batches[1].after), Piece(batches[1].rows, batches[2].after)
    return iter(batches)


def lose(batches: list[Piece], start: Position) -> Any:
    return iter(batches[1:] if start.done else batches)


def repeat(batches: list[Piece], start: Position) -> Any:
    return iter([*batches[:1], *batches] if start.done else batches)


def short(batches: list[Piece], start: Position) -> Any:
    cut = [Piece(batch.rows.take(slice(1, None)), batch.after) for batch in batches]
    return iter(cut if start.done == 5 else batches)


def longer(batches: list[Piece], start: Position) -> Any:
    return iter([*batches, batches[-1]] if start.done > 3 and batches else batches)


def misplaced(batches: list[Piece], start: Position) -> Any:
    moved = [replace(batch.after, done=batch.after.done + bool(start.done)) for batch in batches]
    return iter([Piece(batch.rows, after) for batch, after in zip(batches, moved, strict=True)])


@pytest.mark.parametrize("change", [swap, lose, repeat, short, longer, misplaced])
def test_mistakes_of_a_loader_are_found(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Schedule, "_walk", shifted(Schedule._walk, change))
    with pytest.raises(hr.VerificationError, match="the run differs from the plan in batch") as info:
        hr.verify(numbers(60).shuffle(seed=4).batch(4), events=60, workers=(0,))
    error = info.value
    assert error.event >= 1
    assert str(error.batch) in str(error)
    assert error.expected != error.got


def test_the_first_difference_is_named() -> None:
    calls = iter(range(10**6))
    with pytest.raises(hr.VerificationError) as info:
        hr.verify(numbers(20).map(lambda n: n if next(calls) < 60 else -n).batch(4), events=30, ranks=(1,))
    error = info.value
    assert error.record is not None
    assert error.record.startswith("record ")
    assert "of range" in error.record
    assert error.record in str(error)
    assert f"batch {error.batch} of epoch {error.epoch}" in str(error)


def test_records_that_a_plan_loses_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of batches that leaves out records, or gives some twice, agrees with itself, but not with the order."""
    layout = BucketBatches._layout

    for wrong, message in (
        (
            lambda order, offsets: (order[:-1], np.minimum(offsets, len(order) - 1)),
            "comes 0 times, in the order 1 times",
        ),
        (lambda order, offsets: (np.minimum(order, len(order) - 2), offsets), "comes 2 times, in the order 1 times"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(
                BucketBatches,
                "_layout",
                lambda self, rows, wrong=wrong: wrong(*layout(self, rows)),
            )
            with pytest.raises(hr.VerificationError, match=message):
                hr.verify(numbers(30).bucket(batch_size=4, window=None), events=9)


def test_errors_of_the_users_own_say_where_in_the_chain() -> None:
    def fail(n: int) -> int:
        return n // (n != 17)

    with pytest.raises(ZeroDivisionError) as info:
        hr.verify(numbers(20).map(fail).batch(4), events=30)
    assert info.value.__notes__ == [
        "headrace: in map(test_errors_of_the_users_own_say_where_in_the_chain.<locals>.fail) of record 17 of range"
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: verify(5), "verify takes batches, a dataset, a loader or a function"),
        (lambda: hr.verify(lambda: 5), "got int"),
        (lambda: hr.verify(lambda workers, rank, world_size: 5), "expected a Loader"),
        (lambda: hr.verify(numbers(), events=-1), "events is at least 0"),
        (lambda: verify(numbers(), events="x"), "hr.Stop, got str"),
        (lambda: verify(numbers(), events=1.5), "events is an integer or a list of hr.Stop, got 1.5"),
        (lambda: verify(numbers(), seed=True), "seed is an integer, got True"),
        (lambda: hr.verify(numbers(), ranks=()), "ranks has one number at least, got none"),
        (lambda: hr.verify(numbers(), ranks=(0,)), "ranks is at least 1, got 0"),
        (lambda: verify(numbers(), workers=2), "workers is a list of integers, got 2"),
        (lambda: hr.verify(numbers(), workers=(True,)), "verify: workers is an integer, got True"),
        (lambda: hr.verify(numbers(), max_batches=0), "max_batches is at least 1, got 0"),
        (lambda: verify(numbers(), max_batches="9"), "max_batches is an integer, got '9'"),
        (lambda: verify(numbers(), mode="kernels"), "mode is one of 'threads', 'processes', got 'kernels'"),
        (lambda: Kind(1, "explode"), "how is one of 'restore', 'break', 'rewind', 'kill'"),
        (lambda: hr.Stop(-1), "after is at least 0"),
    ],
)
def test_mistakes_in_the_call_are_told(call: Any, message: str) -> None:
    with pytest.raises(hr.PlanError, match=message):
        call()


def test_differences_name_row_and_column() -> None:
    a, b = np.arange(6).reshape(3, 2), np.arange(6).reshape(3, 2)
    b[2, 1] = 9
    found = difference({"x": np.ones(3), "y": a}, {"x": np.ones(3), "y": b})
    assert found is not None
    assert (found.row, found.column) == (2, "y")
    assert difference({"x": a}, {"x": a.copy()}) is None
    other = difference({"x": a}, {"z": a})
    assert other is not None
    assert "z: ndarray int64" in other.got
    cut = difference(a, a[:2])
    assert cut is not None
    assert (cut.row, cut.got) == (2, "2 rows")
    assert same(hr.Ragged.from_rows([[1], []]), hr.Ragged.from_rows([[1], []]))
    assert not same(hr.Ragged.from_rows([[1], [1]]), hr.Ragged.from_rows([[1], []]))
