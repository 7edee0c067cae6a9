"""Steps that only change the order: which records come, how often and where. Their reader is their parent's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from headrace import plan as plans
from headrace.dataset.leaf import SourceNode
from headrace.dataset.node import Node, Numbering, Records, walk
from headrace.dataset.stream_shuffle import ShuffledStream
from headrace.errors import PlanError
from headrace.formats.stream import StreamSource


@dataclass(frozen=True, slots=True)
class Reorder(Node):
    """Another order of the same records.

    Attributes:
        parent: The step before.
        words: The step in words.
        order: Makes the new plan of the parent's plan (picklable, since descriptions travel to other processes).
        needs_length: Whether a stream, whose number of records isn't known, is refused.
        keeps_order: Whether the order is the same in every epoch.
        cut: Start, stop and step, if it is a slice.
        stream: Makes a stream in the new order of a stream, where that can be done.
    """

    parent: Node
    words: str
    order: Callable[[plans.Plan], plans.Plan]
    needs_length: bool = True
    keeps_order: bool = True
    cut: tuple[int, int | None, int] | None = None
    stream: Callable[[StreamSource], StreamSource] | None = None

    @property
    def parents(self) -> tuple[Node, ...]:
        """The step before."""
        return (self.parent,)

    def describe(self) -> str:
        """The words it was made with."""
        return self.words

    def _remedy(self) -> str:
        if self.stream is not None:
            return "put it before repeat(); of a stream it comes right after from_iterable()"
        also = "; shuffle(window=…) can shuffle a stream" if self.words.startswith("shuffle") else ""
        return f"put it before repeat(), or read the records from a file, array or object with a length{also}"

    def build(self, numbering: Numbering) -> Records:
        """Wraps the parent's plan."""
        parent = self.parent
        if self.stream is not None and isinstance(parent, SourceNode) and isinstance(parent.source, StreamSource):
            return SourceNode(self.stream(parent.source)).build(numbering)
        before = len(numbering.streams)
        built = self.parent.build(numbering)
        # A stream may be shorter than what take() makes of it, so its records are not all known to be there.
        if self.needs_length and (built.plan.length is None or len(numbering.streams) > before):
            raise PlanError(
                f"{self.words} needs a known number of records, got an endless or streamed dataset; {self._remedy()}"
            )
        if built.sifted is not None and self.cut is not None:
            return replace(built, sifted=built.sifted.slice(*self.cut))  # counts what the filters leave
        built = built.unsliced(self.words)
        return replace(built, plan=self.order(built.plan))


def shuffle(parent: Node, seed: int, window: int | None) -> Reorder:
    """A new order each epoch: of all records, or inside windows of neighbouring ones."""
    if window is None:
        return Reorder(parent, f"shuffle(seed={seed})", partial(plans.Shuffle, seed=seed), keeps_order=False)
    words = f"shuffle(seed={seed}, window={window})"
    order = partial(plans.WindowShuffle, seed=seed, window=window)
    stream = partial(ShuffledStream, seed=seed, window=window)
    return Reorder(parent, words, order, keeps_order=False, stream=stream)


def repeat(parent: Node, count: int | None) -> Reorder:
    """Several passes over the records as one epoch."""
    return Reorder(parent, f"repeat({count or ''})", partial(plans.Repeat, count=count), keeps_order=False)


def slice_(parent: Node, words: str, start: int, stop: int | None, step: int = 1) -> Reorder:
    """Every `step`-th record from `start` to before `stop`."""
    order = partial(plans.Slice, start=start, stop=stop, step=step)
    return Reorder(parent, words, order, needs_length=False, cut=(start, stop, step))


def keeps_order(node: Node) -> bool:
    """Whether the records of a description come in the same order in every epoch."""
    return all(getattr(step, "keeps_order", True) for step, _ in walk(node))
