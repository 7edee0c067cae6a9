"""Takes mistakes in the data from the budget that its deserializer has for them."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from headrace.errors import DataError
from headrace.formats.sequences import Parsed

_log = logging.getLogger("headrace")


class Account:
    """The mistakes of one deserializer.

    Sequences may be parsed again in later sweeps; a mistake counts, and is reported, once.

    Args:
        name: What messages call the data.
        budget: Mistakes that are allowed.
        trace_level: 0 reports nothing, 1 mistakes and warnings.
    """

    def __init__(self, name: str, budget: int, trace_level: int) -> None:
        self.name = name
        self._budget = budget
        self._trace_level = trace_level
        self._count = 0
        self._records: set[int] = set()  # those whose mistakes have been counted: no more than the budget
        self._kinds: set[str] = set()

    def settle(self, records: NDArray[np.int64], parsed: Parsed) -> None:
        """Counts the mistakes in records that were parsed.

        Raises:
            DataError: If there are more than allowed.
        """
        if self._trace_level >= 1:
            for warning in parsed.warnings:
                if warning.kind not in self._kinds:
                    self._kinds.add(warning.kind)
                    _log.warning("%s; others of this kind are not reported", warning.message)
        if not len(parsed.error_rows):
            return
        new: set[int] = set()
        count = self._count
        for i, row in enumerate(parsed.error_rows.tolist()):
            record = int(records[row])
            if record in self._records:
                continue
            if row not in new and int((records[:row] == record).any()):
                continue  # the same record earlier among these
            new.add(row)
            count += 1
            if count > self._budget:
                raise DataError(
                    f"Reached the maximum number of allowed errors ({self._budget}) while reading {self.name}: "
                    f"{parsed.explain(i)}"
                )
            if self._trace_level >= 1:
                _log.warning("mistake %d of %d allowed: %s", count, self._budget, parsed.explain(i))
        self._count = count
        self._records.update(int(records[row]) for row in new)
