"""The shuffles: golden orders, agreement with the specification, and the rules that plans add to it."""

from __future__ import annotations

import pathlib
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import _native
from headrace.errors import PlanError
from headrace.plan import Leaf, Repeat, Shuffle, Slice, WindowShuffle, Zip, seed_key
from tests.plan import permutation_spec as spec
from tests.plan.models import numbers, order

SPEC = pathlib.Path(__file__).parents[2] / "docs" / "specs" / "permutation.md"

# Users rely on these orders: they may never change. A new algorithm gets a new version and a table of its own.
GOLDEN = [
    (7, 0, 0, 10, range(10), [7, 6, 9, 0, 4, 3, 1, 5, 2, 8]),
    (7, 1, 0, 10, range(10), [6, 4, 8, 2, 7, 1, 3, 9, 0, 5]),
    (7, 0, 1, 10, range(10), [2, 5, 0, 6, 7, 1, 3, 8, 9, 4]),
    (2**64 - 1, 0, 0, 10, range(10), [3, 1, 5, 2, 8, 4, 7, 9, 0, 6]),
    (0, 0, 0, 300, range(12), [290, 54, 44, 88, 109, 244, 141, 293, 294, 152, 225, 27]),
    (1, 2, 0, 10**6, range(8), [771087, 608885, 19873, 853669, 441664, 347899, 664312, 760438]),
    (
        1,
        2,
        3,
        2**48,
        [0, 1, 2, 2**48 - 1],
        [42296697834382, 148181472246692, 111855843384923, 261607594363204],
    ),
]

seeds = st.integers(0, 2**64 - 1)
epochs = st.integers(0, 2**63 - 1)


def positions(values: object) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(list(values), np.int64)  # type: ignore[call-overload]


@pytest.mark.parametrize(("seed", "epoch", "stream", "n", "where", "expected"), GOLDEN)
def test_golden_orders(seed: int, epoch: int, stream: int, n: int, where: range, expected: list[int]) -> None:
    assert _native.permute(seed, epoch, stream, n, positions(where)).tolist() == expected


def test_the_specification_shows_the_golden_orders() -> None:
    text = SPEC.read_text()
    for *_, expected in GOLDEN:
        assert f"| {' '.join(map(str, expected))} |" in text


@pytest.mark.parametrize(("seed", "epoch", "stream", "n", "where", "expected"), GOLDEN)
def test_the_slow_implementation_gives_the_golden_orders(
    seed: int, epoch: int, stream: int, n: int, where: range, expected: list[int]
) -> None:
    slow = spec.Permutation(seed, epoch, stream, n)
    assert [slow[i] for i in where] == expected


@given(seeds, epochs, epochs, st.integers(1, 2**48), st.data())
def test_any_position_is_as_specified(seed: int, epoch: int, stream: int, n: int, data: st.DataObject) -> None:
    where = data.draw(st.lists(st.integers(0, n - 1), max_size=20))
    slow = spec.Permutation(seed, epoch, stream, n)
    assert _native.permute(seed, epoch, stream, n, positions(where)).tolist() == [slow[i] for i in where]


@given(seeds, epochs, st.integers(0, 3000))
def test_every_value_comes_once(seed: int, epoch: int, n: int) -> None:
    values = _native.permute(seed, epoch, 0, n, np.arange(n))
    assert sorted(values.tolist()) == list(range(n))


@pytest.mark.parametrize("bits", range(8, 18))
@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_every_value_comes_once_beside_powers_of_two(bits: int, beside: int) -> None:
    n = (1 << bits) + beside
    values = _native.permute(5, 6, 7, n, np.arange(n))
    assert (np.bincount(values, minlength=n) == 1).all()


@given(seeds, st.integers(0, 9), st.integers(1, 400), st.integers(1, 120))
def test_windows_are_as_specified(seed: int, epoch: int, n: int, window: int) -> None:
    values = _native.permute_windows(seed, epoch, window, n, np.arange(n))
    assert values.tolist() == spec.windows(seed, epoch, window, n)


@given(seeds, st.integers(1, 60), st.integers(1, 20), st.data())
def test_windows_take_an_epoch_for_each_position(seed: int, n: int, window: int, data: st.DataObject) -> None:
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, n - 1)), max_size=40))
    given_epochs = positions(epoch for epoch, _ in pairs)
    values = _native.permute_windows(seed, given_epochs, window, n, positions(p for _, p in pairs))
    whole = [spec.windows(seed, epoch, window, n) for epoch in range(4)]
    assert values.tolist() == [whole[epoch][p] for epoch, p in pairs]


@pytest.mark.parametrize("bad", [-1, 10, 2**62, -(2**63)])
def test_the_native_code_refuses_positions_outside(bad: int) -> None:
    for call in (
        lambda: _native.permute(0, 0, 0, 10, positions([3, bad])),
        lambda: _native.permute_windows(0, 0, 4, 10, positions([3, bad])),
        lambda: _native.permute_windows(0, positions([0, 1]), 4, 10, positions([3, bad])),
        lambda: _native.check_positions(positions([3, bad]), 10),
    ):
        with pytest.raises(IndexError, match=rf"position {bad} is outside \[0, 10\)"):
            call()


