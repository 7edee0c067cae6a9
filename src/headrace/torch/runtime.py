"""What a DataLoader has while the program runs, and what isn't copied or pickled with it."""

from __future__ import annotations

import weakref
from typing import Any

from headrace.engine import Advice, Auto, Crew, StatsCollector
from headrace.torch.fetch import Skipped
from headrace.torch.position import Epoch
from headrace.torch.randomness import Guard
from headrace.torch.saved import Saved

_ADVICE = Advice(
    {
        "read": "Keep the data in memory, as tensors that lie in one piece.",
        "fetch": "Make `__getitem__` (or `__iter__`) cheaper, or write `__getitems__`, which reads a batch in one go.",
        "collate": "Give tensors that need only be stacked, or a cheaper `collate_fn`.",
    },
    frozenset({"fetch", "collate"}),
    "`num_workers=1`",
    "`prefetch_factor`",
)


class Runtime:
    """Workers, statistics, and the place in the data.

    Args:
        workers: How many workers there are.
        ahead: Batches that may wait.
        mode: Where the work is done.
        max_errors: How many samples may be left out.

    Attributes:
        epochs: The number of the next epoch.
        epoch: The one that was begun last, and how far it has come.
        resume: A state to go on from at the next iteration.
        last: The iterator that was made last.
        auto: What `mode="auto"` has found out.
    """

    def __init__(self, workers: int, ahead: int, mode: Any, max_errors: int | None) -> None:
        self.epochs = 0
        self.epoch: Epoch | None = None
        self.resume: Saved | None = None
        self.last: weakref.ref[Any] | None = None
        self.auto: Auto | None = None
        self.digests: list[int] = []
        self.skipped: list[Skipped] = []
        self.guard = Guard()
        self.stats = StatsCollector(workers, ahead, mode, _ADVICE)
        self._max_errors = max_errors
        self._crew: tuple[tuple[int, str], Crew] | None = None

    def crew(self, loader: Any, workers: int) -> Crew:
        """So many worker processes of the loader's, which stay from epoch to epoch."""
        if self._crew is not None and self._crew[0] == (workers, "fork"):
            return self._crew[1]  # what is read can't be sent
        context = loader.multiprocessing_context
        return self.crew_of(workers, "auto" if context is None else context.get_start_method())

    def crew_of(self, workers: int, method: str = "auto") -> Crew:
        """So many worker processes."""
        key = (workers, method)
        if self._crew is None or self._crew[0] != key:
            self._crew = key, Crew(*key)  # type: ignore[arg-type]
        return self._crew[1]

    def skip(self, skipped: Skipped) -> None:
        """Takes note of what was left out.

        Raises:
            RuntimeError: If that is too much.
        """
        self.skipped.append(skipped)
        if self._max_errors is not None and len(self.skipped) > self._max_errors:
            raise RuntimeError(
                f"{len(self.skipped)} samples couldn't be read, more than max_errors={self._max_errors}; the last one: "
                f"index {skipped.index!r:.80} in epoch {skipped.epoch}: {skipped.error}"
            )

    def close(self) -> None:
        """Ends the iteration and the workers."""
        last = self.last() if self.last is not None else None
        if last is not None:
            last._close()
        self.let_go()

    def let_go(self) -> None:
        """Ends the workers, if there are any at rest."""
        if self._crew is not None:
            self._crew[1].close()
            self._crew = None
