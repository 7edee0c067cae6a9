"""The attributes of an object, without asking the object itself: its class may answer in ways of its own."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any


def attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of what an object holds, in its `__dict__` and in slots, inherited ones too.

    Args:
        thing: The object; of a class, there are none.

    Example:
        >>> class Point:
        ...     __slots__ = ("x", "y")
        >>> point = Point()
        >>> point.x = 3
        >>> list(attributes(point))
        [('x', 3)]
    """
    if isinstance(thing, (type, types.ModuleType)):
        return
    try:
        state = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        state = {}
    if isinstance(state, dict):
        yield from list(state.items())
    for kind in type(thing).__mro__:
        if "__slots__" not in vars(kind):  # so that what C code has isn't taken for slots
            continue
        for name, slot in vars(kind).items():
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    yield name, slot.__get__(thing)
                except AttributeError:  # nothing is in it
                    continue
