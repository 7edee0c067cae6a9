"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from headrace.cli.streams import EXAMPLE

Files: TypeAlias = Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files, or patterns like 'part-*.ctf'.")]
OptionalFiles: TypeAlias = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE…", help="Files, or patterns like 'part-*.ctf'; with --config those that it names."),
]
Streams: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="STREAMS",
        help=f'The streams, NAME=FORMAT:DIM[,alias=ALIAS][,defines_size]: "{EXAMPLE}". '
        "Left out, they are inferred from the file; headrace infer shows how.",
    ),
]
Config: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Take the streams from a configuration file of CNTK's.")
]
Section: TypeAlias = Annotated[str, typer.Option(metavar="NAME", help="The section of --config that is the reader.")]
BaseDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where relative paths in --config start from, if not the working directory."),
]
SkipIds: TypeAlias = Annotated[bool, typer.Option("--skip-ids", help="Every line is a sequence, whatever its id.")]
Double: TypeAlias = Annotated[
    bool, typer.Option("--double", help="Read the numbers of text as float64 instead of float32.")
]
From: TypeAlias = Annotated[
    str, typer.Option("--from", metavar="FORMAT", help="What the file is: ctf, cbf, npz, arrow, jsonl or tfrecord.")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
