"""A description, compiled: the plan of its batches and the reader that carries pieces of the plan out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from headrace.dataset.leaf import StreamReader
from headrace.dataset.node import BatchNode, BatchReader, LateBatching, Numbering, check_depth, steps
from headrace.formats.source import Fingerprint, Source
from headrace.plan import BatchPlan


@dataclass(frozen=True)
class Program:
    """What a loader runs.

    Attributes:
        plan: Which records are in which batch.
        reader: Reads the records of a batch and makes the batch of them.
        steps: The description in words, sources first.
        sources: Where the records come from, in the order of their leaf numbers.
        streams: The readers of those that are streams, which `reader.advance` must be told of in order.
        late: How batches are made of what has been read; the plan then has blocks, not batches.
    """

    plan: BatchPlan
    reader: BatchReader
    steps: tuple[str, ...]
    sources: tuple[Source, ...]
    streams: tuple[StreamReader, ...]
    late: LateBatching | None = None

    @cached_property
    def fingerprints(self) -> list[Fingerprint]:
        """What tells each source's data from other data; found out once, as sources don't change."""
        return [source.fingerprint() for source in self.sources]


def compile_program(node: BatchNode) -> Program:
    """Compiles a description.

    Raises:
        PlanError: If its steps don't fit together.
        DataError: If its sources don't.
    """
    check_depth(node)
    numbering = Numbering()
    built = node.build(numbering)
    return Program(
        built.plan,
        built.reader,
        tuple(steps(node)),
        tuple(numbering.sources),
        tuple(numbering.streams),
        built.late,
    )
