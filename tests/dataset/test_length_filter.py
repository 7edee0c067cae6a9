from __future__ import annotations

import pytest

import headrace as hr


def test_filter_length_leaves_out_by_the_index() -> None:
    rows = hr.Ragged.from_rows([[1], [], [2, 2], [3, 3, 3], []])
    data = hr.from_arrays(rows)
    assert [r.tolist() for r in data.filter_length()] == [[1], [2, 2], [3, 3, 3]]
    assert [r.tolist() for r in data.filter_length(min=0, max=1)] == [[1], [], []]
    assert len(data.filter_length().shuffle(seed=1)) == 3
    with pytest.raises(hr.PlanError, match="filter_length comes before shuffle"):
        len(data.shuffle().filter_length())
