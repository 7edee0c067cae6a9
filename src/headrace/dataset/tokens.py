"""The step that makes token ids of texts: split at whitespace, look up, cut, add begin and end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.batch.collate import collate
from headrace.batch.columns import Bytes, Objects, Ragged, Strings
from headrace.batch.tree import Tree, map_leaves
from headrace.checks import whole
from headrace.clock import Clock
from headrace.dataset.node import ChangingReader, Node, Numbering, Reader, Records, arguments
from headrace.errors import DataError, PlanError
from headrace.formats.text import TextSource
from headrace.plan import Rows
from headrace.vocab import Vocab

T = TypeVar("T")
PerColumn: TypeAlias = T | Sequence[T | None] | Mapping[str, T | None]
"""One value for all columns, one for each in order, or one by name (columns not named get none)."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """What becomes of one column of texts.

    Attributes:
        vocab: Gives the ids.
        max_length: Tokens kept of a text, not counting begin and end; None keeps all.
        bos: Id put before the tokens, or None.
        eos: Id put after them, or None.
        separators: The characters that separate tokens; None takes the source's own, or white space.
    """

    vocab: Vocab
    max_length: int | None
    bos: int | None
    eos: int | None
    separators: str | None

    def lengths(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ids of each text, of its number of tokens."""
        kept = tokens if self.max_length is None else np.minimum(tokens, self.max_length)
        return kept + (self.bos is not None) + (self.eos is not None)


@dataclass(frozen=True, slots=True)
class Tokens(Node):
    """Texts replaced by the ids of their tokens.

    Attributes:
        parent: The step before; its records hold texts.
        vocab: A vocabulary for each column of texts.
        max_length: Tokens kept of a text.
        bos: Token of the vocabulary to put before each text.
        eos: Token of the vocabulary to put after each text.
        separators: The characters that separate tokens; None takes the source's own, or white space.
    """

    parent: Node
    vocab: PerColumn[Vocab]
    max_length: PerColumn[int] | None
    bos: PerColumn[str] | None
    eos: PerColumn[str] | None
    separators: str | None

    @property
    def parents(self) -> tuple[Node, ...]:
        """The step before."""
        return (self.parent,)

    def describe(self) -> str:
        """Names vocabularies by their content and the other arguments by value."""
        vocab = _words(self.vocab, lambda v: v.fingerprint()[:8] if isinstance(v, Vocab) else repr(v))
        words = arguments(max_length=self.max_length, bos=self.bos, eos=self.eos)
        separators = "" if self.separators is None else f", separators={self.separators!r}"
        return f"tokens(vocab={vocab}{', ' if words else ''}{words}{separators})"

    def build(self, numbering: Numbering) -> Records:
        """Keeps the order and puts the encoding as near to the file as it can."""
        built = self.parent.build(numbering)
        reader = built.reader
        names = reader.column_names()
        vocabs = per_column(self.vocab, names, "vocab")
        if not vocabs:
            raise PlanError(f"tokens needs a Vocab for one column at least, got {self.vocab!r:.60}")
        max_lengths = per_column(self.max_length, names, "max_length")
        begins = per_column(self.bos, names, "bos")
        ends = per_column(self.eos, names, "eos")
        for name, vocab in vocabs.items():
            if not isinstance(vocab, Vocab):
                raise PlanError(f"tokens takes a Vocab for column {name!r}, got {type(vocab).__name__} {vocab!r:.60}")
            self._check_separators(reader, numbering)
            limit = max_lengths.get(name)
            if limit is not None:
                limit = _limit(limit, name)
            begin, end = (_special(vocab, table.get(name), name) for table in (begins, ends))
            reader = reader.encode(name, Encoding(vocab, limit, begin, end, self.separators))
        return replace(built, reader=reader)

    def _check_separators(self, reader: Reader, numbering: Numbering) -> None:
        # Behind a map nobody knows which file a text came from, and so how its tokens are separated.
        if self.separators is None and reader.column_names() is None:
            for source in numbering.sources:
                if isinstance(source, TextSource) and source.separators is not None:
                    raise PlanError(
                        f"tokens after a map doesn't know that read_text(separators={source.separators!r}) is meant; "
                        "say tokens(separators=…)"
                    )


def _limit(value: Any, name: str) -> int:
    try:
        return whole("max_length", value, 0, (1 << 31) - 1)
    except ValueError as error:
        raise PlanError(f"tokens: column {name!r}: {error}") from None


def _special(vocab: Vocab, token: str | None, name: str) -> int | None:
    if token is None:
        return None
    if token not in vocab:
        raise PlanError(f"the vocabulary of column {name!r} has no {token!r}; add it, or pass another bos or eos")
    return vocab[token]


def per_column(value: PerColumn[Any] | None, names: list[str] | None, argument: str) -> dict[str, Any]:
    """Spreads an argument over the columns.

    Args:
        value: One value, a sequence in the order of the columns, or a mapping by name.
        names: The columns, or None if only the data can tell.
        argument: Its name, for messages.

    Returns:
        The values that aren't None, by column.

    Raises:
        PlanError: If a column is named that isn't there, or a sequence has another length.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        unknown = [name for name in value if names is not None and name not in names]
        if unknown:
            raise PlanError(f"{argument} names column {unknown[0]!r}; the columns are {names}")
        return {name: v for name, v in value.items() if v is not None}
    if names is None:
        raise PlanError(f"{argument} needs names of columns after a map, as in {argument}={{'text': …}}")
    if isinstance(value, Sequence) and not isinstance(value, (str, Vocab)):
        if len(value) != len(names):
            raise PlanError(f"{argument} has {len(value)} values for {len(names)} columns {names}")
        return {name: v for name, v in zip(names, value, strict=True) if v is not None}
    return dict.fromkeys(names, value)


def _words(value: PerColumn[Any], word: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}:{word(v)}" for name, v in value.items() if v is not None)
    if isinstance(value, Sequence) and not isinstance(value, (str, Vocab)):
        return ", ".join("-" if v is None else word(v) for v in value)
    return str(word(value))


class EncodedColumnReader(ChangingReader):
    """Encodes one column of what another reader gives."""

    def __init__(self, parent: Reader, name: str, encoding: Encoding) -> None:
        super().__init__(parent)
        self.name = name
        self.encoding = encoding

    def change(self, tree: Tree, rows: Rows, clock: Clock) -> Tree:
        """Encodes the column of all rows in one native call."""
        with clock.stage("tokens"):
            if isinstance(tree, Objects) and len(tree):
                tree = collate(tree, where=lambda i: self.where(rows.ids[:, i]))
            found = []

            def convert(name: str, leaf: Any) -> Any:
                if name != self.name:
                    return leaf
                found.append(name)
                return self._encode(leaf)

            tree = map_leaves(convert, tree)
        if not found and len(rows):
            raise DataError(f"tokens: {self.where(rows.ids[:, 0])} has no column {self.name!r}")
        return tree

    def _encode(self, column: Any) -> Ragged:
        if not isinstance(column, (Strings, Bytes)):
            raise DataError(f"tokens: column {self.name!r} holds {type(column).__name__}, expected texts")
        e = self.encoding
        return e.vocab.encode(column, max_length=e.max_length, bos=e.bos, eos=e.eos, separators=e.separators)

    def lengths(self, rows: Rows) -> dict[str, NDArray[np.int64]]:
        """The parent's, with this column's as they will be."""
        known = self.parent.lengths(rows)
        if self.name in known:
            known[self.name] = self.encoding.lengths(known[self.name])
        return known

    def column_names(self) -> list[str] | None:
        """The parent's."""
        return self.parent.column_names()
