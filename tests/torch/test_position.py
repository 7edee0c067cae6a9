"""A loader's place can be saved at any batch and gone on from, by other workers and ranks."""

import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import data as torch_data

import headrace.torch as ht
from headrace.errors import StateError
from tests.torch.data import Noisy, Numbers, Remembering, Sharded, Stream, plain, same


class Evens:
    """A sampler that draws from Python's generator as it begins."""

    def __iter__(self) -> Iterator[int]:
        order = list(range(0, 20, 2))
        random.shuffle(order)
        np.random.shuffle(order)
        yield from order

    def __len__(self) -> int:
        return 10


class Hooked:
    """A sampler that can say where it begins."""

    def __init__(self) -> None:
        self.round = 0

    def __iter__(self) -> Iterator[int]:
        self.round += 1
        yield from np.random.default_rng(self.round).permutation(20).tolist()

    def state_dict(self) -> dict[str, int]:
        return {"round": self.round}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.round = state["round"]


def make_generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


MAKERS: dict[str, Callable[..., Any]] = {
    "sequential": lambda **more: ht.DataLoader(Noisy(20), batch_size=3, collate_fn=same, **more),
    "shuffled": lambda **more: ht.DataLoader(Noisy(20), batch_size=3, shuffle=True, collate_fn=same, **more),
    "generator": lambda **more: ht.DataLoader(Numbers(20), 3, True, generator=make_generator(), **more),
    "single": lambda **more: ht.DataLoader(Numbers(20), batch_size=None, shuffle=True, **more),
    "columns": lambda **more: ht.DataLoader(ht.TensorDataset(torch.arange(20)), 3, True, drop_last=True, **more),
    "torch's": lambda **more: ht.DataLoader(Numbers(20), 3, sampler=torch_data.RandomSampler(range(20)), **more),
    "weighted": lambda **more: ht.DataLoader(
        Numbers(20), 3, sampler=torch_data.WeightedRandomSampler([1.0] * 20, 17), **more
    ),
    "subset": lambda **more: ht.DataLoader(Numbers(20), 3, sampler=torch_data.SubsetRandomSampler(range(17)), **more),
    "own generator": lambda **more: ht.DataLoader(
        Numbers(20), 3, sampler=torch_data.RandomSampler(range(20), generator=make_generator()), **more
    ),
    "distributed": lambda **more: ht.DataLoader(
        Numbers(20), 3, sampler=torch_data.DistributedSampler(Numbers(20), 2, 1), **more
    ),
    "drawing": lambda **more: ht.DataLoader(Numbers(20), 3, sampler=Evens(), **more),
    "hooked": lambda **more: ht.DataLoader(Numbers(20), 3, sampler=Hooked(), **more),
    "batches": lambda **more: ht.DataLoader(
        Numbers(20),
        batch_sampler=torch_data.BatchSampler(Hooked(), 3, False),
        **more,
    ),
    "lists": lambda **more: ht.DataLoader(Numbers(20), batch_sampler=[[1, 2], [3], [4, 5, 6], [0]], **more),
    "stream": lambda **more: ht.DataLoader(Stream(20), batch_size=3, **more),
    "remembering": lambda **more: ht.DataLoader(Remembering(20), batch_size=3, **more),
}


