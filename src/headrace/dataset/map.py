"""The step that changes each record by a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from headrace.batch.columns import Objects
from headrace.batch.tree import Tree, records
from headrace.clock import Clock
from headrace.dataset.node import ChangingReader, Node, Numbering, Reader, Records, arguments, function_name
from headrace.errors import DataError, add_note
from headrace.plan import RecordRng, Rows


@dataclass(frozen=True, slots=True)
class Map(Node):
    """Each record replaced by what a function makes of it.

    Attributes:
        parent: The step before.
        fn: Takes a record (and a random generator, if there is a seed) and gives a record.
        seed: Of the random draws; None if the function makes none.
    """

    parent: Node
    fn: Callable[..., Any]
    seed: int | None

    @property
    def parents(self) -> tuple[Node, ...]:
        """The step before."""
        return (self.parent,)

    def describe(self) -> str:
        """Names the function, not its code."""
        return f"map({function_name(self.fn)}{'' if self.seed is None else ', '}{arguments(seed=self.seed)})"

    def build(self, numbering: Numbering) -> Records:
        """Keeps the order and wraps the reader."""
        built = self.parent.build(numbering)
        draw = None if self.seed is None else (self.seed, next(numbering.draws))
        return replace(built, reader=MapReader(built.reader, self.fn, draw))


class MapReader(ChangingReader):
    """Reads records and calls a function with each."""

    def __init__(self, parent: Reader, fn: Callable[..., Any], draw: tuple[int, int] | None) -> None:
        super().__init__(parent)
        self.fn = fn
        # Two maps of one description must not draw alike, so the step's number goes into the key.
        self.rng = None if draw is None else RecordRng(draw[0], stream=draw[1])

    def change(self, tree: Tree, rows: Rows, clock: Clock) -> Tree:
        """One call of the function for each record; an error of its own names the record in a note."""
        changed = Objects()
        with clock.stage("map"):
            for i, record in enumerate(records(tree)):
                try:
                    if self.rng is None:
                        result = self.fn(record)
                    else:
                        result = self.fn(record, self.rng.at(int(rows.passes[i]), int(rows.ids[0, i])))
                except Exception as error:
                    add_note(error, f"headrace: in map({function_name(self.fn)}) of {self.where(rows.ids[:, i])}")
                    raise
                if result is None:
                    raise DataError(
                        f"map({function_name(self.fn)}) of {self.where(rows.ids[:, i])}: expected a record, got None; "
                        "let the function return one (a function that changes the record in place must return it too)"
                    )
                changed.append(result)
        return changed
