"""Mixtures: proportions, ends, and agreement with a naive model."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _native
from headrace.errors import PlanError
from headrace.plan import LEAF_SHIFT, Leaf, Mix, Repeat, Shuffle, Slice, Zip
from tests.plan import permutation_spec as spec
from tests.plan.models import leaves, numbers, order, records

Stop = Literal["first", "all"]
seeds = st.none() | st.integers()


def model(counts: list[int], lengths: list[int], seed: int | None, epoch: int, stop: Stop) -> list[tuple[int, int]]:
    """The leaf and record at each position, by playing the mixture through."""
    unshuffled = spec.mix_choices(counts, None, 0, 40 * sum(counts) + sum(counts) * max(lengths))
    taken, end = [0] * len(counts), 0
    for plan in unshuffled:
        if stop == "first" and taken[plan] == lengths[plan]:
            break
        if stop == "all" and all(t >= n for t, n in zip(taken, lengths, strict=True)):
            break
        taken[plan] += 1
        end += 1
    taken = [0] * len(counts)
    rows = []
    for plan in spec.mix_choices(counts, seed, epoch, end):
        rows.append((plan, taken[plan] % max(lengths[plan], 1)))
        taken[plan] += 1
    return rows


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), seeds, st.integers(0, 3), st.data())
def test_mixtures_are_as_specified(counts: list[int], seed: int | None, epoch: int, data: st.DataObject) -> None:
    stop: Stop = data.draw(st.sampled_from(("first", "all")))
    lengths = data.draw(st.lists(st.integers(1, 40), min_size=len(counts), max_size=len(counts)))
    divisor = np.gcd.reduce(counts)
    plan = Mix([Leaf(i, n) for i, n in enumerate(lengths)], counts, seed, stop)
    expected = model([int(c // divisor) for c in counts], lengths, seed, epoch, stop)
    got = [(ids[0] >> LEAF_SHIFT, ids[0] & ((1 << LEAF_SHIFT) - 1)) for ids, _ in numbers(plan, epoch)]
    assert got == expected


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=4), seeds, st.data())
def test_any_positions_agree_with_the_whole(weights: list[float], seed: int | None, data: st.DataObject) -> None:
    plan = Mix([Shuffle(Leaf(i, 60), i) for i in range(len(weights))], weights, seed, "all")
    assert plan.length is not None
    some = data.draw(st.lists(st.integers(0, plan.length - 1), max_size=30))
    whole = numbers(plan, 1)
    assert records(plan.locate(1, np.array(some, np.int64))) == [whole[i] for i in some]
    assert numbers(pickle.loads(pickle.dumps(plan)), 1) == whole


def test_golden_mixture() -> None:
    parts = [Leaf(i, 100) for i in range(3)]
    pattern = [0, 1, 2, 0, 0, 1, 0, 2, 1, 0]
    assert leaves(Mix(parts, [5, 3, 2]), stop=20) == pattern * 2
    shuffled = Mix(parts, [5, 3, 2], seed=7)
    assert leaves(shuffled, stop=20) == [0, 2, 0, 1, 1, 0, 2, 0, 0, 1, 1, 2, 1, 1, 0, 2, 0, 0, 0, 0]
    assert order(shuffled, stop=10) == [0, 0, 1, 0, 1, 2, 1, 3, 4, 2]


@pytest.mark.parametrize(
    ("weights", "exact"),
    [
        ([0.7, 0.3], [7, 3]),
        ([1 / 3, 2 / 3], [1, 2]),
        ([1, 2, 3.5], [2, 4, 7]),
        ([0.1] * 10, [1] * 10),
        ([1e-3, 999e-3], [1, 999]),
        ([3e300, 1e300], [3, 1]),
        ([5e-300, 10e-300], [1, 2]),
        ([4095, 1], [4095, 1]),
        ([np.float32(0.5), np.int64(1)], [1, 2]),
    ],
)
def test_simple_proportions_are_exact(weights: list[float], exact: list[int]) -> None:
    whole = sum(exact)
    for seed in (None, 3):
        mixed = Mix([Leaf(i, None) for i in range(len(weights))], weights, seed)
        for start in (0, 7 * whole):
            rows = mixed.locate(0, np.arange(start, start + whole))
            assert np.bincount(rows.ids[0] >> LEAF_SHIFT).tolist() == exact


@pytest.mark.parametrize("weights", [[0.123456789, 1], [1, 1e-9, 1e-9], [np.pi, np.e, 1, 2**0.5], [4096.0, 1]])
def test_other_proportions_are_near(weights: list[float]) -> None:
    mixed = Mix([Leaf(i, None) for i in range(len(weights))], weights, seed=1)
    counts = np.bincount(np.array(leaves(mixed, stop=4096)), minlength=len(weights))
    shares = np.array(weights) / sum(weights) * 4096
    assert counts.sum() == 4096
    assert counts.min() >= 1
    assert np.abs(counts - shares).max() < len(weights)


@given(st.lists(st.integers(1, 50), min_size=2, max_size=5), st.integers())
def test_proportions_hold_in_every_stretch(counts: list[int], seed: int) -> None:
    mixed = Mix([Leaf(i, None) for i in range(len(counts))], counts, seed)
    chosen = np.array(leaves(mixed, stop=640))
    for plan, count in enumerate(counts):
        so_far = np.cumsum(chosen == plan)[63::64]
        share = np.arange(64, 641, 64) * count / sum(counts)
        assert np.abs(so_far - share).max() < 64


def test_each_epoch_has_choices_of_its_own() -> None:
    mixed = Mix([Leaf(0, 500), Leaf(1, 500)], [1, 1], seed=5)
    assert leaves(mixed, 0) != leaves(mixed, 1)
    assert Counter(leaves(mixed, 0)) == Counter(leaves(mixed, 1)) == {0: 500, 1: 500}


def test_a_mixture_ends_with_its_first_or_its_last_plan() -> None:
    parts = [Leaf(0, 4), Shuffle(Leaf(1, 10), seed=2)]
    first, whole = Mix(parts, [1, 1], seed=0), Mix(parts, [1, 1], seed=0, stop="all")
    assert first.length == 8
    assert Counter(leaves(first)) == {0: 4, 1: 4}
    assert whole.length == 20
    assert Counter(ids for ids, _ in numbers(whole)) == {
        **{(i,): 3 if i < 2 else 2 for i in range(4)},
        **{((1 << LEAF_SHIFT) + i,): 1 for i in range(10)},
    }


def test_plans_that_start_again_are_in_another_pass() -> None:
    mixed = Mix([Leaf(0, 2), Leaf(1, 6)], [1, 1], stop="all")
    passes = [[p for ids, p in numbers(mixed, epoch) if ids[0] < 2] for epoch in (0, 1)]
    assert passes == [[0, 0, 1, 1, 2, 2], [3, 3, 4, 4, 5, 5]]


def test_endless_plans_in_mixtures() -> None:
    endless = Repeat(Leaf(0, 3), None)
    assert Mix([endless, Leaf(1, 5)], [1, 1]).length == 11
    assert Mix([endless, Leaf(1, 5)], [1, 1], stop="all").length is None
    assert Mix([endless, endless], [1, 1]).length is None
    assert order(Mix([Leaf(0, None), Leaf(1, 2)], [1, 1], stop="all"), stop=6) == [0, 0, 1, 1, 2, 0]


def test_an_empty_plan_ends_a_mixture_where_its_turn_comes() -> None:
    assert Mix([Leaf(0, 0), Leaf(1, 5)], [1, 1]).length == 0
    assert Mix([Leaf(0, 5), Leaf(1, 0)], [1, 1]).length == 1


def test_mixtures_of_zips_and_slices() -> None:
    pair = Zip([Leaf(0, 4), Leaf(1, 4)])
    mixed = Mix([pair, Slice(pair, 2)], [1, 1])
    assert mixed.slots == 2
    assert [ids[0] for ids, _ in numbers(mixed)] == [0, 2, 1, 3, 2]


def test_a_mixture_below_a_repeat_and_a_shuffle() -> None:
    mixed = Mix([Leaf(0, 6), Leaf(1, 3)], [2, 1], seed=4)
    repeated = numbers(Repeat(mixed, 2), 1)
    assert repeated == numbers(mixed, 2) + numbers(mixed, 3)
    assert sorted(numbers(Shuffle(mixed, 1))) == sorted(numbers(mixed))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": [1]}, "mix needs a weight for each part, one part at least, got 1 for 2"),
        ({"weights": 5}, "mix: weights is a list of numbers, one for each part, got 5"),
        ({"weights": [1, 0]}, "mix needs positive, finite weights, got 0 in place 1"),
        ({"weights": [-0.5, 1]}, "mix needs positive, finite weights, got -0.5 in place 0"),
        ({"weights": [1, float("nan")]}, "mix needs positive, finite weights, got nan in place 1"),
        ({"weights": [1, float("inf")]}, "mix needs positive, finite weights, got inf in place 1"),
        ({"weights": [1, "2"]}, "mix needs positive, finite weights, got '2' in place 1"),
        ({"weights": [1, 1], "stop": "last"}, "mix: stop is one of 'first', 'all', got 'last'"),
        ({"weights": [1, 1], "seed": 0.5}, "mix: seed is an integer, got 0.5"),
        ({"weights": [1, 1], "plans": [Leaf(0, 1), Leaf(1, 0)], "stop": "all"}, "but plan 1 has no records"),
        ({"weights": [], "plans": []}, "mix needs a weight for each part, one part at least, got 0 for 0"),
        ({"weights": [1, 1], "plans": [Leaf(0, 1), Zip([Leaf(1, 1)] * 2)]}, "one structure, got zips of [1, 2]"),
        ({"weights": [1] * 1025, "plans": [Leaf(0, 1)] * 1025}, "mix takes at most 1024 parts, got 1025"),
    ],
)
def test_what_cannot_work_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        Mix(**{"plans": [Leaf(0, 5), Leaf(1, 5)], **arguments})


def test_the_native_code_refuses_patterns_that_contradict_themselves() -> None:
    one, none = np.zeros(1, np.int64), np.zeros(0, np.int64)
    choice = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="as many ranks as choices, and at least one"):
        _native.mix_locate(choice, none, one, 0, 0, 1, 5, none)
    with pytest.raises(ValueError, match="the pattern names plan 3 of 1"):
        _native.mix_locate(choice + 3, one, one, 0, 0, 1, 5, none)
    with pytest.raises(ValueError, match="a cell has 1 to 4096 positions, got 0"):
        _native.mix_locate(choice, one, one, 0, 0, 0, 5, none)
    with pytest.raises(IndexError, match=r"position 5 is outside \[0, 5\)"):
        _native.mix_locate(choice, one, one, 0, 0, 1, 5, one + 5)