def seed_all(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


def run_on(make: Callable[..., Any], state: Any, **arguments: Any) -> list[Any]:
    seed_all(99)  # another process
    loader = make(**arguments)
    loader.load_state_dict(json.loads(json.dumps(state)))
    return [plain(batch) for batch in loader]


@pytest.mark.parametrize("name", MAKERS)
def test_at_every_batch(name: str) -> None:
    make = MAKERS[name]
    seed_all(3)
    loader = make()
    for epoch in range(2):
        batches, states = [], []
        for batch in loader:
            batches.append(plain(batch))
            states.append(loader.state_dict())
        assert {state["epoch"] for state in states} == {epoch}
        for at in range(len(batches) - 1):
            rest = run_on(make, states[at])
            wanted = batches[at + 1 :]
            if name == "remembering":  # counts what it has read since it was made, which a replay would show
                assert [row[1] for row in rest] == [row[1] for row in run_on(make, states[at])]
                rest, wanted = ([part[0] for part in rows] for rows in (rest, wanted))
            assert rest == wanted


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(
    ("before", "after"),
    [({}, {"num_workers": 2}), ({"num_workers": 2}, {}), ({"num_workers": 2}, {"num_workers": 1, "mode": "threads"})],
)
def test_with_other_workers(name: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    make = MAKERS[name]
    seed_all(3)
    loader = make(**before)
    batches = iter(loader)
    head = [plain(next(batches)) for _ in range(2)]
    state = loader.state_dict()
    tail = [plain(batch) for batch in batches]
    rest = run_on(make, state, **after)
    if name == "remembering":
        rest, tail = ([part[0] for part in rows] for rows in (rest, tail))
    assert rest == tail
    assert len(head) == 2


def test_the_next_epochs_are_the_same_with_a_generator() -> None:
    loader = MAKERS["generator"]()
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    wanted = [plain(list(batches)), plain(list(loader)), plain(list(loader))]
    other = MAKERS["generator"]()
    other.load_state_dict(state)
    assert [plain(list(other)) for _ in range(3)] == wanted


def test_documents_are_small() -> None:
    for name in ("sequential", "shuffled", "columns", "torch's", "distributed", "lists", "stream", "generator"):
        loader = MAKERS[name]()
        next(iter(loader))
        assert len(json.dumps(loader.state_dict())) < 500, name
    for name in ("weighted", "own generator", "drawing"):
        loader = MAKERS[name]()
        torch.rand(3)
        next(iter(loader))
        assert len(json.dumps(loader.state_dict())) < 10_000, name


def test_after_the_last_batch_comes_the_next_epoch() -> None:
    loader = ht.DataLoader(Numbers(6), batch_size=3)
    batches = iter(loader)
    next(batches), next(batches)
    almost = loader.state_dict()  # the loop hasn't met the end yet
    with pytest.raises(StopIteration):
        next(batches)
    assert loader.state_dict()["epoch"] == 1
    for state in (almost, loader.state_dict()):
        for workers in (0, 2):
            other = ht.DataLoader(Numbers(6), batch_size=3, num_workers=workers)
            other.load_state_dict(state)
            assert plain(list(other)) == [[0, 1, 2], [3, 4, 5]]


def test_a_batch_that_failed_counts() -> None:
    data: Any = [1, 2, None, 4]
    loader: Any = ht.DataLoader(data, batch_size=1)
    batches = iter(loader)
    next(batches), next(batches)
    with pytest.raises(TypeError):
        next(batches)
    other: Any = ht.DataLoader(data, batch_size=1)
    other.load_state_dict(loader.state_dict())
    assert plain(list(other)) == [[4]]


def test_out_of_order_nothing_is_lost_or_repeated() -> None:
    loader = ht.DataLoader(Numbers(30), batch_size=2, num_workers=3, in_order=False)
    batches = iter(loader)
    head: list[int] = list(itertools.chain(*(next(batches).tolist() for _ in range(5))))
    state = loader.state_dict()
    other = ht.DataLoader(Numbers(30), batch_size=2, num_workers=2)
    other.load_state_dict(state)
    assert sorted(itertools.chain(head, *(batch.tolist() for batch in other))) == list(range(30))


class SlowFirst(Numbers):
    def __getitem__(self, i: int) -> Any:
        if i == 0 and torch.utils.data.get_worker_info() is not None:
            time.sleep(1)
        return super().__getitem__(i)


def test_out_of_order_the_first_batch_may_be_the_last() -> None:
    loader = ht.DataLoader(SlowFirst(30), batch_size=2, num_workers=2, in_order=False)
    batches = iter(loader)
    head: list[int] = list(itertools.chain(*(next(batches).tolist() for _ in range(3))))
    assert 0 not in head
    state = loader.state_dict()
    assert state["units"] == 0
    other = ht.DataLoader(SlowFirst(30), batch_size=2)
    other.load_state_dict(state)
    assert sorted(itertools.chain(head, *(batch.tolist() for batch in other))) == list(range(30))


def test_nothing_is_drawn_in_going_on() -> None:
    loader = MAKERS["shuffled"]()
    next(iter(loader))
    state = loader.state_dict()
    other = MAKERS["shuffled"]()
    other.load_state_dict(state)
    before = torch.get_rng_state()
    list(other)
    assert torch.equal(before, torch.get_rng_state())


def test_states_before_the_first_batch() -> None:
    loader = ht.DataLoader(Numbers(4), batch_size=2)
    state = loader.state_dict()
    assert (state["epoch"], state["batches"]) == (0, 0)
    other = ht.DataLoader(Numbers(4), batch_size=2)
    other.load_state_dict({})
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert plain(list(other)) == [[0, 1], [2, 3]]


def test_sharded_streams_need_as_many_workers() -> None:
    loader = ht.DataLoader(Sharded(20), batch_size=3, num_workers=2)
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    state = loader.state_dict()
    tail = plain(list(batches))
    other = ht.DataLoader(Sharded(20), batch_size=3, num_workers=2)
    other.load_state_dict(state)
    assert plain(list(other)) == tail
    with pytest.raises(StateError, match="saved with 2 readers of a stream that its author divides"):
        ht.DataLoader(Sharded(20), batch_size=3).load_state_dict(state)
    alone = ht.DataLoader(Sharded(20), batch_size=3)
    next(iter(alone))
    other.load_state_dict(alone.state_dict())
    with pytest.raises(StateError, match="saved by one reader"):
        list(other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: [], "expected the dict that state_dict"),
        (lambda state: {"_snapshot": 1}, "of a StatefulDataLoader"),
        (lambda state: {"a": 1}, "of another kind"),
        (lambda state: {**state, "epoch": -1}, "damaged: epoch is -1, expected a whole number"),
        (lambda state: {**state, "data": 3}, "damaged: data is 3"),
        (lambda state: {**state, "data": {**state["data"], "length": 7}}, "another length: 7 then, 20 now"),
        (lambda state: {**state, "data": {**state["data"], "batch_size": 7}}, "another batch_size: 7 then, 3 now"),
        (lambda state: {**state, "data": {**state["data"], "sampler": "X"}}, "another sampler: 'X' then"),
    ],
)
def test_what_doesnt_fit_is_refused(change: Callable[[Any], Any], message: str) -> None:
    loader = MAKERS["shuffled"]()
    next(iter(loader))
    with pytest.raises(StateError, match=message):
        loader.load_state_dict(change(loader.state_dict()))


