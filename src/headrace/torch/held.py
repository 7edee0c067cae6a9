"""Random generators that a dataset holds: found among its attributes, seeded for each piece as the process's are."""

from __future__ import annotations

import functools
import hashlib
import random
import types
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from headrace.torch.randomness import words

_DEEPEST = 5
_MOST = 2000  # objects that are looked at in search of generators


def held_generators(*roots: Any, without: Iterable[Any] = ()) -> list[Any]:
    """Generator objects among the attributes of a dataset, in an order that depends on the attributes only."""
    found: list[Any] = []
    seen = {id(random._inst), id(torch.default_generator), id(np.random.mtrand._rand)}
    seen.update(id(thing) for thing in without)
    level = list(roots)
    for _ in range(_DEEPEST):
        following: list[Any] = []
        for thing in level:
            if id(thing) in seen or len(seen) > _MOST:
                continue
            seen.add(id(thing))
            if isinstance(thing, (np.random.Generator, np.random.RandomState, torch.Generator)) or (
                isinstance(thing, random.Random) and not isinstance(thing, random.SystemRandom)
            ):
                found.append(thing)
            else:
                following += _parts(thing)
        level = following
    return found


def _parts(thing: Any) -> list[Any]:
    # No subclasses: a dataset may be one, whose reading is its own.
    if type(thing) is list or type(thing) is tuple:
        return [part for part in thing[:64] if not isinstance(part, (str, bytes, int, float, np.ndarray))]
    if type(thing) is dict:
        return list(thing.values())[:64]
    if isinstance(thing, (type, types.ModuleType, np.ndarray, torch.Tensor)):
        return []
    if isinstance(thing, types.MethodType):  # as a transform may be
        return [thing.__self__]
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, types.FunctionType):
        return [cell.cell_contents for cell in thing.__closure__ or () if cell != types.CellType()]
    try:
        state = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return []
    return list(state.values()) if isinstance(state, dict) else []


def digest(generator: Any) -> int:
    """A number that stands for a generator's state."""
    if isinstance(generator, np.random.Generator):
        text = repr(generator.bit_generator.state).encode()
    elif isinstance(generator, np.random.RandomState):
        text = repr(generator.get_state(legacy=False)).encode()
    elif isinstance(generator, torch.Generator):
        text = generator.get_state().numpy().tobytes()
    else:
        text = repr(generator.getstate()).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def seed_held(generators: list[Any], digests: list[int], epoch: int, key: int) -> None:
    """Seeds a dataset's own generators for one piece: from the state that they had in the beginning, and the piece."""
    for generator, origin in zip(generators, digests, strict=False):
        numbers = words(origin, epoch, key, 1)
        if isinstance(generator, np.random.Generator):
            kind: Any = type(generator.bit_generator)
            generator.bit_generator.state = kind(numbers[0]).state
        elif isinstance(generator, np.random.RandomState):
            generator.seed((numbers[0] & 0xFFFFFFFF, numbers[1] & 0xFFFFFFFF))
        elif isinstance(generator, torch.Generator):
            generator.manual_seed(numbers[0] >> 1)
        else:
            generator.seed(numbers[0])
