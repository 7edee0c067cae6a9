"""Trees of columns: their rows can be taken apart and put together again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.batch import tree
from headrace.proof import same


def columns(n: int) -> tree.Tree:
    rows = hr.Ragged.from_rows([np.full(i % 3, i) for i in range(n)], dtype=np.int64)
    return {"x": np.arange(n), "rest": (rows, hr.Strings.from_rows([f"é{i}" for i in range(n)]))}


@given(st.permutations(range(7)), st.integers(0, 7))
def test_concat_and_interleave_undo_take(places: list[int], cut: int) -> None:
    whole = columns(7)
    order = np.array(places, np.int64)
    parts = [(order[:cut], tree.take(whole, order[:cut])), (order[cut:], tree.take(whole, order[cut:]))]
    assert same(tree.concat([part for _, part in parts]), tree.take(whole, order))
    assert same(tree.interleave(parts), whole)


def test_concat_refuses_trees_of_another_shape() -> None:
    with pytest.raises(ValueError, match="differ"):
        tree.concat([columns(2), {"x": np.arange(2)}])
