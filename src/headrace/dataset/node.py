"""What every step of a description is, and what it is compiled to.

A description is a tree of nodes. Each node says in words what it does (for the fingerprint that a saved state carries)
and builds its part of the *plan* (which records, in which order) and of the *flow* (how records are read and changed).
Operations that only change the order hand on their parent's reader; operations that only change records hand on its
plan. That is why the two can be compiled apart and the order never depends on how records are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headrace.batch.tree import Tree
from headrace.clock import Clock
from headrace.errors import PlanError
from headrace.formats.source import Source
from headrace.plan import BatchPlan, PackedRows, Plan, Rows

if TYPE_CHECKING:
    from headrace.dataset.leaf import StreamReader
    from headrace.dataset.lengths import FoundLengths
    from headrace.dataset.pack import PackLengths
    from headrace.dataset.tokens import Encoding


class Reader(ABC):
    """Reads records by their ids: the flow of one node and all below it. Safe to call from threads.

    Readers have no state, but for where streams are: whoever reads goes through the rows in the plan's order first,
    with `advance`, and may then read them in any order.
    """

    slots: int
    """Ids that name one record: 1, or more after a zip."""

    @abstractmethod
    def read(self, rows: Rows, clock: Clock) -> Tree:
        """Reads the records of `rows`, in that order."""

    def advance(self, rows: Rows, wanted: NDArray[np.bool_]) -> int:
        """Iterates the streams among the sources on to `rows`.

        Args:
            rows: Records in the plan's order; those of the call before came before them.
            wanted: Which of them will be read, shape `(rows,)`.

        Returns:
            How many of them there are, from the first on: all, unless a stream ends.

        Raises:
            DataError: If streams that were zipped end apart.
        """
        return len(rows)

    def sift(self, rows: Rows, clock: Clock) -> tuple[Tree, NDArray[np.int64]]:
        """Reads the records of `rows` that no filter leaves out.

        Returns:
            Those records, and their places among `rows`, ascending. Where there are none the tree means nothing.
        """
        return self.read(rows, clock), np.arange(len(rows))

    @abstractmethod
    def where(self, ids: NDArray[np.int64]) -> str:
        """Names the record with these ids (shape `(slots,)`) for messages: file and line, or source and number."""

    @property
    @abstractmethod
    def leaves(self) -> frozenset[int]:
        """The numbers of the leaves that the first slot's ids may come from."""

    def lengths(self, rows: Rows) -> dict[str, NDArray[np.int64]]:
        """Items of each record by column, as far as an index knows them; read from no data file."""
        return {}

    def column_names(self) -> list[str] | None:
        """The names of the columns, or None where only the data can tell (after a map)."""
        return None

    def encode(self, name: str, encoding: Encoding) -> Reader:
        """A reader that gives token ids for a column of texts. Those that can do so as they read override this."""
        from headrace.dataset.tokens import EncodedColumnReader

        return EncodedColumnReader(self, name, encoding)


class WrappingReader(Reader):
    """Reads through another reader, and is like it in all that it doesn't say otherwise."""

    def __init__(self, parent: Reader) -> None:
        self.parent = parent
        self.slots = parent.slots

    def advance(self, rows: Rows, wanted: NDArray[np.bool_]) -> int:
        """As the parent."""
        return self.parent.advance(rows, wanted)

    def where(self, ids: NDArray[np.int64]) -> str:
        """As the parent names it."""
        return self.parent.where(ids)

    @property
    def leaves(self) -> frozenset[int]:
        """The parent's."""
        return self.parent.leaves


class ChangingReader(WrappingReader):
    """Reads records through another reader and changes them, as many as they are."""

    @abstractmethod
    def change(self, tree: Tree, rows: Rows, clock: Clock) -> Tree:
        """What becomes of the parent's records; `rows` says which they are."""

    def read(self, rows: Rows, clock: Clock) -> Tree:
        """The parent's records, changed."""
        return self.change(self.parent.read(rows, clock), rows, clock)

    def sift(self, rows: Rows, clock: Clock) -> tuple[Tree, NDArray[np.int64]]:
        """Changes what the filters below leave."""
        tree, kept = self.parent.sift(rows, clock)
        return (self.change(tree, rows.take(kept), clock) if len(kept) else tree), kept


class BatchReader(WrappingReader):
    """Reads whole batches, or makes them of records that have been read already."""

    @abstractmethod
    def finish(self, tree: Tree, rows: Rows, clock: Clock) -> Tree:
        """The batch of records that have been read (and filtered); `rows` says which they are."""

    @abstractmethod
    def finish_none(self, tree: Tree, example: Rows, clock: Clock) -> Tree:
        """As `read_none`, of one record that has been read."""

    @abstractmethod
    def read_none(self, example: Rows, clock: Clock) -> Tree:
        """A batch of no records, with the columns and types that records like `example` (one at least) give.

        A rank gets it where a batch has fewer records than there are ranks.
        """


class Numbering:
    """Hands out numbers while a description is compiled: one for each leaf, one for each step that draws at random."""

    def __init__(self) -> None:
        self.leaves = count()
        self.draws = count()
        self.sources: list[Source] = []
        self.streams: list[StreamReader] = []


