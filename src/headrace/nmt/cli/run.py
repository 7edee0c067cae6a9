"""What the commands of the package have in common: how they read flags, and how they end."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import headrace as hr
from headrace.nmt.hparams import HParamError
from headrace.nmt.training.interrupt import Terminated

__all__ = ["Parser", "nearest", "run_command"]


class Parser(argparse.ArgumentParser):
    """An argument parser of a program, that raises instead of ending it, so that there is one kind of error.

    Args:
        program: Its name among the programs of the translation system; empty for training and translating.
        description: What it does.
        options: As argparse has them.
    """

    def __init__(self, program: str, description: str, **options: Any) -> None:
        typed = "headrace nmt" if os.path.basename(sys.argv[0]) == "headrace" else "python -m headrace.nmt"
        super().__init__(prog=f"{typed} {program}".rstrip(), description=description, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raises what argparse would print."""
        kinds = {"int": "a whole number", "float": "a number"}
        raise HParamError(re.sub(r"invalid (int|float) value: ", lambda m: f"expected {kinds[m[1]]}, got ", message))

    def parse_known_args(  # type: ignore[override]  # its overloads say no more
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Reads arguments; complains of a mistyped flag before one that is missing, which it may be."""
        given = sys.argv[1:] if args is None else list(args)
        for name in (argument.split("=")[0] for argument in given[: given.index("--") if "--" in given else None]):
            if name.startswith("--") and name not in self._option_string_actions:
                names = [option.removeprefix("--") for option in self._option_string_actions]
                raise HParamError(f"unknown flag {name}; {nearest(name, names)}")
        return super().parse_known_args(given, namespace)


def nearest(flag: str, names: Iterable[str]) -> str:
    """Suggests the flag that was meant, of those with these names.

    Example:
        >>> nearest("--num_unit", ["num_units", "dropout"])
        'did you mean --num_units?'
    """
    near = difflib.get_close_matches(flag.removeprefix("--"), list(names), n=1)
    return f"did you mean --{near[0]}?" if near else "--help lists all flags"


def run_command(name: str, action: Callable[[], None]) -> int:
    """Runs a command; returns its exit code: 0, 2 after one message on standard error, or that of a signal.

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
        number = signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT
        return _fail(name, str(stop) or "stopped", 128 + number)
    except ModuleNotFoundError as error:
        return _fail(name, f"{error}: install what translation needs with pip install 'headrace[nmt]'")
    except OSError as error:
        told = error.filename is not None and error.strerror is not None
        return _fail(name, f"{error.filename}: {error.strerror}" if told else str(error))
    except hr.HeadraceError as error:
        return _fail(name, str(error))
    except (MemoryError, RuntimeError) as error:  # PyTorch has no class of its own for memory of the processor
        if not (isinstance(error, MemoryError) or re.search("allocate memory|out of memory", str(error))):
            raise
        advice = "give a smaller num_units, batch_size, infer_batch_size or beam_width"
        return _fail(name, f"there is not enough memory: {advice}")
    return 0


def _fail(name: str, message: str, code: int = 2) -> int:
    sys.stderr.write(f"{name}: {message}\n")
    return code
