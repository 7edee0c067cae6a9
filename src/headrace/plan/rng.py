"""Random numbers for a record: the same whoever draws them, whenever and in whatever order."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from headrace.checks import whole_of
from headrace.plan.permutation import seed_key


def record_rng(seed: int, epoch: int, record: int, *, stream: int = 0) -> np.random.Generator:
    """Makes the random generator of one record in one epoch.

    It is NumPy's Philox with the key `(seed, stream)` and the counter `(0, 0, record, epoch)`, lowest word first. A
    generator runs through the two zeros, so no two of them ever overlap. The raw bits are the same for ever; what NumPy
    makes of them (`normal`, `integers` …) is NumPy's own and may change with its releases.

    Args:
        seed: Any whole number; reduced to 64 bits by `seed_key`.
        epoch: Which epoch, or which pass over the data.
        record: The record's id.
        stream: Which of several independent draws for the same record.

    Raises:
        PlanError: If an argument is not a whole number, or one other than the seed is negative.

    Example:
        >>> import headrace as hr
        >>> first, again = (hr.record_rng(seed=7, epoch=0, record=12) for _ in range(2))
        >>> bool(first.random() == again.random())
        True
    """
    counter = np.zeros(4, np.uint64)
    counter[2] = whole_of("record_rng", "record", record, 0)
    counter[3] = whole_of("record_rng", "epoch", epoch, 0)
    key = np.array([seed_key(seed), whole_of("record_rng", "stream", stream, 0)], np.uint64)
    return np.random.Generator(np.random.Philox(counter=counter, key=key))


class RecordRng:
    """The generators of many records, at a fraction of the cost of making each anew.

    Draws the same numbers as `record_rng`. Each thread has one generator that `at` sets to the beginning of a record's
    numbers, so what `at` returned is valid until the same thread asks for the next record; keep no reference to it.

    Args:
        seed: As of `record_rng`.
        stream: As of `record_rng`.

    Raises:
        PlanError: If an argument is not a whole number, or the stream is negative.

    Example:
        >>> from headrace.plan import record_rng
        >>> from headrace.plan.rng import RecordRng
        >>> draws = RecordRng(seed=7)
        >>> bool(draws.at(0, 12).random() == record_rng(seed=7, epoch=0, record=12).random())
        True
    """

    def __init__(self, seed: int, stream: int = 0) -> None:
        self._arguments = (seed, stream)
        record_rng(seed, 0, 0, stream=stream)  # refuses what makes no sense, before there are records
        self._of_thread = threading.local()

    def at(self, epoch: int, record: int) -> np.random.Generator:
        """This thread's generator, at the beginning of the numbers of one record in one epoch.

        Raises:
            PlanError: If an argument is not a whole number, or is negative.
        """
        number = whole_of("record_rng", "record", record, 0)
        turn = whole_of("record_rng", "epoch", epoch, 0)
        own = self._of_thread
        try:
            generator: np.random.Generator = own.generator
            state: dict[str, Any] = own.state
        except AttributeError:
            seed, stream = self._arguments
            generator = own.generator = record_rng(seed, 0, 0, stream=stream)
            # The state of a generator that has drawn nothing; only the counter of a record has to be filled in.
            state = own.state = dict(generator.bit_generator.state)
        counter = state["state"]["counter"]
        counter[2] = number
        counter[3] = turn
        generator.bit_generator.state = state
        return generator

    def __reduce__(self) -> tuple[Any, ...]:
        """Seed and stream; the threads' generators are made anew where it is unpickled."""
        return RecordRng, self._arguments
