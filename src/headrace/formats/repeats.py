"""Keys of sequences that come again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def find_repeats(
    keys: NDArray[np.uint64], runs: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Finds keys that come again.

    Args:
        keys: Of all sequences, in the order of the data.
        runs: Ascending numbers, one a key: only keys that come again with another number count. None counts all.

    Returns:
        The records that have a key which an earlier one has, ascending; for each the last before it that has it.

    Example:
        >>> import numpy as np
        >>> from headrace.formats.repeats import find_repeats
        >>> again, before = find_repeats(np.array([7, 8, 7, 9, 7], np.uint64))
        >>> again.tolist(), before.tolist()
        ([2, 4], [0, 2])
    """
    if len(keys) < 2 or bool((keys[1:] > keys[:-1]).all()):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    same = ordered[1:] == ordered[:-1]
    if runs is not None:
        same &= runs[order[1:]] != runs[order[:-1]]
    places = np.flatnonzero(same)
    places = places[np.argsort(order[places + 1], kind="stable")]
    return order[places + 1], order[places]
