"""Tells from the beginning of a file in CNTK's text format which streams it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.checks import flag_of, whole
from headrace.errors import DataError
from headrace.formats.ctf_schema import MAX_DIM, CtfStream, check_alias
from headrace.formats.files import AnyPath, find_files, open_bytes

_BLOCK = 4 << 20  # bytes that are looked at in one go
_BEGINNING = 1 << 20  # bytes that tell the streams by which the rest is parsed
_LONG = 1 << 16  # bytes of a sample that are worth parsing

_NUMBER = rb"[+-]?[0-9]++(?:\.(?:[0-9]++(?:[eE][+-]?[0-9]++)?+)?+|[eE][+-]?[0-9]++)?+"
_PAIR = rb"[0-9]{1,10}+:" + _NUMBER
_DENSE = re.compile(rb"[ \t]*+" + _NUMBER + rb"(?:[ \t]++" + _NUMBER + rb")*+[ \t]*+")
_SPARSE = re.compile(rb"[ \t]*+" + _PAIR + rb"(?:[ \t]++" + _PAIR + rb")*+[ \t]*+")
_INDEX = re.compile(rb"([0-9]+):")
_ONE_NUMBER, _ONE_PAIR = re.compile(_NUMBER), re.compile(_PAIR)
_SAMPLE = re.compile(rb"([^\x00-\x20]+)([^\x00-\x08\x0a-\x1f]*)")
_ID = re.compile(rb"[0-9]+")
_FIRST_LINE = re.compile(rb"[^\xef\xbb\xbf\s][^\n]*(\n|$)")  # that has something in it


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

    def add(self, text: bytes, record: int, line: int) -> None:
        """Takes a sample: what follows its name."""
        self.samples += 1
        if record != self.record:
            self.record, self.in_record = record, 0
            self.records += 1
        self.in_record += 1
        self.most_in_record = max(self.most_in_record, self.in_record)
        largest, count, good = _look_at_long(text) if len(text) > _LONG else _look_at_values(text)
        if not good:
            self.bad += 1
            self.first_bad = self.first_bad or f"line {line}"
        if largest >= 0:
            self.sparse += 1
            self.largest = max(self.largest, largest)
        elif count:
            self.shortest = min(self.shortest, count) if self.dense else count
            self.longest = max(self.longest, count)
            self.dense += 1

    def kind(self) -> tuple[bool, int]:
        """How it is declared, to read more of it: whether it is sparse, and a width that is enough."""
        sparse = self.sparse >= self.dense
        return sparse, MAX_DIM if sparse else self.longest

    def add_column(self, column: tuple[NDArray[Any], ...]) -> None:
        """Takes the samples of whole records, parsed; dense ones have all as many values."""
        lengths = np.diff(column[-1])
        self.samples += int(column[-1][-1])
        self.records += int(np.count_nonzero(lengths))
        self.most_in_record = max(self.most_in_record, int(lengths.max(initial=0)))
        self.record = -1
        if len(column) == 4:
            _, indices, entries, _ = column
            self.sparse += int(np.count_nonzero(np.diff(entries)))
            self.largest = max(self.largest, int(indices.max(initial=-1)))
        elif len(column[0]):
            width = column[0].shape[1]
            self.shortest = min(self.shortest, width) if self.dense else width
            self.longest = max(self.longest, width)
            self.dense += len(column[0])


def _look_at_values(text: bytes) -> tuple[int, int, bool]:
    """The largest index in a sample, or -1; how many values it has, if there is no index; whether all are good."""
    if _SPARSE.fullmatch(text):
        indices, count, good = [int(index) for index in _INDEX.findall(text)], 0, True
    elif _DENSE.fullmatch(text):
        indices, count, good = [], len(text.split()), True
    else:
        values = text.split()
        indices = [int(value.partition(b":")[0]) for value in values if _ONE_PAIR.match(value)]
        count = 0 if indices else sum(_ONE_NUMBER.fullmatch(value) is not None for value in values)
        good = not values
    if indices and max(indices) >= MAX_DIM:
        return -1, count, False
    return max(indices, default=-1), count, good


def _look_at_long(text: bytes) -> tuple[int, int, bool]:
    """As `_look_at_values`, of a long sample: parsed, and if it is malformed looked at but for its beginning."""
    line = np.frombuffer(b"|x " + text + b"\n", np.uint8)
    written = line > ord(" ")
    count = int(np.count_nonzero(written[1:] & ~written[:-1]))  # the name, which begins the line, isn't one of them
    file = _native.FileBytes.from_memory(line, "")
    ids, first_line, begins, ends, keys, _ = _native.index_ctf(file, False, "", 0)
    for sparse in (True, False):
        dim = MAX_DIM if sparse else min(max(count, 1), MAX_DIM)
        reader = _reader(file, (begins, ends, keys), ids, first_line, [("x", sparse, dim)])
        assert reader is not None
        (column,), _, errors, _, warnings = reader.parse(np.arange(1))
        if not len(errors) and not warnings:
            return (int(column[1].max(initial=-1)), 0, True) if sparse else (-1, count, True)
    largest, some, _ = _look_at_values(text[: max(text.rfind(b" ", 0, _LONG), text.rfind(b"\t", 0, _LONG)) + 1])
    return largest, count if some else 0, False


def infer_ctf(file: AnyPath, *, max_bytes: int = 1 << 20, skip_ids: bool = False) -> InferredCtf:
    r"""Looks at the beginning of a file in CNTK's text format and tells which streams it holds.

    A stream is sparse where its values are pairs `index:value`; its `dim` is then one more than the largest index seen,
    which is a lower bound: say a larger one where you know it. The `dim` of a dense stream is the number of values of
    its longest sample. Streams of a file without sequence ids that don't have exactly one sample a line are said to
    be sequences.

    Args:
        file: The file, or a pattern, of whose files the first is looked at; `.gz` and `.zst` are unpacked.
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
    skip_ids = flag_of("infer_ctf", "skip_ids", skip_ids)
    path = find_files(file)[0]
    content = open_bytes(path)
    size, most = content.size, whole("max_bytes", max_bytes, 1)
    look = _Look(path)
    for text in _blocks(content, most if most < size else min(_BLOCK, _BEGINNING)):
        look.take(text, skip_ids)
    if most >= size > look.bytes:
        look = _look_at_all(content, skip_ids, look)
    seen, looked, lines = look.seen, look.bytes, look.lines
    ids, records = lines.ids, lines.record + 1
    streams: dict[str, CtfStream] = {}
    part = f"all {size:,} bytes" if looked == size else f"the first {looked:,} of {size:,} bytes"
    what = f"{records:,} sequences with ids" if ids else "each line is a record, without ids"
    notes = [f"looked at {part}: {lines.count:,} lines, {what}"]
    for name, stream in seen.items():
        _describe(name, stream, ids, records, streams, notes)
    if not streams:
        raise DataError(f"{path}: expected samples such as '|name 1 2 3', found none in the first {looked:,} bytes")
    if ids and records > 1 and records == lines.count:
        notes.append("every sequence has one line: pass sequence=False with the streams to have plain columns")
    return InferredCtf(streams, ids, tuple(notes))


