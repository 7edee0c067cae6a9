"""The step that makes one record of several: the first of each parent, the second of each, and so on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace import plan as plans
from headrace.batch.tree import Tree, child
from headrace.clock import Clock
from headrace.dataset.node import Node, Numbering, Reader, Records
from headrace.dataset.survivors import build_in_order
from headrace.errors import DataError, PlanError
from headrace.plan import Rows

if TYPE_CHECKING:
    from headrace.dataset.tokens import Encoding


@dataclass(frozen=True, slots=True)
class Zip(Node):
    """Records side by side.

    Attributes:
        parts: What is put together.
        names: A name for each part (records are dicts), or None (records are tuples).
        shortest: End with the shortest part, instead of refusing parts of different lengths.
    """

    parts: tuple[Node, ...]
    names: tuple[str, ...] | None
    shortest: bool = False

    @property
    def parents(self) -> tuple[Node, ...]:
        """The parts, in order."""
        return self.parts

    def describe(self) -> str:
        """Names the parts."""
        names = ", ".join(self.names) if self.names else len(self.parts)
        return f"zip({names}{', shortest' if self.shortest else ''})"

    def build(self, numbering: Numbering) -> Records:
        """Gives each part its own slots of the ids."""
        built = [build_in_order(part, numbering) for part in self.parts]
        lengths = [b.plan.length for b in built]
        if not self.shortest and len(set(lengths)) > 1:
            names = self.names or tuple(map(str, range(len(built))))
            counts = ", ".join(
                f"{name}: {'endless or unknown' if n is None else f'{n:,}'} ({_origin(b)})"
                for name, n, b in zip(names, lengths, built, strict=True)
            )
            # The commonest cause by far: two files that were meant to be parallel and are not.
            raise DataError(
                f"zip needs the same number of records on every side, got {counts}; "
                "repair the files, or pass shortest=True to end with the shortest"
            )
        plan = plans.Zip([b.plan for b in built], shortest=self.shortest)
        return Records(plan, ZipReader([b.reader for b in built], self.names, self.shortest))


def _origin(built: Records) -> str:
    if not built.plan.length:
        return "no records"
    first = built.plan.locate(0, np.zeros(1, np.int64))
    return f"from {built.reader.where(first.ids[:, 0])} on"


class ZipReader(Reader):
    """Reads each part with its own slots and puts the columns side by side."""

    def __init__(self, parts: Sequence[Reader], names: tuple[str, ...] | None, shortest: bool) -> None:
        self.parts = tuple(parts)
        self.names = names
        self.shortest = shortest
        self.slots = sum(part.slots for part in parts)

    def _split(self, rows: Rows) -> Iterator[tuple[Reader, Rows]]:
        start = 0
        for part in self.parts:
            yield part, Rows(rows.ids[start : start + part.slots], rows.passes)
            start += part.slots

    def read(self, rows: Rows, clock: Clock) -> Tree:
        """One call of each part."""
        trees = [part.read(own, clock) for part, own in self._split(rows)]
        return tuple(trees) if self.names is None else dict(zip(self.names, trees, strict=True))

    def advance(self, rows: Rows, wanted: NDArray[np.bool_]) -> int:
        """To the end of the part that ends first, which must be the end of all unless told otherwise."""
        counts = [part.advance(own, wanted) for part, own in self._split(rows)]
        if min(counts) < max(counts) and not self.shortest:
            raise DataError(
                f"zip: one side ended {max(counts) - min(counts)} records or more before another, near "
                f"{self.where(rows.ids[:, min(counts)])}; pass shortest=True to end with the shortest"
            )
        return min(counts)

    def where(self, ids: NDArray[np.int64]) -> str:
        """All parts' names for it."""
        rows = Rows(ids[:, None], np.zeros(1, np.int64))
        return " with ".join(part.where(own.ids[:, 0]) for part, own in self._split(rows))

    @property
    def leaves(self) -> frozenset[int]:
        """Those of the first part, which owns the first slot."""
        return self.parts[0].leaves

    def _prefixed(self) -> Iterator[str]:
        yield from self.names or map(str, range(len(self.parts)))

    def lengths(self, rows: Rows) -> dict[str, NDArray[np.int64]]:
        """Those of all parts, each under its name."""
        known = {}
        for name, (part, own) in zip(self._prefixed(), self._split(rows), strict=True):
            known.update({join(name, column): values for column, values in part.lengths(own).items()})
        return known

    def column_names(self) -> list[str] | None:
        """Those of all parts, each under its name; None if one part doesn't know its own."""
        names = []
        for name, part in zip(self._prefixed(), self.parts, strict=True):
            own = part.column_names()
            if own is None:
                return None
            names += [join(name, column) for column in own]
        return names

    def part(self, name: str) -> int | None:
        """The number of the part that has this name."""
        names = list(self._prefixed())
        return names.index(name) if name in names else None

    def encode(self, name: str, encoding: Encoding) -> Reader:
        """The part that the column is of, by itself."""
        first, _, rest = name.partition(".")
        number = self.part(first)
        if number is None:
            return super().encode(name, encoding)
        return self.replace(number, self.parts[number].encode(rest, encoding))

    def replace(self, number: int, reader: Reader) -> ZipReader:
        """The same zip with another reader for one part."""
        parts = [reader if i == number else part for i, part in enumerate(self.parts)]
        return ZipReader(parts, self.names, self.shortest)


def join(name: str, column: str) -> str:
    """The name of a part's column in the whole: `"src"`, or `"src.ids"`."""
    return child(name, column) if column else name


def check_names(names: Sequence[str]) -> None:
    """Refuses names that couldn't be told apart from names of nested columns.

    Raises:
        PlanError: If a name is empty or has a dot.
    """
    for name in names:
        if not name or "." in name:
            raise PlanError(f"names of columns are not empty and have no dot, got {name!r}")
