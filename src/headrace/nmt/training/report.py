"""What a run says: lines on the terminal and in a log file, a progress bar under them, and curves for TensorBoard."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from headrace.nmt.text.files import naming
from headrace.nmt.training.board import Board

__all__ = ["Report"]


class Report:
    """Writes lines to standard output and to `log_<time>` in a folder, and has a `board` for its `train_log`.

    Args:
        folder: Where the log file goes.
        total: Steps of the whole run, for the bar.
        progress: Show a bar; None: where standard output is a terminal and rich is installed.
        quiet: Write to the log file alone.
        silent: Say nothing at all, and write no file.

    Raises:
        ImportError: A bar is asked for and rich is not installed.
    """

    def __init__(
        self, folder: Path, total: int, progress: bool | None = None, quiet: bool = False, silent: bool = False
    ) -> None:
        quiet = quiet or silent
        progress = False if silent else progress
        self._total, self._quiet, self._silent = total, quiet, silent
        self._path = folder / f"log_{int(time.time())}"
        self._file: IO[str] | None = None
        self.board = Board(None if silent else folder / "train_log")
        self._bar: Any = None
        if progress or (progress is None and not quiet and sys.stdout.isatty()):
            self._bar = _bar(needed=bool(progress))

    def __enter__(self) -> Self:
        if not self._silent:
            self._file = self._path.open("a", encoding="utf-8", errors="surrogateescape")
        if self._bar is not None:
            self._task = self._bar.add_task("training", total=self._total, what="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        with contextlib.suppress(OSError) if kind else naming(self._path):  # a full disk was told of already
            try:
                self.board.close()
            finally:
                if self._file is not None:
                    self._file.close()

    def line(self, text: str) -> None:
        """Says something."""
        if self._file is not None:
            with naming(self._path):
                self._file.write(text + "\n")
                self._file.flush()
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def advance(self, step: int, what: str) -> None:
        """Moves the bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=step, what=what)


def _bar(needed: bool) -> Any:
    try:
        from rich import progress  # needed for the bar alone
    except ImportError:
        if needed:
            raise ImportError("the progress bar needs rich: pip install 'headrace[nmt]'") from None
        return None
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[what]}"),
    )
