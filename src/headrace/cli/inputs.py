"""Opens what a command reads: any of the formats, with streams that are given, configured or inferred."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headrace.cli.output import remark
from headrace.cli.streams import format_streams, parse_streams
from headrace.cntk import ConfigError, DeserializerConfig, read_config
from headrace.errors import DataError, PlanError
from headrace.formats.arrow import open_arrow
from headrace.formats.cbf import CbfSource
from headrace.formats.ctf import CtfSource
from headrace.formats.ctf_infer import infer_ctf
from headrace.formats.ctf_schema import CtfStream
from headrace.formats.example_sequences import ExampleSequences, infer_example_streams
from headrace.formats.files import find_files
from headrace.formats.jsonl import JsonLinesSource, infer_jsonl
from headrace.formats.npz import open_npz
from headrace.formats.packed import ENDINGS as PACKED
from headrace.formats.sequences import SequenceSource, SequenceStream
from headrace.formats.tfrecord import is_tfrecord

ENDINGS = {
    ".ctf": "ctf",
    ".txt": "ctf",
    ".cbf": "cbf",
    ".bin": "cbf",
    ".npz": "npz",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
}
"""The format of each ending."""

FORMATS = tuple(dict.fromkeys(ENDINGS.values()))
_SHOWN = 1000
"""Characters of an option that a remark repeats, at most."""

_BEGINNINGS = {b"PK": "npz", b"ARROW1": "arrow", b"nib_ktnc": "cbf", b'{"key"': "jsonl"}


@dataclass(frozen=True, slots=True)
class Input:
    """Files of one kind, and how a command line says that they are read.

    Attributes:
        paths: The files.
        form: Their format; empty if the ending or the beginning tells.
        streams: The streams; None if they aren't given.
        rename: Of a binary file that a configuration names: what it calls its streams.
        skip_ids: As of CTF.
        double: Whether numbers are read as float64.
        max_errors: Problems that a configuration tolerates.
        require_all: Whether a sequence of text without a sample of some stream is a problem.
    """

    paths: list[str]
    form: str = ""
    streams: dict[str, CtfStream] | None = None
    rename: dict[str, str] = field(default_factory=dict)
    skip_ids: bool = False
    double: bool = False
    max_errors: int = 0
    require_all: bool = False

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The type of values."""
        return np.dtype(np.float64 if self.double else np.float32)


def inputs_of(
    files: Sequence[Path],
    form: str,
    streams: str,
    config: Path | None,
    section: str,
    *,
    skip_ids: bool = False,
    double: bool = False,
    base_dir: Path | None = None,
) -> list[Input]:
    """What a command line says that is to be read: one input, or one for each that a configuration names.

    Raises:
        PlanError: If options contradict each other, nothing is named, or the configuration is malformed.
        OSError: If it can't be read.
    """
    paths = [os.fspath(path) for path in files]
    if config is None:
        if not paths:
            raise PlanError("expected files to read, got none; name some, or a configuration with --config")
        return [Input(paths, form, parse_streams(streams) if streams else None, {}, skip_ids, double)]
    if streams:
        raise PlanError("--streams and --config both say what the streams are; give one of them")
    if form:
        raise PlanError("--from and --config both say what the files are; give one of them")
    try:
        configured = read_config(config, section, base_dir=base_dir, must_exist=not paths).deserializers
    except ConfigError as error:
        raise PlanError(str(error).replace("give base_dir=", "give --base-dir=")) from None
    found = [_configured(one, skip_ids, double) for one in configured]
    if not paths:
        return found
    same = [one for one in found if {*map(os.path.realpath, one.paths)} == {*map(os.path.realpath, paths)}]
    if len(found) > 1 and not same:
        named = ", ".join(path for one in found for path in one.paths)
        raise PlanError(f"{config} names several files ({named}) and none of them is {paths[0]}; name one of those")
    one = (same or found)[0]
    return [Input(paths, one.form, one.streams, one.rename, one.skip_ids, one.double, one.max_errors)]


def _configured(one: DeserializerConfig, skip_ids: bool, double: bool) -> Input:
    streams = {
        name: CtfStream(stream.dim, stream.format == "sparse", stream.alias, stream.defines_mb_size)
        for name, stream in one.streams.items()
        if stream.dim is not None and stream.format is not None
    }
    return Input(
        [one.file],
        one.kind,
        streams if one.kind == "ctf" else None,
        {stream.alias: name for name, stream in one.streams.items()},
        skip_ids or one.skip_sequence_ids,
        double or one.precision == "double",
        one.max_errors,
    )


def single_input(
    file: Path, form: str, streams: str, config: Path | None, section: str, *, skip_ids: bool, double: bool
) -> Input:
    """As `inputs_of`, of a command that reads one file.

    Raises:
        As `inputs_of`.
    """
    return inputs_of([file], form, streams, config, section, skip_ids=skip_ids, double=double)[0]


