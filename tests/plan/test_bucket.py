"""Batches of like length, against a naive model that fills lists."""

from __future__ import annotations

import pickle
import re
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace import _native
from headrace.errors import PlanError
from headrace.plan import BucketBatches, Leaf, Plan, Repeat, Rows, Shuffle, Zip
from tests.plan.models import Record, numbers, parity_lengths
from tests.plan.test_batches import batches

edges = st.lists(st.integers(0, 60), unique=True, max_size=8).map(sorted)


def model(
    rows: list[Record],
    lengths: list[int],
    boundaries: list[int],
    *,
    batch_size: int | None = None,
    max_tokens: int | None = None,
    drop_remainder: bool = False,
) -> list[list[Record]]:
    """The batches of one window."""
    buckets: list[list[int]] = [[] for _ in range(len(boundaries) + 1)]
    out = []

    def tokens(members: list[int]) -> int:
        return len(members) * max(max(lengths[m], 1) for m in members)

    for i, length in enumerate(lengths):
        bucket = buckets[bisect_right(boundaries, length)]
        if max_tokens is not None and bucket and tokens([*bucket, i]) > max_tokens:
            out.append(bucket[:])
            bucket.clear()
        bucket.append(i)
        longest = max(max(lengths[m], 1) for m in bucket)
        if len(bucket) == batch_size or (max_tokens is not None and (len(bucket) + 1) * longest > max_tokens):
            out.append(bucket[:])
            bucket.clear()
    if not drop_remainder:
        out += [bucket for bucket in buckets if bucket]
    return [[rows[i] for i in members] for members in out]


@given(
    st.integers(0, 120),
    edges,
    st.none() | st.integers(1, 50),
    st.booleans(),
    st.sampled_from(["batch_size", "max_tokens"]),
    st.integers(1, 150),
    st.integers(0, 2),
)
def test_batches_are_those_of_the_model(
    n: int, boundaries: list[int], window: int | None, drop: bool, kind: str, limit: int, epoch: int
) -> None:
    source = Shuffle(Leaf(0, n), seed=9)
    size: dict[str, Any] = {kind: limit, "drop_remainder": drop}
    plan = BucketBatches(source, parity_lengths, boundaries=boundaries, window=window, **size)
    rows = numbers(source, epoch)
    lengths = parity_lengths(source.locate(epoch, np.arange(n))).tolist()
    expected = []
    for start in range(0, n, window or max(n, 1)):
        stop = start + (window or n)
        expected += model(rows[start:stop], lengths[start:stop], boundaries, **size)
    assert batches(plan, epoch) == expected
    assert plan.num_batches(epoch) == len(expected)


@given(st.integers(0, 300), edges, st.integers(1, 100), st.integers(1, 20), st.integers(1, 100))
def test_every_record_comes_once(n: int, boundaries: list[int], window: int, size: int, tokens: int) -> None:
    source = Shuffle(Leaf(0, n), seed=4)
    for plan in (
        BucketBatches(source, parity_lengths, batch_size=size, boundaries=boundaries, window=window),
        BucketBatches(source, parity_lengths, max_tokens=tokens, boundaries=boundaries, window=window),
    ):
        seen = sorted(ids[0] for batch in batches(plan) for ids, _ in batch)
        assert seen == list(range(n))


# Saved positions rely on these batches, as they do on the order of shuffles.
GOLDEN_COUNT = "15 6 14|2 11 10|21 12 4|9|18|8|1 17 0|22 16 23|3 19|13 20|7 5"
GOLDEN_TOKENS = "21 12|15|6|14|2 11 10|8|4 13|22|16|23|7|18 3 19|9 1 17 0|20|5"


def test_golden_batches() -> None:
    source = Shuffle(Leaf(0, 24), seed=7)
    plan = BucketBatches(source, parity_lengths, batch_size=3, boundaries=[10, 20, 30], window=12)
    assert as_text(batches(plan)) == GOLDEN_COUNT
    plan = BucketBatches(source, parity_lengths, max_tokens=60, boundaries=[10, 20, 30], window=None)
    assert as_text(batches(plan)) == GOLDEN_TOKENS


