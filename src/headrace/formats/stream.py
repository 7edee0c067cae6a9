"""Records from anything that can only be iterated."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Objects
from headrace.errors import DataError, add_note
from headrace.formats.source import Fingerprint, Source


class StreamSource(Source):
    """The items of an iterable, numbered as they come.

    A stream is read forward, by a `StreamCursor` for each that reads it. Asking for an earlier record starts it again
    and passes over what comes before, which is what restoring a saved position costs.

    Args:
        items: An iterable that starts again each time it is iterated (a list, a class with `__iter__`), or a function
            that returns an iterator. A bare iterator or generator can be read once only.
    """

    kind = "iterable"
    differs = False
    """Whether the records are others in each epoch."""

    def __init__(self, items: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        if not callable(items) and not isinstance(items, Iterable):
            raise TypeError(
                f"from_iterable needs an iterable or a function that returns one, got {type(items).__name__}"
            )
        self._items = items
        self._used_up = False

    def start(self, epoch: int = 0) -> Iterator[Any]:
        """Iterates from the first record on; an iterable gives the same in every epoch.

        Raises:
            DataError: If that can't be done again.
            TypeError: If the function that was given returns something that can't be iterated.
        """
        if self._used_up:
            raise DataError(
                "the iterator given to from_iterable is used up and can't start again; give an iterable that can be "
                "iterated anew, or a function that returns one"
            )
        items = self._items
        if callable(items):
            items = items()
            if not isinstance(items, Iterable):
                raise TypeError(f"the function given to from_iterable returned {type(items).__name__}, not an iterable")
        iterator = iter(items)
        self._used_up = iterator is self._items
        return iterator

    @property
    def num_records(self) -> None:
        """Not known: a stream ends where it ends."""
        return

    def read(self, records: NDArray[np.int64]) -> Objects:
        """Starts the stream and reads on to the records asked for; fewer come back if it ends before."""
        cursor, passes = StreamCursor(self), np.zeros(len(records), np.int64)
        found = cursor.advance(records, passes, np.ones(len(records), bool))
        return cursor.take(records[:found], passes[:found])

    def column_names(self) -> None:
        """Unknown before a record is read."""
        return

    def fingerprint(self) -> Fingerprint:
        """The stream's type; its content isn't looked at."""
        return {"records": None, "type": getattr(self._items, "__qualname__", type(self._items).__qualname__)}

    def where(self, record: int) -> str:
        """The record's number, counted from 0."""
        return f"item {record} of the stream"


class StreamCursor:
    """One reader's place in a stream, and the records that are wanted but not taken yet.

    `advance` is called batch by batch, in the order of the plan; `take` gives the records of a batch, in any order of
    batches and from any thread. So a stream is iterated strictly forward whatever workers do, and what is kept is what
    is under way: records that nobody wants are dropped as they are passed.
    """

    def __init__(self, source: StreamSource) -> None:
        self._source = source
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._iterator: Iterator[Any] | None = None
        self._next = 0
        self._epoch = -1  # the pass that the iterator was started for
        self._kept: dict[tuple[int, int], Any] = {}  # by pass over the data and record

    def advance(self, records: NDArray[np.int64], passes: NDArray[np.int64], wanted: NDArray[np.bool_]) -> int:
        """Iterates on to the last of some records.

        Args:
            records: Record numbers.
            passes: Which pass over the data each belongs to.
            wanted: Which of them will be taken.

        Returns:
            How many of them there are, from the first on: all, unless the stream ends.
        """
        if not len(records):
            return 0
        if os.getpid() != self._process:
            self._reset()  # forked: the lock may have been held, and the iterator been running, in another thread
        keep = dict(zip(records[wanted].tolist(), passes[wanted].tolist(), strict=True))
        with self._lock:
            epoch = int(passes[0])
            if self._iterator is None or min(keep, default=self._next) < self._next or self._is_past(epoch):
                self._iterator, self._next, self._epoch = self._source.start(epoch), 0, epoch
            last = int(records.max())
            while self._next <= last:
                if not self._pass(keep):
                    return int((records >= self._next).argmax())
        return len(records)

    def _is_past(self, epoch: int) -> bool:
        # An iterator of which nothing has been read serves any pass, if all are the same.
        return self._source.differs and epoch != self._epoch

    def _pass(self, keep: dict[int, int]) -> bool:
        assert self._iterator is not None
        try:
            item = next(self._iterator)
        except StopIteration:
            return False
        except Exception as error:
            add_note(error, f"headrace: in reading {self._source.where(self._next)}")
            self._iterator = None
            raise
        if self._next in keep:
            self._kept[keep[self._next], self._next] = item
        self._next += 1
        return True

    def take(self, records: NDArray[np.int64], passes: NDArray[np.int64]) -> Objects:
        """Gives records that `advance` has kept, and keeps them no longer."""
        keys = zip(passes.tolist(), records.tolist(), strict=True)
        return Objects(self._kept.pop(key) for key in keys)

    def drop(self, records: NDArray[np.int64], passes: NDArray[np.int64]) -> None:
        """Keeps records no longer."""
        for key in zip(passes.tolist(), records.tolist(), strict=True):
            self._kept.pop(key, None)

    def drop_all(self) -> None:
        """Keeps nothing any longer; the place stays."""
        self._kept = {}
