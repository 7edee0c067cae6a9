from __future__ import annotations

import pytest

import headrace as hr
from tests.dataset.helpers import numbers, values


def test_zip_by_position_and_by_name() -> None:
    a, b = numbers(3), hr.from_dataset(["x", "y", "z"])
    assert list(hr.zip(a, b))[1] == (1, "y")
    assert list(hr.zip(n=a, s=b))[2] == {"n": 2, "s": "z"}
    (batch,) = hr.Loader(hr.zip(n=a, s=b).batch(3))
    assert batch["n"].tolist() == [0, 1, 2]
    assert batch["s"].tolist() == ["x", "y", "z"]


def test_zip_of_shuffled_parts_keeps_each_order() -> None:
    a, b = numbers(20).shuffle(seed=1), numbers(20).shuffle(seed=2)
    pairs = list(hr.zip(a, b))
    assert [int(x) for x, _ in pairs] == values(a)
    assert [int(y) for _, y in pairs] == values(b)


def test_zip_names_both_counts_when_lengths_differ() -> None:
    with pytest.raises(hr.DataError, match=r"same number of records on every side, got src: 3 .*tgt: 4"):
        hr.Loader(hr.zip(src=numbers(3), tgt=numbers(4)).batch(1))
    assert len(hr.zip(numbers(3), numbers(4), shortest=True)) == 3


def test_zip_needs_datasets_by_position_or_by_name() -> None:
    with pytest.raises(hr.PlanError, match="at least one, and not both"):
        hr.zip()
    with pytest.raises(hr.PlanError, match=r"have no dot, got 'a\.b'"):
        hr.zip(**{"a.b": numbers(1)})  # type: ignore[arg-type]
