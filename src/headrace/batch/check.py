"""Checks of arguments that columns and formats share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike


def float_type(dtype: DTypeLike) -> np.dtype[Any]:
    """The type of values that a user asks for.

    Raises:
        ValueError: If it is neither float32 nor float64.
    """
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.name not in ("float32", "float64") or not found.isnative:
        raise ValueError(f"dtype is 'float32' or 'float64', got {dtype!r:.60}")
    return found
