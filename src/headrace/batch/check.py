"""Checks of arguments that columns, vocabularies and formats share."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike


def whole(name: str, value: Any, least: int, most: int = (1 << 63) - 1) -> int:
    """An argument as an int.

    Raises:
        ValueError: If it is no integer or out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} is an integer, got {value!r:.60}")
    if number < least:
        raise ValueError(f"{name} is at least {least}, got {number}")
    if number > most:
        raise ValueError(f"{name} is at most {most}, got {number}")
    return number


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
