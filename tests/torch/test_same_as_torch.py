"""Batches, orders and draws are those of torch.utils.data."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils import data as torch_data

import headrace.torch as ht
from headrace.torch.collate import quick_collate
from headrace.torch.columns import columns_of
from tests.torch.data import Numbers, plain, same

DataLoader: Any = ht.DataLoader  # of anything that can be indexed, as programs use it
Theirs: Any = torch_data.DataLoader


class Point(NamedTuple):
    x: int
    y: float


SAMPLES: list[list[Any]] = [
    [1, 2, 3],
    [1 << 40, -1],
    [1.5, 2.0],
    [1, 2.0],
    [True, False],
    ["a", "b"],
    [b"a", b"b"],
    [np.float32(1), np.float32(2)],
    [np.int16(1), np.int16(2)],
    [np.ones(3), np.zeros(3)],
    [np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)],
    [np.array(1), np.array(2)],
    [torch.ones(2), torch.zeros(2)],
    [torch.ones(2, dtype=torch.int8), torch.zeros(2, dtype=torch.int8)],
    [(1, "a"), (2, "b")],
    [[1, 2.0], [3, 4.0]],
    [{"a": 1, "b": (1.0, "x")}, {"a": 2, "b": (2.0, "y")}],
    [Point(1, 2.0), Point(3, 4.0)],
    [{"a": 1, "b": 2}, {"a": 3, "b": 4, "c": 5}],
    [range(2), range(2)],
    [np.ones(2), torch.ones(2)],
]
BAD: list[list[Any]] = [
    [None, None],
    [[1, 2], [3]],
    [(1,), ()],
    [np.ones(2), np.ones(3)],
    [torch.ones(2), torch.ones(3)],
    [np.array(["a"]), np.array(["b"])],
    [{"a": 1}, {"b": 1}],
    [{1}, {2}],
    [1j, 2j],
    [1 << 70, 1],
    [],
]


def same_values(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_values(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same_values, left, right))
    return bool(left == right)


@pytest.mark.parametrize("samples", SAMPLES, ids=str)
def test_collation(samples: list[Any]) -> None:
    assert same_values(quick_collate(samples), torch_data.default_collate(samples))


@pytest.mark.parametrize("samples", BAD, ids=str)
def test_what_cant_be_collated(samples: list[Any]) -> None:
    def failure(collate: Callable[[Any], Any]) -> tuple[str, str]:
        with pytest.raises(Exception) as caught:  # noqa: PT011
            collate(samples)
        return type(caught.value).__name__, str(caught.value)

    assert failure(quick_collate) == failure(torch_data.default_collate)


def test_a_changed_registry_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    def join(batch: Any, *, collate_fn_map: Any = None) -> str:
        return "+".join(batch)

    monkeypatch.setitem(torch_data._utils.collate.default_collate_fn_map, str, join)
    assert list(DataLoader(["a", "b"], batch_size=2)) == ["a+b"]


COLUMNS: list[Any] = [
    torch_data.TensorDataset(torch.arange(20).reshape(10, 2), torch.arange(10.0)),
    torch_data.TensorDataset(torch.arange(40).reshape(10, 4)[:, ::2]),
    torch.arange(30).reshape(10, 3),
    torch.arange(10, dtype=torch.float16),
    np.arange(30.0).reshape(10, 3),
    np.arange(10, dtype=np.uint8),
    torch_data.Subset(torch_data.TensorDataset(torch.arange(30)), [7, -1, 0, 29, 7, 3, 3, 3, 2, 1]),
    torch_data.Subset(torch_data.Subset(np.arange(50), list(range(5, 40))), range(0, 20, 2)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("dataset", COLUMNS, ids=range(len(COLUMNS)))
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_columns_are_gathered(dataset: Any, workers: int, shuffle: bool) -> None:
    assert columns_of(dataset) is not None
    for drop_last in (False, True):
        arguments: dict[str, Any] = {"batch_size": 3, "shuffle": shuffle, "drop_last": drop_last}
        mine, theirs = (
            list(kind(dataset, generator=torch.Generator().manual_seed(1), num_workers=n, **arguments))
            for kind, n in ((DataLoader, workers), (Theirs, 0))
        )
        assert same_values(mine, theirs)
    first = next(iter(DataLoader(dataset, batch_size=3)))
    for column in first if isinstance(first, list) else [first]:
        column.zero_()  # a copy: the dataset stays what it is
    assert same_values(next(iter(DataLoader(dataset, batch_size=3))), next(iter(Theirs(dataset, 3))))


def test_columns_with_keys_of_ones_own() -> None:
    data = torch_data.TensorDataset(torch.arange(10))
    for sampler in ([3, -1, 3], [9, 0]):
        mine, theirs = (list(kind(data, batch_size=2, sampler=sampler)) for kind in (DataLoader, Theirs))
        assert same_values(mine, theirs)
    with pytest.raises(IndexError):
        list(DataLoader(data, batch_size=2, sampler=[10]))


def test_subclasses_with_their_own_reading_arent_gathered() -> None:
    class Doubled(torch_data.TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            return tuple(2 * column for column in super().__getitem__(index))  # type: ignore[no-untyped-call]

    assert plain(list(DataLoader(Doubled(torch.arange(4)), batch_size=2))) == [[[0, 2]], [[4, 6]]]


SAMPLERS: list[Callable[[Any], Any]] = [
    lambda g: torch_data.SequentialSampler(range(17)),
    lambda g: torch_data.RandomSampler(range(17), generator=g),
    lambda g: torch_data.RandomSampler(range(17), num_samples=5, generator=g),
    lambda g: torch_data.RandomSampler(range(17), num_samples=40, generator=g),
    lambda g: torch_data.RandomSampler(range(17), replacement=True, num_samples=70, generator=g),
    lambda g: torch_data.SubsetRandomSampler([1, 5, 2, 16, 3], generator=g),
    lambda g: torch_data.WeightedRandomSampler([1.0, 2.0, 0.5], 9, generator=g),
    lambda g: torch_data.DistributedSampler(Numbers(17), 3, 1),
    lambda g: [3, 1, 16],
]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=range(len(SAMPLERS)))
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("size", [4, None])
def test_orders_and_draws(sampler: Callable[[Any], Any], given: bool, size: int | None) -> None:
    """The same order as torch's over epochs, and the generators end in the same state."""

    def epochs(kind: Any) -> Any:
        torch.manual_seed(3)
        generator = torch.Generator().manual_seed(4) if given else None
        loader = kind(Numbers(17), batch_size=size, sampler=sampler(generator), generator=generator)
        orders = [plain(list(loader)) for _ in range(2)]
        return orders, torch.get_rng_state().tolist(), generator and generator.get_state().tolist()

    assert epochs(DataLoader) == epochs(Theirs)


