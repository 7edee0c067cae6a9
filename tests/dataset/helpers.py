"""What the tests of descriptions share."""

from __future__ import annotations

import numpy as np

import headrace as hr


def numbers(n: int) -> hr.Dataset:
    """The records 0 … n−1."""
    return hr.from_arrays(np.arange(n))


def values(data: hr.Dataset) -> list[int]:
    """Records in their order."""
    return [int(x) for x in data]
