"""Tells from the beginning of a file in CNTK's text format which streams it holds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headrace import _native
from headrace.batch.check import whole
from headrace.errors import DataError
from headrace.formats.ctf_schema import MAX_DIM, CtfStream, check_alias
from headrace.formats.files import AnyPath, find_files, open_bytes

_SAMPLE = re.compile(rb"([^\x00-\x20]+)([^\x00-\x08\x0a-\x1f]*)")
_ID = re.compile(rb"[0-9]+")
_NUMBER = re.compile(rb"[+-]?[0-9]+(\.[0-9]*|([eE][+-]?[0-9]+)|\.[0-9]+[eE][+-]?[0-9]+)?")
_PAIR = re.compile(rb"([0-9]+):[+-]?[0-9]")


@dataclass(frozen=True, slots=True)
class InferredCtf:
    """What the beginning of a file in CNTK's text format tells of it.

    Attributes:
        streams: The streams, by what lines call them, in the order in which they first come; for `read_ctf`.
        ids: Whether lines are joined to sequences by the ids that they begin with.
        notes: Sentences for a person to read: what is certain, what is a guess, what looks wrong.

    Example:
        >>> import headrace as hr
        >>> hr.InferredCtf({"x": hr.dense(3)}, ids=False, notes=()).streams["x"].dim
        3
    """

    streams: dict[str, CtfStream]
    ids: bool
    notes: tuple[str, ...]


class _Seen:
    """What was seen of one stream."""

    def __init__(self) -> None:
        self.samples = self.records = self.most_in_record = 0
        self.record = -1
        self.in_record = 0
        self.dense = self.sparse = 0  # samples with values of either kind
        self.largest = -1  # index
        self.shortest = self.longest = 0  # values in a dense sample
        self.bad = 0
        self.first_bad = ""

    def add(self, values: list[bytes], record: int, line: int) -> None:
        """Takes a sample."""
        self.samples += 1
        if record != self.record:
            self.record, self.in_record = record, 0
            self.records += 1
        self.in_record += 1
        self.most_in_record = max(self.most_in_record, self.in_record)
        if not values:
            return
        pairs = [int(m[1]) for value in values if (m := _PAIR.match(value)) and len(m[1]) <= 10]
        if pairs and max(pairs) >= MAX_DIM:
            pairs = []
        good = len(pairs) if pairs else sum(_NUMBER.fullmatch(value) is not None for value in values)
        if good < len(values):
            self.bad += 1
            self.first_bad = self.first_bad or f"line {line}"
        if pairs:
            self.sparse += 1
            self.largest = max(self.largest, *pairs)
        elif good:
            self.shortest = min(self.shortest, len(values)) if self.dense else len(values)
            self.longest = max(self.longest, len(values))
            self.dense += 1


def infer_ctf(file: AnyPath, *, max_bytes: int = 1 << 20, skip_ids: bool = False) -> InferredCtf:
    r"""Looks at the beginning of a file in CNTK's text format and tells which streams it holds.

    A stream is sparse where its values are pairs `index:value`; its `dim` is then one more than the largest index seen,
    which is a lower bound: say a larger one where you know it. The `dim` of a dense stream is the number of values of
    its longest sample. Streams of a file without sequence ids that don't have exactly one sample a line are said to
    be sequences.

    Args:
        file: The file; `.gz` and `.zst` are unpacked.
        max_bytes: How much of it is looked at, at least the first line.
        skip_ids: Each line is a record, whatever it begins with.

    Raises:
        OSError: If the file can't be opened.
        DataError: If it is empty, in UTF-16, begins neither with `|` nor with a sequence id, or has no sample.

    Example:
        >>> import pathlib, tempfile, headrace as hr
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "train.ctf")
        >>> _ = path.write_text("1 |word 4:1 |pos 0.5 1\n1 |word 7:1\n2 |word 5:1 |pos 1 0\n")
        >>> found = hr.infer_ctf(path)
        >>> found.ids, {name: (s.dim, s.sparse) for name, s in found.streams.items()}
        (True, {'word': (8, True), 'pos': (2, False)})
        >>> folder.cleanup()
    """
    (path,) = find_files([os.fspath(file)])
    content = open_bytes(path)
    content.check_unchanged()
    size = content.size
    text = _beginning(content, whole("max_bytes", max_bytes, 1))
    head = _native.FileBytes.from_memory(np.frombuffer(text, np.uint8), path)
    ids, first_line, begins, *_ = _native.index_ctf(head, skip_ids, "", 0)  # refuses what is no such file
    seen: dict[bytes, _Seen] = {}
    records = lines = 0
    for line, record, samples in _lines(text[int(begins[0]) :], ids, first_line):
        lines, records = lines + 1, record + 1
        for name, values in samples:
            seen.setdefault(name, _Seen()).add(values, record, line)
    streams: dict[str, CtfStream] = {}
    part = f"all {size:,} bytes" if len(text) == size else f"the first {len(text):,} of {size:,} bytes"
    what = f"{records:,} sequences with ids" if ids else "each line is a record, without ids"
    notes = [f"looked at {part}: {lines:,} lines, {what}"]
    for name, stream in seen.items():
        _describe(name, stream, ids, records, streams, notes)
    if not streams:
        raise DataError(f"{path}: expected samples such as '|name 1 2 3', found none in the first {len(text):,} bytes")
    if ids and records > 1 and records == lines:
        notes.append("every sequence has one line: pass sequence=False with the streams to have plain columns")
    return InferredCtf(streams, ids, tuple(notes))


def _beginning(content: _native.FileBytes, max_bytes: int) -> bytes:
    """The first lines of a file, about as many bytes as asked for, at least one line with something in it."""
    size = max_bytes
    while True:
        text = content.array()[:size].tobytes()
        if len(text) == content.size:
            return text
        end = text.rfind(b"\n") + 1
        if text[:end].strip(b"\xef\xbb\xbf \t\r\n\v\f"):
            return text[:end]
        size *= 2


def _lines(text: bytes, ids: bool, first_line: int) -> Iterator[tuple[int, int, list[tuple[bytes, list[bytes]]]]]:
    """Of each line its number (from 1), the number of its record (from 0), and its samples."""
    record, current = -1, None
    rows = text.split(b"\n")
    if not rows[-1]:
        rows.pop()
    for number, row in enumerate(rows, first_line + 1):
        found = _ID.match(row) if ids else None
        if not ids or (found is not None and int(found[0]) != current):
            record += 1
            current = int(found[0]) if found is not None else None
        matches = [_SAMPLE.match(piece) for piece in row.split(b"|")[1:] if not piece.startswith(b"#")]
        yield number, record, [(m[1], m[2].split()) for m in matches if m is not None]


def _describe(
    name: bytes, seen: _Seen, ids: bool, records: int, streams: dict[str, CtfStream], notes: list[str]
) -> None:
    """Adds a stream, and what is to be said of it."""
    alias = name.decode("utf-8", "surrogateescape")
    try:
        check_alias(alias, "the name")
    except ValueError as error:
        notes.append(f"passed over: {error}")
        return
    alone = ids or (seen.records == records and seen.most_in_record == 1)
    sequence = None if alone else True
    if seen.sparse and seen.sparse >= seen.dense:
        streams[alias] = CtfStream(seen.largest + 1, True, sequence=sequence)
        notes.append(
            f"{alias}: sparse, dim {seen.largest + 1} is one more than the largest index seen, so a lower bound"
        )
    elif seen.dense:
        streams[alias] = CtfStream(seen.longest, False, sequence=sequence)
        fewer = f"; samples have {seen.shortest} values and more, zeros follow" if seen.shortest < seen.longest else ""
        notes.append(f"{alias}: dense, dim {seen.longest}{fewer}")
    else:
        streams[alias] = CtfStream(1, True, sequence=sequence)
        notes.append(f"{alias}: no sample has a value; taken for sparse of dim 1")
    if seen.dense and seen.sparse:
        notes.append(f"{alias}: {seen.dense} samples are lists and {seen.sparse} are index:value; the others are wrong")
    if seen.bad:
        notes.append(f"{alias}: {seen.bad} samples are malformed, the first on {seen.first_bad}")
    if not alone:
        notes.append(f"{alias}: not one sample on each line, so a sequence")
