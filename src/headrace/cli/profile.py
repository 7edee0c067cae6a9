"""`headrace profile`: runs a program and says what its loaders cost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import options
from headrace.cli.output import count, heading, line, print_json, remark
from headrace.profile.page import page
from headrace.profile.program import Outcome, run_program


def profile(
    program: Annotated[
        list[str], typer.Argument(metavar="SCRIPT [ARG…]", help="The Python script, and what it is called with.")
    ],
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is the name of a module, as after python -m.")] = False,
    page_to: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with the timeline, too.")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Run a Python program and say what its loaders cost, and what bounds it.

    The program runs as under python, in this process, with profiling on for every loader that it makes. The report
    follows when it ends, by itself, by an error or by Ctrl-C; the exit code is the program's own. Options of this
    command stand before SCRIPT, what follows it is the program's.

    \b
    Examples:
      headrace profile train.py --epochs 1
      headrace profile --html profile.html train.py
      headrace profile -m my.package.train
    """  # noqa: D301  typer wants the character, not the backslash
    if page_to is not None and not page_to.absolute().parent.is_dir():
        raise typer.BadParameter(f"the folder of {page_to} doesn't exist", param_hint="--html")
    outcome = run_program(program, as_module=module)
    sys.stdout.flush()
    sys.stderr.write(outcome.traceback)
    if page_to is not None:
        page_to.write_text(page(outcome.profiles, f"headrace profile {' '.join(program)}"), encoding="utf-8")
        remark(f"the timeline is in {page_to}")
    if as_json:
        print_json({"exit_code": outcome.code, "loaders": [found.to_dict() for found in outcome.profiles]})
    else:
        _show(outcome)
    return outcome.code


def _show(outcome: Outcome) -> None:
    for found in outcome.profiles:
        title, _, rest = str(found).partition("\n")
        line()
        heading(title)
        line(rest)
    if not outcome.profiles:
        remark("no loader gave a batch to this process")
    elif outcome.unused:
        remark(f"{count(outcome.unused, 'loader')} more gave no batch")
