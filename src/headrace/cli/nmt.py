"""`headrace nmt`: the programs of the translation system."""

from __future__ import annotations

import typer


def nmt(context: typer.Context) -> int:
    """Train translation models, translate with them, serve and export them.

    `headrace nmt` alone lists the programs; what `python -m headrace.nmt` takes, this takes too.
    """
    from headrace.nmt.cli.programs import run_program  # here, so that other commands need not load it

    try:
        return run_program(context.args)
    except SystemExit as end:  # after --help
        return int(end.code or 0)
