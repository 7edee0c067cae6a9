"""The `headrace` command: looks through, shows and converts files of sequences.

One module a command, and one each for what they share: the streams (`streams`), what they print (`output`), what they
open (`inputs`), going through it (`reading`) and summing it up (`summary`). Needs `pip install 'headrace[cli]'`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line; returns the exit code.

    0: all is good. 1: the data has problems. 2: a mistake in the command, or a file that can't be read or written.
    130: stopped by Ctrl-C. 141: whoever read the output had enough of it.
    """
    try:
        from headrace.cli.app import run  # here, so that a missing extra is reported as any other error
    except KeyboardInterrupt:  # loading takes its time
        sys.stderr.write("headrace: error: stopped\n")
        return 130
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("typer", "rich"):
            raise
        sys.stderr.write(f"headrace: error: the command needs {error.name}: pip install 'headrace[cli]'\n")
        return 2
    return run(argv)
