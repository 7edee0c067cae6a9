"""Where the sequences of a file in CNTK's text format stand: found in one pass, and kept beside the file."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.errors import DataError
from headrace.formats import sidecar
from headrace.formats.files import FileState, open_bytes, state_of
from headrace.formats.packed import is_packed
from headrace.formats.repeats import find_repeats
from headrace.formats.sequences import ParseWarning
from headrace.formats.sidecar import IndexMode

_VERSION = 1
_NAMED = 3  # repeated ids that a message names
_HEAD = 1 << 20  # bytes at the beginning of a file in which each stream is looked for
_NAMES = 1 << 16  # bytes from which a message takes the names that there are
_FACTS = 6  # numbers at the beginning of the table of facts; the records of repeated ids follow
_TYPES: dict[str, type[np.generic]] = {
    "begins": np.uint64,
    "ends": np.uint64,
    "keys": np.uint64,
    "samples": np.uint32,
    "facts": np.uint64,
}


@dataclass(frozen=True, slots=True, eq=False)
class CtfFile:
    """A file in CNTK's text format, opened, and its index.

    Sequence `i` is the bytes from `begins[i]` to `ends[i]`, or to `begins[i + 1]` where `ends` is empty.

    Attributes:
        path: The file.
        bytes: Its content, unpacked.
        state: Of the file when it was opened.
        beside: The sidecar that the tables are mapped from, if they are.
        begins: One more than sequences.
        ends: Empty unless a stream defines the size of sequences.
        keys: Empty where each sequence's is the number of its line, from 0.
        samples: Lines, or samples of the stream that defines the size; empty where each sequence has one.
        ids: Whether lines are joined to sequences by the ids that they begin with.
        first_line: Number of the line, from 0, on which the first sequence begins.
        key_range: The smallest key and the largest.
        num_repeats: Sequences with an id that one before has.
        repeats: Records of the first of those, each after the record that has the id first.
    """

    path: str
    bytes: _native.FileBytes
    state: FileState
    beside: sidecar.Sidecar | None
    begins: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    samples: NDArray[np.uint32]
    ids: bool
    first_line: int
    key_range: tuple[int, int]
    num_repeats: int
    repeats: tuple[int, ...]
    _counted: list[tuple[int, int]] = field(default_factory=list, repr=False)  # a byte, and the line feeds before it

    @property
    def num_records(self) -> int:
        """How many sequences there are."""
        return len(self.begins) - 1

    def check(self, *names: str) -> None:
        """Compares tables with their checksums, where they come from a sidecar.

        Raises:
            DataError: If the sidecar is damaged.
        """
        if self.beside:
            for name in names:
                self.beside.check(name)

    def check_unchanged(self) -> None:
        """Makes sure that the tables can be looked at.

        Raises:
            DataChangedError: If the sidecar was written to.
        """
        if self.beside:
            self.beside.file.check_unchanged()

    def keys_of_all(self) -> NDArray[np.uint64]:
        """The key of each sequence."""
        self.check("keys")
        if len(self.keys) or not self.num_records:
            return self.keys
        return np.arange(self.first_line, self.first_line + self.num_records, dtype=np.uint64)

    def spans(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Where each sequence begins and ends."""
        self.check("begins", "ends")
        return self.begins[:-1], self.ends if len(self.ends) else self.begins[1:]

    def line(self, record: int) -> int:
        """The line, counted from 1, on which a sequence begins."""
        self.check_unchanged()
        if not self.ids:
            return (int(self.keys[record]) if len(self.keys) else self.first_line + record) + 1
        # Counted from the last place that was asked for, or from the beginning if that is nearer: many mistakes in a
        # large file would else take the square of their number.
        begin = int(self.begins[record])
        at, feeds = self._counted[0] if self._counted else (0, 0)
        if begin >= at:
            feeds += int(_native.count_line_feeds(self.bytes, at, begin))
        elif begin >= at // 2:
            feeds -= int(_native.count_line_feeds(self.bytes, begin, at))
        else:
            feeds = int(_native.count_line_feeds(self.bytes, 0, begin))
        self._counted[:] = [(begin, feeds)]
        return feeds + 1

    def where(self, record: int) -> str:
        """File, line, and id if there are ids."""
        place = f"{self.path}, line {self.line(record)}"
        return f"{place}, sequence {int(self.keys[record])}" if self.ids else place


