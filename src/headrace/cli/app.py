"""Puts the commands together, and turns whatever goes wrong into one line and an exit code."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NoReturn

import typer

import headrace as hr
from headrace.cli.check import check
from headrace.cli.convert import convert
from headrace.cli.head import head
from headrace.cli.index import index
from headrace.cli.infer import infer
from headrace.cli.nmt import nmt
from headrace.cli.output import STANDARD_OUTPUT, DataProblem, named_output, print_json, say
from headrace.cli.profile import profile
from headrace.cli.state import diff, show, skip, state_app
from headrace.cli.verify import verify

_ClickError: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
# typer has brought click along under another name since 0.25; before, it was click's own.


class _Interrupted(Exception):
    """Ctrl-C; an ordinary exception, for typer to leave it alone."""


class _PipeClosed(Exception):
    """Whoever read the output has gone."""


def _guarded(command: Callable[..., int]) -> Callable[..., int]:
    """A command whose interruptions reach `run`: typer would make exit codes of its own of them."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> int:
        try:
            code = command(*args, **kwargs)
            with named_output():
                sys.stdout.flush()  # here, for an error to be noticed
            return code
        except KeyboardInterrupt:
            raise _Interrupted from None
        except BrokenPipeError:
            raise _PipeClosed from None

    return guarded


app = typer.Typer(
    name="headrace",
    help="Looks through, shows and converts files of training data: CNTK's text format (CTF), TFRecord files, and what "
    "they are turned into.",
    epilog="Exit codes: 0 good, 1 problems in the data, 2 a mistake in the command or a file that can't be read.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for _command in (check, head, convert, index, infer, verify):
    app.command()(_guarded(_command))
# What follows the script is the script's, options too.
app.command(context_settings={"allow_interspersed_args": False})(_guarded(profile))
# All that follows is the translation system's, --help too.
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})(
    _guarded(nmt)
)
app.add_typer(state_app, name="state")
for _part in (show, diff, skip):
    state_app.command()(_guarded(_part))


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"headrace {hr.__version__}")
        raise typer.Exit


@app.callback()
def _all(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def run(argv: Sequence[str] | None = None) -> int:
    """Runs a command line; returns the exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  until the end
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # words that the terminal can't show are no reason to stop
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    given = sys.argv[1:] if argv is None else list(argv)
    with _logged(), _terminated():
        code = _run(given or ["--help"])
    return code if given else 2  # nothing was asked for


def _run(argv: list[str]) -> int:
    fail = functools.partial(_fail, as_json="--json" in argv)
    try:
        code = typer.main.get_command(app).main(args=argv, prog_name="headrace", standalone_mode=False)
        sys.stdout.flush()
        return int(code or 0)
    except typer.Exit as end:
        return end.exit_code
    except (_Interrupted, typer.Abort, KeyboardInterrupt):
        return fail("stopped", 130)
    except (_PipeClosed, BrokenPipeError):
        _give_up_output()
        return 141
    except DataProblem as error:
        return fail(str(error), 1)
    except _ClickError as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "headrace"
        return fail(f"{error.format_message()} ({command} --help says more)")  # type: ignore[attr-defined]
    except OSError as error:
        if error.filename == STANDARD_OUTPUT:
            _give_up_output()
        return fail(_of_system(error))
    except ImportError as error:
        if error.name is None or error.name.startswith("headrace"):
            raise
        return fail(str(error))
    except hr.HeadraceError as error:
        return fail(str(error))
    except MemoryError:
        return fail("there is not enough memory")


def _give_up_output() -> None:
    """Python flushes standard output once more at its end, and would complain then."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of_system(error: OSError) -> str:
    """An error of the operating system, as a sentence with the file first."""
    text = error.strerror or str(error)
    if error.filename is not None:
        text = f"{os.fsdecode(error.filename)}: {text}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        written = "" if error.filename == STANDARD_OUTPUT else "nothing was written: "
        text += f"; {written}make room, or write to another disk"
    said = f"headrace: in writing {error.filename}"
    return " ".join([text, *(note for note in getattr(error, "__notes__", ()) if note != said)])


def _fail(message: str, code: int = 2, *, as_json: bool) -> int:
    message = " ".join(message.split())
    say(f"headrace: error: {message}")
    if as_json:
        with contextlib.suppress(OSError):  # nobody reads any more
            print_json({"error": message})
            sys.stdout.flush()
    return code


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """As all that the command says beside its output."""
        return f"headrace: {record.levelname.lower()}: {record.getMessage()}"


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """The library's warnings go to standard error while a command runs."""
    log = logging.getLogger("headrace")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    log.addHandler(handler)
    before, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = before


@contextlib.contextmanager
def _terminated() -> Iterator[None]:
    """While a command runs, being asked to end (SIGTERM) removes what is half written, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
