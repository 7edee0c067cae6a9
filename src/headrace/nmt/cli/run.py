"""What the commands of the package have in common: how they read flags, and how they end."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from typing import NoReturn

import headrace as hr
from headrace.nmt.hparams import HParamError

__all__ = ["Parser", "run_command"]


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of ending the program, so that there is one kind of error."""

    def error(self, message: str) -> NoReturn:
        """Raises what argparse would print."""
        raise HParamError(message)


def run_command(name: str, action: Callable[[], None]) -> int:
    """Runs a command; returns the exit code: 0, 2 after one message on standard error, or 130 after Ctrl-C.

    Args:
        name: How messages begin.
        action: What to do. Errors that are about what the user gave become messages, others come through.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # words that the terminal cannot show are no reason to stop
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        action()
    except KeyboardInterrupt as stop:
        return _fail(name, str(stop) or "stopped", 130)
    except ModuleNotFoundError as error:
        return _fail(name, f"{error}: install what translation needs with pip install 'headrace[nmt]'")
    except (hr.HeadraceError, OSError) as error:
        return _fail(name, str(error))
    return 0


def _fail(name: str, message: str, code: int = 2) -> int:
    sys.stderr.write(f"{name}: {message}\n")
    return code