def changed(name: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: {**state, name: value}


def without(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda state: {key: value for key, value in state.items() if key != name}


def of_stream(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: {**state, "stream": {**state["stream"], **changes}}


DAMAGED: list[tuple[str, Callable[[dict[str, Any]], Any], str]] = [
    ("shuffled", changed("base_seed", "x"), "base_seed is 'x', expected a whole number"),
    ("shuffled", changed("base_seed", None), "base_seed is None"),
    ("shuffled", changed("base_seed", 1 << 64), "base_seed is 18446744073709551616"),
    ("shuffled", without("base_seed"), "base_seed is missing"),
    ("shuffled", changed("resets", "a"), "resets is 'a'"),
    ("shuffled", changed("epoch", True), "epoch is True"),
    ("shuffled", changed("units", 10**9), "units is 1000000000, expected no more than the 20 keys"),
    ("shuffled", changed("batches", 1.5), "batches is 1.5"),
    ("shuffled", changed("ahead", 5), "ahead is 5, expected a list"),
    ("shuffled", changed("ahead", ["a"]), "a number in ahead is 'a'"),
    ("shuffled", changed("ahead", [0]), "a number in ahead is 0, expected one of a batch behind unit 3"),
    ("shuffled", changed("ahead", [10**9]), "a number in ahead is 1000000000"),
    ("shuffled", changed("order", 5), "order is 5, expected a dict"),
    ("shuffled", without("order"), "order is None"),
    ("shuffled", changed("order", {}), "drawn from nothing, expected 'seed'"),
    ("shuffled", changed("order", {"seed": "x"}), "the seed of its order is 'x'"),
    ("shuffled", changed("order", {"generator": {"seed": 3}}), "saved with another generator"),
    ("generator", changed("order", {"seed": 3}), "saved with another generator"),
    ("generator", changed("generator", {}), "a generator's state can't be read"),
    ("drawing", changed("order", {"first": 3}), "first of its order is 3"),
    ("drawing", changed("order", {"first": {"lua": 3}}), r"drawn from \['lua'\]"),
    ("drawing", changed("order", {"generators": 3}), "generators of its order is 3"),
    ("stream", changed("stream", 5), "stream is 5, expected a dict"),
    ("stream", without("stream"), "stream is None"),
    ("stream", changed("stream", {}), "readers is None"),
    ("stream", of_stream(readers=[]), r"readers is \[\]"),
    ("stream", of_stream(readers=[[1]]), r"a reader of the stream is \[1\]"),
    ("stream", of_stream(readers=[[-1, False, None]]), "a reader's batches is -1"),
    ("stream", of_stream(readers=[[1, 0, None]]), "a reader of the stream"),
    ("stream", of_stream(readers=[[1, False, ["zz", 1]]]), "the state of a reader"),
    ("stream", of_stream(readers=[[1, False, ["iterator", 1]]]), "iterator has no load_state_dict"),
    ("stream", of_stream(readers=[[1, False, ["dataset", 1]]]), "Stream has no load_state_dict"),
    ("stream", of_stream(turn=1), "the stream's turn is 1, expected a whole number, from 0 to 0"),
    ("stream", of_stream(turn=None), "the stream's turn is None"),
    ("stream", of_stream(sharded="yes"), "the stream's sharded is 'yes'"),
]


@pytest.mark.parametrize(("maker", "change", "message"), DAMAGED, ids=[message for _, _, message in DAMAGED])
def test_damaged_states_are_refused(maker: str, change: Callable[[Any], Any], message: str) -> None:
    loader = MAKERS[maker]()
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(StateError, match=message):
        loader.load_state_dict(change(state))
        next(iter(loader))


def test_an_order_that_wasnt_drawn_yet_is_drawn_in_going_on() -> None:
    loader = MAKERS["shuffled"]()
    batches = iter(loader)
    state = loader.state_dict()
    assert state["order"] == {}
    del batches
    other = MAKERS["shuffled"]()
    other.load_state_dict(state)
    assert sorted(row[0] for batch in other for row in batch) == list(range(20))


def test_damaged_orders_are_refused() -> None:
    for name, order in (("generator", {"generator": {"state": "AAAA"}}), ("drawing", {"first": {"python": ["A", 1]}})):
        loader = MAKERS[name]()
        next(iter(loader))
        loader.load_state_dict({**loader.state_dict(), "order": order})
        with pytest.raises(StateError, match="damaged"):
            list(loader)


# ranks ---------------------------------------------------------------------------------------------------------------


def ranks(count: int, make: Callable[..., Any], **arguments: Any) -> list[Any]:
    return [make(rank=rank, world_size=count, **arguments) for rank in range(count)]


@pytest.mark.parametrize("n", [24, 25, 29, 1])
@pytest.mark.parametrize("uneven", ["pad", "drop", "short"])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [4, None])
def test_ranks_share_the_samples(n: int, uneven: Any, drop_last: bool, size: int | None) -> None:
    if size is None and drop_last:
        return
    loaders = ranks(3, lambda **more: ht.DataLoader(Numbers(n), batch_size=size, shuffle=True, uneven=uneven,
                                                    drop_last=drop_last, **more))  # fmt: skip
    got = [[plain(batch) for batch in loader] for loader in loaders]
    assert [len(batches) for batches in got] == [len(loader) for loader in loaders]
    samples = sorted(itertools.chain(*(itertools.chain(*b) if size else b for b in got)))
    steps = {len(batches) for batches in got}
    if uneven == "short" and not drop_last:
        assert samples == list(range(n))
    elif uneven == "pad" and not drop_last:
        assert len(steps) == 1
        assert set(samples) == set(range(n))
        assert len(samples) == -(-n // 3) * 3
    else:
        assert len(steps) == 1
        assert len(set(samples)) == len(samples) >= n - n % (12 if drop_last else 3)


def test_other_ranks_go_on() -> None:
    for columns in (False, True):
        data: Any = ht.TensorDataset(torch.arange(60)) if columns else Numbers(60)

        def make(data: Any = data, **more: Any) -> Any:
            return ht.DataLoader(data, batch_size=4, shuffle=True, **more)

        loaders = ranks(3, make)
        iterators = [iter(loader) for loader in loaders]
        seen = [plain(next(iterator)) for _ in range(2) for iterator in iterators]
        state = loaders[0].state_dict()
        others = ranks(2, make, num_workers=1)
        for other in others:
            other.load_state_dict(state)
            seen += [plain(batch) for batch in other]
        flat = np.concatenate([np.ravel(batch) for batch in seen]).tolist()
        assert sorted(flat) == list(range(60))


def test_ranks_share_batches_and_streams() -> None:
    batches = [[i] for i in range(7)]
    for uneven, wanted in (("pad", [4, 4]), ("drop", [3, 3]), ("short", [4, 3])):
        loaders = ranks(2, lambda **more: ht.DataLoader(Numbers(9), batch_sampler=batches, **more), uneven=uneven)
        assert [len(list(loader)) for loader in loaders] == wanted == [len(loader) for loader in loaders]
    for workers in (0, 2):
        loaders = ranks(2, lambda **more: ht.DataLoader(Stream(9), batch_size=2, **more), num_workers=workers)
        assert [plain(list(loader)) for loader in loaders] == [[[0, 2], [4, 6], [8]], [[1, 3], [5, 7]]]
