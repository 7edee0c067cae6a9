"""`headrace verify`: proves that a description of data can be stopped, resumed and moved anywhere."""

from __future__ import annotations

from typing import Annotated

import typer

import headrace as hr
from headrace.cli.options import Json
from headrace.cli.output import line, print_json
from headrace.cli.target import load_target

Target = Annotated[
    str,
    typer.Argument(
        metavar="SCRIPT.py:NAME",
        help="A dataset, batches, a loader or a function that gives one, in a Python file or module (module:NAME).",
    ),
]


def verify(
    target: Target,
    events: Annotated[int, typer.Option(metavar="N", min=0, help="Events of the chain.")] = 50,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the chain: the same seed gives the same events.")] = 0,
    mode: Annotated[
        str, typer.Option(metavar="threads|processes", help="What workers are; processes are killed, too.")
    ] = "",
    as_json: Json = False,
) -> int:
    """Proves that every record comes exactly once and in its place, whatever happens to the run.

    The run is stopped, restored into loaders with other numbers of workers and ranks, broken out of and taken back,
    and every record is compared with the plan. The script is run to find the description; what must not run then goes
    under: if __name__ == "__main__".

    \b
    Examples:
      headrace verify train.py:data
      headrace verify train.py:make_loader --events 500 --seed 7
      headrace verify project.data:batches --json
    """  # noqa: D301  typer wants the character, not the backslash
    data = load_target(target)
    try:
        proven = hr.verify(data, events=events, seed=seed, mode=mode or None)  # type: ignore[arg-type]
    except hr.VerificationError as error:
        if as_json:
            names = ("epoch", "batch", "rank", "record", "event", "expected", "got")
            print_json({"verified": False, **{name: getattr(error, name) for name in names}, "seed": seed})
        else:
            line(f"NOT VERIFIED: {error}")
        return 1
    if as_json:
        print_json({"verified": True, **proven.to_dict()})
    else:
        line(repr(proven))
    return 0