def format_of(path: str, name: str = "") -> str | None:
    """The format that an option names, or an ending; None if neither tells.

    Raises:
        PlanError: If there is no format of that name.
    """
    if name:
        if name not in FORMATS:
            raise PlanError(f"expected one of {', '.join(FORMATS)} as the format, got {name!r}")
        return name
    for packed in PACKED:
        path = path.removesuffix(packed)
    return ENDINGS.get(os.path.splitext(path)[1].lower())


def _looks_like(path: str) -> str:
    """The format that a file begins as; CTF if as no other."""
    if not os.path.isfile(path):
        return "ctf"  # a pattern, or what opening will complain about; a pipe would be waited for
    try:
        with open(path, "rb") as file:
            start = file.read(16)
        if is_tfrecord(path):
            return "tfrecord"
    except OSError:
        return "ctf"  # opening will complain
    return next((form for beginning, form in _BEGINNINGS.items() if start.startswith(beginning)), "ctf")


def form_of(one: Input) -> str:
    """The format of an input: as is said, by the ending, or by how the first file begins.

    Raises:
        PlanError: If there is no format of the name that is said.
    """
    return format_of(one.paths[0], one.form) or _looks_like(_first_of(one.paths[0]))


def _first_of(path: str) -> str:
    """The first file of a pattern; the path itself, if there is none."""
    try:
        return find_files(path)[0]
    except (OSError, DataError):
        return path


def open_input(one: Input) -> SequenceSource:
    """Opens files of one format.

    Raises:
        OSError: If a file can't be opened.
        DataError: If it isn't of the format.
        PlanError: If the options don't go with it.
    """
    found = form_of(one)
    if found in _SINGLE and len(one.paths) > 1:
        raise PlanError(f"expected one file of {found}, got {len(one.paths)}; name them one by one")
    source = _OPENERS[found](one)
    if not source.num_records:
        remark(f"{one.paths[0]}: there is no sequence in it")
    return source


def _declared(one: Input) -> list[SequenceStream] | None:
    if one.streams is None:
        return None
    return [
        SequenceStream(name, (stream.dim,), stream.sparse, one.dtype, stream.defines_size)
        for name, stream in one.streams.items()
    ]


def _open_tfrecord(one: Input) -> SequenceSource:
    try:
        found = infer_example_streams(one.paths, _declared(one), dtype=one.dtype)
    except DataError as error:
        raise DataError(f"{error} (--streams does)" if "say which streams" in str(error) else str(error)) from None
    if found.left_out:
        remark(f"{one.paths[0]}: features that hold bytes are left out: {', '.join(found.left_out)}")
    return ExampleSequences(one.paths, found)


def _open_jsonl(one: Input) -> SequenceSource:
    declared = _declared(one)
    if declared is None:
        try:
            declared = [SequenceStream(s.name, s.shape, dtype=one.dtype) for s in infer_jsonl(one.paths)]
        except DataError as error:
            raise DataError(f"{error} (--streams does)") from None
    return JsonLinesSource(one.paths, declared, index="memory")


def _open_ctf(one: Input) -> SequenceSource:
    streams = one.streams
    if streams is None:
        (first, *_) = find_files(one.paths)
        streams = infer_ctf(first, skip_ids=one.skip_ids).streams
        option = f'--streams "{format_streams(streams)}"'
        found = option if len(option) <= _SHOWN else f"{len(streams):,}; headrace infer lists them"
        remark(f"streams inferred from the beginning of {first}: {found}")
    return CtfSource(one.paths, streams, skip_ids=one.skip_ids, dtype=one.dtype, require_all=one.require_all)


def _open_cbf(one: Input) -> SequenceSource:
    rename = {alias: name for alias, name in one.rename.items() if alias != name}
    return _as_declared(CbfSource(one.paths[0], rename=rename), one)


def _as_declared(source: SequenceSource, one: Input) -> SequenceSource:
    """Files that say themselves what their streams are must say the same as the command line."""
    if one.streams is not None:
        own = {s.name: CtfStream(int(np.prod(s.shape)), s.sparse) for s in source.streams}
        wanted = {name: CtfStream(s.dim, s.sparse) for name, s in one.streams.items()}
        if own != wanted:
            raise DataError(
                f"{one.paths[0]} has the streams {format_streams(own)!r}, and --streams says "
                f"{format_streams(wanted)!r}; leave --streams out"
            )
    return source


_OPENERS: dict[str, Callable[[Input], SequenceSource]] = {
    "ctf": _open_ctf,
    "cbf": _open_cbf,
    "jsonl": _open_jsonl,
    "tfrecord": _open_tfrecord,
    "npz": lambda one: _as_declared(open_npz(one.paths[0]), one),
    "arrow": lambda one: _as_declared(open_arrow(one.paths[0]), one),
}
_SINGLE = ("cbf", "npz", "arrow")
