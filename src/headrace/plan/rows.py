"""Which records: the answer that a plan gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAF_SHIFT = 48
"""A record's id is the number of its leaf (its source) shifted left by this, or-ed with its number in the source."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Records in order, by their ids.

    Attributes:
        ids: int64, shape `(slots, n)`: one id a record, or after a zip one for each source that was zipped.
        passes: int64, shape `(n,)`: which pass over the data each record belongs to. Normally the epoch; random draws
            are keyed by it, so that they differ from one pass to the next.

    Example:
        >>> import numpy as np
        >>> from headrace.plan import Leaf
        >>> rows = Leaf(0, 5).locate(epoch=2, positions=np.array([4, 0]))
        >>> rows.ids.tolist(), rows.passes.tolist()
        ([[4, 0]], [2, 2])
    """

    ids: NDArray[np.int64]
    passes: NDArray[np.int64]

    def __len__(self) -> int:
        """The number of records."""
        return len(self.passes)

    def take(self, index: slice | NDArray[np.integer]) -> Rows:
        """The records that a slice or an array of places selects. A slice gives views."""
        return Rows(self.ids[:, index], self.passes[index])

    def own(self, rank: int, world_size: int) -> NDArray[np.int64]:
        """The places of a rank's records, where a batch is divided among ranks."""
        return np.arange(rank, len(self), world_size)

    def share(self, rank: int, world_size: int) -> Rows:
        """A rank's part of a batch that is divided among ranks: every `world_size`-th record."""
        return self if world_size == 1 else self.take(slice(rank, None, world_size))
