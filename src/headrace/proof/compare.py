"""Whether two batches are the same, and where they first differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.batch.column import Column
from headrace.batch.columns import Objects
from headrace.batch.tree import is_branch, leaves


def same(a: Any, b: Any) -> bool:
    """Whether two batches are the same, bit for bit, NaNs included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if is_branch(a) or isinstance(a, (Objects, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, Column):
        return a.row_type == b.row_type and all(map(same, a.parts(), b.parts()))
    if hasattr(a, "__array__"):  # tensors
        return same(np.asarray(a), np.asarray(b))
    try:
        return bool(a is b or a == b)
    except (TypeError, ValueError):  # a class whose comparison gives no bool
        return repr(a) == repr(b)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two batches differ first.

    Attributes:
        row: The row, or None if they differ in more than their rows.
        column: The column's name, or "".
        expected: What should be there, in words.
        got: What is there.
    """

    row: int | None
    column: str
    expected: str
    got: str


def difference(expected: Any, got: Any) -> Difference | None:
    """The first row in which two batches differ; None if they don't."""
    if same(expected, got):
        return None
    if _structure(expected) != _structure(got):
        return Difference(None, "", f"a batch of {_structure(expected)}", f"a batch of {_structure(got)}")
    found: Difference | None = None
    for (name, wanted), (_, came) in zip(leaves(expected), leaves(got), strict=True):
        if not same(wanted, came):
            one = _in_column(name, wanted, came)
            if found is None or (one.row is not None and (found.row is None or one.row < found.row)):
                found = one
    return found or Difference(None, "", _short(expected), _short(got))


def _in_column(name: str, expected: Any, got: Any) -> Difference:
    try:
        rows = min(len(expected), len(got))
        for row in range(rows):
            if not same(expected[row], got[row]):
                return Difference(row, name, _short(expected[row]), _short(got[row]))
        if len(expected) != len(got):
            return Difference(rows, name, f"{len(expected)} rows", f"{len(got)} rows")
    except (TypeError, IndexError, KeyError):
        pass  # no column: what a function of the user's made of the batch
    return Difference(None, name, f"{_structure(expected)} {_short(expected)}", f"{_structure(got)} {_short(got)}")


def _structure(tree: Any) -> str:
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key}: {_structure(part)}" for key, part in tree.items()) + "}"
    if isinstance(tree, tuple):
        return "(" + ", ".join(map(_structure, tree)) + ")"
    kind = getattr(tree, "row_type", None) or getattr(tree, "dtype", "")
    return f"{type(tree).__name__} {kind}".strip()


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "…"
