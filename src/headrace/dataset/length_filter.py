"""The step that leaves out records by their length, which an index knows without reading them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace import plan as plans
from headrace.dataset.node import Node, Numbering, Reader, Records, arguments
from headrace.dataset.order import keeps_order
from headrace.errors import PlanError

_CHUNK = 1 << 17


@dataclass(frozen=True, slots=True)
class LengthFilter(Node):
    """Records whose columns are neither too short nor too long.

    Attributes:
        parent: The step before.
        shortest: Items that each column has at least.
        longest: Items that each column has at most; None sets no limit.
        columns: The columns that count; None counts all whose lengths are known.
    """

    parent: Node
    shortest: int
    longest: int | None
    columns: Sequence[str] | None

    @property
    def parents(self) -> tuple[Node, ...]:
        """The step before."""
        return (self.parent,)

    def describe(self) -> str:
        """Names the limits."""
        return f"filter_length({arguments(min=self.shortest, max=self.longest, columns=self.columns)})"

    def build(self, numbering: Numbering) -> Records:
        """Leaves out of the plan what is too short or too long; only the numbers of those are kept in memory."""
        if not keeps_order(self.parent):
            raise PlanError("filter_length comes before shuffle, repeat and mix: put it next to the source")
        built = self.parent.build(numbering).unsliced("filter_length")
        dropped = self._dropped(built)
        plan = plans.Without(built.plan, dropped) if len(dropped) else built.plan
        return replace(built, plan=plan)

    def _dropped(self, built: Records) -> NDArray[np.int64]:
        length = built.plan.length
        if length is None:
            raise PlanError("filter_length needs a known number of records; streams have no index of lengths")
        dropped = []
        for start in range(0, length, _CHUNK):
            positions = np.arange(start, min(start + _CHUNK, length))
            columns = known_lengths(built.reader, built.plan.locate(0, positions), self.columns, "filter_length")
            bad = np.zeros(len(positions), bool)
            for column in columns.values():
                bad |= column < self.shortest
                if self.longest is not None:
                    bad |= column > self.longest
            dropped.append(positions[bad])
        return np.concatenate(dropped) if dropped else np.empty(0, np.int64)


def known_lengths(
    reader: Reader, rows: plans.Rows, columns: Sequence[str] | None, operation: str
) -> dict[str, NDArray[np.int64]]:
    """The lengths of the columns that an operation goes by.

    Raises:
        PlanError: If no index knows them.
    """
    known = reader.lengths(rows)
    missing = [name for name in columns or () if name not in known]
    if missing or not known:
        what = f"of column {missing[0]!r}" if missing else "of the records"
        raise PlanError(
            f"{operation} needs the lengths {what}, known are those of {sorted(known) or 'no column'}; lengths come "
            "from text indexes and Ragged arrays, or pass lengths= to from_dataset; a map forgets them, so put it after"
        )
    return {name: known[name] for name in columns} if columns else known
