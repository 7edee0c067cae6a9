"""Streams that know where they are, and streams that are shuffled window by window: exact, without reading anew."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr


class Counting:
    """An iterator over a random walk, whose next item depends on all before; it knows its place."""

    def __init__(self, n: int, read: list[int] | None = None) -> None:
        self.n, self.at, self.sum = n, 0, 0
        self.read = read

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> int:
        if self.at == self.n:
            raise StopIteration
        self.at += 1
        self.sum = (self.sum * 31 + self.at) % 1_000_003
        if self.read is not None:
            self.read.append(self.at)
        return self.sum

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at, "sum": [self.sum]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.at, self.sum = state["at"], state["sum"][0]


class Resumable:
    """An iterable that keeps the state for its iterators, as torchdata's stateful datasets do."""

    def __init__(self, n: int, read: list[int] | None = None) -> None:
        self.n, self.read = n, read
        self.given: dict[str, Any] | None = None
        self.live: dict[str, Any] = {"place": 0}

    def __iter__(self) -> Iterator[int]:
        given, self.given = self.given, None
        self.live = {"place": 0} if given is None else dict(given)
        while self.live["place"] < self.n:
            self.live["place"] += 1  # the state's own dict, which changes after it was given away
            if self.read is not None:
                self.read.append(self.live["place"])
            yield self.live["place"] * 7 % 1013

    def state_dict(self) -> dict[str, Any]:
        return self.live

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.given = state


KINDS: dict[str, Callable[[int], Callable[[], Any]]] = {
    "iterator": lambda n: lambda: Counting(n),
    "iterable": lambda n: lambda: Resumable(n),
    "stateless": lambda n: lambda: iter(range(n)),
}