def as_text(found: list[list[Record]]) -> str:
    return "|".join(" ".join(str(ids[0]) for ids, _ in batch) for batch in found)


def test_full_batches_are_never_dropped() -> None:
    def fives(rows: Rows) -> NDArray[np.int64]:
        return np.full(len(rows), 5)

    plan = BucketBatches(Leaf(0, 7), fives, max_tokens=15, window=None, drop_remainder=True)
    assert [[ids[0] for ids, _ in batch] for batch in batches(plan)] == [[0, 1, 2], [3, 4, 5]]


def test_a_record_longer_than_the_budget_is_alone() -> None:
    lengths = np.array([3, 50, 4, 60, 3])
    plan = BucketBatches(Leaf(0, 5), lambda rows: lengths[rows.ids[0]], max_tokens=12, window=None)
    assert [[ids[0] for ids, _ in batch] for batch in batches(plan)] == [[0], [1], [2], [3], [4]]


def test_records_without_tokens_count_as_one() -> None:
    plan = BucketBatches(Leaf(0, 5), lambda rows: np.zeros(len(rows), np.int32), max_tokens=2, window=None)
    assert [len(batch) for batch in batches(plan)] == [2, 2, 1]


def test_the_largest_lengths_and_limits_do_not_overflow() -> None:
    longest = np.int32((1 << 31) - 1)
    plan = BucketBatches(
        Leaf(0, 4), lambda rows: np.full(len(rows), longest), max_tokens=1 << 70, boundaries=[5, 1 << 80], window=None
    )
    assert [len(batch) for batch in batches(plan)] == [4]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_lengths_may_be_any_integers(dtype: type[np.integer]) -> None:
    plan = BucketBatches(
        Leaf(0, 9), lambda rows: parity_lengths(rows).astype(dtype), batch_size=2, boundaries=[20], window=None
    )
    expected = BucketBatches(Leaf(0, 9), parity_lengths, batch_size=2, boundaries=[20], window=None)
    assert batches(plan) == batches(expected)


def test_endless_plans_are_bucketed_window_by_window() -> None:
    plan = BucketBatches(Repeat(Leaf(0, 10), None), parity_lengths, batch_size=4, boundaries=[20], window=25)
    assert plan.num_windows(0) is plan.num_batches(0) is None
    assert sum(len(rows) for rows in plan.window(0, 1000)) == 25


def test_records_of_zips_stay_together() -> None:
    pair = Zip([Leaf(0, 6), Leaf(1, 6)])
    plan = BucketBatches(pair, parity_lengths, batch_size=4, boundaries=[20], window=None)
    seen = sorted(record for batch in batches(plan) for record in batch)
    assert seen == numbers(pair)


class Counting(Plan):
    """Counts how often it is asked."""

    def __init__(self, n: int) -> None:
        self.length = n
        self.slots = 1
        self.calls = 0

    def _locate(self, epochs: Any, positions: NDArray[np.int64]) -> Rows:
        self.calls += 1
        return Rows(positions[None], np.full(len(positions), epochs))

    def describe(self) -> str:
        return "counting()"


def test_a_window_is_located_once() -> None:
    source = Counting(100)
    plan = BucketBatches(source, parity_lengths, batch_size=4, boundaries=[20], window=50)
    window = plan.window(0, 0)
    for j in range(len(window)):
        window.rows(j)
    assert source.calls == 1


def test_batches_of_an_epoch_are_counted_once_and_for_few_epochs() -> None:
    source = Counting(100)
    plan = BucketBatches(source, parity_lengths, batch_size=4, boundaries=[20], window=50)
    assert {plan.num_batches(0) for _ in range(5)} == {len(batches(plan))}
    assert source.calls == 4
    for epoch in range(1, 20):
        plan.num_batches(epoch)
    assert len(plan._batches) <= 4
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(plan.num_batches, [epoch % 7 for epoch in range(200)]))
    assert len(set(counts)) == 1


