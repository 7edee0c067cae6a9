"""Interleaving: agreement with the machine by which tf.data is documented, and access to any position."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PlanError
from headrace.plan import LEAF_SHIFT, Interleave, Leaf, Plan, Repeat, Shuffle, Zip
from tests.plan.models import leaves, numbers, order


def model(lengths: list[int], cycle: int, block: int) -> list[tuple[int, int]]:
    """The plan and record at each position: slots that are filled, give, and are left, step by step."""
    waiting, slots = list(range(len(lengths))), [-1] * cycle
    taken, found = [0] * len(lengths), []
    slot = given = 0
    while waiting or max(slots) >= 0:
        if slots[slot] < 0 and waiting:
            slots[slot] = waiting.pop(0)
        plan = slots[slot]
        if plan < 0:
            slot, given = (slot + 1) % cycle, 0
        elif taken[plan] == lengths[plan]:
            slots[slot] = -1
            slot, given = (slot + 1) % cycle, 0
        else:
            found.append((plan, taken[plan]))
            taken[plan] += 1
            given += 1
            if given == block:
                slot, given = (slot + 1) % cycle, 0
    return found


def pairs(plan: Plan) -> list[tuple[int, int]]:
    return list(zip(leaves(plan), order(plan), strict=True))


lists = st.lists(st.integers(0, 9), min_size=1, max_size=9)


@given(lists, st.integers(1, 10), st.integers(1, 10))
def test_interleaving_is_as_documented(lengths: list[int], cycle: int, block: int) -> None:
    plan = Interleave([Leaf(i, n) for i, n in enumerate(lengths)], cycle, block)
    assert plan.length == sum(lengths)
    assert pairs(plan) == model(lengths, cycle, block)


def test_the_example_of_the_documentation_of_tf_data() -> None:
    plan = Interleave([Leaf(i, 6) for i in range(5)], cycle_length=2, block_length=4)
    assert "".join(str(i + 1) for i in leaves(plan)) == "111122221122333344443344555555"


@given(lists, st.integers(1, 10), st.integers(1, 10), st.lists(st.integers(0, 80), max_size=30))
def test_any_positions_can_be_asked_for(lengths: list[int], cycle: int, block: int, some: list[int]) -> None:
    plan = Interleave([Leaf(i, n) for i, n in enumerate(lengths)], cycle, block)
    whole = numbers(plan, epoch=2)
    positions = [position for position in some if position < len(whole)]
    rows = plan.locate(2, np.array(positions, np.int64))
    found = [((int(i),), int(p)) for i, p in zip(rows.ids[0], rows.passes, strict=True)]
    assert found == [whole[position] for position in positions]


def test_many_plans_are_found_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [i * 7 % 23 for i in range(60)]
    expected = model(lengths, 60, 3)
    monkeypatch.setattr("headrace.plan.interleave._LARGEST_TABLE", 200)
    assert pairs(Interleave([Leaf(i, n) for i, n in enumerate(lengths)], block_length=3)) == expected


def test_endless_plans_keep_their_slots() -> None:
    endless = Repeat(Leaf(0, 2), None)
    plan = Interleave([endless, Leaf(1, 1), Leaf(2, 3)], cycle_length=2)
    assert plan.length is None
    assert leaves(plan, stop=9) == [0, 1, 0, 0, 2, 0, 2, 0, 2]
    never = Interleave([endless, endless, Leaf(1, 5)], cycle_length=2, block_length=2)
    assert leaves(never, stop=8) == [0] * 8
    far = np.array([1 << 61, (1 << 61) + 1])
    assert (plan.locate(0, far).ids[0] >> LEAF_SHIFT).tolist() == [0, 0]
    assert leaves(Interleave([endless, Leaf(1, 1)], block_length=1 << 70), stop=5) == [0] * 5


def test_huge_plans_cost_nothing() -> None:
    n = 1 << 47
    plan = Interleave([Leaf(i, n) for i in range(3)], cycle_length=2, block_length=1 << 20)
    rows = plan.locate(0, np.array([3 * n - 1, 2 * n, (1 << 20) - 1, 1 << 20]))
    assert [(int(i) >> LEAF_SHIFT, int(i) & (1 << LEAF_SHIFT) - 1) for i in rows.ids[0]] == [
        (2, n - 1),
        (2, 0),
        (0, (1 << 20) - 1),
        (1, 0),
    ]


def test_shuffled_plans_have_another_order_each_epoch() -> None:
    plan = Interleave([Shuffle(Leaf(i, 50), seed=i) for i in range(2)])
    first, second = order(plan, 0), order(plan, 1)
    assert first != second
    assert sorted(first) == sorted(second)
    assert numbers(pickle.loads(pickle.dumps(plan)), 1) == numbers(plan, 1)


def test_bad_arguments_are_named() -> None:
    leaf = Leaf(0, 3)
    for arguments, message in (
        ({"plans": []}, "interleave needs at least one plan"),
        ({"plans": [leaf, Zip([leaf, leaf])]}, "interleave needs records of one structure"),
        ({"plans": [leaf], "cycle_length": 0}, "interleave: cycle_length is at least 1, got 0"),
        ({"plans": [leaf], "block_length": 0}, "interleave: block_length is at least 1, got 0"),
        ({"plans": [Repeat(leaf, 1 << 60), Repeat(leaf, 1 << 60)]}, "at most 2\\^62 records"),
    ):
        with pytest.raises(PlanError, match=message):
            Interleave(**arguments)
