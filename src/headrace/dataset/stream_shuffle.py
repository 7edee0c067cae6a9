"""A stream's records shuffled inside windows of neighbours: a window of it is held at a time."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from headrace import plan as plans
from headrace.errors import StateError
from headrace.formats.source import Fingerprint
from headrace.formats.stream import Opened, StreamSource


class ShuffledStream(StreamSource):
    """A stream whose windows are read one by one and given in the order in which `shuffle(window=…)` of as many known
    records would give them.

    Args:
        source: The stream.
        seed: Of the orders.
        window: Records that are shuffled together.
    """

    differs = True

    def __init__(self, source: StreamSource, seed: int, window: int) -> None:
        super().__init__(())
        self._source = source
        self._seed = seed
        self._window = window

    @property
    def kind(self) -> str:  # type: ignore[override]
        """That of the stream."""
        return self._source.kind

    def open(self, epoch: int = 0, state: Any = None) -> Opened:
        """From the beginning, or in the middle of a window, which is then read again from the stream's own state."""
        number = taken = 0
        own = None
        if state is not None:
            if state[0] != "shuffle" or not _is_place(state[1]):
                raise StateError(f"the loader's state is damaged: {state!r:.80} is no place in a shuffled stream")
            number, taken, own = state[1]["window"], state[1]["taken"], state[1]["stream"]
        items = _Items(self._source.open(epoch, own), self._seed, self._window, epoch, number, taken)
        return Opened(items, "shuffle", items, state) if items.opened.of is not None else Opened(items)

    def fingerprint(self) -> Fingerprint:
        """The stream's."""
        return self._source.fingerprint()

    def where(self, record: int) -> str:
        """The record's number in the new order, and the window of the stream that it is from."""
        first = record // self._window * self._window
        return f"record {record} of the shuffled stream (one of its items {first} to {first + self._window - 1})"


def _is_place(state: Any) -> bool:
    return (
        isinstance(state, dict)
        and all(type(state.get(name)) is int and state[name] >= 0 for name in ("window", "taken"))
        and "stream" in state
        and (state["stream"] is None or (isinstance(state["stream"], (list, tuple)) and len(state["stream"]) == 2))
    )


class _Items:
    """Iterates the windows."""

    def __init__(self, opened: Opened, seed: int, window: int, epoch: int, number: int, taken: int) -> None:
        self.opened = opened
        self._seed = seed
        self._window = window
        self._epoch = epoch
        self._number = number
        self._taken = taken
        self._begun = opened.state()  # where the stream was before the window
        self._held: list[Any] = []
        self._order: list[int] | None = None  # of the window that is held; None before it is read

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while self._order is None or self._taken >= len(self._order):
            if self._order is not None:
                if len(self._order) < self._window:
                    raise StopIteration
                self._number, self._taken, self._begun = self._number + 1, 0, self.opened.state()
            self._order = self._read()
        place = self._order[self._taken]
        self._taken += 1
        item, self._held[place] = self._held[place], None
        return item

    def _read(self) -> list[int]:
        """The next window; gives the order of its items."""
        self._held = list(islice(self.opened, self._window))
        first = self._number * self._window
        # The last window may be shorter; its order is that of the last window of so many records.
        plan = plans.WindowShuffle(plans.Leaf(0, first + len(self._held)), self._seed, self._window)
        rows = plan.locate(self._epoch, np.arange(first, first + len(self._held)))
        order: list[int] = (rows.ids[0] - first).tolist()
        return order

    def state_dict(self) -> Any:
        """Where the stream was before this window, and how many of it have been given."""
        return {"window": self._number, "taken": self._taken, "stream": copy.deepcopy(self._begun)}
