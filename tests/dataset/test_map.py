from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from tests.dataset.helpers import numbers


def test_random_numbers_depend_on_record_and_epoch_alone() -> None:
    def draw(n: Any, rng: np.random.Generator) -> tuple[int, float]:
        return int(n), float(rng.random())

    plain = dict(numbers(30).map(draw, rng=True, seed=1))
    shuffled = dict(numbers(30).shuffle(seed=9).map(draw, rng=True, seed=1))
    assert plain == shuffled
    assert len(set(plain.values())) == 30
    assert dict(numbers(30).map(draw, rng=True, seed=2)) != plain
    loader = hr.Loader(numbers(30).map(draw, rng=True, seed=1).batch(30))
    [first], [second] = ([b[1].tolist() for b in loader] for _ in range(2))
    assert first == list(plain.values())
    assert not set(first) & set(second)


def test_two_maps_do_not_draw_alike() -> None:
    twice = numbers(5).map(lambda n, rng: rng.random(), rng=True).map(lambda x, rng: (x, rng.random()), rng=True)
    assert all(x != y for x, y in twice)


def test_map_over_batches() -> None:
    data = numbers(5).batch(2).map(lambda batch: batch.sum())
    assert [int(x) for x in hr.Loader(data)] == [1, 5, 4]
    with pytest.raises(ZeroDivisionError) as info:
        list(hr.Loader(numbers(5).batch(2).map(lambda batch: 1 // 0)))
    assert any("a batch of 2 records, the first row 0 of the arrays" in note for note in info.value.__notes__)


def test_a_function_that_returns_nothing_is_refused() -> None:
    data = hr.from_dataset([{"a": 1}]).map(lambda record: record.update(b=2)).batch(1)
    with pytest.raises(hr.DataError, match="of record 0 of list: expected a record, got None; let the"):
        list(hr.Loader(data))
