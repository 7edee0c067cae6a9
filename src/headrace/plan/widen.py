"""Gives records more ids than they need, so that they can stand beside records that have more."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.errors import PlanError
from headrace.plan.base import Epochs, Plan
from headrace.plan.rows import Rows


class Widen(Plan):
    """The records of a plan, with their first id repeated in further slots.

    Args:
        plan: Where the records come from.
        slots: Ids that a record is to have.

    Raises:
        PlanError: If the records have more ids already.
    """

    def __init__(self, plan: Plan, slots: int) -> None:
        if slots < plan.slots:
            raise PlanError(f"widen gives at least the {plan.slots} slots that there are, asked for {slots}")
        self.plan = plan
        self.slots = slots
        self.length = plan.length

    def _locate(self, epochs: Epochs, positions: NDArray[np.int64]) -> Rows:
        rows = self.plan._locate(epochs, positions)
        more = np.repeat(rows.ids[:1], self.slots - self.plan.slots, axis=0)
        return Rows(np.concatenate([rows.ids, more]), rows.passes)

    def describe(self) -> str:
        """The number of slots."""
        return f"widen({self.slots})"