class Draw:
    """Draws descriptions with streams in them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def stream(self) -> hr.Dataset:
        data = hr.from_iterable(KINDS[self.one(*KINDS)](self.one(0, 1, 7, 30, 64)))
        return data.shuffle(seed=self.one(0, 5), window=self.one(1, 3, 16, 100)) if self.one(True, False) else data

    def batches(self) -> hr.Batches:
        data = self.stream()
        joined = self.one("one", "one", "mix", "zip", "concat", "filtered zip")
        if joined == "mix":
            data = hr.mix([data, self.stream()], [self.one(1, 3), 1], seed=self.one(None, 2))
        elif joined == "zip":
            data = hr.zip(data, self.one(self.stream(), hr.from_dataset(range(20))), shortest=True).map(sum)
        elif joined == "concat":
            data = hr.concat(hr.from_dataset(range(9)), data)
        elif joined == "filtered zip":
            data = hr.zip(data.filter(lambda n: n % 4 > 0, block=5), self.stream(), shortest=True).map(sum)
        if self.one(True, False):
            data = self.one(data.take(20), data.skip(3), data.slice(1, None, 2))
        if self.one(True, False, False):
            data = data.filter(lambda n: n % 3 > 0, block=self.one(1, 4, 50))
        if self.one(True, False, False):
            rows = data.map(lambda n: [int(n)] * (int(n) % 5))
            if joined != "one" or self.one(True, False):
                if self.one(True, False):
                    strategy = self.one("first-fit", "best-fit", "concat")
                    return rows.pack(6, batch_size=self.one(1, 3), strategy=strategy, window=self.one(7, 20))
                return rows.bucket(batch_size=self.one(2, 5), width=2, window=self.one(7, 20), ragged="")
        return data.batch(self.one(1, 2, 5, 9), drop_remainder=self.one(True, False, False))


@given(seed=st.integers(0, 1 << 32))
def test_streams_of_all_kinds_are_proven(seed: int) -> None:
    draw = Draw(seed)
    data = draw.batches()
    split: Any = draw.one("records", "batches")
    try:
        loader = hr.Loader(data, split=split, prefetch=draw.one(1, 4))
    except hr.PlanError:
        return  # bucket after a slice of what a filter left
    assert hr.verify(loader, events=9, seed=seed, workers=(0, 0, 2), ranks=(1, 2, 5), max_batches=30).events == 9


def run(data: hr.Batches, count: int) -> hr.Loader:
    loader = hr.Loader(data, workers=1)
    for _ in itertools.islice(loader, count):
        pass
    loader.close()
    return loader


@pytest.mark.parametrize("kind", [Counting, Resumable])
def test_restoring_reads_nothing_anew(kind: Any) -> None:
    read: list[int] = []
    plain = hr.from_iterable(lambda: kind(1000, read))
    for data, again in (
        (plain.batch(10), 0),
        (plain.shuffle(seed=1, window=64).batch(10), 64),
        (plain.filter(lambda n: True, block=30).batch(10), 30),
        (plain.map(lambda n: [int(n)] * (int(n) % 3)).bucket(batch_size=5, width=1, window=50, ragged="").map(len), 50),
    ):
        whole = [batch if isinstance(batch, int) else batch.tolist() for batch in hr.Loader(data)]
        state = json.loads(json.dumps(run(data, 40).state_dict()))
        later = hr.Loader(data)
        later.load_state_dict(state)
        read.clear()
        rest = [batch if isinstance(batch, int) else batch.tolist() for batch in later]
        assert rest == whole[40:]
        assert read[0] > 100  # the hook was used
        assert len(read) <= 1000 - read[0] + 1
        consumed = 1000 - sum(b if isinstance(b, int) else len(b) for b in rest)
        assert consumed - again <= read[0] - 1 <= consumed
        ranked = hr.Loader(data, rank=1, world_size=2, split="batches", workers=2)
        ranked.load_state_dict(state)
        assert [b if isinstance(b, int) else b.tolist() for b in ranked] == whole[41::2]


def test_the_state_is_that_of_the_batch_and_not_of_what_was_read_ahead() -> None:
    data = hr.from_iterable(lambda: Counting(100)).batch(4)
    for workers in (0, 3):
        loader = hr.Loader(data, workers=workers)
        for number, _ in enumerate(itertools.islice(loader, 5), 1):
            (stream,) = loader.state_dict()["streams"]
            assert (stream["record"], stream["of"], stream["state"]["at"]) == (4 * number, "iterator", 4 * number)
        kept = loader.state_dict()
        next(iter(loader))
        assert kept["streams"][0]["state"]["at"] == 20


def test_epochs_and_rewinds_start_anew() -> None:
    data = hr.from_iterable(lambda: Counting(10)).batch(4)
    loader = hr.Loader(data)
    first = [batch.tolist() for batch in loader]
    assert [batch.tolist() for batch in loader] == first
    state = run(data, 2).state_dict()
    loader.load_state_dict(state)
    assert [batch.tolist() for batch in loader] == first[2:]
    assert [batch.tolist() for batch in loader] == first
    loader.set_epoch(0)
    assert next(iter(loader)).tolist() == first[0]
    loader.skip(1)
    assert next(iter(loader)).tolist() == first[2]


def test_an_older_state_is_read_up_to() -> None:
    data = hr.from_iterable(lambda: Counting(50)).batch(4)
    whole = [batch.tolist() for batch in hr.Loader(data)]
    state = run(data, 6).state_dict()
    del state["streams"]
    later = hr.Loader(data)
    later.load_state_dict(state)
    assert [batch.tolist() for batch in later] == whole[6:]


def test_states_that_cannot_be_saved_or_restored_are_told() -> None:
    class Odd(Counting):
        def state_dict(self) -> Any:
            return {"at": {1, 2}}

    with pytest.raises(hr.StateError, match=r"from its iterator's state_dict.*can't be written as JSON"):
        run(hr.from_iterable(lambda: Odd(20)).batch(4), 2).state_dict()

    class Refusing(Counting):
        def load_state_dict(self, state: Any) -> None:
            raise KeyError("at")

    made: list[Any] = [Counting(20)]
    data = hr.from_iterable(lambda: made[0]).batch(4)
    state = run(data, 2).state_dict()
    for other, error, message in (
        (iter(range(20)), hr.StateError, "range_iterator has no load_state_dict"),
        (Refusing(20), KeyError, "at"),
    ):
        made[0] = other
        later = hr.Loader(data)
        later.load_state_dict(state)
        with pytest.raises(error, match=message):
            next(iter(later))


@pytest.mark.parametrize(
    "streams",
    [
        5,
        [5],
        [{}],
        [{"record": -1, "of": "iterator", "state": 1}],
        [{"record": 1, "of": "x", "state": 1}],
        [None, None],
    ],
)
def test_damaged_places_are_refused(streams: Any) -> None:
    data = hr.from_iterable(lambda: Counting(20)).batch(4)
    with pytest.raises(hr.StateError):
        hr.Loader(data).load_state_dict({**run(data, 2).state_dict(), "streams": streams})


def test_what_filters_leave_is_not_filtered_again_from_the_beginning() -> None:
    asked: list[int] = []

    def wanted(n: int) -> bool:
        asked.append(n)
        return n % 3 > 0

    left = hr.from_dataset(range(3000)).filter(wanted, block=16).slice(5, None, 2)
    for data in (hr.zip(left, hr.from_dataset(range(900)), shortest=True).map(sum), hr.mix([left, left], [1, 1])):
        batches = data.batch(10)
        whole = [batch.tolist() for batch in hr.Loader(batches)]
        state = json.loads(json.dumps(run(batches, 60).state_dict()))
        later = hr.Loader(batches)
        later.load_state_dict(state)
        asked.clear()
        assert next(iter(later)).tolist() == whole[60]
        assert min(asked) > 800
        assert len(asked) <= 4 * 64
        later.load_state_dict(state)
        assert [batch.tolist() for batch in later] == whole[60:]
        wrongs: list[Any] = [{"position": n, "left": 0, "given": 0} for n in (-1, 3001, 1 << 70)]
        for wrong in (*wrongs, [], {}):
            damaged = json.loads(json.dumps(state))
            damaged["streams"][-1]["state"] = wrong
            later.load_state_dict(damaged)
            with pytest.raises(hr.StateError, match="no place in what a filter left"):
                next(iter(later))


@pytest.mark.parametrize("state", [5, {}, {"window": 0, "taken": -1, "stream": ["iterator", {}]}])
def test_damaged_places_of_shuffled_streams_are_refused(state: Any) -> None:
    data = hr.from_iterable(lambda: Counting(20)).shuffle(seed=1, window=8).batch(4)
    saved = run(data, 2).state_dict()
    saved["streams"][0]["state"] = state
    loader = hr.Loader(data)
    loader.load_state_dict(saved)
    with pytest.raises(hr.StateError, match="no place in a shuffled stream"):
        next(iter(loader))


@given(n=st.integers(0, 60), window=st.integers(1, 70), seed=st.integers(-3, 3), epoch=st.integers(0, 3))
def test_a_shuffled_stream_has_the_order_of_known_records(n: int, window: int, seed: int, epoch: int) -> None:
    runs = []
    for data in (hr.from_iterable(lambda: iter(range(n))), hr.from_dataset(range(n))):
        loader = hr.Loader(data.shuffle(seed=seed, window=window).batch(7))
        loader.set_epoch(epoch)
        runs.append([batch.tolist() for batch in loader])
    assert runs[0] == runs[1]


def test_a_shuffled_stream_holds_a_window() -> None:
    held = 0
    most = 0

    class Record:
        def __init__(self) -> None:
            nonlocal held, most
            held += 1
            most = max(most, held)

        def __del__(self) -> None:
            nonlocal held
            held -= 1

    data = hr.from_iterable(lambda: (Record() for _ in range(2000))).shuffle(seed=1, window=50).batch(5).map(len)
    assert sum(hr.Loader(data)) == 2000
    assert most <= 50 + 10


def test_where_a_stream_can_be_shuffled_is_told() -> None:
    stream = hr.from_iterable(range(9))
    with pytest.raises(hr.PlanError, match=r"of a stream it comes right after from_iterable"):
        hr.Loader(stream.map(lambda n: n).shuffle(window=3).batch(2))
    with pytest.raises(hr.PlanError, match=r"shuffle\(window=…\) can shuffle a stream"):
        hr.Loader(stream.shuffle().batch(2))
    shuffled = stream.shuffle(seed=1, window=4)
    assert sorted(shuffled) == list(range(9))
    assert repr(shuffled) == "iterable() → shuffle(seed=1, window=4)"

    def bad() -> Iterator[int]:
        yield from range(6)
        raise OSError("cut off")

    with pytest.raises(OSError, match="cut off") as info:
        list(hr.from_iterable(bad).shuffle(window=4))
    assert "of the shuffled stream (one of its items 4 to 7)" in info.value.__notes__[0]
    assert np.array_equal(sorted(itertools.islice(hr.from_iterable(itertools.count).shuffle(window=5), 5)), range(5))
