"""Descriptions of many steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import headrace as hr

OPERATIONS: dict[str, Callable[[hr.Dataset, int], hr.Dataset]] = {
    "skip": lambda data, i: data.skip(0),
    "shuffle": lambda data, i: data.shuffle(seed=i),
    "map": lambda data, i: data.map(lambda n: n),
    "filter_length": lambda data, i: data.filter_length(min=0),
    "concat": lambda data, i: data.concat(hr.from_dataset([1], lengths=[1])),
    "zip": lambda data, i: hr.zip(data, hr.from_dataset(range(300), lengths=[1] * 300), shortest=True),
    "mix": lambda data, i: hr.mix([data, hr.from_dataset([1], lengths=[1])], [1, 1]),
}


def chain(operation: str, steps: int) -> hr.Dataset:
    data = hr.from_dataset(range(20), lengths=[1] * 20)
    for i in range(steps):
        data = OPERATIONS[operation](data, i)
    return data


@pytest.mark.parametrize("operation", OPERATIONS)
def test_hundreds_of_steps_may_stand_on_each_other(operation: str) -> None:
    data = chain(operation, 250).batch(7)
    assert len(repr(data)) > 250
    loader = hr.Loader(data, workers=1)
    next(iter(loader))
    assert len(loader.state_dict()["pipeline"]) == 1
    loader.close()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_thousands_are_refused_with_a_remedy(operation: str) -> None:
    data = chain(operation, 3000)
    assert len(repr(data)) > 3000
    for use in (lambda: hr.Loader(data.batch(7)), lambda: len(data)):
        with pytest.raises(
            hr.PlanError, match=r"300[12] steps stand on each other .*; join many datasets by one concat"
        ):
            use()


def test_thousands_side_by_side_are_no_matter() -> None:
    data = hr.concat(*(hr.from_arrays(np.arange(2)) for _ in range(3000))).batch(1000)
    assert sum(map(len, hr.Loader(data))) == 6000
