"""`headrace state`: shows, compares and moves on what a loader's `state_dict()` saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import headrace as hr
from headrace.cli.options import Json
from headrace.cli.output import count, line, print_json, remark
from headrace.cli.state_file import differences, distance, evenly, moved, plain, read_state
from headrace.cli.target import load_target
from headrace.errors import StateError
from headrace.formats.atomic import write_atomic

state_app = typer.Typer(
    help="""Shows, compares and moves on a loader's saved state (JSON of its state_dict()).

    \b
    Examples:
      headrace state show checkpoint.json
      headrace state diff before.json after.json --json
      headrace state skip checkpoint.json 100 -o later.json
    """,
    rich_markup_mode=None,
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A file with the state as JSON.")]
Key = Annotated[str, typer.Option(metavar="NAME", help="Where in the file the state is: names with dots between.")]


def show(file: File, key: Key = "", as_json: Json = False) -> int:
    """Shows where a loader was, of what data and what description.

    \b
    Examples:
      headrace state show checkpoint.json
      headrace state show checkpoint.json --key loader --json
    """  # noqa: D301  typer wants the character, not the backslash
    state = read_state(file, key)
    if as_json:
        print_json(state)
        return 0
    even, window = evenly(state), state["window"]
    done = f"{state['batch']:,}"
    if even is not None and even[1]:
        done += f" of {even[1]:,} ({state['batch'] / even[1]:.1%})"
    line(f"epoch    {state['epoch']:,} (the first is 0)")
    line(f"batches  {done} of it have been handed over, counted over all ranks")
    line(f"window   {window[0]:,}, {window[1]:,} batches or places into it")
    for number, source in enumerate(state["data"]):
        line(f"source {number} {_source(source)}")
    for number, step in enumerate(state["pipeline"]):
        line(f"step {number}   {plain(step)}")
    for number, stream in enumerate(state.get("streams") or ()):
        line(f"stream {number} {_short(plain(stream))}")
    return 0


def _source(source: Any) -> str:
    if not isinstance(source, dict):
        return plain(source)
    return ", ".join(f"{plain(str(name))} {plain(value)}" for name, value in source.items() if value is not None)


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:99] + "…"


def diff(
    one: Annotated[Path, typer.Argument(metavar="FILE", help="A file with a state.")],
    other: Annotated[Path, typer.Argument(metavar="OTHER", help="Another.")],
    key: Key = "",
    as_json: Json = False,
) -> int:
    """Tells what differs between two states. The exit code is 1 if anything does.

    \b
    Examples:
      headrace state diff monday.json tuesday.json
      headrace state diff monday.json tuesday.json --json
    """  # noqa: D301
    first, second = read_state(one, key), read_state(other, key)
    found, apart = differences(first, second), distance(first, second)
    if as_json:
        print_json({"differences": [{"what": w, "one": a, "other": b} for w, a, b in found], "batches": apart})
        return 1 if found else 0
    for what, before, after in found:
        line(f"{what}: {_short(plain(before))} → {_short(plain(after))}")
    if found and apart:
        side = "after" if apart > 0 else "before"
        line(f"{other} is {count(abs(apart), 'batch', 'batches')} {side} {one}")
    if not found:
        line("the same")
    return 1 if found else 0


def skip(
    file: File,
    batches: Annotated[int, typer.Argument(metavar="N", min=0, help="Batches, counted over all ranks.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write there instead of printing it.")
    ] = None,
    data: Annotated[
        str,
        typer.Option(metavar="SCRIPT.py:NAME", help="The description, where the state doesn't say how batches lie."),
    ] = "",
    key: Key = "",
    as_json: Json = False,
) -> int:
    """Moves a state on by some batches, over the ends of epochs, without reading any data.

    Of batches of one size that is worked out from the state alone; of buckets and packed rows from their plan, for
    which the description is needed. What is written is JSON in any case.

    \b
    Examples:
      headrace state skip checkpoint.json 1000 -o later.json
      headrace state skip checkpoint.json 1 --data train.py:loader
      headrace state skip checkpoint.json 1000 --json
    """  # noqa: D301
    state = read_state(file, key)
    later = _moved_by_plan(state, batches, data) if data else _moved(file, state, batches)
    if output is None:
        print_json(later)
        return 0
    write_atomic(output, [json.dumps(later).encode() + b"\n"])
    if as_json:
        print_json(later)
    else:
        remark(f"{output}: epoch {later['epoch']}, batch {later['batch']:,}")
    return 0


def _moved(file: Path, state: dict[str, Any], batches: int) -> dict[str, Any]:
    try:
        return moved(state, batches)
    except StateError as error:
        raise StateError(f"{file}: {error}") from None


def _moved_by_plan(state: dict[str, Any], batches: int, target: str) -> dict[str, Any]:
    found = load_target(target)
    if callable(found) and not isinstance(found, (hr.Dataset, hr.Batches, hr.Loader)):
        found = found()
    if isinstance(found, hr.Batches):
        found = hr.Loader(found)
    if not isinstance(found, hr.Loader):
        raise hr.PlanError(f"{target} is {type(found).__name__}, expected batches, a loader, or a function giving one")
    found.load_state_dict(state)
    found.skip(batches)
    return found.state_dict()
