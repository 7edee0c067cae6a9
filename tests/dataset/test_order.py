from __future__ import annotations

from tests.dataset.helpers import numbers, values


def test_order_operations_mean_what_lists_mean() -> None:
    ten = list(range(10))
    assert values(numbers(10).take(3)) == ten[:3]
    assert values(numbers(10).take(99)) == ten
    assert values(numbers(10).skip(8)) == ten[8:]
    assert values(numbers(10).skip(99)) == []
    assert values(numbers(10).slice(2, 9, 3)) == ten[2:9:3]
    assert values(numbers(10).shard(3, 1)) == ten[1::3]
    assert values(numbers(3).repeat(2)) == [0, 1, 2, 0, 1, 2]
    assert values(numbers(2).concat(numbers(3))) == [0, 1, 0, 1, 2]
    assert len(numbers(10).skip(1).repeat(4)) == 36


def test_shuffle_then_take_takes_from_the_new_order() -> None:
    shuffled = values(numbers(100).shuffle(seed=1))
    assert values(numbers(100).shuffle(seed=1).take(5)) == shuffled[:5]
    assert sorted(shuffled) == list(range(100))
    assert values(numbers(100).shuffle(seed=2)) != shuffled


def test_windowed_shuffle_stays_inside_its_windows() -> None:
    order = values(numbers(100).shuffle(seed=1, window=10))
    assert order != list(range(100))
    for start in range(0, 100, 10):
        assert sorted(order[start : start + 10]) == list(range(start, start + 10))


def test_repeat_shuffles_each_pass_anew() -> None:
    order = values(numbers(50).shuffle(seed=1).repeat(2))
    assert order[:50] != order[50:]
    assert sorted(order[:50]) == sorted(order[50:]) == list(range(50))
