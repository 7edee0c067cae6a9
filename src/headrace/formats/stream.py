"""Records from anything that can only be iterated."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Objects
from headrace.errors import DataError, StateError, add_note
from headrace.formats.source import Fingerprint, Source


class StreamSource(Source):
    """The items of an iterable, numbered as they come.

    A stream is read forward, by a `StreamCursor` for each that reads it. Asking for an earlier record starts it again
    and passes over what comes before, which is what restoring a saved position costs; unless the iterable or its
    iterator can tell and be told where it is (`state_dict`, `load_state_dict`).

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
        return iter(self.open(epoch))

    def open(self, epoch: int = 0, state: Any = None) -> Opened:
        """As `start`, or from where a state was taken on.

        Args:
            epoch: Of which epoch.
            state: What `Opened.state` gave; None is the beginning.

        Raises:
            DataError: As `start`.
            StateError: If the stream can't be set to a state now.
            TypeError: As `start`.
        """
        if self._used_up and state is None:
            raise DataError(
                "the iterator given to from_iterable is used up and can't start again; give an iterable that can be "
                "iterated anew, or a function that returns one"
            )
        items = self._items
        if callable(items):
            items = items()
            if not isinstance(items, Iterable):
                raise TypeError(f"the function given to from_iterable returned {type(items).__name__}, not an iterable")
        of, own = (None, None) if state is None else state
        if of == "iterable":
            _restore(items, own)
        iterator = iter(items)
        if of == "iterator":
            _restore(iterator, own)
        self._used_up = iterator is self._items
        if _has_hooks(iterator):
            return Opened(iterator, "iterator", iterator, state)
        return Opened(iterator, "iterable", items, state) if _has_hooks(items) else Opened(iterator)

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

    def bearings(self) -> Any:
        """What `where` has learnt by reading, for a copy of this source in a process that doesn't read it."""
        return None

    def take_bearings(self, bearings: Any) -> None:
        """Takes over what another copy has learnt."""

    def fingerprint(self) -> Fingerprint:
        """The stream's type; its content isn't looked at."""
        return {"records": None, "type": getattr(self._items, "__qualname__", type(self._items).__qualname__)}

    def where(self, record: int) -> str:
        """The record's number, counted from 0."""
        return f"item {record} of the stream"


class Opened:
    """A stream that is being read: iterates its items.

    Args:
        items: Gives the items.
        of: What tells where it is: `"iterator"`, `"iterable"`, or None if nothing does.
        owner: That object; it has `state_dict()` and `load_state_dict(state)`.
        given: The state that it was set to.
    """

    def __init__(self, items: Iterator[Any], of: str | None = None, owner: Any = None, given: Any = None) -> None:
        self._items = items
        self.of = of
        self._owner = owner
        self._given = given
        self._moved = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        item = next(self._items)
        self._moved = True
        return item

    def state(self) -> Any:
        """Where it is, in its own words, as a copy: what is given to `StreamSource.open`; None is the beginning."""
        if not self._moved:  # a generator that hasn't begun yet doesn't know what it was set to
            return copy.deepcopy(self._given)
        return None if self.of is None else [self.of, copy.deepcopy(self._owner.state_dict())]


def _has_hooks(thing: Any) -> bool:
    return all(callable(getattr(thing, name, None)) for name in ("state_dict", "load_state_dict"))


