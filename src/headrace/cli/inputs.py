"""Opens what a command reads: any of the formats, with streams that are given, configured or inferred."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.cli.output import remark
from headrace.cli.streams import StreamOption, format_streams, parse_streams
from headrace.errors import DataError, PlanError
from headrace.formats.arrow import open_arrow
from headrace.formats.jsonl import JsonLinesSource, infer_jsonl
from headrace.formats.npz import open_npz
from headrace.formats.sequences import SequenceSource, SequenceStream

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
}
"""The format of each ending."""

PACKED = (".gz", ".zst")
FORMATS = tuple(dict.fromkeys(ENDINGS.values()))
_BEGINNINGS = {b"PK": "npz", b"ARROW1": "arrow", b"nib_ktnc": "cbf", b'{"key"': "jsonl"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a command line says about its input.

    Attributes:
        streams: The option of this name; None if it wasn't given.
        skip_ids: As of CTF.
        double: Whether numbers are read as float64.
    """

    streams: Mapping[str, StreamOption] | None = None
    skip_ids: bool = False
    double: bool = False

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The type of values."""
        return np.dtype(np.float64 if self.double else np.float32)


def asked(streams: str, config: Path | None, section: str, *, skip_ids: bool, double: bool) -> Asked:
    """Puts together what the options say.

    Raises:
        PlanError: If they contradict each other.
    """
    if streams and config:
        raise PlanError("--streams and --config both say what the streams are; give one of them")
    return Asked(parse_streams(streams) if streams else None, skip_ids, double)


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
    try:
        with open(path, "rb") as file:
            start = file.read(16)
    except OSError:
        return "ctf"  # a pattern, or a file that opening will complain about
    return next((form for beginning, form in _BEGINNINGS.items() if start.startswith(beginning)), "ctf")


def open_input(files: Sequence[Path], form: str, options: Asked) -> SequenceSource:
    """Opens files of one format.

    Raises:
        OSError: If a file can't be opened.
        DataError: If it isn't of the format.
        PlanError: If the options don't go with it.
    """
    paths = [os.fspath(path) for path in files]
    if not paths:
        raise PlanError("expected files to read, got none")
    found = format_of(paths[0], form) or _looks_like(paths[0])
    if found in _SINGLE and len(paths) > 1:
        raise PlanError(f"expected one file of {found}, got {len(paths)}; convert them one by one")
    source = _OPENERS[found](paths, options)
    if not source.num_records:
        remark(f"{paths[0]}: there is no sequence in it")
    return source


def _declared(options: Asked) -> list[SequenceStream] | None:
    if options.streams is None:
        return None
    return [
        SequenceStream(name, (stream.dim,), stream.sparse, options.dtype, stream.defines_size)
        for name, stream in options.streams.items()
    ]


def _open_jsonl(paths: list[str], options: Asked) -> SequenceSource:
    declared = _declared(options)
    if declared is None:
        try:
            declared = [SequenceStream(s.name, s.shape, dtype=options.dtype) for s in infer_jsonl(paths)]
        except DataError as error:
            raise DataError(f"{error} (--streams does)") from None
    return JsonLinesSource(paths, declared, index="memory")


def _as_declared(source: SequenceSource, path: str, options: Asked) -> SequenceSource:
    """Files that say themselves what their streams are must say the same as the command line."""
    if options.streams is not None:
        own = {s.name: StreamOption(s.sparse, int(np.prod(s.shape))) for s in source.streams}
        wanted = {name: StreamOption(s.sparse, s.dim) for name, s in options.streams.items()}
        if own != wanted:
            raise DataError(
                f"{path} has the streams {format_streams(own)!r}, and --streams says {format_streams(wanted)!r}; leave "
                "--streams out"
            )
    return source


_OPENERS: dict[str, Callable[[list[str], Asked], SequenceSource]] = {
    "jsonl": _open_jsonl,
    "npz": lambda paths, options: _as_declared(open_npz(paths[0]), paths[0], options),
    "arrow": lambda paths, options: _as_declared(open_arrow(paths[0]), paths[0], options),
}
_SINGLE = ("cbf", "npz", "arrow")
