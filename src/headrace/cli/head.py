"""`headrace head`: the first sequences of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from headrace.batch.sparse import Sparse
from headrace.cli import options
from headrace.cli.inputs import form_of, open_input, single_input
from headrace.cli.output import DataProblem, count, heading, line, number
from headrace.cli.records import show_records
from headrace.formats.exchange import Block, block_of
from headrace.formats.jsonl import json_lines

_SHOWN = 12
"""Values of a sample, and samples of a stream, that are shown."""


def head(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file.")],
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="How many sequences.")] = 5,
    streams: options.Streams = "",
    config: options.Config = None,
    section: options.Section = "reader",
    skip_ids: options.SkipIds = False,
    double: options.Double = False,
    from_: options.From = "",
    as_json: options.Json = False,
) -> int:
    """Show the first sequences of a file; of a TFRecord file the first records, with the features of Examples.

    With --json each is one line, as headrace convert writes them to .jsonl files.

    \b
    Examples:
      headrace head train.ctf -n 2 --streams "x=sparse:1000000 label=dense:10"
      headrace head train.cbf --json | jq .streams.label
      headrace head train.tfrecord -n 1
    """  # noqa: D301  typer wants the character, not the backslash
    one = single_input(file, from_, streams, config, section, skip_ids=skip_ids, double=double)
    if form_of(one) == "tfrecord" and one.streams is None:
        show_records(one.paths, number, as_json)
        return 0
    source = open_input(one)
    try:
        wanted = np.arange(min(number, source.num_records))
        parsed = source.parse(wanted)
        if len(parsed.error_rows):
            raise DataProblem(f"{parsed.explain(0)} (headrace check lists all problems)")
        block = block_of(source.keys()[wanted], parsed)
        if as_json:
            for text in json_lines(source.streams, block):
                line(text)
        else:
            _show(block)
    finally:
        source.close()
    return 0


def _show(block: Block) -> None:
    for row, key in enumerate(block.keys.tolist()):
        heading(f"sequence {key}")
        for name, column in block.columns.items():
            samples = column[row]
            line(f"  {name}: {count(len(samples), 'sample')}")
            for sample in range(min(len(samples), _SHOWN)):
                line(f"    {_sample(samples, sample)}")
            if len(samples) > _SHOWN:
                line(f"    … {count(len(samples) - _SHOWN, 'more sample')}")


def _sample(samples: Any, i: int) -> str:
    if isinstance(samples, Sparse):
        row = samples[i]
        pairs = zip(row.indices[:_SHOWN].tolist(), row.values[:_SHOWN], strict=True)
        texts, total = [f"{index}:{_text(value)}" for index, value in pairs], len(row.values)
    else:
        flat = samples[i].reshape(-1)
        texts, total = [_text(value) for value in flat[:_SHOWN]], len(flat)
    if not total:
        return "(nothing)"
    return " ".join(texts) + (f" … {number(total - _SHOWN)} more" if total > _SHOWN else "")


def _text(value: Any) -> str:
    return str(value).removesuffix(".0")
