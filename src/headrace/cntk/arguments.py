"""Checks of arguments that the surface of CNTK's readers shares."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from headrace.errors import PlanError

_TRUE = ("true", "t", "1")
_FALSE = ("false", "f", "0", "")


def boolean(name: str, value: Any) -> bool:
    """A truth value, 0 or 1, or the word for one.

    Raises:
        ValueError: If it is anything else.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    text = str(value).lower() if isinstance(value, (str, int, np.integer)) else None
    if text not in _TRUE and text not in _FALSE:
        raise ValueError(f"{name} is true or false, got {value!r:.60}")
    return text in _TRUE


def number(low: int, high: int) -> Callable[[str, Any], int]:
    """A check for whole numbers in a range, also as text; -1 is the largest, as it is to CNTK."""

    def check(name: str, value: Any) -> int:
        try:
            found = int(value) if isinstance(value, str) else operator.index(value)
        except (ValueError, TypeError):
            raise ValueError(f"{name} is a whole number, got {value!r:.60}") from None
        found = high if found == -1 else found
        if isinstance(value, (bool, np.bool_)) or not low <= found <= high:
            raise ValueError(f"{name} is a number from {low} to {high}, got {value!r:.60}")
        return found

    return check


def precision(name: str, value: Any) -> str:
    """`float` or `double`.

    Raises:
        ValueError: If it is neither.
    """
    found = {"float": "float", "float32": "float", "double": "double", "float64": "double"}.get(str(value).lower())
    if found is None:
        raise ValueError(f"{name} is 'float' or 'double', got {value!r:.60}")
    return found


def file_path(what: str, value: Any) -> str:
    """The path of a file.

    Raises:
        PlanError: If it is none.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str) or "\0" in path:
        raise PlanError(f"{what} takes the path of a file, a str or pathlib.Path, got {value!r:.60}")
    return path


def check_output(output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Makes sure that a file to be written isn't one that is read: the data would be gone.

    Raises:
        PlanError: If it is.
    """
    for one in inputs:
        if os.path.exists(output) and os.path.exists(one) and os.path.samefile(output, one):
            raise PlanError(f"{os.fspath(output)} is to be written and is read, too; write to another file")