def _blocks(content: _native.FileBytes, max_bytes: int) -> Iterator[bytes]:
    """Whole lines from the beginning of a file, about as many bytes as asked for, at least one with something in it."""
    start, want, found = 0, min(_BLOCK, max_bytes), False
    while True:
        content.check_unchanged()
        text = content.array()[start : start + want].tobytes()
        ended = start + len(text) == content.size
        if not ended:
            text = text[: text.rfind(b"\n") + 1]
        line = None if found else _FIRST_LINE.search(text)
        if line is not None and len(text) > max_bytes:  # as far as asked for, but not less than the first line
            text = text[: max(line.end(), text.rfind(b"\n", 0, max_bytes) + 1)]
        found = found or line is not None
        if ended or (text and found):
            yield text
            start += len(text)
            if ended or start >= max_bytes:
                return
            want = min(_BLOCK, max_bytes - start)
        elif found and start + want >= max_bytes:
            return  # the next line isn't whole
        else:
            want = min(2 * want, max_bytes - start) if found else 2 * want


class _Lines:
    """Goes through lines, block by block, and tells records apart."""

    def __init__(self) -> None:
        self.ids = False
        self.count = self.first_line = 0
        self.record = -1
        self._current: int | None = None

    def begin(self, block: _native.FileBytes, skip_ids: bool) -> int:
        """Looks at how the file begins, and tells at which byte.

        Raises:
            DataError: If no such file begins so.
        """
        self.ids, self.first_line, begins, *_ = _native.index_ctf(block, skip_ids, "", 0)
        return int(begins[0])

    def restart(self, record: int) -> None:
        """Goes on with the first line of a record."""
        self.record, self._current = record - 1, None

    def take(self, text: bytes) -> Iterator[tuple[int, int, list[tuple[bytes, bytes]]]]:
        """Of each line its number (from 1), that of its record (from 0), and the names and texts of its samples."""
        rows = text.split(b"\n")
        if not rows[-1]:
            rows.pop()
        for row in rows:
            self.count += 1
            if not self.ids:
                self.record += 1
            elif (found := _ID.match(row)) is not None and int(found[0]) != self._current:
                self.record += 1
                self._current = int(found[0])
            matches = [_SAMPLE.match(piece) for piece in row.split(b"|")[1:] if not piece.startswith(b"#")]
            yield self.first_line + self.count, self.record, [(m[1], m[2]) for m in matches if m is not None]


