"""Batches of a fixed size, and what all windows have in common."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PlanError
from headrace.plan import BatchPlan, FixedBatches, Leaf, Repeat, Rows, Shuffle, Window
from headrace.plan.batches import PlannedWindow
from tests.plan.models import Record, numbers, records


def batches(plan: BatchPlan, epoch: int = 0) -> list[list[Record]]:
    """All batches of an epoch, window by window."""
    windows = plan.num_windows(epoch)
    assert windows is not None
    return [records(rows) for index in range(windows) for rows in plan.window(epoch, index)]


@given(st.integers(0, 100), st.integers(1, 40), st.booleans(), st.integers(0, 2))
def test_batches_cut_the_order(n: int, size: int, drop: bool, epoch: int) -> None:
    order = numbers(Shuffle(Leaf(0, n), 1), epoch)
    plan = FixedBatches(Shuffle(Leaf(0, n), 1), size, drop_remainder=drop)
    expected = [order[i : i + size] for i in range(0, n, size)]
    if drop and n % size:
        expected.pop()
    assert batches(plan, epoch) == expected
    assert plan.num_batches(epoch) == len(expected)


@pytest.mark.parametrize(("n", "size"), [(200_000, 1), (200_000, 1000), (200_000, 70_000), (1 << 17, 1 << 16)])
def test_long_epochs_have_several_windows(n: int, size: int) -> None:
    plan = FixedBatches(Leaf(0, n), size)
    windows = plan.num_windows(0)
    assert windows is not None
    assert windows > 1
    lengths = [len(plan.window(0, index)) for index in range(windows)]
    assert sum(lengths) == plan.num_batches(0) == -(-n // size)
    assert len(set(lengths[:-1])) == 1
    rows = [plan.window(0, i).rows(j) for i, count in enumerate(lengths) for j in (0, count - 1)]
    assert rows[0].ids[0, 0] == 0
    assert rows[-1].ids[0, -1] == n - 1
    for index in range(windows - 1):
        last, first = plan.window(0, index).rows(lengths[index] - 1), plan.window(0, index + 1).rows(0)
        assert last.ids[0, -1] + 1 == first.ids[0, 0]


@pytest.mark.parametrize(
    ("size", "batches_of_a_window"),
    [(1, 65536), (2, 32768), (3, 21845), (128, 512), (1000, 65), (40_000, 1), (65_536, 1), (65_537, 1), (1 << 40, 1)],
)
def test_what_a_saved_window_number_means_is_fixed(size: int, batches_of_a_window: int) -> None:
    """A state of version 1 counts windows of this many batches: change it only with a new version of the state."""
    plan = FixedBatches(Repeat(Leaf(0, 1), None), size)
    assert len(plan.window(0, 0)) == batches_of_a_window


def test_endless_plans_have_endless_batches() -> None:
    plan = FixedBatches(Repeat(Leaf(0, 10), None), 4)
    assert plan.num_windows(0) is plan.num_batches(0) is None
    window = plan.window(0, 10**9)
    assert len(window) == (1 << 16) // 4
    assert len(window.rows(len(window) - 1)) == 4


def test_batches_and_windows_that_do_not_exist_are_refused() -> None:
    plan = FixedBatches(Leaf(0, 10), 4)
    for bad in (-1, 3):
        with pytest.raises(IndexError, match=f"batch {bad} of a window of 3 batches"):
            plan.window(0, 0).rows(bad)
    for bad in (-1, 1):
        with pytest.raises(IndexError, match=f"window {bad} of an epoch of 1 windows"):
            plan.window(0, bad)
    with pytest.raises(IndexError, match="window 0 of an epoch of 0 windows"):
        FixedBatches(Leaf(0, 0), 4).window(0, 0)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (0, "batch: size is at least 1, got 0"),
        (-3, "batch: size is at least 1, got -3"),
        (2.0, "batch: size is an integer, got 2.0"),
        (1 << 63, "batch: size is at most 4611686018427387904, got 9223372036854775808"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(size: int, message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        FixedBatches(Leaf(0, 10), size)


def test_a_planned_window_gives_views() -> None:
    rows = Rows(np.arange(5)[None], np.zeros(5, np.int64))
    window: Window = PlannedWindow(rows, np.array([0, 2, 2, 5]))
    assert [len(batch) for batch in window] == [2, 0, 3]
    assert np.shares_memory(window.rows(2).ids, rows.ids)


def test_plans_of_batches_can_be_pickled() -> None:
    plan = FixedBatches(Shuffle(Leaf(0, 10), 3), 4, drop_remainder=True)
    assert batches(pickle.loads(pickle.dumps(plan)), 1) == batches(plan, 1)