def open_ctf(path: str, *, skip_ids: bool, main: str, index: IndexMode) -> CtfFile:
    """Opens a file in CNTK's text format with its index.

    Plain files keep it in a sidecar, one for each way of counting sequences; packed files are unpacked and indexed each
    time.

    Args:
        path: The file.
        skip_ids: Every line is a sequence, whatever it begins with.
        main: What lines call the stream that defines the size of sequences, or nothing.
        index: As for `TextSource`.

    Raises:
        OSError: If the file can't be opened.
        DataError: If it is empty, in UTF-16, damaged in its packing, or begins neither with `|` nor with an id.
    """
    state = state_of(path)
    content = open_bytes(path)
    keep = is_kept(path, index)
    about = about_file(content) | {"skip_ids": skip_ids, "main": main}
    kind = "ctf" + ("-lines" if skip_ids else "") + (f"-by-{main.encode().hex()}"[:40] if main else "")
    beside = sidecar.sidecar_path(path, kind)
    if (
        keep
        and index == "auto"
        and (found := sidecar.load(beside, about, _TYPES))
        and _fits(found.arrays, content.size)
    ):
        return _file(path, content, state, found, found.arrays)
    ids, first_line, begins, ends, keys, samples = _native.index_ctf(content, skip_ids, main, 0)
    arrays: dict[str, NDArray[Any]] = {"begins": begins, "ends": ends, "keys": keys, "samples": samples}
    num_repeats, repeats = _first_repeats(keys) if ids else (0, ())
    if len(keys):
        low, high = int(keys.min()), int(keys.max())
    else:
        low, high = first_line, first_line + max(len(begins) - 2, 0)
    arrays["facts"] = np.array([_VERSION, ids, first_line, low, high, num_repeats, *repeats], np.uint64)
    if keep:
        sidecar.store(beside, about, arrays)
    return _file(path, content, state, None, arrays)


def is_kept(path: str, index: IndexMode) -> bool:
    """Whether what is found out about a file is kept beside it."""
    return index != "memory" and not is_packed(path)


def about_file(content: _native.FileBytes) -> dict[str, Any]:
    """What sidecars say of the file that they belong to."""
    sample = f"{content.sample():016x}"
    return {"format": "ctf", "size": content.size, "mtime_ns": content.mtime_ns, "sample": sample}


def _fits(arrays: dict[str, NDArray[Any]], size: int) -> bool:
    """Whether tables from a sidecar can be those of a file; whether each number is right is seen when it is used."""
    facts, count = arrays["facts"], len(arrays["begins"]) - 1
    return (
        count >= 0
        and int(arrays["begins"][-1]) == size
        and all(len(arrays[name]) in (0, count) for name in ("ends", "keys", "samples"))
        and len(facts) >= _FACTS
        and int(facts[0]) == _VERSION
        and all(int(record) < count for record in facts[_FACTS:])
        and (not facts[1] or len(arrays["keys"]) == count)
    )


def _file(
    path: str,
    content: _native.FileBytes,
    state: FileState,
    beside: sidecar.Sidecar | None,
    arrays: dict[str, NDArray[Any]],
) -> CtfFile:
    _, ids, first_line, low, high, num_repeats, *repeats = arrays["facts"].tolist()
    return CtfFile(
        path,
        content,
        state,
        beside,
        begins=arrays["begins"],
        ends=arrays["ends"],
        keys=arrays["keys"],
        samples=arrays["samples"],
        ids=bool(ids),
        first_line=first_line,
        key_range=(low, high),
        num_repeats=num_repeats,
        repeats=tuple(repeats),
    )


def _first_repeats(keys: NDArray[np.uint64], runs: NDArray[np.int64] | None = None) -> tuple[int, tuple[int, ...]]:
    """How many keys come again; of the first of them, in pairs, the record before and the record again."""
    again, before = find_repeats(keys, runs)
    pairs = zip(before[:_NAMED].tolist(), again[:_NAMED].tolist(), strict=True)
    return len(again), tuple(record for pair in pairs for record in pair)


