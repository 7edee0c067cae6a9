"""Goes through a source from its first sequence to its last, on some threads, in order and in bounded memory."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from headrace.cli.output import progress
from headrace.formats.in_order import in_order
from headrace.formats.sequences import Parsed, SequenceSource, records_a_block

BLOCK_BYTES = 4 << 20


class Part(NamedTuple):
    """Neighbouring sequences: the number of the first one, and what they are parsed to."""

    first: int
    parsed: Parsed
    records: int


def parts(source: SequenceSource, what: str, *, block_bytes: int = BLOCK_BYTES) -> Generator[Part, None, None]:
    """All sequences, in parts of about `block_bytes`, with a bar that says `what` is being done."""
    total = source.num_records
    size = records_a_block(source, block_bytes)

    def parse(first: int) -> Part:
        records = np.arange(first, min(first + size, total))
        return Part(first, source.parse(records), len(records))

    work = in_order(parse, range(0, total, size))
    with progress(what, source.num_bytes) as advance, contextlib.closing(work):
        for part in work:
            yield part
            advance(source.num_bytes * part.records // total)