class _Look:
    """What was seen of a file, from its beginning on."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.bytes = 0
        self.lines = _Lines()
        self.seen: dict[bytes, _Seen] = {}

    def take(self, text: bytes, skip_ids: bool) -> None:
        """Goes through the next lines."""
        begin = 0
        if not self.bytes:
            block = _native.FileBytes.from_memory(np.frombuffer(text, np.uint8), self.path)
            begin = self.lines.begin(block, skip_ids)
        self.bytes += len(text)
        self.take_lines(text[begin:])

    def take_lines(self, text: bytes) -> None:
        """Goes through lines behind the beginning."""
        for line, record, samples in self.lines.take(text):
            for name, values in samples:
                self.seen.setdefault(name, _Seen()).add(values, record, line)


def _look_at_all(content: _native.FileBytes, skip_ids: bool, beginning: _Look) -> _Look:
    """Goes through a whole file, whose beginning was looked at before.

    Blocks that hold nothing but well-formed samples of the streams that are known by then are parsed, which is a
    hundred times as fast; the others are gone through line by line.
    """
    look = _Look(content.name)
    look.seen = {name: _Seen() for name in beginning.seen}
    ids, first_line, begins, ends, keys, _ = _native.index_ctf(content, skip_ids, "", 0)
    look.lines.ids, look.lines.first_line = ids, first_line
    count = len(begins) - 1
    known = beginning.seen
    declared: list[tuple[str, bool, int]] = []
    reader: _native.CtfReader | None = None
    start = 0
    while start < count:
        stop = max(start + 1, int(np.searchsorted(begins, begins[start] + np.uint64(_BLOCK), side="right")) - 1)
        stop = min(stop, count)
        wanted = [(name.decode("utf-8", "replace"), *seen.kind()) for name, seen in known.items()]
        if wanted != declared:
            declared = wanted
            reader = _reader(content, (begins, ends, keys), ids, first_line, declared)
        content.check_unchanged()
        text = content.array()[int(begins[start]) : int(begins[stop])]
        if reader is None or not _add_parsed(look, reader, start, stop, text):
            look.lines.restart(start)
            look.take_lines(text.tobytes())
            for name, seen in look.seen.items():  # streams that first come here, and samples that are wider
                if name not in known or seen.longest > known[name].longest:
                    known = known | {name: seen}
        look.lines.restart(stop)
        start = stop
    look.seen = {name: seen for name, seen in look.seen.items() if seen.samples}
    look.bytes = content.size
    return look


def _reader(
    content: _native.FileBytes,
    tables: tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]],
    ids: bool,
    first_line: int,
    streams: list[tuple[str, bool, int]],
) -> _native.CtfReader | None:
    begins, ends, keys = tables
    try:
        return _native.CtfReader(content, begins, ends, ids, keys, first_line, streams, -1, False, False)
    except ValueError:  # a name that can't be declared
        return None


def _add_parsed(look: _Look, reader: _native.CtfReader, start: int, stop: int, text: NDArray[np.uint8]) -> bool:
    """Parses some records and takes what comes, if that is all that stands there."""
    columns, _, errors, _, warnings = reader.parse(np.arange(start, stop))
    if len(errors) or any(kind != "no final newline" for kind, _, _ in warnings):
        return False
    if int(np.count_nonzero(text == ord("|"))) != sum(int(column[-1][-1]) for column in columns):
        return False  # comments, or streams that aren't known
    for seen, column in zip(look.seen.values(), columns, strict=True):
        seen.add_column(column)
    look.lines.count += int(np.count_nonzero(text == ord("\n"))) + (text[-1] != ord("\n"))
    return True


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