def warn_of_absent(files: Sequence[CtfFile], aliases: Mapping[str, str]) -> list[ParseWarning]:
    """What is to be said about streams that don't occur where the files begin: legal, and often a mistyped name.

    Args:
        files: The files.
        aliases: What lines call each stream, by its name.
    """
    heads = [file.bytes.array()[:_HEAD].tobytes() for file in files]
    absent = [
        name
        for name, alias in aliases.items()
        if not any(re.search(rb"\|" + re.escape(alias.encode()) + rb"(?![^\s|])", head) for head in heads)
    ]
    if not absent:
        return []
    there = dict.fromkeys(name for head in heads for name in re.findall(rb"\|([^\s|#][^\s|]*)", head[:_NAMES]))
    declared = {alias.encode() for alias in aliases.values()}
    others = [repr(name.decode(errors="backslashreplace")) for name in there if name not in declared][:5]
    missing = ", ".join(
        f"'{name}'" if name == aliases[name] else f"'{name}' (alias '{aliases[name]}')" for name in absent
    )
    cut = any(file.bytes.size > _HEAD for file in files)
    more = f" and {len(files) - 1} more" if files[1:] else ""
    where = f"{'the beginning of ' if cut else ''}{files[0].path}{more}"
    message = f"no sample of {missing} in {where}"
    if others:
        message += f", where there are also samples of {', '.join(others)}; is the name, or the alias, right?"
    return [ParseWarning("absent stream", len(absent), message)]


def warn_of_repeats(files: Sequence[CtfFile]) -> list[ParseWarning]:
    """What is to be said about ids that come again, in a file or in another one.

    Ids of several files are compared only where their ranges overlap, so that opening files that were cut out of one
    costs nothing.
    """
    found = []
    for file in files:
        if file.num_repeats:
            pairs = zip(file.repeats[::2], file.repeats[1::2], strict=True)
            named = [f"{int(file.keys[b])} on lines {file.line(a)} and {file.line(b)}" for a, b in pairs]
            found.append(_warning(file.path, file.num_repeats, named))
    if not all(file.ids for file in files):
        return found
    ranges = sorted(file.key_range for file in files if file.num_records)
    if all(low > high for (_, high), (low, _) in itertools.pairwise(ranges)):
        return found
    keys = np.concatenate([file.keys_of_all() for file in files])
    starts = np.cumsum([0, *(file.num_records for file in files)])
    runs = np.repeat(np.arange(len(files)), np.diff(starts))
    count, repeats = _first_repeats(keys, runs)
    if count:

        def place(record: int) -> str:
            file = int(runs[record])
            return f"{files[file].path} line {files[file].line(record - int(starts[file]))}"

        pairs = zip(repeats[::2], repeats[1::2], strict=True)
        named = [f"{int(keys[b])} in {place(a)} and {place(b)}" for a, b in pairs]
        found.append(_warning(f"{files[0].path} and {len(files) - 1} more", count, named))
    return found


def _warning(where: str, count: int, named: list[str]) -> ParseWarning:
    more = f" and {count - len(named)} more" if count > len(named) else ""
    what = "sequence has an id" if count == 1 else "sequences have ids"
    return ParseWarning(
        "repeated id",
        count,
        f"{where}: {count} {what} that came before, apart from it: {', '.join(named)}{more}; each is read as a "
        "sequence of its own; put the lines of a sequence together, or give each an id of its own",
    )


def check_alike(files: Sequence[CtfFile]) -> None:
    """Refuses files of which some have ids and some don't.

    Raises:
        DataError: As said.
    """
    other = next((file for file in files if file.ids != files[0].ids), None)
    if other is not None:
        with_ids, without = (files[0], other) if files[0].ids else (other, files[0])
        raise DataError(
            f"{with_ids.path} has sequence ids and {without.path} has none, expected files of one kind; read them "
            "apart, or pass skip_ids=True to take every line as a record"
        )
