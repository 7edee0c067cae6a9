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
    with pytest.raises(hr.DataError, match="the parts of a concat or mix give different records"):
        list(hr.Loader(data.batch(4)))
    with pytest.raises(hr.DataError, match="the parts of a concat or mix give different records"):
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
    with pytest.raises(hr.PlanError, match="one weight for each dataset, got 2 datasets and 1 weights"):
        hr.mix([a, b], weights=[1])
