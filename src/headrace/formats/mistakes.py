"""Counts mistakes in data against the number that is tolerated, and tells of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DataError
from headrace.formats.sequences import Parsed, ParseWarning

TOLD = 100
"""Mistakes that are told one by one; from there on only how many there are, at each power of ten."""

_NAMED = 2  # mistakes that an error names besides the one too many
_log = logging.getLogger("headrace")


class Mistakes:
    """The mistakes in some data, of which there may be so many.

    Args:
        most: How many.
        data: What messages call the data; empty where those of the mistakes say enough.
        advice: What messages say is to be done about more than that.
        error: What is raised then.
        log: Whether mistakes, and warnings of each kind, are told in the log as they are found.

    Example:
        >>> import numpy as np
        >>> from headrace.formats.mistakes import Mistakes
        >>> mistakes = Mistakes(2, data="a.ctf")
        >>> mistakes.add(np.array([1, 1]), ["no number", "no name"].__getitem__)
        >>> mistakes.count, mistakes.first
        (2, ['no number', 'no name'])
    """

    def __init__(
        self,
        most: int,
        *,
        data: str = "",
        advice: str = "correct the data or allow more",
        error: type[Exception] = DataError,
        log: bool = False,
    ) -> None:
        self.most = most
        self.data = data
        self.count = 0
        self.first: list[str] = []  # messages
        self._advice = advice
        self._error = error
        self._log = log
        self._told: set[str] = set()  # kinds of warnings
        self._records: set[int] = set()  # those whose mistakes have been counted: no more than are tolerated

    @property
    def left(self) -> int:
        """How many more there may be."""
        return self.most - self.count

    def add(self, times: NDArray[np.int64], explain: Callable[[int], str]) -> None:
        """Counts mistakes; all of them or, where they are too many, none.

        Args:
            times: How many mistakes each of those that can be explained stands for.
            explain: The message of the `i`-th of them.

        Raises:
            Exception: What was said, if there are more than may be.
        """
        ends = self.count + np.cumsum(times)
        named = min(len(ends), _NAMED - len(self.first))
        first = self.first + [explain(i) for i in range(named)]
        over = int(np.searchsorted(ends, self.most, side="right"))
        if over < len(ends):
            raise self._error(self._too_many(first[: len(self.first) + over], explain(over)))
        if self._log:
            self._tell(ends, times, explain)
        self.first = first
        self.count = int(ends[-1]) if len(ends) else self.count

    def forget(self) -> None:
        """Begins anew."""
        self.count, self.first = 0, []
        self._records.clear()

    def settle(self, records: NDArray[np.int64], parsed: Parsed) -> None:
        """Counts the mistakes in records that were parsed, of each record when it comes for the first time.

        Records may be parsed again in later sweeps; a mistake counts, and is told, once.

        Raises:
            Exception: What was said, if there are more than may be.
        """
        if self._log:
            tell_once(parsed.warnings, self._told)
        rows = parsed.error_rows
        if not len(rows):
            return
        found, first, which = np.unique(records[rows], return_index=True, return_inverse=True)
        new = np.array([record not in self._records for record in found.tolist()])
        # A record may come several times among these, too.
        counted = np.flatnonzero(new[which] & (rows == rows[first][which]))
        self.add(parsed.times[counted], lambda i: parsed.explain(int(counted[i])))
        self._records.update(found[new].tolist())

    def _too_many(self, first: list[str], last: str) -> str:
        of = f" while reading {self.data}" if self.data else ""
        text = f"Reached the maximum number of allowed errors (max_errors={self.most}){of}; {self._advice}:"
        if not first:
            return f"{text} {last}"
        between = ["…"] if self.most > len(first) else []
        return text + "".join(f"\n  {message}" for message in [*first, *between, last])

    def _tell(self, ends: NDArray[np.int64], times: NDArray[np.int64], explain: Callable[[int], str]) -> None:
        before = self.count
        for i, end in enumerate(ends.tolist()):
            if before >= TOLD:
                break
            these = f"mistake {end:,}" if times[i] == 1 else f"mistakes {before + 1:,} to {end:,}"
            _log.warning("%s of %s allowed: %s", these, f"{self.most:,}", explain(i))
            before = end
            if end >= TOLD and self.most > end:
                _log.warning("further mistakes are only counted, and told at %s, …", f"{10 * _power_of_ten(end):,}")
        power = _power_of_ten(int(ends[-1])) if len(ends) else 0
        if power > max(before, TOLD):
            _log.warning("%s mistakes of %s allowed so far", f"{power:,}", f"{self.most:,}")


def _power_of_ten(number: int) -> int:
    """The largest one up to a number from 1 on."""
    return int(10 ** (len(str(number)) - 1))


def tell_once(warnings: Iterable[ParseWarning], told: set[str]) -> None:
    """Logs the first warning of each kind, whose kinds are added to those that were told."""
    for warning in warnings:
        if warning.kind not in told:
            told.add(warning.kind)
            _log.warning("%s; others of this kind are not reported", warning.message)
