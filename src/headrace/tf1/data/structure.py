"""Elements of datasets: single values, tuples and dicts, flattened to rows of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from headrace.tf1.dtypes import DType, TensorShape
from headrace.tf1.graph import Tensor, convert
from headrace.tf1.ops import placeholder
from headrace.tf1.session import Function, Run

__all__ = ["Context", "End", "Row", "Spec", "Traced", "flatten", "flatten_as", "leaves_of", "map_leaves", "pack"]

Row = tuple[Any, ...]
Next = Callable[[], Row]


class End(Exception):
    """No more elements."""


class Spec(NamedTuple):
    """What is known of one value of an element."""

    dtype: DType
    shape: TensorShape


def _children(nest: Any) -> list[Any] | None:
    if isinstance(nest, Mapping):
        return [nest[key] for key in sorted(nest)]
    if isinstance(nest, tuple) and not isinstance(nest, Spec):
        return list(nest)
    return None


def flatten(nest: Any) -> list[Any]:
    """The leaves of a structure, dicts by sorted key."""
    children = _children(nest)
    return [nest] if children is None else [leaf for child in children for leaf in flatten(child)]


def leaves_of(nest: Any) -> list[Spec]:
    """The leaves of a structure of specs."""
    return flatten(nest)


def pack(like: Any, flat: list[Any]) -> Any:
    """A structure like another one, with other leaves; takes them from the front of the list."""
    if isinstance(like, Mapping):
        made = {key: pack(like[key], flat) for key in sorted(like)}
        return {key: made[key] for key in like}
    if _children(like) is None:
        return flat.pop(0)
    parts = [pack(child, flat) for child in like]
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)


def map_leaves(function: Callable[[Any], Any], nest: Any) -> Any:
    """A structure with a function applied to each leaf."""
    return pack(nest, [function(leaf) for leaf in flatten(nest)])


def flatten_as(like: Any, given: Any, what: str) -> list[Any]:
    """Leaves of a structure that must have the form of another one, whose leaves may be anything here.

    Raises:
        ValueError: If it hasn't.
    """
    children = _children(like)
    if children is None:
        return [given]
    if isinstance(like, Mapping):
        if not isinstance(given, Mapping) or sorted(given) != sorted(like):
            raise ValueError(f"{what}: expected a dict with {sorted(like)}, got {given!r}")
        parts = [given[key] for key in sorted(like)]
    else:
        if not isinstance(given, tuple | list) or len(given) != len(children):
            raise ValueError(f"{what}: expected a tuple of {len(children)}, got {given!r}")
        parts = list(given)
    return [leaf for c, part in zip(children, parts, strict=True) for leaf in flatten_as(c, part, what)]


class Context:
    """One initialisation of an iterator: the run, its random numbers, and values of functions' arguments."""

    def __init__(self, run: Run, feeds: dict[Tensor, Any] | None = None, rngs: dict[Any, Any] | None = None):
        self.run = run
        self.feeds = feeds or {}
        self.rngs = {} if rngs is None else rngs

    def inside(self, feeds: dict[Tensor, Any]) -> Context:
        """The context in which a function's dataset is iterated."""
        return Context(self.run, {**self.feeds, **feeds}, self.rngs)

    def rng(self, key: Any, seeds: Any) -> np.random.Generator:
        """The random numbers of one operation, of this initialisation."""
        if key not in self.rngs:
            self.rngs[key] = np.random.default_rng(None if seeds is None else list(seeds))
        found: np.random.Generator = self.rngs[key]
        return found

    def value(self, given: Any) -> Any:
        """The value of a parameter, which may be a tensor."""
        if not isinstance(given, Tensor):
            return given
        return Function(list(self.feeds), [given])(self.run, *self.feeds.values())[0]


class Traced:
    """A user's function on tensors, called once to see what it does."""

    def __init__(self, function: Callable[..., Any], spec: Any):
        self.inputs = [placeholder(leaf.dtype, leaf.shape, "args") for leaf in leaves_of(spec)]
        arguments = pack(spec, list(self.inputs))
        spread = isinstance(arguments, tuple) and not hasattr(arguments, "_fields")
        self.result = function(*arguments) if spread else function(arguments)

    def tensors(self) -> Any:
        """The result as a structure of tensors."""
        if isinstance(self.result, list):
            return convert(self.result)
        return map_leaves(convert, self.result)

    def bind(self, outputs: list[Tensor], context: Context) -> Callable[[Row], Row]:
        """A function on rows, in which the arguments of functions round it have their values."""
        function = Function([*self.inputs, *context.feeds], outputs)
        outer = tuple(context.feeds.values())
        run = context.run
        return lambda row: tuple(function(run, *row, *outer))

    def feeds(self, row: Row) -> dict[Tensor, Any]:
        """The values of the arguments, for a dataset that the function made."""
        return dict(zip(self.inputs, row, strict=True))
