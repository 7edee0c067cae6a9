"""What users pass, checked as they pass it."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from headrace.errors import PlanError


def whole(operation: str, name: str, value: Any, least: int | None) -> int:
    """Arguments as Python's own integers, so that a description says the same whatever type they came as."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise PlanError(f"{operation}: {name} is an integer, got {value!r:.80}")
    if least is not None and number < least:
        raise PlanError(f"{operation}: {name} is at least {least}, got {number}")
    return number


def size(operation: str, name: str, value: Any) -> int | None:
    """As `whole`, of 1 at least; None stays None."""
    return None if value is None else whole(operation, name, value, 1)


def check_function(operation: str, fn: object) -> None:
    """Refuses what can't be called."""
    if not callable(fn):
        raise PlanError(f"{operation} takes a function, got {type(fn).__name__} {fn!r:.80}")
