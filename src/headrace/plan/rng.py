"""Random numbers for a record: the same whoever draws them, whenever and in whatever order."""

from __future__ import annotations

import numpy as np

from headrace.plan.check import whole_number
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
    counter[2] = whole_number("record_rng", "record", record, 0)
    counter[3] = whole_number("record_rng", "epoch", epoch, 0)
    key = np.array([seed_key(seed), whole_number("record_rng", "stream", stream, 0)], np.uint64)
    return np.random.Generator(np.random.Philox(counter=counter, key=key))
