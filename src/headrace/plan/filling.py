"""Batches of like length that are made as records arrive: what `BucketBatches` plans ahead."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headrace import _native

Group = tuple[int, list[int]]
"""A bucket, and places among the records that have just arrived."""


class Filling:
    """The buckets of one window while they fill.

    The rules are those of `BucketBatches`: the same lengths in the same order give the same batches.

    Args:
        batch_size: Records a batch, one number or one for each bucket; or None.
        max_tokens: Else the tokens that a batch may have after padding.
        boundaries: Lengths at which a new bucket begins, ascending.

    Example:
        >>> import numpy as np
        >>> from headrace.plan import Filling
        >>> filling = Filling(2, None, [5])
        >>> filling.add(np.array([3, 7, 4, 2]))
        ([(0, [0, 2])], [(0, [3]), (1, [1])])
        >>> filling.add(np.array([9]))
        ([(1, [0])], [])
        >>> filling.rest()
        [0]
    """

    def __init__(
        self, batch_size: int | Sequence[int] | None, max_tokens: int | None, boundaries: Sequence[int]
    ) -> None:
        count = len(boundaries) + 1
        self._sizes = batch_size if isinstance(batch_size, Sequence) else [batch_size] * count
        self._max_tokens = max_tokens
        self._edges = np.array([min(edge, 1 << 32) for edge in boundaries], np.int64)
        self._counts = [0] * count
        self._longest = [1] * count

    def add(self, lengths: NDArray[np.integer]) -> tuple[list[Group], list[Group]]:
        """Puts records into their buckets.

        Args:
            lengths: Of the records that come next, each in `[0, 2**31)`.

        Returns:
            The buckets that come out as batches, in that order; each also has what was in it before. And what then
            stays in buckets, by ascending bucket.
        """
        buckets = _native.find_buckets(np.ascontiguousarray(lengths, np.int32), self._edges).tolist()
        full: list[Group] = []
        filled: dict[int, list[int]] = {}
        for place, (bucket, length) in enumerate(zip(buckets, lengths.tolist(), strict=True)):
            if self._max_tokens is not None:
                longest = max(self._longest[bucket], length)
                if self._counts[bucket] and (self._counts[bucket] + 1) * longest > self._max_tokens:
                    full.append(self._empty(bucket, filled))
                self._longest[bucket] = max(self._longest[bucket], length)
            filled.setdefault(bucket, []).append(place)
            self._counts[bucket] += 1
            if self._is_full(bucket):
                full.append(self._empty(bucket, filled))
        return full, sorted(filled.items())

    def _is_full(self, bucket: int) -> bool:
        if self._max_tokens is None:
            return self._counts[bucket] == self._sizes[bucket]
        return (self._counts[bucket] + 1) * self._longest[bucket] > self._max_tokens

    def _empty(self, bucket: int, filled: dict[int, list[int]]) -> Group:
        self._counts[bucket], self._longest[bucket] = 0, 1
        return bucket, filled.pop(bucket, [])

    def rest(self) -> list[int]:
        """The buckets that aren't empty, in the order in which they come out at the end of the window."""
        return [bucket for bucket, count in enumerate(self._counts) if count]
