"""Checks of arguments that columns and vocabularies share."""

from __future__ import annotations

import operator
from typing import Any


def whole(name: str, value: Any, least: int, most: int = (1 << 63) - 1) -> int:
    """An argument as an int.

    Raises:
        ValueError: If it is no integer or out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is an integer, got {value!r:.60}") from None
    if number < least:
        raise ValueError(f"{name} is at least {least}, got {number}")
    if number > most:
        raise ValueError(f"{name} is at most {most}, got {number}")
    return number
