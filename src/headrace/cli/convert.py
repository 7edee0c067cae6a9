"""`headrace convert`: writes sequences in another format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer

import headrace as hr
from headrace.cli import options
from headrace.cli.inputs import FORMATS, format_of, open_input, single_input
from headrace.cli.output import DataProblem, count, line, print_json, remark
from headrace.cli.reading import parts
from headrace.errors import PlanError
from headrace.formats.arrow import write_arrow
from headrace.formats.example_sequences import NeedsLists, write_examples
from headrace.formats.exchange import Block, block_of
from headrace.formats.jsonl import write_jsonl
from headrace.formats.mistakes import Mistakes
from headrace.formats.npz import write_npz
from headrace.formats.packed import is_packed
from headrace.formats.sequences import SequenceSource


def convert(
    input_: Annotated[Path, typer.Argument(metavar="IN", help="The file to read.")],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    streams: options.Streams = "",
    config: options.Config = None,
    section: options.Section = "reader",
    skip_ids: options.SkipIds = False,
    max_errors: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Problems that are tolerated: what they spoil is left out.")
    ] = None,
    double: options.Double = False,
    from_: options.From = "",
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help="The format to write; else by the ending.")] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there already.")] = False,
    as_json: options.Json = False,
) -> int:
    """Write sequences in another format.

    Formats go by the endings: .ctf and .txt (CNTK's text), .cbf and .bin (CNTK's binary), .npz, .arrow and .feather,
    .jsonl, .tfrecord (Examples). The binary format has no ids: its sequences count from 0. Memory is bounded whatever
    the size, and the output appears only when it is complete.

    \b
    Examples:
      headrace convert train.ctf train.cbf --streams "x=sparse:1000000 label=dense:10,alias=y"
      headrace convert train.cbf train.npz
      headrace convert train.npz train.ctf
    """  # noqa: D301  typer wants the character, not the backslash
    form = format_of(os.fspath(output), to)
    if form is None or (is_packed(output) and form != "ctf"):
        raise PlanError(f"{output}: the ending doesn't say what to write; give --to, one of {', '.join(FORMATS)}")
    _check_output(input_, output, overwrite)
    one = single_input(input_, from_, streams, config, section, skip_ids=skip_ids, double=double)
    source = open_input(one)
    mistakes = Mistakes(
        one.max_errors if max_errors is None else max_errors,
        advice="headrace check lists all problems, --max-errors tolerates some",
        error=DataProblem,
    )
    try:
        written = WRITERS[form](os.fspath(output), source, mistakes)
    except OSError as error:
        if error.filename is None:  # in writing, which says no more than that the disk is full
            error.filename = os.fspath(output)
        raise
    finally:
        source.close()
    if mistakes.count:
        remark(f"warning: {count(mistakes.count, 'problem')}; headrace check lists them")
    if as_json:
        size = output.stat().st_size
        print_json({"file": str(output), "sequences": written, "bytes": size, "problems": mistakes.count})
    else:
        line(f"{output}: {count(written, 'sequence')}, {count(output.stat().st_size, 'byte')}")
    return 0


def _check_output(input_: Path, output: Path, overwrite: bool) -> None:
    """Refuses what can't be written to, or shouldn't, before anything is read."""
    if not output.parent.is_dir():
        raise PlanError(f"{output}: there is no folder {output.parent}; make it first")
    if not output.exists():
        return
    if not output.is_file():
        raise PlanError(f"{output} is no file (a folder, a pipe or a device); name a file to be written")
    if not overwrite:
        raise PlanError(f"{output} is there already; --overwrite replaces it")
    if input_.exists() and output.samefile(input_):
        raise PlanError(f"{output} is the file that is read; write to another one")


def _blocks(source: SequenceSource, mistakes: Mistakes) -> Iterator[Block]:
    keys = source.keys()
    for part in parts(source, "converting"):
        if len(part.parsed.error_rows):
            mistakes.add(part.parsed.times, part.parsed.explain)
        yield block_of(keys[part.first : part.first + part.records], part.parsed)


def _columns(source: SequenceSource, mistakes: Mistakes, counter: list[int]) -> Iterator[dict[str, Any]]:
    """The blocks as columns, for writers that take those."""
    for block in _blocks(source, mistakes):
        counter.append(len(block.keys))
        yield dict(block.columns)


def _write_cbf(path: str, source: SequenceSource, mistakes: Mistakes) -> int:
    counter: list[int] = []
    hr.write_cbf(path, _columns(source, mistakes, counter))
    return sum(counter)


class _NeedsIds(Exception):
    """A sequence has another number of samples than one."""


def _write_ctf(path: str, source: SequenceSource, mistakes: Mistakes) -> int:
    """Lines without ids where each sequence has one sample of each stream and the keys say no more than the order."""
    keys = source.keys()
    if source.sizes is None and (len(keys) < 2 or bool((np.diff(keys) == 1).all())):
        try:
            return _write_lines(path, source, mistakes, ids=False)
        except _NeedsIds:
            mistakes.forget()
    return _write_lines(path, source, mistakes, ids=True)


def _write_lines(path: str, source: SequenceSource, mistakes: Mistakes, *, ids: bool) -> int:
    names = source.column_names() or []
    key = next(name for name in map("key{}".format, range(len(names) + 1)) if name not in names)
    counter: list[int] = []

    def columns() -> Iterator[dict[str, Any]]:
        for block in _blocks(source, mistakes):
            if not ids and any(bool((column.lengths != 1).any()) for column in block.columns.values()):
                raise _NeedsIds
            counter.append(len(block.keys))
            yield {key: block.keys, **block.columns}

    hr.write_ctf(path, columns(), streams=names, ids=key if ids else False)
    return sum(counter)


def _write_tfrecord(path: str, source: SequenceSource, mistakes: Mistakes) -> int:
    """Examples where each sequence has one sample of each stream, else SequenceExamples."""
    try:
        return write_examples(path, source.streams, _blocks(source, mistakes), lists=False)
    except NeedsLists:
        mistakes.forget()
    return write_examples(path, source.streams, _blocks(source, mistakes), lists=True)


Writer: TypeAlias = Callable[[str, SequenceSource, Mistakes], int]


def _by_blocks(write: Callable[..., int]) -> Writer:
    return lambda path, source, mistakes: write(path, source.streams, _blocks(source, mistakes))


WRITERS: dict[str, Writer] = {
    "ctf": _write_ctf,
    "cbf": _write_cbf,
    "npz": _by_blocks(write_npz),
    "arrow": _by_blocks(write_arrow),
    "jsonl": _by_blocks(write_jsonl),
    "tfrecord": _write_tfrecord,
}
"""What writes each format."""
