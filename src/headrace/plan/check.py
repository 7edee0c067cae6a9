"""Checks of arguments, shared by the modules of this folder."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from headrace.errors import PlanError


def whole_number(what: str, name: str, value: Any, at_least: int) -> int:
    """Returns `value` as an int.

    Args:
        what: The step that has the argument, for the message.
        name: The argument, for the message.
        value: What was given.
        at_least: The smallest value that makes sense.

    Raises:
        PlanError: If it is not a whole number, or less than that.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise PlanError(f"{what} needs a whole number as {name}, got {value!r:.80}")
    if number < at_least:
        raise PlanError(f"{what} needs {name} >= {at_least}, got {number}")
    return number
