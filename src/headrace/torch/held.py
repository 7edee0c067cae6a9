"""Random generators that a dataset holds: found among its attributes, seeded for each piece as the process's are."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import logging
import random
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from headrace.attributes import attributes
from headrace.torch.randomness import of_part, words
from headrace.torch.twisters import ProcessGenerators

_log = logging.getLogger("headrace")

_DEEPEST = 8  # attributes of attributes
_MOST = 4000  # objects that are looked at in search of generators
_OF_A_TYPE = 64  # entries of a list or dict that are looked at
_ENTRIES = 1 << 16  # whose types are looked at
_GENERATORS = (np.random.Generator, np.random.RandomState, torch.Generator, random.Random)
_PLAIN = frozenset({str, bytes, int, float, bool, complex, type(None), np.ndarray, torch.Tensor, torch.nn.Parameter})


def held_generators(*roots: Any, without: Iterable[Any] = ()) -> list[Any]:
    """Generator objects among the attributes of a dataset, in an order that depends on the attributes only.

    They are looked for in objects, lists, tuples, dicts, bound methods, closures and partial functions, within limits:
    8 deep, 4,000 objects, and of a list or dict the first 64 entries of each type.
    """
    found: list[Any] = []
    seen = {id(random._inst), id(torch.default_generator), id(np.random.mtrand._rand)}
    seen.update(id(thing) for thing in without)
    level, left_out = list(roots), 0
    for _ in range(_DEEPEST):
        following: list[Any] = []
        for thing in level:
            if id(thing) in seen or type(thing) in _PLAIN:
                continue
            if isinstance(thing, _GENERATORS):
                seen.add(id(thing))
                if not isinstance(thing, random.SystemRandom):
                    found.append(thing)
            elif len(seen) > _MOST:
                left_out += 1
            else:
                seen.add(id(thing))
                following += _parts(thing)
        level = following
    if left_out or any(type(thing) not in _PLAIN for thing in level):
        _log.info(
            "random generators are looked for in the first %d objects of a dataset, %d deep; this one holds more",
            _MOST,
            _DEEPEST,
        )
    return found


def _parts(thing: Any) -> Iterator[Any]:
    # No subclasses: a dataset may be one, whose reading is its own.
    if type(thing) is list or type(thing) is tuple:
        return _first_of_each_type(thing)
    if type(thing) is dict:
        return _first_of_each_type(thing.values())
    if isinstance(thing, (type, types.ModuleType, np.ndarray, torch.Tensor)):
        return iter(())
    if isinstance(thing, types.MethodType):  # as a transform may be
        return iter((thing.__self__,))
    if isinstance(thing, functools.partial):
        return iter((thing.func, *thing.args, *thing.keywords.values()))
    if isinstance(thing, types.FunctionType):
        return (cell.cell_contents for cell in thing.__closure__ or () if cell != types.CellType())
    return (value for _, value in attributes(thing))


def _first_of_each_type(entries: Iterable[Any]) -> Iterator[Any]:
    """Records may be many, and alike."""
    entries = list(itertools.islice(entries, _ENTRIES))
    kinds = set(map(type, entries)) - _PLAIN
    left = {kind: len(entries) if issubclass(kind, _GENERATORS) else _OF_A_TYPE for kind in kinds}
    for entry in entries if left else ():
        kind = type(entry)
        if kind in left:
            left[kind] -= 1
            yield entry
            if not left[kind]:
                del left[kind]
                if not left:
                    return


def state_of(generator: Any) -> Any:
    """A generator's state, for `set_state`."""
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.get_state() if isinstance(generator, torch.Generator) else generator.getstate()


def set_state(generator: Any, state: Any) -> None:
    """Gives a generator the state that it had."""
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, (np.random.RandomState, torch.Generator)):
        generator.set_state(state)
    else:
        generator.setstate(state)


@contextlib.contextmanager
def all_put_back(held: Iterable[Any]) -> Iterator[None]:
    """What is drawn in here, from the process's generators, CUDA's or some more, has afterwards not been drawn.

    Args:
        held: The further ones.
    """
    process = ProcessGenerators()
    states = process.save()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    kept = [(generator, state_of(generator)) for generator in held]
    try:
        yield
    finally:
        process.put_back(states)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
        for generator, state in kept:
            set_state(generator, state)


def digest(generator: Any) -> int:
    """A number that stands for a generator's state."""
    state = state_of(generator)
    text = state.numpy().tobytes() if isinstance(state, torch.Tensor) else repr(state).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def seed_held(generators: list[Any], digests: list[int], epoch: int, key: int, part: int = 0) -> None:
    """Seeds a dataset's own generators for a part of one piece: from the state that they had in the beginning."""
    for generator, origin in zip(generators, digests, strict=False):
        numbers = words(origin, epoch, key, of_part(part, held=True))
        if isinstance(generator, np.random.Generator):
            kind: Any = type(generator.bit_generator)
            generator.bit_generator.state = kind(numbers[0]).state
        elif isinstance(generator, np.random.RandomState):
            generator.seed((numbers[0] & 0xFFFFFFFF, numbers[1] & 0xFFFFFFFF))
        elif isinstance(generator, torch.Generator):
            generator.manual_seed(numbers[0] >> 1)
        else:
            generator.seed(numbers[0])
