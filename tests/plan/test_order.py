"""Slices, repetitions, chains, zips and gaps, each against a naive model."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PlanError
from headrace.plan import LEAF_SHIFT, Concat, Leaf, Plan, Repeat, Rows, Shuffle, Slice, Widen, Without, Zip
from tests.plan.models import Record, leaves, numbers, order, records

sizes = st.integers(0, 30)
epochs = st.integers(0, 3)


def leaf(number: int, n: int, epoch: int) -> list[Record]:
    """What a leaf answers, by its definition."""
    return [(((number << LEAF_SHIFT) + i,), epoch) for i in range(n)]


# rows -----------------------------------------------------------------------------------------------------------------


def test_rows_can_be_taken_by_slice_and_by_array() -> None:
    rows = Rows(np.array([[1, 2, 3], [4, 5, 6]]), np.array([7, 8, 9]))
    assert len(rows) == 3
    assert records(rows.take(slice(1, 3))) == [((2, 5), 8), ((3, 6), 9)]
    assert records(rows.take(np.array([2, 0, 2]))) == [((3, 6), 9), ((1, 4), 7), ((3, 6), 9)]
    assert np.shares_memory(rows.take(slice(0, 2)).ids, rows.ids)


# leaf -----------------------------------------------------------------------------------------------------------------


@given(st.integers(0, (1 << 15) - 1), sizes, epochs)
def test_a_leaf_gives_its_records_in_order(number: int, n: int, epoch: int) -> None:
    assert numbers(Leaf(number, n), epoch) == leaf(number, n, epoch)


def test_a_leaf_does_not_change_the_positions_it_was_given() -> None:
    positions = np.arange(5)
    Leaf(3, 5).locate(1, positions)
    assert positions.tolist() == [0, 1, 2, 3, 4]


def test_a_stream_has_no_length() -> None:
    assert Leaf(0, None).length is None
    assert order(Leaf(0, None), stop=3) == [0, 1, 2]


# asking ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [-1, 5, 1 << 62])
def test_positions_outside_are_refused(bad: int) -> None:
    for plan in (Leaf(0, 5), Shuffle(Leaf(0, 5), 1), Slice(Leaf(0, 9), 4), Concat([Leaf(0, 2), Leaf(1, 3)])):
        with pytest.raises(IndexError, match=rf"position {bad} is outside \[0, 5\)"):
            plan.locate(0, np.array([0, bad]))


@pytest.mark.parametrize("bad", [-1, 1 << 63])
def test_epochs_outside_are_refused(bad: int) -> None:
    with pytest.raises(PlanError, match=re.escape(f"epochs are numbers in [0, 2^63), got {bad}")):
        Leaf(0, 5).locate(bad, np.arange(2))


def test_positions_may_be_any_integers_in_any_layout() -> None:
    plan = Leaf(0, 10)
    bytes_apart = np.arange(10, dtype=np.uint8)[::3]
    assert plan.locate(0, bytes_apart).ids.tolist() == [[0, 3, 6, 9]]  # type: ignore[arg-type]
    assert plan.locate(np.int64(2), np.array([], np.int32)).ids.shape == (1, 0)  # type: ignore[arg-type]


# slice and shard ------------------------------------------------------------------------------------------------------


@given(sizes, st.integers(0, 40), st.none() | st.integers(0, 40), st.integers(1, 9))
def test_slices_are_those_of_a_list(n: int, start: int, stop: int | None, step: int) -> None:
    plan = Slice(Leaf(2, n), start, stop, step)
    assert numbers(plan, 1) == leaf(2, n, 1)[start:stop:step]
    assert plan.length == len(range(n)[start:stop:step])


def test_slices_of_endless_plans() -> None:
    endless = Repeat(Leaf(0, 3), None)
    assert Slice(endless, 2).length is None
    assert order(Slice(endless, 1, 8, 2)) == [1, 0, 2, 1]
    assert Slice(endless, 5, 2).length == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: Slice(p, stop=-1), "slice: stop is at least 0, got -1"),
        (lambda p: Slice(p, start=-2), "slice: start is at least 0, got -2"),
        (lambda p: Slice(p, step=0), "slice: step is at least 1, got 0"),
        (
            lambda p: Slice(p, start=1.0),  # type: ignore[arg-type]
            "slice: start is an integer, got 1.0",
        ),
        (lambda p: Repeat(p, 0), "repeat: count is at least 1, got 0"),
        (lambda p: Repeat(p, 1 << 62), "repeat gives at most 2^62 records, got 5 * 4611686018427387904"),
        (lambda p: Repeat(Leaf(0, None), 2), "repeat needs a plan of known length, got one that is endless"),
        (lambda p: Repeat(Leaf(0, 0), None), "repeat without a count needs at least one record, got none"),
        (lambda p: Concat([]), "concat needs at least one plan, got none"),
        (lambda p: Concat([p, Zip([p, p])]), "concat needs records of one structure, got zips of [1, 2] sources"),
        (lambda p: Concat([Leaf(0, None), p]), "got an endless one in place 0: what follows would never come"),
        (lambda p: Concat([Repeat(p, 1 << 59)] * 2), "concat gives at most 2^62 records, got 5764607523034234880"),
        (lambda p: Zip([]), "zip needs at least one plan, got none"),
        (
            lambda p: Zip([p, p, Leaf(1, 7)]),
            "zip needs plans of equal length, got 5 records in place 0 and 7 records in place 2; "
            "pass shortest=True to end with the shortest",
        ),
        (lambda p: Zip([p, Leaf(1, None)]), "got 5 records in place 0 and an endless one in place 1"),
        (lambda p: Without(p, np.array([1, 1])), "positions to drop in ascending order, none twice"),
        (lambda p: Without(p, np.array([3, 5])), "drops positions in [0, 5), got positions from 3 to 5"),
        (lambda p: Without(p, np.array([-1, 2])), "drops positions in [0, 5), got positions from -1 to 2"),
        (lambda p: Widen(Zip([p, p]), 1), "widen needs at least the plan's 2 slots, got 1"),
        (lambda p: Leaf(-1, 5), "leaf: its number is at least 0, got -1"),
        (lambda p: Leaf(0, -5), "leaf: records is at least 0, got -5"),
        (lambda p: Leaf(1 << 15, 5), "a plan has at most 32768 sources, got number 32768"),
        (lambda p: Leaf(0, (1 << 48) + 1), "a source has at most 2^48 records, got 281474976710657"),
    ],
)
def test_what_cannot_work_is_refused(make: Callable[[Plan], Plan], message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        make(Leaf(0, 5))


# repeat ---------------------------------------------------------------------------------------------------------------


@given(st.integers(0, 12), st.integers(1, 5), epochs)
def test_repetitions_are_epochs_of_their_own(n: int, count: int, epoch: int) -> None:
    inner = Shuffle(Leaf(0, n), 3)
    expected = [record for turn in range(count) for record in numbers(inner, epoch * count + turn)]
    assert numbers(Repeat(inner, count), epoch) == expected


@given(st.integers(1, 8), st.integers(1, 3), st.integers(1, 3), epochs)
def test_repetitions_of_repetitions_never_meet_the_same_pass_twice(n: int, inner: int, outer: int, epoch: int) -> None:
    plan = Repeat(Repeat(Leaf(0, n), inner), outer)
    passes = [[p for _, p in numbers(plan, e)] for e in (epoch, epoch + 1)]
    first = epoch * inner * outer
    assert passes[0] + passes[1] == [first + i for i in range(2 * inner * outer) for _ in range(n)]


def test_endless_repetition_counts_passes() -> None:
    plan = Repeat(Leaf(0, 3), None)
    assert plan.length is None
    rows = plan.locate(0, np.array([0, 4, 3_000_000_000_002]))
    assert records(rows) == [((0,), 0), ((1,), 1), ((2,), 1_000_000_000_000)]
    assert plan.locate(2, np.array([4])).passes.tolist() == [(2 << 32) + 1]


def test_passes_wrap_around_rather_than_overflow() -> None:
    plan = Repeat(Repeat(Leaf(0, 1), 1 << 40), 2)
    rows = plan.locate((1 << 63) - 1, np.array([0, 1 << 40]))
    assert rows.passes.tolist() == [(((1 << 63) - 1) * (2 << 40) + turn) % (1 << 63) for turn in (0, 1 << 40)]


# concat, zip, widen, without ------------------------------------------------------------------------------------------


@given(st.lists(sizes, min_size=1, max_size=5), epochs)
def test_concat_is_one_after_the_other(lengths: list[int], epoch: int) -> None:
    plan = Concat([Leaf(i, n) for i, n in enumerate(lengths)])
    assert numbers(plan, epoch) == [record for i, n in enumerate(lengths) for record in leaf(i, n, epoch)]


def test_concat_may_end_in_an_endless_plan() -> None:
    plan = Concat([Leaf(0, 2), Leaf(1, None)])
    assert plan.length is None
    assert leaves(plan, stop=5) == [0, 0, 1, 1, 1]


@given(st.lists(sizes, min_size=1, max_size=4), epochs)
def test_zip_puts_ids_together(lengths: list[int], epoch: int) -> None:
    parts = [Shuffle(Leaf(i, n), i) for i, n in enumerate(lengths)]
    plan = Zip(parts, shortest=True)
    columns = [numbers(part, epoch) for part in parts]
    assert plan.slots == len(lengths)
    assert numbers(plan, epoch) == [
        (sum((ids for ids, _ in row), ()), row[0][1]) for row in zip(*columns, strict=False)
    ]
    assert Zip([Leaf(0, None), Leaf(1, None)]).length is None


def test_zips_of_zips_have_all_slots() -> None:
    pair = Zip([Leaf(0, 2), Leaf(1, 2)])
    assert [ids for ids, _ in numbers(Zip([pair, Leaf(2, 2)]))] == [
        (0, 1 << LEAF_SHIFT, 2 << LEAF_SHIFT),
        (1, (1 << LEAF_SHIFT) + 1, (2 << LEAF_SHIFT) + 1),
    ]


def test_wide_records_repeat_their_first_id() -> None:
    plan = Widen(Leaf(0, 3), 3)
    assert [ids for ids, _ in numbers(plan)] == [(0, 0, 0), (1, 1, 1), (2, 2, 2)]
    assert numbers(Widen(Leaf(0, 3), 1)) == numbers(Leaf(0, 3))
    assert Concat([plan, Zip([Leaf(1, 1)] * 3)]).length == 4


@given(sizes, st.data())
def test_without_leaves_out_what_is_dropped(n: int, data: st.DataObject) -> None:
    dropped = sorted(data.draw(st.sets(st.integers(0, n - 1)))) if n else []
    plan = Without(Leaf(0, n), np.array(dropped, np.int64))
    assert order(plan) == [i for i in range(n) if i not in dropped]
    assert plan.length == n - len(dropped)


def test_without_keeps_its_own_copy_of_what_is_dropped() -> None:
    dropped = np.array([0, 2])
    plan = Without(Leaf(0, None), dropped)
    dropped[:] = 0
    assert plan.length is None
    assert order(plan, stop=3) == [1, 3, 4]


# all together ---------------------------------------------------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn, depth: int = 3) -> Plan:
    """Any plan of known length and one slot, with up to `depth` steps on a leaf."""
    kind = draw(st.sampled_from(["leaf", "slice", "repeat", "concat", "without", "shuffle"])) if depth else "leaf"
    if kind == "leaf":
        return Leaf(draw(st.integers(0, 3)), draw(st.integers(0, 12)))
    parent = draw(plans(depth=depth - 1))
    assert parent.length is not None
    if kind == "slice":
        return Slice(parent, draw(st.integers(0, 5)), draw(st.none() | st.integers(0, 40)), draw(st.integers(1, 3)))
    if kind == "repeat":
        return Repeat(parent, draw(st.integers(1, 3)))
    if kind == "concat":
        return Concat([parent, draw(plans(depth=depth - 1))])
    if kind == "without":
        dropped = draw(st.sets(st.integers(0, parent.length - 1))) if parent.length else set()
        return Without(parent, np.array(sorted(dropped), np.int64))
    return Shuffle(parent, draw(st.integers()))


@given(plans(), epochs, st.data())
def test_any_positions_agree_with_the_whole(plan: Plan, epoch: int, data: st.DataObject) -> None:
    whole = numbers(plan, epoch)
    assert len(whole) == plan.length
    some = data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=30)) if whole else []
    assert records(plan.locate(epoch, np.array(some, np.int64))) == [whole[i] for i in some]


@given(plans(), epochs)
def test_plans_can_be_pickled(plan: Plan, epoch: int) -> None:
    again = pickle.loads(pickle.dumps(plan))
    assert numbers(again, epoch) == numbers(plan, epoch)
