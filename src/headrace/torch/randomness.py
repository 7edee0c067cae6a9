"""Random numbers that depend on what is read, not on who reads it.

Before each piece of work the generators of the process (`random`, NumPy, torch) are seeded from base seed, epoch and
piece: so augmented samples are the same for any number of workers. In the consumer's own thread they are put back
afterwards.
Putting all of them back costs a tenth of a millisecond, which small batches can't bear; so a piece that is expected to
draw nothing is run first and checked for that: copies of the states before and after are the same.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import random
import struct
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import torch
from torch.utils.data._utils import worker as torch_worker

T = TypeVar("T")

_HEADER = object.__basicsize__
_STATE = 2500  # bytes of a Mersenne twister: 624 words and an index
_MASK = (1 << 64) - 1
_DEEPEST = 5
_MOST = 2000  # objects that are looked at in search of generators


def words(base: int, epoch: int, key: int, more: int = 0) -> tuple[int, int, int, int]:
    """Four numbers of 64 bits that belong to one piece of one epoch.

    Example:
        >>> words(1, 0, 5) == words(1, 0, 5), words(1, 0, 5) == words(1, 1, 5)
        (True, False)
    """
    text = struct.pack("<QQQQ", base & _MASK, epoch & _MASK, key & _MASK, more & _MASK)
    return struct.unpack("<QQQQ", hashlib.blake2b(text, digest_size=32).digest())


def seed_worker(base: int, worker: int) -> int:
    """Seeds the process as torch does in a worker that begins; gives the worker's seed."""
    seed = base + worker
    random.seed(seed)
    torch.manual_seed(seed)
    np.random.seed(torch_worker._generate_state(base, worker))  # type: ignore[no-untyped-call]
    return seed


def seed_piece(
    numbers: tuple[int, int, int, int], *, python: bool = True, numpy: bool = True, torch_: bool = True
) -> None:
    """Seeds the process's generators for one piece."""
    first, second, third, fourth = numbers
    if python:
        random.seed(first)
    if numpy:
        np.random.seed((second & 0xFFFFFFFF, second >> 32, third & 0xFFFFFFFF))
    if torch_:
        torch.default_generator.manual_seed(fourth >> 1)


def freshly_seeded(before: Any, after: Any) -> tuple[bool, bool, bool]:
    """Which of Python's, NumPy's and torch's generators were seeded, not only drawn from, between two states."""
    python = before[0] != after[0] and after[0][1][-1] == 624
    old, new = before[1]["state"], after[1]["state"]
    numpy = new["pos"] == 624 and not np.array_equal(old["key"], new["key"])
    return python, numpy, before[3] != after[3]


def everything() -> tuple[Any, Any, torch.Tensor, int]:
    """The states of all three generators, and the number that torch's was seeded with last."""
    generator = torch.default_generator
    return random.getstate(), np.random.get_state(legacy=False), generator.get_state(), generator.initial_seed()


def put_back(states: tuple[Any, Any, torch.Tensor, int]) -> None:
    """Undoes what was done to the generators since `everything()`."""
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.default_generator.set_state(states[2])


class _Twister:
    """A Mersenne twister in memory: reading it through its owner makes 625 Python objects.

    Two of its words tell whether it was drawn from: where it is in its numbers, and the first of them, which changes
    with each new set. So nothing is copied that was copied before.

    Args:
        owner: Keeps the memory.
        address: Where it is.
        index: Bytes from there to the word that says where it is.
        first: Bytes to the first of the numbers.
    """

    def __init__(self, owner: Any, address: int, index: int, first: int) -> None:
        self._owner = owner
        self._address = address
        self._index = ctypes.c_uint32.from_address(address + index)
        self._first = ctypes.c_uint32.from_address(address + first)
        self._of = (-1, -1)
        self._saved = b""

    def save(self) -> bytes:
        """Its state; `moved` counts from here."""
        now = (self._index.value, self._first.value)
        if now != self._of:
            self._of, self._saved = now, ctypes.string_at(self._address, _STATE)
        return self._saved

    def moved(self) -> bool:
        """Whether it was drawn from since `save`."""
        return (self._index.value, self._first.value) != self._of

    def restore(self, saved: bytes) -> None:
        """Puts a saved state back."""
        ctypes.memmove(self._address, saved, _STATE)


def _pythons() -> _Twister | None:
    owner: Any = random._inst
    address, base = id(owner) + _HEADER, type(owner).__mro__[1]
    if base.__basicsize__ < _HEADER + _STATE:
        return None
    raw, state = np.frombuffer(ctypes.string_at(address, _STATE), np.uint32), random.getstate()[1]
    if raw[0] != state[-1] or not np.array_equal(raw[1:], np.array(state[:-1], np.uint32)):
        return None  # another Python, another layout
    return _Twister(owner, address, 0, 4)


def _numpys() -> _Twister | None:
    owner: Any = np.random.mtrand._rand._bit_generator
    if type(owner).__name__ != "MT19937":
        return None
    return _Twister(owner, owner.ctypes.state_address, _STATE - 4, 0)


_Peek = tuple[list[bytes], torch.Tensor, tuple[bytes, bytes]]


class Guard:
    """Runs pieces in the consumer's own thread, so that its generators seem untouched."""

    def __init__(self) -> None:
        self._quiet = False
        self._drawing = False
        twisters = (_pythons(), _numpys())
        self._twisters = [twister for twister in twisters if twister is not None]
        self._can_be_quiet = len(self._twisters) == len(twisters)

    @property
    def drawing(self) -> bool:
        """Whether a piece has been seen to draw from the process's generators."""
        return self._drawing

    def run(self, seeds: tuple[int, int, int], work: Callable[[Any], T], piece: Any, *, again: bool = True) -> T:
        """Does a piece.

        Args:
            seeds: What its random numbers are drawn from: base seed, epoch, the piece's own number.
            work: Does it.
            piece: The piece.
            again: Whether it may be done once more, if it turns out to have drawn without being expected to.
        """
        if self._quiet:
            before = self._peek()
            try:
                value = work(piece)
            except BaseException:
                if not again or self._same(before):
                    raise
                self._undo(before)
            else:
                if self._same(before):
                    return value
                if not again:
                    self._quiet, self._drawing = False, True
                    return value
                del value
                self._undo(before)
            self._quiet, self._drawing = False, True
        states = everything()
        try:
            seed_piece(words(*seeds))
            before = self._peek()
            value = work(piece)
            if not self._drawing:
                same = self._same(before)
                self._quiet, self._drawing = same and self._can_be_quiet, not same
            return value
        finally:
            put_back(states)

    def _peek(self) -> _Peek:
        state = torch.default_generator.get_state()
        return [twister.save() for twister in self._twisters], state, _ends(state)

    def _same(self, before: _Peek) -> bool:
        for twister in self._twisters:
            if twister.moved():
                return False
        return _ends(torch.default_generator.get_state()) == before[2]

    def _undo(self, before: _Peek) -> None:
        for twister, saved in zip(self._twisters, before[0], strict=True):
            twister.restore(saved)
        torch.default_generator.set_state(before[1])


def _ends(state: torch.Tensor) -> tuple[bytes, bytes]:
    """What of a torch generator's state tells of draws: seed, place, first number, and what is kept for later."""
    address = state.data_ptr()
    return ctypes.string_at(address, 32), ctypes.string_at(address + len(state) - 40, 40)


# generators that a dataset holds -------------------------------------------------------------------------------------


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
