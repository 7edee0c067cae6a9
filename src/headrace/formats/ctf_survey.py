"""A look at every sequence of a file in CNTK's text format: which are malformed, and how long their streams are."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.formats import sidecar
from headrace.formats.ctf_index import CtfFile, about_file, is_kept
from headrace.formats.in_order import in_order
from headrace.formats.sidecar import IndexMode

BLOCK_BYTES = 16 << 20
"""Bytes of text that are parsed in one go."""

_VERSION = 2


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """What a look at every sequence of a file gives.

    Attributes:
        errors: The record of each mistake that is told, ascending.
        times: How many each stands for, as of `Parsed`.
        dropped: The records that lost so much that they can't be used.
        lengths: Samples of each sequence, a table for each stream.
    """

    errors: NDArray[np.int64]
    times: NDArray[np.int64]
    dropped: NDArray[np.int64]
    lengths: tuple[NDArray[np.uint32], ...]


def survey(
    file: CtfFile,
    reader: _native.CtfReader,
    schema: Sequence[Any],
    *,
    index: IndexMode,
    most: int | None,
) -> Survey:
    """Looks at every sequence of a file, or reads what was seen before from a sidecar.

    Args:
        file: The file.
        reader: Reads it.
        schema: All that the result depends on, as JSON values: the streams, and how sequences are counted.
        index: As for `TextSource`.
        most: Mistakes after which the rest of the file doesn't matter. What was seen until then is given, and not kept.
    """
    keep = is_kept(file.path, index)
    text = json.dumps(schema)
    mark = int(_native.hash64(np.frombuffer(text.encode(), np.uint8)))
    beside = sidecar.sidecar_path(file.path, f"ctf-survey-{mark:016x}")
    about = about_file(file.bytes) | {"survey": _VERSION, "schema": text}
    names = [f"lengths {number}" for number in range(len(schema[0]))]
    if keep and index == "auto":
        types: dict[str, type[np.generic]] = {"errors": np.int64, "times": np.int64, "dropped": np.int64}
        found = sidecar.load(beside, about, types | dict.fromkeys(names, np.uint32))
        if found and all(len(found.arrays[name]) == file.num_records for name in names):
            for name in found.arrays:
                found.check(name)
            # Copies, so that what is looked at while planning can't change or go away.
            errors, times, dropped, *lengths = (np.array(found.arrays[name]) for name in (*types, *names))
            return Survey(errors, times, dropped, tuple(lengths))
    parts: list[Survey] = []
    count = 0
    with contextlib.closing(_look(file, reader)) as looking:
        for part in looking:
            parts.append(part)
            count += int(part.times.sum())
            if most is not None and count > most:
                keep = False
                break
    seen = Survey(
        _join([part.errors for part in parts], np.int64),
        _join([part.times for part in parts], np.int64),
        _join([part.dropped for part in parts], np.int64),
        tuple(_join([part.lengths[i] for part in parts], np.uint32) for i in range(len(names))),
    )
    if keep:
        tables = {"errors": seen.errors, "times": seen.times, "dropped": seen.dropped}
        sidecar.store(beside, about, tables | dict(zip(names, seen.lengths, strict=True)))
    return seen


def _join(arrays: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)


def _look(file: CtfFile, reader: _native.CtfReader) -> Generator[Survey, None, None]:
    """The surveys of blocks, from the first to the last; parsed on several threads, a few ahead."""

    def block(start: int) -> Survey:
        columns, dropped, rows, problems, _ = reader.parse(np.arange(start, min(start + size, file.num_records)))
        lengths = tuple(np.diff(column[-1]).astype(np.uint32) for column in columns)
        return Survey(rows + start, problems.times(), np.flatnonzero(dropped) + start, lengths)

    blocks = max(1, -(-file.bytes.size // BLOCK_BYTES))
    size = max(1, -(-file.num_records // blocks))
    return in_order(block, range(0, file.num_records, size))
