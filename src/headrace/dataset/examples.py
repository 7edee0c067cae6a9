"""The step that takes features out of Examples: bytes to columns, in one native call a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.batch.columns import Bytes, Objects, Strings
from headrace.batch.tree import Tree
from headrace.clock import Clock
from headrace.dataset.node import ChangingReader, Node, Numbering, Reader, Records
from headrace.errors import DataError
from headrace.formats.example import ExampleSchema
from headrace.plan import Rows


@dataclass(frozen=True, slots=True)
class ParseExample(Node):
    """Messages replaced by a dict of their features.

    Attributes:
        parent: The step before; its records are bytes.
        schema: What to take out.
    """

    parent: Node
    schema: ExampleSchema

    def __post_init__(self) -> None:
        self.schema.check_columns()

    @property
    def parents(self) -> tuple[Node, ...]:
        """The step before."""
        return (self.parent,)

    def describe(self) -> str:
        """Names all features."""
        return f"parse_example({self.schema!r})"

    def build(self, numbering: Numbering) -> Records:
        """Keeps the order and wraps the reader."""
        built = self.parent.build(numbering)
        return replace(built, reader=ExampleReader(built.reader, self.schema))


class ExampleReader(ChangingReader):
    """Parses what another reader gives."""

    def __init__(self, parent: Reader, schema: ExampleSchema) -> None:
        super().__init__(parent)
        self.schema = schema

    def change(self, tree: Tree, rows: Rows, clock: Clock) -> Tree:
        """One native call for all rows."""
        with clock.stage("parse"):
            if isinstance(tree, Objects) and all(isinstance(record, bytes) for record in tree):
                tree = Bytes.from_rows(tree)
            if not isinstance(tree, (Bytes, Strings)):
                row, found = 0, tree
                if isinstance(tree, Objects):
                    row, found = next((i, record) for i, record in enumerate(tree) if not isinstance(record, bytes))
                raise DataError(
                    f"{self.where(rows.ids[:, row])}: parse_example expected bytes, found {type(found).__name__}"
                )
            return self.schema.columns(tree, lambda row: self.where(rows.ids[:, row]))

    def column_names(self) -> list[str]:
        """The features."""
        return self.schema.names
