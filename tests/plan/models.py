"""Plans asked for everything, and naive models of what they should answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.plan import LEAF_SHIFT, Plan, Rows

Record = tuple[tuple[int, ...], int]
"""A record's ids and its pass."""


def records(rows: Rows) -> list[Record]:
    """Rows as plain Python values."""
    assert rows.ids.dtype == np.int64
    assert rows.passes.dtype == np.int64
    assert rows.ids.shape[1:] == rows.passes.shape
    return list(zip(map(tuple, rows.ids.T.tolist()), rows.passes.tolist(), strict=True))


def numbers(plan: Plan, epoch: int = 0, stop: int | None = None) -> list[Record]:
    """All records of an epoch, or those before a position."""
    end = plan.length if stop is None else stop
    assert end is not None
    rows = plan.locate(epoch, np.arange(end))
    assert rows.ids.shape == (plan.slots, end)
    return records(rows)


def order(plan: Plan, epoch: int = 0, stop: int | None = None) -> list[int]:
    """The record numbers in the first slot, without their leaves."""
    return [ids[0] & ((1 << LEAF_SHIFT) - 1) for ids, _ in numbers(plan, epoch, stop)]


def leaves(plan: Plan, epoch: int = 0, stop: int | None = None) -> list[int]:
    """The leaf of each record's first slot."""
    return [ids[0] >> LEAF_SHIFT for ids, _ in numbers(plan, epoch, stop)]


def parity_lengths(rows: Rows) -> NDArray[np.int32]:
    """Lengths that a record's number decides: a stand-in for an index, picklable."""
    number = rows.ids[0] & ((1 << LEAF_SHIFT) - 1)
    lengths: NDArray[np.int32] = (number * 2654435761 % 97 // 2).astype(np.int32)
    return lengths
