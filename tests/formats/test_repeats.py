"""Tests of finding keys that come again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.repeats import find_repeats


def model(keys: list[int], runs: list[int] | None = None) -> list[tuple[int, int]]:
    """Repeats, found one after another: the record again, and the one before it."""
    last: dict[int, int] = {}
    pairs = []
    for record, key in enumerate(keys):
        if key in last and (runs is None or runs[last[key]] != runs[record]):
            pairs.append((record, last[key]))
        last[key] = record
    return pairs


def found(keys: list[int], runs: list[int] | None = None) -> list[tuple[int, int]]:
    numbers = None if runs is None else np.array(runs, np.int64)
    again, before = find_repeats(np.array(keys, np.uint64), numbers)
    return list(zip(again.tolist(), before.tolist(), strict=True))


@pytest.mark.parametrize("keys", [[], [1], [1, 2, 3], [3, 1, 2], [1, 1], [5, 3, 5, 3, 5, 0]])
def test_repeats_of_few_keys(keys: list[int]) -> None:
    assert found(keys) == model(keys)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=20))
def test_repeats_are_those_found_one_by_one(pairs: list[tuple[int, int]]) -> None:
    keys, runs = [key for key, _ in pairs], sorted(run for _, run in pairs)
    assert found(keys) == model(keys)
    assert found(keys, runs) == model(keys, runs)
