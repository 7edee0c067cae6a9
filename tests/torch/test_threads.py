"""Threads that share what docs/threads.md lets them share. Any that hangs here is a deadlock."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import headrace as hr
import headrace.torch as ht
from headrace.torch.collate import quick_collate
from tests.torch.data import Numbers, Stream, plain


@pytest.fixture(autouse=True)
def restless() -> Iterator[None]:
    """The interpreter changes threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What a function gives in each of some threads that begin at the same moment."""
    barrier = threading.Barrier(count)
    got: list[Any] = [None] * count

    def run(number: int) -> None:
        barrier.wait()
        try:
            got[number] = work(number)
        except BaseException as error:
            got[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a deadlock"
    for value in got:
        if isinstance(value, BaseException):
            raise value
    return got


@pytest.mark.parametrize("dataset", [Numbers(200), Stream(200), ht.TensorDataset(torch.arange(200))], ids=type)
def test_many_consumers_and_workers(dataset: Any) -> None:
    loader = ht.DataLoader(dataset, batch_size=3, num_workers=3, mode="threads")
    wanted = plain(list(ht.DataLoader(dataset, batch_size=3)))

    def consume(number: int) -> Any:
        return [plain(list(loader)) for _ in range(3)]

    assert together(4, consume) == [[wanted] * 3] * 4


def test_consumers_in_their_own_threads() -> None:
    loader = ht.DataLoader(Numbers(300), batch_size=7)
    wanted = plain(list(loader))
    assert together(4, lambda number: plain(list(loader))) == [wanted] * 4


def test_consumers_of_processes() -> None:
    loader = ht.DataLoader(Numbers(120), batch_size=5, num_workers=2)
    wanted = plain(list(ht.DataLoader(Numbers(120), batch_size=5)))
    assert together(3, lambda number: [plain(list(loader)) for _ in range(2)]) == [[wanted] * 2] * 3
    loader.close()


def test_reports_and_places_while_others_iterate() -> None:
    loader = ht.DataLoader(Numbers(600), batch_size=2, num_workers=2, mode="threads")

    def watch_or_consume(number: int) -> Any:
        if number == 0:
            return len(list(loader))
        for _ in range(200):
            assert loader.stats().batches >= 0
            assert loader.state_dict()["batches"] >= 0
        return 300

    assert together(3, watch_or_consume) == [300] * 3


def test_collating_and_gathering() -> None:
    samples = [(i, float(i), np.full(3, i), {"a": torch.full((2,), i)}) for i in range(20)]
    columns = ht.Subset(ht.TensorDataset(torch.arange(1000)), range(0, 1000, 2))
    wanted = plain(quick_collate(samples)), plain(list(ht.DataLoader(columns, batch_size=50)))

    def work(number: int) -> Any:
        for _ in range(20):
            assert (plain(quick_collate(samples)), plain(list(ht.DataLoader(columns, batch_size=50)))) == wanted
        return True

    assert all(together(4, work))


def test_loaders_of_one_dataset() -> None:
    data = hr.from_arrays(np.arange(3000)).shuffle(seed=1).map(lambda x: x + 1).batch(7)
    wanted = [batch.tolist() for batch in hr.Loader(data)]

    def consume(number: int) -> Any:
        with hr.Loader(data, workers=3) as loader:
            return [batch.tolist() for batch in loader]

    assert together(4, consume) == [wanted] * 4


def test_a_loader_that_two_threads_move_says_so() -> None:
    loader = hr.Loader(hr.from_arrays(np.arange(2000)).map(lambda x: x).batch(2))

    def consume(number: int) -> Any:
        try:
            return [int(batch[0]) for batch in loader]
        except (RuntimeError, ValueError) as error:
            return str(error)

    for value in together(3, consume):
        assert isinstance(value, str) or value == sorted(set(value))
