"""Trees of columns: walking them, and taking, joining and reordering their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.batch.column import Column, join_rows, take_rows
from headrace.batch.columns import Objects

# A column, or a tuple or dict of trees. Python's types can't say that recursively without a protocol of their own.
Tree: TypeAlias = Any


def is_branch(tree: Tree) -> bool:
    """True for the tuples and dicts that a tree is made of; lists are values, not branches."""
    return isinstance(tree, (tuple, dict))


def child(name: str, key: object) -> str:
    """The name of a branch's part: names are joined by dots, positions count from 0."""
    return f"{name}.{key}" if name else str(key)


def leaves(tree: Tree, name: str = "") -> Iterator[tuple[str, Any]]:
    """Goes through the leaves of a tree with their names.

    Example:
        >>> import numpy as np
        >>> from headrace.batch import leaves
        >>> [name for name, _ in leaves({"pair": (np.zeros(2), np.ones(2)), "label": np.zeros(2)})]
        ['pair.0', 'pair.1', 'label']
    """
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield from leaves(part, child(name, key))
    elif isinstance(tree, tuple):
        for i, part in enumerate(tree):
            yield from leaves(part, child(name, i))
    else:
        yield name, tree


def rebuild(tree: Tree, parts: Sequence[Tree]) -> Tree:
    """A branch like `tree` with other parts; named tuples and dict subclasses stay what they are."""
    if isinstance(tree, dict):
        return type(tree)(zip(tree, parts, strict=True))
    return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)


def map_leaves(fn: Callable[[str, Any], Any], tree: Tree, name: str = "") -> Tree:
    """A tree of the same shape, with `fn(name, leaf)` in the place of each leaf.

    Example:
        >>> import numpy as np
        >>> from headrace.batch import map_leaves
        >>> map_leaves(lambda name, leaf: (name, leaf.sum()), {"x": np.ones(3)})
        {'x': ('x', np.float64(3.0))}
    """
    if isinstance(tree, dict):
        return rebuild(tree, [map_leaves(fn, part, child(name, key)) for key, part in tree.items()])
    if isinstance(tree, tuple):
        return rebuild(tree, [map_leaves(fn, part, child(name, i)) for i, part in enumerate(tree)])
    return fn(name, tree)


def num_rows(tree: Tree) -> int:
    """The number of records in a tree of columns (0 for a tree without leaves)."""
    for _, leaf in leaves(tree):
        return len(leaf)
    return 0


def num_bytes(tree: Tree) -> int:
    """The bytes that the columns of a tree hold: for bounding memory, so a guess where need be, and never an error.

    Python objects count for what their arrays hold, containers for what is in them, each once.
    """
    total = 0
    seen: set[int] = set()  # a user's list may contain itself
    rest = [tree]
    while rest:
        value = rest.pop()
        if isinstance(value, (np.ndarray, Column)):
            total += value.nbytes
        elif isinstance(value, (bytes, str)):
            total += len(value)
        elif isinstance(value, (list, tuple, dict)):
            if id(value) not in seen:
                seen.add(id(value))
                rest += value.values() if isinstance(value, dict) else value
        else:
            total += _bytes_of_object(value)
    return total


def _bytes_of_object(value: Any) -> int:
    try:
        return max(int(value.nbytes), 0)
    except Exception:  # a class of the user's need not have the attribute, nor mean the same by it
        return 8


def take(tree: Tree, index: NDArray[np.int64]) -> Tree:
    """The rows at `index` of every column, in that order."""
    return map_leaves(lambda _, leaf: leaf.take(index) if isinstance(leaf, Objects) else take_rows(leaf, index), tree)


def records(tree: Tree) -> Iterator[Any]:
    """Goes through the records of a tree: each has its shape, with a row of each column at the leaves."""
    if isinstance(tree, Objects):
        yield from tree
        return
    for i in range(num_rows(tree)):
        yield map_leaves(lambda _, leaf, i=i: leaf[i], tree)  # type: ignore[misc]


def interleave(parts: Sequence[tuple[NDArray[np.int64], Tree]]) -> Tree:
    """Joins trees so that row `k` of a part comes to place `where[k]` of the whole.

    Args:
        parts: Pairs of places and tree; no place twice. Where some are missing, the rows close up.

    Raises:
        ValueError: If the trees differ in shape, column types, or dtypes.
    """
    order = np.argsort(np.concatenate([where for where, _ in parts]), kind="stable")
    return take(concat([tree for _, tree in parts]), order)


def concat(trees: Sequence[Tree]) -> Tree:
    """Joins the rows of trees that have the same shape.

    Raises:
        ValueError: If the trees differ in shape, column types, or in more than their number of rows.
    """
    first = trees[0]
    if len(trees) == 1:
        return first
    if any(isinstance(t, Objects) for t in trees):
        return Objects(record for t in trees for record in records(t))
    if is_branch(first):
        for other in trees[1:]:
            if not is_branch(other) or _keys(other) != _keys(first):
                raise ValueError(f"can't join records of different structure: {_shape(first)} and {_shape(other)}")
        return rebuild(first, [concat([t[key] for t in trees]) for key in _keys(first)])
    return join_rows(trees)


def _keys(tree: Tree) -> list[Any]:
    return list(tree) if isinstance(tree, dict) else list(range(len(tree)))


def _shape(tree: Tree) -> Any:
    return map_leaves(lambda _, leaf: type(leaf).__name__, tree)
