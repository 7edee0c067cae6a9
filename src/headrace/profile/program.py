"""Runs a program of the user's and watches every loader that it makes."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from headrace.engine import StatsCollector
from headrace.engine.trace import watch
from headrace.profile.report import Profile


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended.

    Attributes:
        code: The exit code that it would have had: 0, its own, 1 after an error, 130 after Ctrl-C.
        traceback: What Python would have printed; empty unless it ended by an error.
        profiles: One for each loader that gave batches, the one that was waited for longest first.
        unused: How many loaders were made that gave none.
    """

    code: int
    traceback: str
    profiles: list[Profile]
    unused: int


def run_program(argv: Sequence[str], *, as_module: bool = False) -> Outcome:
    """Runs a program in this process, as `python` would, and profiles its loaders.

    Args:
        argv: The script, or the module's name, and its arguments.
        as_module: Whether it is a module, as after `python -m`.

    Raises:
        FileNotFoundError: If there is no such script.
        ModuleNotFoundError: If there is no such module.
    """
    if not as_module:
        with open(argv[0], "rb"):  # before anything else is said or done
            pass
    code, text = 0, ""
    with watch() as seen:
        try:
            with _as_main(argv, as_module):
                if as_module:
                    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
                else:
                    runpy.run_path(argv[0], run_name="__main__")
        except SystemExit as end:
            code, text = _exit_code(end)
        except KeyboardInterrupt:
            code = 130
        except BaseException as error:
            if as_module and isinstance(error, ImportError) and _is_of_runpy(error):
                raise ModuleNotFoundError(str(error), name=argv[0]) from None
            code, text = 1, _traceback(error, argv[0])
    profiles = [_profile(place, collector) for place, collector in seen.found]
    used = sorted((found for found in profiles if found.stats.batches), key=lambda found: -found.stats.waited)
    return Outcome(code, text, used, len(profiles) - len(used))


def _profile(place: str, collector: StatsCollector) -> Profile:
    assert collector.trace is not None
    pieces, waits = collector.trace.pieces.parts(), collector.trace.waits.parts()
    return Profile(f"Loader made at {place}", collector.report(), pieces=pieces, waits=waits)


@contextlib.contextmanager
def _as_main(argv: Sequence[str], as_module: bool) -> Iterator[None]:
    before = sys.argv, sys.path[:]
    sys.argv = list(argv)
    sys.path.insert(0, os.getcwd() if as_module else os.path.dirname(os.path.abspath(argv[0])))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before


def _exit_code(end: SystemExit) -> tuple[int, str]:
    if end.code is None or isinstance(end.code, int):
        return int(end.code or 0) & 0xFF, ""
    return 1, f"{end.code}\n"


def _is_of_runpy(error: BaseException) -> bool:
    """Whether the module itself wasn't found; else the error is the program's own."""
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and "runpy" in last.tb_frame.f_code.co_filename


def _traceback(error: BaseException, script: str) -> str:
    """The traceback from the program's own first line on."""
    found = error.__traceback__
    while found is not None and "runpy" not in found.tb_frame.f_code.co_filename:
        found = found.tb_next
    while found is not None and "runpy" in found.tb_frame.f_code.co_filename:
        found = found.tb_next
    return "".join(traceback.format_exception(type(error), error, found or error.__traceback__))
