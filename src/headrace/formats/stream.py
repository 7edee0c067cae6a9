"""Records from anything that can only be iterated."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Objects
from headrace.batch.tree import Tree
from headrace.errors import DataError, add_note
from headrace.formats.source import Fingerprint, Source


class StreamEnded(Exception):
    """Says that a stream has no record where one was asked for. Never seen by users: the loader ends the epoch."""


_KEPT = 1 << 16  # records passed over that are kept for workers who come later: more than pieces in flight ever hold


class StreamSource(Source):
    """The items of an iterable, numbered as they come.

    A stream is read forward. Workers may ask for pieces out of turn: what was passed over for one of them is kept
    until its own worker comes. Asking for an earlier record than any kept one starts the stream again and passes over
    what comes before, which is what restoring a saved position costs.

    Args:
        items: An iterable that starts again each time it is iterated (a list, a class with `__iter__`), or a function
            that returns an iterator. A bare iterator or generator can be read once only.
    """

    kind = "iterable"

    def __init__(self, items: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        if not callable(items) and not isinstance(items, Iterable):
            raise TypeError(
                f"from_iterable needs an iterable or a function that returns one, got {type(items).__name__}"
            )
        self._items = items
        self._lock = threading.Lock()
        self._iterator: Iterator[Any] | None = None
        self._kept: dict[int, Any] = {}
        self._next = 0
        self._end: int | None = None
        self._used_up = False

    @property
    def num_records(self) -> None:
        """Not known: a stream ends where it ends."""
        return

    def read(self, records: NDArray[np.int64]) -> Tree:
        """Reads on to the records asked for; fewer come back if the stream has ended.

        Raises:
            StreamEnded: If it has ended before the first of them.
        """
        found = Objects()
        with self._lock:
            for record in records.tolist():
                if record in self._kept:
                    found.append(self._kept.pop(record))
                    continue
                if self._iterator is None or record < self._next:
                    self._start()
                while self._next <= record and self._advance():
                    pass
                if record not in self._kept:
                    break
                found.append(self._kept.pop(record))
        if len(records) and not found:
            raise StreamEnded
        return found

    def _start(self) -> None:
        if self._used_up:
            raise DataError(
                "the iterator given to from_iterable is used up and can't start again; give an iterable that can be "
                "iterated anew, or a function that returns one"
            )
        iterator = iter(self._items() if callable(self._items) else self._items)
        self._used_up = iterator is self._items
        self._iterator, self._kept, self._next = iterator, {}, 0

    def _advance(self) -> bool:
        assert self._iterator is not None
        try:
            item = next(self._iterator)
        except StopIteration:
            return False
        except Exception as error:
            add_note(error, f"headrace: in reading {self.where(self._next)}")
            self._iterator = None
            raise
        self._kept[self._next] = item
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        self._next += 1
        return True

    def column_names(self) -> None:
        """Unknown before a record is read."""
        return

    def fingerprint(self) -> Fingerprint:
        """The stream's type; its content isn't looked at."""
        return {"records": None, "type": getattr(self._items, "__qualname__", type(self._items).__qualname__)}

    def where(self, record: int) -> str:
        """The record's number, counted from 0."""
        return f"item {record} of the stream"
