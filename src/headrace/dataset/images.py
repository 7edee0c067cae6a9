"""The step that decodes pictures: bytes to arrays of pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Bytes, Objects, Strings
from headrace.batch.tree import Tree, map_leaves
from headrace.clock import Clock
from headrace.dataset.node import ChangingReader, Node, Numbering, Reader, Records
from headrace.errors import DataError, PlanError
from headrace.formats.images import ImageDecoder, need_pillow
from headrace.plan import Rows


@dataclass(frozen=True, slots=True)
class DecodeImage(Node):
    """The bytes of pictures in one column replaced by their pixels.

    Attributes:
        parent: The step before.
        column: The column.
        decoder: How.
    """

    parent: Node
    column: str
    decoder: ImageDecoder

    @property
    def parents(self) -> tuple[Node, ...]:
        """The step before."""
        return (self.parent,)

    def describe(self) -> str:
        """Names the column and what differs from the defaults."""
        return f"decode_image({', '.join([repr(self.column), *self.decoder.words()])})"

    def build(self, numbering: Numbering) -> Records:
        """Keeps the order and wraps the reader."""
        need_pillow()
        built = self.parent.build(numbering)
        names = built.reader.column_names()
        if names is not None and self.column not in names:
            raise PlanError(f"decode_image names column {self.column!r}; the columns are {names}")
        return replace(built, reader=ImageReader(built.reader, self.column, self.decoder))


class ImageReader(ChangingReader):
    """Decodes what another reader gives."""

    def __init__(self, parent: Reader, column: str, decoder: ImageDecoder) -> None:
        super().__init__(parent)
        self.column = column
        self.decoder = decoder

    def change(self, tree: Tree, rows: Rows, clock: Clock) -> Tree:
        """Decodes the column of all rows; pictures of one shape make an array."""
        with clock.stage("decode"):
            if not isinstance(tree, Objects):
                return self._replaced(tree, 0, rows, lambda column: self._columns(column, rows))
            changed = Objects()
            for i, record in enumerate(tree):
                changed.append(self._replaced(record, i, rows, lambda data, i=i: self._one(data, i, rows)))
            return changed

    def _replaced(self, tree: Tree, row: int, rows: Rows, decode: Any) -> Tree:
        found = False

        def convert(name: str, leaf: Any) -> Any:
            nonlocal found
            if name != self.column:
                return leaf
            found = True
            return decode(leaf)

        changed = map_leaves(convert, tree)
        if not found and len(rows):
            raise DataError(
                f"decode_image: {self.where(rows.ids[:, row])} has no column {self.column!r}; "
                "name the one that holds the pictures: decode_image('…')"
            )
        return changed

    def _one(self, data: Any, row: int, rows: Rows) -> NDArray[Any]:
        """The pixels of a record."""
        if not isinstance(data, bytes):
            raise self._refused(row, rows, f"expected the bytes of a picture, got {type(data).__name__} {data!r:.60}")
        try:
            return self.decoder.decode(data)
        except DataError as error:
            raise self._refused(row, rows, str(error)) from error.__cause__

    def _columns(self, column: Any, rows: Rows) -> Any:
        if isinstance(column, (Bytes, Strings)):
            pictures: Sequence[Any] = [column.bytes_at(i) for i in range(len(column))]
        elif isinstance(column, Objects):
            pictures = column
        else:
            raise self._refused(0, rows, f"expected the bytes of a picture, got {type(column).__name__}")
        shape = self.decoder.shape()
        if shape is None:
            decoded = [self._one(data, i, rows) for i, data in enumerate(pictures)]
            # Those of several shapes stay as they are, for a map to bring into one; a batch can't be made of them.
            same = len({one.shape for one in decoded}) == 1
            return np.stack(decoded) if same else Objects(decoded)
        out = np.empty((len(pictures), *shape), self.decoder.dtype)
        for i, data in enumerate(pictures):
            if not isinstance(data, bytes):
                out[i] = self._one(data, i, rows)
                continue
            try:
                self.decoder.decode_into(data, out[i])
            except DataError as error:
                raise self._refused(i, rows, str(error)) from error.__cause__
        return out

    def _refused(self, row: int, rows: Rows, text: str) -> DataError:
        column = f"column {self.column!r} of " if self.column else ""
        return DataError(
            f"decode_image: {column}{self.where(rows.ids[:, row])}: {text}; replace the picture, or leave the record "
            "out by a filter before decode_image"
        )

    def lengths(self, rows: Rows) -> dict[str, NDArray[np.int64]]:
        """The parent's, but for the column of pictures."""
        known = self.parent.lengths(rows)
        known.pop(self.column, None)
        return known

    def column_names(self) -> list[str] | None:
        """The parent's."""
        return self.parent.column_names()
