"""`headrace infer`: which streams are in CNTK's text, as a configuration; which features are in Examples."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from headrace import InferredCtf, PlanError, infer_ctf
from headrace.cli import options
from headrace.cli.infer_features import infer_features
from headrace.cli.output import line, print_json
from headrace.cli.streams import format_streams
from headrace.cntk import StreamConfig, format_config
from headrace.formats.ctf_schema import CtfStream, alias_of
from headrace.formats.files import find_files
from headrace.formats.tfrecord import is_tfrecord

_BEGINNING = 4 << 20


def infer(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file; .gz and .zst are unpacked.")],
    skip_ids: options.SkipIds = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Look at the whole file, not at its first 4 MiB or 1000 records.")
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Tell which streams a file in CNTK's text format has, or which features the Examples of a TFRecord file.

    Prints a configuration that reads the file; what is to be known, the option for the other commands and the call in
    Python stand in it as comments. The width of a sparse stream is one more than the largest index seen: a guess.

    \b
    Examples:
      headrace infer train.ctf
      headrace infer train.ctf > reader.cntk && headrace check --config reader.cntk
      headrace check train.ctf --streams "$(headrace infer train.ctf --json | jq -r .option)"
      headrace infer train.tfrecord
    """  # noqa: D301  typer wants the character, not the backslash
    path, *others = find_files(os.fspath(file))
    if others:
        raise PlanError(f"{file}: expected one file, found {1 + len(others)}; name one of them, such as {path}")
    if is_tfrecord(path):
        return infer_features(path, all_, as_json)
    found = infer_ctf(path, max_bytes=1 << 62 if all_ else _BEGINNING, skip_ids=skip_ids)
    try:
        config, wrong = _config(path, found, skip_ids), ""
    except PlanError as error:
        config, wrong = "", str(error)
    option, call = format_streams(found.streams), _call(path, found, skip_ids)
    if as_json:
        streams = {
            name: {"format": _format(stream), "dim": stream.dim, "alias": alias_of(name, stream)}
            for name, stream in found.streams.items()
        }
        told = {"file": path, "ids": found.ids, "streams": streams, "notes": list(found.notes)}
        print_json({**told, "option": option, "python": call, "config": config or None})
        return 0
    for note in found.notes:
        line(f"# {note}")
    line("#")
    line(f'# on the command line: --streams "{option}"')
    line(f"# in Python: {call}")
    line(f"# no configuration can be written: {wrong}" if wrong else f"\n{config.rstrip()}")
    return 0


def _format(stream: CtfStream) -> Literal["dense", "sparse"]:
    return "sparse" if stream.sparse else "dense"


def _config(path: str, found: InferredCtf, skip_ids: bool) -> str:
    streams = {
        name: StreamConfig(name, alias_of(name, stream), _format(stream), stream.dim)
        for name, stream in found.streams.items()
    }
    return format_config(streams, path, skipSequenceIds=True) if skip_ids else format_config(streams, path)


def _call(path: str, found: InferredCtf, skip_ids: bool) -> str:
    streams = ", ".join(f"{name!r}: {_stream(stream)}" for name, stream in found.streams.items())
    return f"hr.read_ctf({path!r}, {{{streams}}}{', skip_ids=True' if skip_ids else ''})"


def _stream(stream: CtfStream) -> str:
    sequence = "" if stream.sequence is None else f", sequence={stream.sequence}"
    return f"hr.{_format(stream)}({stream.dim}{sequence})"
