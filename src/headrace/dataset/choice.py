"""Steps where a record comes from one of several parents: one after the other, in turn, or mixed by weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from headrace import plan as plans
from headrace.batch.columns import Objects
from headrace.batch.tree import Tree, interleave
from headrace.clock import Clock
from headrace.dataset.node import FilteredSlice, Node, Numbering, Reader, Records, arguments
from headrace.dataset.survivors import build_in_order
from headrace.errors import DataError, PlanError
from headrace.plan import LEAF_SHIFT, Rows

if TYPE_CHECKING:
    from headrace.dataset.tokens import Encoding


@dataclass(frozen=True, slots=True)
class Concat(Node):
    """All records of the first parent, then all of the second, and so on."""

    parts: tuple[Node, ...]

    @property
    def parents(self) -> tuple[Node, ...]:
        """The parts, in order."""
        return self.parts

    def describe(self) -> str:
        """Names the number of parts."""
        return f"concat({len(self.parts)})"

    def build(self, numbering: Numbering) -> Records:
        """Joins the plans and reads each record through its own part."""
        before = len(numbering.streams)
        built = [part.build(numbering).unsliced("concat") for part in self.parts[:-1]]
        if len(numbering.streams) > before:
            raise PlanError(
                "concat takes a stream as its last part only: nobody knows where it ends, even after take()"
            )
        built.append(self.parts[-1].build(numbering).unsliced("concat"))
        plan, reader = plans.Concat(same_slots(built)), ChoiceReader([b.reader for b in built])
        return Records(plan, reader, _sifted([b.sifted for b in built if b.sifted is not None]))


@dataclass(frozen=True, slots=True)
class Interleave(Node):
    """Records of the parents in turn.

    Attributes:
        parts: The parents, in the order in which they are opened.
        cycle_length: How many are open at a time; None opens all.
        block_length: Records that one gives in its turn.
    """

    parts: tuple[Node, ...]
    cycle_length: int | None
    block_length: int

    @property
    def parents(self) -> tuple[Node, ...]:
        """The parts, in order."""
        return self.parts

    def describe(self) -> str:
        """Names the number of parts, and how they take turns."""
        turns = arguments(cycle_length=self.cycle_length, block_length=self.block_length)
        return f"interleave({len(self.parts)}, {turns})"

    def build(self, numbering: Numbering) -> Records:
        """Interleaves the plans and reads each record through its own part."""
        before = len(numbering.streams)
        built = [part.build(numbering).unsliced("interleave") for part in self.parts]
        if len(numbering.streams) > before:
            raise PlanError(
                "interleave takes no streams: where one ends decides who comes next, and nobody knows that, even after "
                "take(); read the records from files or an object with a length, or join the streams by mix"
            )
        plan = plans.Interleave(same_slots(built), self.cycle_length, self.block_length)
        sifted = _sifted([b.sifted for b in built if b.sifted is not None])
        return Records(plan, ChoiceReader([b.reader for b in built]), sifted)


@dataclass(frozen=True, slots=True)
class Mix(Node):
    """Records of the parents mixed in fixed proportions."""

    parts: tuple[Node, ...]
    weights: tuple[float, ...]
    seed: int | None
    stop: Literal["first", "all"]
    keeps_order = False

    @property
    def parents(self) -> tuple[Node, ...]:
        """The parts, in the order of their weights."""
        return self.parts

    def describe(self) -> str:
        """Names weights, seed and rule of ending."""
        return f"mix(weights={list(self.weights)}, seed={self.seed}, stop={self.stop})"

    def build(self, numbering: Numbering) -> Records:
        """Mixes the plans and reads each record through its own part."""
        built = [build_in_order(part, numbering) for part in self.parts]
        plan = plans.Mix(same_slots(built), self.weights, seed=self.seed, stop=self.stop)
        return Records(plan, ChoiceReader([b.reader for b in built]))


def _sifted(parts: list[FilteredSlice]) -> FilteredSlice | None:
    if not parts:
        return None
    limits = [part.patience for part in parts if part.patience is not None]
    return FilteredSlice(min(part.block for part in parts), sum(limits) if len(limits) == len(parts) else None)


def same_slots(built: Sequence[Records]) -> list[plans.Plan]:
    """The plans, each widened to as many slots as the widest has."""
    slots = max(b.plan.slots for b in built)
    return [b.plan if b.plan.slots == slots else plans.Widen(b.plan, slots) for b in built]


class ChoiceReader(Reader):
    """Reads each record through the part that its id belongs to, and puts the results in the order asked for."""

    def __init__(self, parts: Sequence[Reader]) -> None:
        self.parts = tuple(parts)
        self.slots = max(part.slots for part in parts)

    @cached_property
    def _part_of_leaf(self) -> NDArray[np.int64]:
        table = np.zeros(max(max(part.leaves) for part in self.parts) + 1, np.int64)
        for number, part in enumerate(self.parts):
            table[list(part.leaves)] = number
        return table

    def _split(self, rows: Rows) -> list[tuple[int, NDArray[np.int64]]]:
        part = self._part_of_leaf[rows.ids[0] >> LEAF_SHIFT]
        # Not by np.unique, whose first call imports NumPy's masked arrays: longer than the first batch may take.
        return [(int(p), np.flatnonzero(part == p)) for p in np.flatnonzero(np.bincount(part))]

    def _own(self, part: int, rows: Rows) -> Rows:
        # Parts that use fewer slots than others find their ids in the first ones.
        return Rows(rows.ids[: self.parts[part].slots], rows.passes)

    def read(self, rows: Rows, clock: Clock) -> Tree:
        """One call of each part that has records among the rows."""
        if not len(rows):
            return Objects()
        groups = self._split(rows)
        if len(groups) == 1:
            part = groups[0][0]
            return self.parts[part].read(self._own(part, rows), clock)
        trees = [(where, self.parts[part].read(self._own(part, rows.take(where)), clock)) for part, where in groups]
        return self._interleave(trees, rows)

    def sift(self, rows: Rows, clock: Clock) -> tuple[Tree, NDArray[np.int64]]:
        """What each part's filters leave of its own records."""
        trees = []
        for part, where in self._split(rows):
            tree, kept = self.parts[part].sift(self._own(part, rows.take(where)), clock)
            if len(kept):
                trees.append((where[kept], tree))
        if not trees:
            return Objects(), np.empty(0, np.int64)
        if len(trees) == 1:
            return trees[0][1], trees[0][0]
        return self._interleave(trees, rows), np.sort(np.concatenate([where for where, _ in trees]))

    def _interleave(self, trees: list[tuple[NDArray[np.int64], Tree]], rows: Rows) -> Tree:
        try:
            return interleave(trees)
        except ValueError as error:
            names = ", ".join(self.where(rows.ids[:, where[0]]) for where, _ in trees)
            raise DataError(
                f"the parts of a concat, interleave or mix give different records ({names}): {error}"
            ) from None

    def advance(self, rows: Rows, wanted: NDArray[np.bool_]) -> int:
        """To the first record that a part hasn't any more."""
        found = len(rows)
        for part, where in self._split(rows):
            of_part = self.parts[part].advance(self._own(part, rows.take(where)), wanted[where])
            if of_part < len(where):
                found = min(found, int(where[of_part]))
        return found

    def encode(self, name: str, encoding: Encoding) -> Reader:
        """Each part by itself."""
        return ChoiceReader([part.encode(name, encoding) for part in self.parts])

    def where(self, ids: NDArray[np.int64]) -> str:
        """As the record's own part names it."""
        part = self.parts[int(self._part_of_leaf[int(ids[0]) >> LEAF_SHIFT])]
        return part.where(ids[: part.slots])

    @property
    def leaves(self) -> frozenset[int]:
        """The leaves of all parts."""
        return frozenset().union(*(part.leaves for part in self.parts))

    def lengths(self, rows: Rows) -> dict[str, NDArray[np.int64]]:
        """Of the columns that every part knows lengths of."""
        known: dict[str, NDArray[np.int64]] | None = None
        for part, where in self._split(rows):
            of_part = self.parts[part].lengths(self._own(part, rows.take(where)))
            if known is None:
                known = {name: np.zeros(len(rows), np.int64) for name in of_part}
            known = {name: column for name, column in known.items() if name in of_part}
            for name, column in known.items():
                column[where] = of_part[name]
        return known or {}

    def column_names(self) -> list[str] | None:
        """Those of the first part, which the others share."""
        return self.parts[0].column_names()