def test_the_native_code_refuses_sizes_that_make_no_sense() -> None:
    none = positions([])
    with pytest.raises(ValueError, match=r"at most 2\^48 positions, got 281474976710657"):
        _native.permute(0, 0, 0, 2**48 + 1, none)
    with pytest.raises(ValueError, match=r"between 1 and 2\^48 positions, got 0"):
        _native.permute_windows(0, 0, 0, 10, none)
    with pytest.raises(ValueError, match="one epoch for each of 2 positions, got 3"):
        _native.permute_windows(0, positions([0, 0, 0]), 4, 10, positions([1, 2]))


# seeds ----------------------------------------------------------------------------------------------------------------


@given(st.integers())
def test_seeds_are_reduced_as_specified(seed: int) -> None:
    assert seed_key(seed) == spec.seed_key(seed)


@given(st.integers(-(2**200), 2**200))
def test_large_and_negative_seeds_are_reduced_as_specified(seed: int) -> None:
    assert seed_key(seed) == spec.seed_key(seed)


def test_golden_keys_of_seeds() -> None:
    assert seed_key(-7) == 8581286081765471666
    assert seed_key(2**64) == 3400964856525257824
    assert seed_key(-(2**70)) == 18434339270544255070


def test_neighbouring_seeds_of_any_size_give_different_orders() -> None:
    around = [0, 2**63, 2**64, -(2**63), -(2**64), 2**128]
    orders = {tuple(order(Shuffle(Leaf(0, 30), base + step))) for base in around for step in (-2, -1, 0, 1, 2)}
    assert len(orders) == 5 * len(around)


@pytest.mark.parametrize("seed", [1.5, "7", None])
def test_seeds_are_whole_numbers(seed: object) -> None:
    with pytest.raises(PlanError, match=re.escape(f"a seed is a whole number, got {seed!r}")):
        Shuffle(Leaf(0, 3), seed)  # type: ignore[arg-type]


# plans ----------------------------------------------------------------------------------------------------------------


def test_golden_order_of_a_plan() -> None:
    plan = Shuffle(Leaf(0, 10), seed=7)
    assert order(plan, 0) == [7, 6, 9, 0, 4, 3, 1, 5, 2, 8]
    assert order(plan, 1) == [6, 4, 8, 2, 7, 1, 3, 9, 0, 5]
    assert order(WindowShuffle(Leaf(0, 10), seed=7, window=4)) == [1, 3, 2, 0, 5, 6, 7, 4, 8, 9]


@given(st.integers(0, 200), st.integers(), st.integers(0, 5), st.integers(1, 250))
def test_windows_keep_to_themselves(n: int, seed: int, epoch: int, window: int) -> None:
    values = order(WindowShuffle(Leaf(0, n), seed, window), epoch)
    for start in range(0, n, window):
        assert sorted(values[start : start + window]) == list(range(start, min(start + window, n)))
    if window >= n:
        assert values == order(Shuffle(Leaf(0, n), seed), epoch)


def test_an_endless_plan_can_be_shuffled_in_windows() -> None:
    plan = WindowShuffle(Leaf(0, None), seed=3, window=8)
    far = plan.locate(0, np.arange(8 * 10**12, 8 * 10**12 + 8)).ids[0]
    assert plan.length is None
    assert sorted(far.tolist()) == list(range(8 * 10**12, 8 * 10**12 + 8))


def test_each_repetition_has_its_own_order() -> None:
    inner = Shuffle(Leaf(0, 20), seed=7)
    twice = order(Repeat(inner, 2), epoch=1)
    assert twice == order(inner, 2) + order(inner, 3)
    endless = Slice(Repeat(inner, None), stop=40)
    assert order(endless, 0) == order(inner, 0) + order(inner, 1)
    assert order(endless, 1) == order(inner, 1 << 32) + order(inner, (1 << 32) + 1)


def test_the_largest_shuffle_can_be_asked_anywhere() -> None:
    plan = Shuffle(Leaf(0, 2**48), seed=0)
    rows = plan.locate(0, np.array([0, 2**47, 2**48 - 1]))
    assert len(set(rows.ids[0].tolist())) == 3


def test_shuffles_of_what_cannot_be_shuffled_are_refused() -> None:
    with pytest.raises(PlanError, match="shuffle needs a plan of known length, got an endless one; give it a window"):
        Shuffle(Leaf(0, None), 1)
    with pytest.raises(PlanError, match=r"shuffle orders at most 2\^48 records, got 281474976710657"):
        Shuffle(Repeat(Leaf(0, 1), 2**48 + 1), 1)
    with pytest.raises(PlanError, match="shuffle: window is at least 1, got 0"):
        WindowShuffle(Leaf(0, 5), 1, 0)
    with pytest.raises(PlanError, match=r"shuffle: window is an integer, got 2\.5"):
        WindowShuffle(Leaf(0, 5), 1, 2.5)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="shuffle: window is at most 281474976710656, got 562949953421312"):
        WindowShuffle(Leaf(0, 5), 1, 2**49)


def test_shuffles_can_be_pickled() -> None:
    for plan in (Shuffle(Leaf(0, 9), -3), WindowShuffle(Zip([Leaf(0, 9), Leaf(1, 9)]), 4, 5)):
        assert repr(plan) == f"<{type(plan).__name__}, length 9>"
        assert numbers(pickle.loads(pickle.dumps(plan)), 2) == numbers(plan, 2)