def _restore(thing: Any, state: Any) -> None:
    if not _has_hooks(thing):
        raise StateError(
            f"the state has that of a stream, and {type(thing).__name__} has no load_state_dict() now; restore with "
            "the iterable that it was saved with"
        )
    try:
        thing.load_state_dict(copy.deepcopy(state))
    except Exception as error:
        add_note(error, f"headrace: in load_state_dict() of {type(thing).__name__}, given to from_iterable")
        raise


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a stream that can be gone to without reading what comes before.

    Attributes:
        epoch: The pass over the data.
        record: The number of the next record.
        state: The stream's own state.
    """

    epoch: int
    record: int
    state: Any


Kept = dict[tuple[int, int], Any]
"""Records by the pass over the data that they belong to and their number."""


class StreamCursor:
    """One reader's place in a stream, and the records that are wanted but not taken yet.

    `advance` is called batch by batch, in the order of the plan; `take` gives the records of a batch, in any order of
    batches and from any thread. So a stream is iterated strictly forward whatever workers do, and what is kept is what
    is under way: records that nobody wants are dropped as they are passed.
    """

    def __init__(self, source: StreamSource) -> None:
        self._source = source
        self.marks = True
        """Whether places in it are told; not of a stream that another one reads ahead of the plan."""
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._opened: Opened | None = None
        self._from: Mark | None = None
        self._next = 0
        self._epoch = -1  # the pass that the iterator was started for
        self._kept: Kept = {}

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
            if self._opened is None or min(keep, default=self._next) < self._next or self._is_past(epoch):
                self._open(epoch, int(records.min()))
            last = int(records.max())
            if not self._pass(last, keep):
                return int((records >= self._next).argmax())
        return len(records)

    def _open(self, epoch: int, first: int) -> None:
        """From the mark on, if that isn't too far."""
        mark = self._from
        self._opened = None  # it stays so if opening fails
        if mark is not None and mark.epoch == epoch and mark.record <= first:
            self._opened, self._next = self._source.open(epoch, mark.state), mark.record
        else:
            self._opened, self._next = self._source.open(epoch), 0
        self._epoch = epoch

    def _is_past(self, epoch: int) -> bool:
        # An iterator of which nothing has been read serves any pass, if all are the same.
        stateful = self._opened is not None and self._opened.of is not None
        return (self._source.differs or stateful) and epoch != self._epoch

    def seek(self, mark: Mark | None) -> None:
        """Goes to where a run begins: to a place that was marked, or to the beginning, which needs no mark."""
        with self._lock:
            if mark is not None or (self._opened is not None and self._opened.of is not None):
                self._opened = None  # it may be anywhere, as somebody has read ahead
            self._from = mark

    def mark(self, epoch: int) -> Mark | None:
        """The place after what `advance` came to last; None if only reading anew leads there."""
        if not self.marks:
            return None
        with self._lock:
            opened = self._opened
            if opened is None or self._epoch != epoch:
                return self._from if self._from is not None and self._from.epoch == epoch else None
            state = opened.state()
            return None if state is None else Mark(epoch, self._next, state)

    def _pass(self, last: int, keep: dict[int, int]) -> bool:
        """Iterates on to an item, if there is one; in one loop, as it is most of what a stream costs."""
        assert self._opened is not None
        following, kept, number = self._opened.__next__, self._kept, self._next
        try:
            while number <= last:
                item = following()
                if number in keep:
                    kept[keep[number], number] = item
                number += 1
        except StopIteration:
            return False
        except Exception as error:
            add_note(error, f"headrace: in reading {self._source.where(number)}")
            self._opened = None
            raise
        finally:
            self._next = number
        return True

    def take(self, records: NDArray[np.int64], passes: NDArray[np.int64]) -> Objects:
        """Gives records that `advance` has kept, and keeps them no longer."""
        keys = zip(passes.tolist(), records.tolist(), strict=True)
        return Objects(self._kept.pop(key) for key in keys)

    def hand_over(self, records: NDArray[np.int64], passes: NDArray[np.int64]) -> Kept:
        """Gives records for a cursor in another process, and keeps them no longer."""
        return {key: self._kept.pop(key) for key in zip(passes.tolist(), records.tolist(), strict=True)}

    def take_over(self, kept: Kept) -> None:
        """Keeps what another cursor has handed over, and that alone."""
        self._kept = kept

    def drop(self, records: NDArray[np.int64], passes: NDArray[np.int64]) -> None:
        """Keeps records no longer."""
        for key in zip(passes.tolist(), records.tolist(), strict=True):
            self._kept.pop(key, None)

    def drop_all(self) -> None:
        """Keeps nothing any longer; the place stays."""
        self._kept = {}