@pytest.mark.parametrize("arguments", [{}, {"replacement": True}, {"num_samples": 30}, {"num_samples": 3}])
def test_random_sampler(arguments: Any) -> None:
    for seed in range(3):
        mine, theirs = (
            kind(range(13), generator=torch.Generator().manual_seed(seed), **arguments)
            for kind in (ht.RandomSampler, torch_data.RandomSampler)
        )
        assert [list(mine), list(mine)] == [list(theirs), list(theirs)]
        assert mine.generator.get_state().tolist() == theirs.generator.get_state().tolist()
    torch.manual_seed(1)
    first = list(ht.RandomSampler(range(13), **arguments))
    torch.manual_seed(1)
    assert list(torch_data.RandomSampler(range(13), **arguments)) == first


def test_batch_samplers_of_any_kind() -> None:
    for batches in ([[1, 2], [0]], [(1, 2), (0,)], (range(i, i + 2) for i in range(2))):
        assert plain(list(DataLoader(Numbers(4), batch_sampler=batches)))


def test_without_batches_nothing_is_collated() -> None:
    assert list(DataLoader([(1, "a"), (2, "b")], batch_size=None)) == [[1, "a"], [2, "b"]]
    assert list(DataLoader([(1, "a")], batch_size=None, collate_fn=same)) == [(1, "a")]
