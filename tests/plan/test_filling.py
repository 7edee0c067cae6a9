"""Buckets that fill as records arrive, against those that are planned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PlanError
from headrace.plan import Blocks, BucketBatches, Filling, Leaf, Repeat


def arrived(lengths: list[int], cuts: list[int], filling: Filling, drop: bool) -> list[list[int]]:
    """The batches of records that come in pieces."""
    pending: dict[int, list[int]] = {}
    batches = []
    for start, stop in zip([0, *cuts], [*cuts, len(lengths)], strict=True):
        full, left = filling.add(np.array(lengths[start:stop], np.int64))
        for bucket, places in full:
            batches.append(pending.pop(bucket, []) + [start + place for place in places])
        for bucket, places in left:
            pending.setdefault(bucket, []).extend(start + place for place in places)
    rest = [] if drop else [pending[bucket] for bucket in filling.rest()]
    assert set(filling.rest()) == set(pending)
    return batches + rest


@given(
    st.lists(st.integers(0, 40), max_size=80),
    st.lists(st.integers(0, 80), max_size=6),
    st.lists(st.integers(0, 40), unique=True, max_size=5).map(sorted),
    st.none() | st.integers(1, 9),
    st.integers(1, 120),
    st.booleans(),
)
def test_filling_gives_what_is_planned(
    lengths: list[int], cuts: list[int], boundaries: list[int], size: int | None, tokens: int, drop: bool
) -> None:
    limits = {"batch_size": size, "max_tokens": tokens if size is None else None}
    known = np.array(lengths, np.int64)
    planned = BucketBatches(
        Leaf(0, len(lengths)),
        lambda rows: known[rows.ids[0]],
        **limits,
        boundaries=boundaries,
        window=None,
        drop_remainder=drop,
    )
    expected = [rows.ids[0].tolist() for rows in planned.window(0, 0)] if lengths else []
    cuts = sorted(min(cut, len(lengths)) for cut in cuts)
    assert arrived(lengths, cuts, Filling(**limits, boundaries=boundaries), drop) == expected


@given(st.lists(st.integers(0, 40), max_size=80), st.booleans(), st.lists(st.integers(0, 80), max_size=4))
def test_buckets_may_have_sizes_of_their_own(lengths: list[int], drop: bool, cuts: list[int]) -> None:
    sizes, edges, known = [4, 3, 1], [8, 20], np.array(lengths, np.int64)
    expected, buckets = [], [[], [], []]  # type: tuple[list[list[int]], list[list[int]]]
    for number, length in enumerate(lengths):
        bucket = sum(edge <= length for edge in edges)
        buckets[bucket].append(number)
        if len(buckets[bucket]) == sizes[bucket]:
            expected.append(buckets[bucket][:])
            buckets[bucket].clear()
    expected += [] if drop else [bucket for bucket in buckets if bucket]
    planned = BucketBatches(
        Leaf(0, len(lengths)),
        lambda rows: known[rows.ids[0]],
        batch_size=sizes,
        boundaries=edges,
        window=None,
        drop_remainder=drop,
    )
    assert [rows.ids[0].tolist() for rows in (planned.window(0, 0) if lengths else [])] == expected
    assert planned.num_batches(0) == len(expected)
    cuts = sorted(min(cut, len(lengths)) for cut in cuts)
    assert arrived(lengths, cuts, Filling(sizes, None, edges), drop) == expected


def test_a_size_for_each_bucket() -> None:
    for sizes, message in (([2], "for each of 2 buckets, got 1"), ([2, 0], "batch_size is at least 1, got 0")):
        with pytest.raises(PlanError, match=message):
            BucketBatches(Leaf(0, 3), lambda rows: rows.ids[0], batch_size=sizes, boundaries=[1], window=None)


@given(st.integers(0, 50), st.integers(1, 9), st.none() | st.integers(1, 20))
def test_blocks_share_out_each_span(n: int, size: int, span: int | None) -> None:
    plan = Blocks(Leaf(0, n), size, span)
    windows = plan.num_windows(0)
    assert windows is not None
    blocks = [plan.window(0, i).rows(0).ids[0].tolist() for i in range(windows)]
    assert [number for block in blocks for number in block] == list(range(n))
    for index, block in enumerate(blocks):
        assert 1 <= len(block) <= size
        assert {number // (span or 1000) for number in block} == {plan.span_of(index)}
        assert plan.first_of(plan.span_of(index)) <= index
    firsts = {plan.first_of(plan.span_of(index)) for index in range(windows)}
    assert [blocks[first][0] for first in sorted(firsts)] == list(range(0, n, span or 1000))


def test_blocks_of_endless_plans_have_spans_too() -> None:
    plan = Blocks(Repeat(Leaf(0, 5), None), 3, 4)
    assert plan.num_windows(0) is None
    assert [plan.window(0, i).rows(0).ids[0].tolist() for i in range(4)] == [[0, 1, 2], [3], [4, 0, 1], [2]]
