"""Where a run takes its pieces from, one at a time; an interrupt loses none."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Generic

from headrace.engine.result import P
from headrace.errors import StuckError


class Feed(Generic[P]):
    """Takes pieces from an iterator, when asked to.

    Args:
        pieces: Gives them.

    Attributes:
        held: The piece that was taken, if nobody has it yet. Whoever gets it, empties this list.
        error: What the iterator raised in the place of a piece.
    """

    def __init__(self, pieces: Iterable[P]) -> None:
        self.held: list[P] = []
        self.error: Exception | None = None
        self._source: Iterator[P] | None = iter(pieces)
        self._asking = False

    def take(self) -> bool:
        """Makes sure that a piece is held; False if there is none, because of the end or an error.

        Raises:
            StuckError: If an interrupt has struck in the iterator, which can't go on then.
        """
        if self.held:
            self._asking = False
            return True
        if self._source is None:
            return False
        if self._asking:
            raise StuckError(
                "this iteration was interrupted while it asked for what comes next, as by Ctrl-C, and can't go on; "
                "iterate the loader anew (its state_dict() tells where it was)"
            )
        one = itertools.islice(self._source, 1)
        self._asking = True
        try:
            self.held.extend(one)  # one step of the interpreter, so that nothing is lost between asking and keeping
        except Exception as error:
            self.error, self._source = error, None
            return False
        self._asking = False
        if not self.held:
            self._source = None
        return bool(self.held)

    def close(self) -> None:
        """Lets go of the iterator."""
        self._source = None