@dataclass(frozen=True, slots=True)
class FilteredSlice:
    """That filters leave out some of a plan's records when they have been read; and which of the others come.

    Attributes:
        block: Positions that are read and filtered as one piece.
        patience: Records in a row that may all be left out of what has no end; None sets no limit.
        start: Of those that are left, the first that comes.
        stop: The one before which the records end, or None.
        step: Each so many-th of them comes.
    """

    block: int
    patience: int | None
    start: int = 0
    stop: int | None = None
    step: int = 1

    def slice(self, start: int, stop: int | None, step: int) -> FilteredSlice:
        """A slice of the records that come so far."""
        ends = [end for end in (self.stop, None if stop is None else self.start + stop * self.step) if end is not None]
        return replace(self, start=self.start + start * self.step, stop=min(ends, default=None), step=self.step * step)

    @property
    def is_slice(self) -> bool:
        """Whether not all that are left come: a place in their order then depends on all before it."""
        return (self.start, self.stop, self.step) != (0, None, 1)


@dataclass(frozen=True, slots=True)
class Records:
    """A compiled description of records: their order and how they are read.

    Attributes:
        plan: The order.
        reader: How records are read.
        sifted: What is known of those that filters leave out, if there are filters: the plan still has them all, and
            the reader leaves them out in `sift`.
    """

    plan: Plan
    reader: Reader
    sifted: FilteredSlice | None = None

    def unsliced(self, operation: str) -> Records:
        """Itself, for an operation that can't come after a slice of what filters left.

        Raises:
            PlanError: If it is such a slice.
        """
        if self.sifted is not None and self.sifted.is_slice:
            raise PlanError(
                f"{operation} comes before take, skip, slice and shard where those follow a filter: they count what "
                "the filter left, which is known only as it is read"
            )
        return self


@dataclass(frozen=True, slots=True)
class BatchRecords:
    """A compiled description of batches.

    Attributes:
        plan: The batches; or the blocks that are read as one piece, if batches are made of what has been read.
        reader: How batches are read.
        late: How batches are made of what has been read, if only then it is known which records come together.
    """

    plan: BatchPlan
    reader: BatchReader
    late: LateBatching | None = None


@dataclass(frozen=True, slots=True)
class Bucketing:
    """How records that have been read join buckets.

    Attributes:
        lengths: Gives the lengths that decide on it.
        batch_size: Records a batch, one number or one for each bucket; None if tokens are counted.
        max_tokens: Items a padded batch may have, or None if records are counted.
        boundaries: Lengths at which a new bucket begins.
    """

    lengths: FoundLengths
    batch_size: int | tuple[int, ...] | None
    max_tokens: int | None
    boundaries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """How records that have been read are packed into rows.

    Attributes:
        lengths: Gives the lengths that decide on it.
        arrange: Packs records of these lengths: batches of pieces, which name records by their places.
    """

    lengths: PackLengths
    arrange: Callable[[NDArray[np.integer]], Iterable[PackedRows]]


@dataclass(frozen=True, slots=True)
class LateBatching:
    """How batches are made of records that have been read: what filters leave, or what has a length only then.

    Attributes:
        reader: Reads and filters records.
        size: Records a batch, where they don't join buckets.
        drop_remainder: Whether batches that aren't full are left out, at the end of an epoch or (of buckets) a window.
        sifted: Which of the records come.
        endless: Whether the plan has no end and no stream that could end.
        grouping: How records of like length come together, or are packed; None puts those together that come after each
            other.
    """

    reader: Reader
    size: int
    drop_remainder: bool
    sifted: FilteredSlice
    endless: bool
    grouping: Bucketing | Packing | None = None


class AnyNode(ABC):
    """A step of a description. Immutable."""

    @property
    @abstractmethod
    def parents(self) -> tuple[Node, ...] | tuple[BatchNode, ...]:
        """The steps that this one builds on."""

    @abstractmethod
    def describe(self) -> str:
        """The step and its parameters in words, without its parents: `"shuffle(seed=7)"`.

        These words are part of saved states: to reword them is to refuse the states that there are.
        """


class Node(AnyNode):
    """A step that gives records."""

    @property
    @abstractmethod
    def parents(self) -> tuple[Node, ...]:
        """The steps that this one builds on."""

    @abstractmethod
    def build(self, numbering: Numbering) -> Records:
        """Compiles this step and those below it."""


class BatchNode(AnyNode):
    """A step that gives batches."""

    @abstractmethod
    def build(self, numbering: Numbering) -> BatchRecords:
        """Compiles this step and those below it."""


DEEPEST = 256
"""Steps that may stand on each other. Compiling and reading take a few calls a step, and Python limits those."""


def walk(node: AnyNode) -> list[tuple[AnyNode, int]]:
    """All steps of a description, sources first, each with the number of steps that stand on it."""
    found: list[tuple[AnyNode, int]] = []
    rest: list[tuple[AnyNode, int]] = [(node, 0)]
    while rest:  # not by recursion, so that a description of any depth can be looked at
        step, depth = rest.pop()
        found.append((step, depth))
        rest += [(parent, depth + 1) for parent in step.parents]
    return found[::-1]


def steps(node: AnyNode) -> list[str]:
    """The description in words, sources first."""
    return [step.describe() for step, _ in walk(node)]


def check_depth(node: AnyNode) -> None:
    """Refuses a description that can't be compiled.

    Raises:
        PlanError: If too many steps stand on each other.
    """
    deepest = max(depth for _, depth in walk(node)) + 1
    if deepest > DEEPEST:
        raise PlanError(
            f"{deepest} steps stand on each other in this description, at most {DEEPEST} may; join many datasets by "
            "one concat or mix, and many functions in one map"
        )


def arguments(**values: object) -> str:
    """Arguments as they stand in a description; those that are None are left out."""
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)


def function_name(fn: object) -> str:
    """How a user's function is named in a description; its code isn't part of it."""
    return getattr(fn, "__qualname__", type(fn).__qualname__)
