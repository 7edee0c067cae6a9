"""Batches that several workers read together: the same as ever, and collated as a whole."""

from __future__ import annotations

import itertools
import os
import random
import sys
from typing import Any

import numpy as np
import pytest
import torch

import headrace.torch as ht
from headrace.torch.fetch import PARTS, part_size
from headrace.torch.job import cut
from tests.torch.data import Failing, Holding, Noisy, Numbers, Seldom, plain

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pieces are cut for forked workers")


class Traced(Numbers):
    """Says who has read a sample."""

    def __getitem__(self, i: int) -> Any:
        return {"x": torch.full((3,), i), "text": f"n{i}", "pid": os.getpid()}


class Arrays(Numbers):
    """NumPy arrays and numbers, in tuples, with draws."""

    def __getitem__(self, i: int) -> Any:
        return np.full((20, 20), i, np.float32), (np.int16(i), 1.5 * i), random.random()


class Bulk(Numbers):
    """Reads whole batches."""

    def __getitems__(self, keys: list[int]) -> Any:
        return [(key, len(keys)) for key in keys]


def together(batch: list[Any]) -> Any:
    """Sees how many samples there are, who it is, and draws."""
    info = ht.get_worker_info()
    return len(batch), batch, info is not None, random.random(), float(torch.rand(()))


def epoch(dataset: Any, **options: Any) -> list[Any]:
    torch.manual_seed(0)
    with ht.DataLoader(dataset, batch_size=32, shuffle=True, **options) as loader:
        return [plain(batch) for batch in loader]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", [Noisy, Holding, Seldom, Arrays])
def test_batches_are_the_same_for_any_workers(kind: Any, workers: int) -> None:
    assert epoch(kind(100), num_workers=workers) == epoch(kind(100))


def test_the_first_batches_are_read_by_all_workers_together() -> None:
    with ht.DataLoader(Traced(320), batch_size=32, num_workers=2) as loader:
        batches = list(loader)
    assert torch.cat([batch["x"][:, 0] for batch in batches]).tolist() == list(range(320))
    assert [len({*batch["pid"].tolist()}) for batch in batches][:2] == [2, 2]
    assert {len({*batch["pid"].tolist()}) for batch in batches[2:]} == {1}


def test_a_collate_function_sees_the_whole_batch_once_in_a_worker() -> None:
    alone = epoch(Noisy(100), collate_fn=together)
    found = epoch(Noisy(100), collate_fn=together, num_workers=2)
    assert [batch[0] for batch in found] == [32, 32, 32, 4]
    assert all(batch[2] for batch in found)
    assert [(a, b, d, e) for a, b, _, d, e in found] == [(a, b, d, e) for a, b, _, d, e in alone]


def test_types_are_those_of_one_worker() -> None:
    def kinds(**options: Any) -> Any:
        with ht.DataLoader(Arrays(64), batch_size=32, **options) as loader:
            return [(first.dtype, first.shape, a.dtype, b.dtype, c.dtype) for first, (a, b), c in loader]

    assert kinds(num_workers=2) == kinds()


def test_a_subset_is_cut_as_what_it_is_of() -> None:
    subset = torch.utils.data.Subset(Traced(100), list(range(99, -1, -1)))
    with ht.DataLoader(subset, batch_size=32, num_workers=2) as loader:
        batches = list(loader)
    assert len({*batches[0]["pid"].tolist()}) == 2
    assert torch.cat([batch["x"][:, 0] for batch in batches]).tolist() == list(range(99, -1, -1))


@pytest.mark.parametrize("wrap", [lambda data: data, lambda data: torch.utils.data.Subset(data, range(100))])
def test_a_dataset_that_reads_whole_batches_gets_them(wrap: Any) -> None:
    with ht.DataLoader(wrap(Bulk(100)), batch_size=32, num_workers=2) as loader:
        assert [sizes.tolist() for _, sizes in loader] == [[32] * 32] * 3 + [[4] * 4]


def begin(worker: int) -> None:
    pass


def test_who_says_how_workers_begin_gets_whole_batches() -> None:
    with ht.DataLoader(Traced(96), batch_size=32, num_workers=2, worker_init_fn=begin) as loader:
        assert {len({*batch["pid"].tolist()}) for batch in loader} == {1}


@pytest.mark.parametrize("at", [3, 40])
def test_errors_are_those_of_one_worker(at: int) -> None:
    class Wrong(Numbers):
        def __getitem__(self, i: int) -> Any:
            if i == at:
                raise ValueError("no good")
            return i

    with ht.DataLoader(Wrong(100), batch_size=32, num_workers=2) as loader:
        batches = iter(loader)
        got = []
        for _ in range(4):
            try:
                got.append(next(batches).tolist()[0])
            except ValueError as error:
                assert f"reading the sample of index {at}" in str(error)  # noqa: PT017
                got.append("error")
    expected: list[Any] = [0, 32, 64, 96]
    expected[at // 32] = "error"
    assert got == expected


def test_what_cant_be_read_is_left_out_and_told_in_order() -> None:
    class Torn(Numbers):
        def __getitem__(self, i: int) -> Any:
            if i % 10 == 7:
                raise OSError(f"file {i} is torn")
            return i

    with ht.DataLoader(Torn(100), batch_size=32, num_workers=2, on_error="skip") as loader:
        batches = [batch.tolist() for batch in loader]
        assert [skipped.index for skipped in loader.skipped] == list(range(7, 100, 10))
    assert list(itertools.chain(*batches)) == [n for n in range(100) if n % 10 != 7]


def test_a_batch_of_which_nothing_can_be_read_is_left_out() -> None:
    with ht.DataLoader(Failing(OSError("x"), 40), batch_size=1, num_workers=2, on_error="skip") as loader:
        assert len(list(loader)) == 39


def test_the_state_is_exact_after_batches_that_were_cut() -> None:
    torch.manual_seed(0)
    whole = epoch(Noisy(200))
    torch.manual_seed(0)
    with ht.DataLoader(Noisy(200), batch_size=32, shuffle=True, num_workers=2) as loader:
        batches = iter(loader)
        first = plain(next(batches))
        state = loader.state_dict()
    assert first == whole[0]
    with ht.DataLoader(Noisy(200), batch_size=32, shuffle=True, num_workers=3) as other:
        other.load_state_dict(state)
        assert [plain(batch) for batch in other] == whole[1:]


@pytest.mark.parametrize("size", [1, 4, 5, 16, 17, 32, 100, 257])
def test_parts_depend_on_the_size_alone(size: int) -> None:
    parts = cut((5, list(range(size))))
    assert [key for part in parts for key in part.keys] == list(range(size))
    assert len(parts) <= PARTS
    assert {len(part.keys) for part in parts[:-1]} <= {part_size(size)}
    assert [part.number for part in parts] == list(range(len(parts)))
