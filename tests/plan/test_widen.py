from __future__ import annotations

import numpy as np
import pytest

from headrace.errors import PlanError
from headrace.plan import Leaf, Shuffle, Widen, Zip


def test_the_first_id_is_repeated() -> None:
    plan = Widen(Zip([Leaf(0, 5), Leaf(1, 5)]), 4)
    rows = plan.locate(0, np.arange(5))
    inner = plan.plan.locate(0, np.arange(5))
    assert rows.ids.shape == (4, 5)
    assert (rows.ids[:2] == inner.ids).all()
    assert (rows.ids[2:] == inner.ids[0]).all()
    assert plan.length == 5


def test_order_and_passes_stay() -> None:
    plan = Shuffle(Leaf(0, 9), seed=1)
    assert Widen(plan, 2).locate(3, np.arange(9)).ids[1].tolist() == plan.locate(3, np.arange(9)).ids[0].tolist()
    assert Widen(plan, 2).locate(3, np.arange(9)).passes.tolist() == [3] * 9


def test_slots_cannot_be_taken_away() -> None:
    with pytest.raises(PlanError, match="at least the 2 slots that there are, asked for 1"):
        Widen(Zip([Leaf(0, 5), Leaf(1, 5)]), 1)
