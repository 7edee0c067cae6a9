"""Checks of arguments that all rooms share."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import Any, get_args

import numpy as np

from headrace.errors import PlanError

LARGEST = (1 << 63) - 1
"""What 64 bits hold."""


def whole(
    name: str,
    value: Any,
    least: int | None,
    most: int | None = LARGEST,
    *,
    error: type[Exception] = ValueError,
    otherwise: str = "",
) -> int:
    """An argument as Python's own integer, so that what is made of it is the same whatever type it came as.

    Args:
        name: The argument, for messages.
        value: What was given.
        least: The smallest that makes sense; None for any.
        most: The largest; None for any.
        error: What is raised.
        otherwise: What else may be given, for messages, as in `" or 'auto'"`.

    Raises:
        Exception: What was said, if it is no integer or out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise error(f"{name} is an integer{otherwise}, got {value!r:.80}")
    if least is not None and number < least:
        raise error(f"{name} is at least {least}{otherwise}, got {number}")
    if most is not None and number > most:
        raise error(f"{name} is at most {most}{otherwise}, got {number}")
    return number


def whole_of(
    operation: str, name: str, value: Any, least: int | None, most: int | None = None, *, otherwise: str = ""
) -> int:
    """As `whole`, of an argument of an operation.

    Raises:
        PlanError: If it is no integer or out of range.
    """
    return whole(f"{operation}: {name}", value, least, most, error=PlanError, otherwise=otherwise)


def one_of(operation: str, name: str, value: Any, kinds: Any, *, error: type[Exception] = PlanError) -> Any:
    """An argument that is one of a few words.

    Args:
        operation: What has the argument, for messages; `""` leaves it out.
        name: The argument, for messages.
        value: What was given.
        kinds: The words: a `Literal`, or a tuple of them.
        error: What is raised.

    Raises:
        Exception: What was said, if it is none of them.
    """
    words = kinds if isinstance(kinds, tuple) else get_args(kinds)
    if not isinstance(value, str) or value not in words:
        of = f"{operation}: " if operation else ""
        raise error(f"{of}{name} is one of {', '.join(map(repr, words))}, got {value!r:.80}")
    return value


def wholes_of(operation: str, name: str, values: Any, least: int | None, *, some: bool = False) -> tuple[int, ...]:
    """As `whole_of`, of a list of numbers.

    Args:
        operation: What has the argument, for messages.
        name: The argument, for messages.
        values: What was given.
        least: The smallest that makes sense; None for any.
        some: Whether there must be one at least.

    Raises:
        PlanError: If it is no list, or one of them is no integer or out of range.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise PlanError(f"{operation}: {name} is a list of integers, got {values!r:.80}")
    found = tuple(whole_of(operation, name, value, least) for value in values)
    if some and not found:
        raise PlanError(f"{operation}: {name} has one number at least, got none")
    return found


def list_of(operation: str, name: str, values: Any, of: str) -> list[Any]:
    """An argument that is a list, or anything else that gives one thing after another; no single text.

    Args:
        operation: What has the argument, for messages; `""` leaves it out.
        name: The argument, for messages.
        values: What was given.
        of: What is in the list, for messages.

    Raises:
        TypeError: If it is something else.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        whose = f"{operation}: " if operation else ""
        single = f"; for a single one write [{values!r:.60}]" if isinstance(values, (str, bytes)) else ""
        raise TypeError(f"{whose}{name} is a list of {of}, got {type(values).__name__} {values!r:.60}{single}")
    return list(values)


def flag_of(operation: str, name: str, value: Any) -> bool:
    """An argument that is yes or no.

    Raises:
        PlanError: If it is something else.
    """
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, (int, np.integer)) and value in (0, 1)):
        return bool(value)
    raise PlanError(f"{operation}: {name} is True or False, got {value!r:.80}")


def path_of(path: Any) -> str:
    """A path as text.

    Raises:
        TypeError: If it is something else.
    """
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise TypeError(f"paths are str or pathlib.Path, got {path!r:.80}")
    return text


def check_dtype(operation: str, dtype: Any) -> None:
    """Refuses what is no type of NumPy's arrays.

    Raises:
        TypeError: As said.
    """
    try:
        np.dtype(dtype)
    except (TypeError, ValueError):
        raise TypeError(f"{operation}: dtype is a type of arrays, such as 'int64', got {dtype!r:.80}") from None
