"""The plan walked apart: how its records are counted."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.plan import Rows
from headrace.proof.reference import Reference, _counted

records = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2), st.integers(0, 1)), max_size=30)


def rows(of: list[tuple[int, int, int]]) -> Rows:
    table = np.array(of, np.int64).reshape(-1, 3).T
    return Rows(table[:2], table[2])


@given(records, records)
def test_records_are_counted_as_a_dictionary_counts_them(
    wanted: list[tuple[int, int, int]], came: list[tuple[int, int, int]]
) -> None:
    found, of_wanted, of_came = _counted(rows(wanted), rows(came))
    keys = list(zip(*found.ids.tolist(), found.passes.tolist(), strict=True))
    assert len(keys) == len(set(keys)) == len(of_wanted) == len(of_came)
    assert dict(zip(keys, of_wanted.tolist(), strict=True)) == {key: Counter(wanted)[key] for key in keys}
    assert dict(zip(keys, of_came.tolist(), strict=True)) == {key: Counter(came)[key] for key in keys}
    assert set(keys) == {*wanted, *came}


def test_counting_takes_little_memory() -> None:
    count = 200_000
    reference = Reference(hr.from_dataset(range(count)).shuffle(seed=1).batch(1000))
    assert reference.batch(0, count) is None  # all batches have been seen
    tracemalloc.start()
    try:
        assert reference.lost(0) is None
        assert tracemalloc.get_traced_memory()[1] < 200 * count
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("drop", [True, False])
def test_whole_epochs_are_counted(drop: bool) -> None:
    reference = Reference(hr.from_dataset(range(10)).repeat(2).batch(3, drop_remainder=drop))
    assert reference.batch(0, 9) is None
    assert reference.lost(0) is None
    assert reference.counted(0)
