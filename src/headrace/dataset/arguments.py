"""What users pass, checked as they pass it."""

from __future__ import annotations

from typing import Any

from headrace.checks import whole_of
from headrace.errors import PlanError


def size(operation: str, name: str, value: Any) -> int | None:
    """As `whole_of`, of 1 at least; None stays None."""
    return None if value is None else whole_of(operation, name, value, 1)


def check_function(operation: str, fn: object) -> None:
    """Refuses what can't be called."""
    if not callable(fn):
        raise PlanError(f"{operation} takes a function, got {type(fn).__name__} {fn!r:.80}")
