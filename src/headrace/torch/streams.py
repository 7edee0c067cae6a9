"""Iterable datasets: read forward, batch by batch, from a place where one was before."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from headrace.errors import StateError


class End:
    """A stream, or a worker's part of it, is over."""


class Stream:
    """One pass over an iterable dataset.

    Args:
        dataset: The dataset.
        size: Samples of a batch; None gives single samples.
        drop_last: Whether a last batch that is short is left out.
        rank: This process's number among those that share the samples.
        ranks: How many these are.
        state: What `state()` gave, to go on from there.
    """

    def __init__(
        self, dataset: Any, size: int | None, drop_last: bool, *, rank: int = 0, ranks: int = 1, state: Any = None
    ) -> None:
        self._size = size
        self._drop_last = drop_last
        if state is not None and state[0] == "dataset":
            _restore(dataset, state)
        source = iter(dataset)
        if state is not None and state[0] == "iterator":
            _restore(source, state)
        self._owner, self._of = (source, "iterator") if hasattr(source, "state_dict") else (dataset, "dataset")
        self.is_stateful = ranks == 1 and all(hasattr(self._owner, name) for name in ("state_dict", "load_state_dict"))
        self._source: Iterator[Any] = source if ranks == 1 else itertools.islice(source, rank, None, ranks)
        self._ended = False

    def state(self) -> tuple[str, Any] | None:
        """Where the stream is, in its own words; None if it has none."""
        return (self._of, self._owner.state_dict()) if self.is_stateful else None

    def next(self) -> Any:
        """The samples of the next batch, or the next sample.

        Raises:
            StopIteration: At the end.
        """
        if self._size is None:
            return next(self._source)
        if self._ended:
            raise StopIteration
        data: list[Any] = []
        for _ in range(self._size):
            try:
                data.append(next(self._source))
            except StopIteration:
                self._ended = True
                break
        if not data or (self._drop_last and len(data) < self._size):
            raise StopIteration
        return data

    def skip(self, batches: int) -> None:
        """Goes on by some batches, which are read and dropped."""
        for _ in range(batches):
            self.next()


def _restore(thing: Any, state: Any) -> None:
    if not hasattr(thing, "load_state_dict"):
        raise StateError(
            f"the state was saved with a stream whose {state[0]} has a state of its own, but {type(thing).__name__} "
            "has no load_state_dict; go on with the same stream, or begin anew"
        )
    thing.load_state_dict(state[1])
