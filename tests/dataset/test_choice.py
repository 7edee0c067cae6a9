from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from tests.dataset.helpers import numbers, values


def test_concat_reads_each_record_through_its_own_steps() -> None:
    data = numbers(3).map(lambda n: n * 10).concat(numbers(2).map(lambda n: -n)).shuffle(seed=4)
    (batch,) = hr.Loader(data.batch(5))
    assert sorted(batch.tolist()) == [-1, 0, 0, 10, 20]
    assert batch.tolist() == [int(x) for x in data]


def test_concat_of_different_records_is_refused() -> None:
    data = numbers(2).concat(hr.from_arrays({"x": np.arange(2)}))
    with pytest.raises(hr.DataError, match="the parts of a concat, interleave or mix give different records"):
        list(hr.Loader(data.batch(4)))
    with pytest.raises(hr.DataError, match="the parts of a concat, interleave or mix give different records"):
        list(hr.Loader(numbers(2).concat(hr.zip(numbers(2), numbers(2))).batch(4)))


def test_concat_joins_zips_with_single_sources() -> None:
    pairs = hr.zip(numbers(3), numbers(3)).map(lambda pair: pair[0] + pair[1])
    assert [int(x) for x in numbers(2).concat(pairs, numbers(1))] == [0, 1, 0, 2, 4, 0]


def test_mix_keeps_proportions() -> None:
    a = hr.from_arrays(np.zeros(300, np.int64))
    b = hr.from_arrays(np.ones(100, np.int64))
    order = values(hr.mix([a, b], weights=[3, 1], seed=1))
    assert 380 <= len(order) <= 400
    assert [sum(order[i : i + 64]) for i in range(0, 320, 64)] == [16] * 5
    with pytest.raises(hr.PlanError, match="mix needs a weight for each part, one part at least, got 1 for 2"):
        hr.mix([a, b], weights=[1])


def test_interleave_reads_each_record_through_its_own_steps() -> None:
    data = hr.interleave(
        [numbers(5), numbers(2).map(lambda n: -n - 1), numbers(3).map(lambda n: n * 10)], cycle_length=2
    )
    assert values(data) == [0, -1, 1, -2, 2, 3, 0, 4, 10, 20]
    for workers in (0, 3):
        assert [x for batch in hr.Loader(data.batch(3), workers=workers) for x in batch.tolist()] == values(data)
    hr.assert_resumable(data.shuffle(seed=2).repeat(2).batch(3), epochs=2)
    assert repr(data).endswith("interleave(3, cycle_length=2, block_length=1)")


def test_interleave_of_one_at_a_time_is_concat() -> None:
    parts = [numbers(n) for n in (3, 0, 4)]
    for block in (1, 2, 100):
        assert values(hr.interleave(parts, cycle_length=1, block_length=block)) == values(hr.concat(*parts))


def test_parts_of_an_interleave_are_shuffled_by_themselves_and_may_be_endless() -> None:
    data = hr.interleave([numbers(2), numbers(3).map(lambda n: n + 7).repeat()])
    assert values(data.take(8)) == [0, 7, 1, 8, 9, 7, 8, 9]
    assert sorted(values(hr.interleave([numbers(4).shuffle(seed=1), numbers(4)], block_length=4))[:4]) == [0, 1, 2, 3]


def test_filters_leave_out_of_what_is_interleaved() -> None:
    odd = numbers(6).filter(lambda n: n % 2 == 1, block=2)
    data = hr.interleave([odd, numbers(3).map(lambda n: n * 10)], block_length=2)
    assert values(data) == [1, 0, 10, 3, 20, 5]
    hr.assert_resumable(data.batch(2), epochs=2)


def test_what_can_not_be_interleaved_is_refused() -> None:
    stream = hr.from_iterable(range(5))
    with pytest.raises(hr.PlanError, match="interleave takes no streams: where one ends"):
        hr.Loader(hr.interleave([numbers(2), stream.take(3)]).batch(2))
    with pytest.raises(hr.PlanError, match="interleave comes before take, skip"):
        hr.Loader(hr.interleave([numbers(4).filter(bool).take(2), numbers(2)]).batch(2))
    with pytest.raises(hr.PlanError, match="interleave needs at least one dataset"):
        hr.interleave([])
    with pytest.raises(hr.PlanError, match="interleave takes datasets, got int in place 1"):
        hr.interleave([numbers(2), 3])  # type: ignore[list-item]
    for name, value in (("cycle_length", 0), ("block_length", -1), ("block_length", 1.5), ("cycle_length", "2")):
        with pytest.raises(hr.PlanError, match=f"interleave: {name} is"):
            hr.interleave([numbers(2)], **{name: value})  # type: ignore[arg-type]
