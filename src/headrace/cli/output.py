"""What commands print: results on standard output, remarks and progress on standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

BAR = 40
"""Characters of the longest bar of a histogram."""


STANDARD_OUTPUT = "standard output"


class DataProblem(Exception):
    """The data has problems, and so the command can't do what it was asked for: exit code 1."""


def line(text: str = "") -> None:
    """Prints a line of the result.

    Raises:
        OSError: If that can't be; its file is `STANDARD_OUTPUT`.
    """
    with named_output():
        sys.stdout.write(text + "\n")


@contextlib.contextmanager
def named_output() -> Iterator[None]:
    """Errors of standard output, which know no file, get its name."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = STANDARD_OUTPUT
        raise


def say(text: str) -> None:
    """Prints a line on standard error; where that can't be, what the command does and its exit code stay the same."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(text + "\n")


def heading(text: str) -> None:
    """Prints a line that stands out, on a terminal."""
    bold = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    line(f"\033[1m{text}\033[0m" if bold else text)


def print_json(value: Any) -> None:
    """Prints a value as one line of JSON."""
    line(json.dumps(value, ensure_ascii=False, allow_nan=False))


def remark(text: str) -> None:
    """Says something beside the result."""
    say(f"headrace: {text}")


def number(value: float) -> str:
    """A number for people: whole ones with separators, others with some digits."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.6g}"


def count(value: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: `1 line`, `2,000 lines`."""
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> None:
    """Prints rows in columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        line((indent + "  ".join([first, *rest])).rstrip())


def histogram(bins: Sequence[tuple[str, int]], indent: str = "  ") -> None:
    """Prints bars, the longest as wide as `BAR` characters; what isn't 0 has at least one."""
    most = max((size for _, size in bins), default=0)
    block = "█" if _can_print("█") else "#"
    labels = max((len(label) for label, _ in bins), default=0)
    digits = max((len(f"{size:,}") for _, size in bins), default=0)
    for label, size in bins:
        bar = block * (max(1, size * BAR // most) if size else 0)
        line(f"{indent}{label.rjust(labels)}  {size:>{digits},}  {bar}".rstrip())


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, if that is a terminal; gives a function to be told of bytes that are done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=total)
        yield lambda done: bars.advance(task, done)