def test_plans_can_be_pickled() -> None:
    plan = BucketBatches(Leaf(0, 30), parity_lengths, batch_size=4, boundaries=[10, 20], window=15)
    plan.num_batches(0)
    again = pickle.loads(pickle.dumps(plan))
    assert batches(again, 1) == batches(plan, 1)
    assert again.num_batches(0) == plan.num_batches(0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "bucket needs batch_size or max_tokens, one of them, got batch_size=None, max_tokens=None"),
        (
            {"batch_size": 3, "max_tokens": 4},
            "one of them, got batch_size=3, max_tokens=4",
        ),
        ({"batch_size": 0}, "bucket: batch_size is at least 1, got 0"),
        ({"max_tokens": -5}, "bucket: max_tokens is at least 1, got -5"),
        ({"batch_size": 1.5}, "bucket: batch_size is an integer, got 1.5"),
        ({"batch_size": 3, "boundaries": [5, 3]}, "bucket: boundaries ascend from 0 on, got 5 before 3"),
        ({"batch_size": 3, "boundaries": [5, 5]}, "bucket: boundaries ascend from 0 on, got 5 before 5"),
        ({"batch_size": 3, "boundaries": [-1, 5]}, "bucket: boundaries is at least 0, got -1"),
        ({"batch_size": 3, "boundaries": [1.5]}, "bucket: boundaries is an integer, got 1.5"),
        ({"batch_size": 3, "window": 0}, "bucket: window is at least 1, got 0"),
        ({"batch_size": 3, "plan": Leaf(0, None)}, "bucket needs a window for a plan that is endless"),
    ],
)
def test_what_cannot_work_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        BucketBatches(**{"plan": Leaf(0, 5), "lengths": parity_lengths, "window": None, **arguments})


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (np.zeros(4, np.int32), "one whole number as length for each of 5 records, got int32 of shape (4,)"),
        (np.zeros((5, 1), np.int32), "for each of 5 records, got int32 of shape (5, 1)"),
        (np.zeros(5), "for each of 5 records, got float64 of shape (5,)"),
        (np.array([1, 2, -3, 4, 5]), "lengths in [0, 2^31), got lengths from -3 to 5"),
        (np.array([1, 2, 3, 4, 1 << 31]), "lengths in [0, 2^31), got lengths from 1 to 2147483648"),
    ],
)
def test_lengths_that_are_none_are_refused(lengths: NDArray[Any], message: str) -> None:
    plan = BucketBatches(Leaf(0, 5), lambda rows: lengths, batch_size=2, window=None)
    for call in (lambda: plan.window(0, 0), lambda: plan.num_batches(0)):
        with pytest.raises(PlanError, match=re.escape(message)):
            call()


def test_the_native_code_refuses_what_would_break_it() -> None:
    buckets = np.array([0, 1, 2], np.int32)
    with pytest.raises(IndexError, match=r"record 2 is in bucket 2, expected one of 2"):
        _native.group_by_count(buckets, 2, 4, False)
    with pytest.raises(IndexError, match=r"record 0 is in bucket -1"):
        _native.group_by_count(buckets - 1, 4, 4, False)
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        _native.group_by_count(buckets, 3, 0, False)
    with pytest.raises(ValueError, match="max_tokens must be at least 1, got -1"):
        _native.group_by_tokens(buckets, buckets, 3, -1, False)
    with pytest.raises(ValueError, match="as many lengths as buckets, got 2 and 3"):
        _native.group_by_tokens(buckets, buckets[:2], 3, 5, False)


@pytest.mark.parametrize("count", [10, 10_000])
def test_buckets_are_found_as_by_bisection(count: int) -> None:
    lengths = np.random.default_rng(0).integers(-5, 9000, count).astype(np.int32)
    boundaries = np.array([0, 1, 7, 100, 4095, 4096, 4097, 8000])
    found = _native.find_buckets(lengths, boundaries)
    assert found.tolist() == [bisect_right(boundaries.tolist(), length) for length in lengths.tolist()]
