"""The states of the process's random generators, read and put back quickly.

Through their owners that takes a quarter of a millisecond, most of it for 1,248 numbers that become Python objects. As
bytes of memory it takes a hundredth of that. Where they lie in memory is found out, and checked, once.
"""

from __future__ import annotations

import ctypes
import random
import struct
from typing import Any, TypeAlias

import numpy as np
import torch

_HEADER = object.__basicsize__
_STATE = 2500  # bytes of a Mersenne twister: 624 words and an index
_GAUSS = 16  # bytes in which NumPy has the second of two normal numbers, and whether there is one

_Place: TypeAlias = "ctypes.Array[ctypes.c_char]"


def _place(address: int, size: int) -> _Place:
    return (ctypes.c_char * size).from_address(address)


def everything() -> tuple[Any, Any, torch.Tensor, int]:
    """The states of all three generators, and the number that torch's was seeded with last."""
    generator = torch.default_generator
    return random.getstate(), np.random.get_state(legacy=False), generator.get_state(), generator.initial_seed()


def put_back(states: tuple[Any, Any, torch.Tensor, int]) -> None:
    """Undoes what was done to the generators since `everything()`."""
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.default_generator.set_state(states[2])


class Watch:
    """Sees which generators are drawn from, as it takes long to seed them.

    Args:
        python: Whether Python's is watched.
        numpy: Whether NumPy's is.
        torch_: Whether torch's is.
    """

    def __init__(self, *, python: bool, numpy: bool, torch_: bool) -> None:
        self._wanted = python, numpy, torch_
        self._find()

    def _find(self) -> None:
        python, numpy, _ = self._wanted
        self._numpys: Any = np.random.mtrand._rand._bit_generator
        places = [(_pythons_place(), _STATE)] if python else []
        places += [(_numpys_place(), _STATE), (_gauss_place(), _GAUSS)] if numpy else []
        self._places = [_place(address, size) for address, size in places if address is not None]
        self.can_see = len(self._places) == len(places)

    def follow(self) -> bool:
        """Looks anew for the generators' memory if NumPy has got another one; says whether it has."""
        if np.random.mtrand._rand._bit_generator is self._numpys:
            return False
        self._find()  # after np.random.set_bit_generator
        return True

    def save(self) -> Any:
        """Their states."""
        self.follow()
        inst: Any = random._inst
        return (
            [place.raw for place in self._places],
            inst.gauss_next,
            torch.default_generator.get_state() if self._wanted[2] else None,
        )

    def drawn(self, saved: Any) -> tuple[bool, bool]:
        """Whether the states of Python's or NumPy's have changed, and whether torch's has."""
        inst: Any = random._inst
        here = any(place.raw != then for place, then in zip(self._places, saved[0], strict=True)) or (
            self._wanted[0] and bool(inst.gauss_next != saved[1])
        )
        return here, self._wanted[2] and _bytes(torch.default_generator.get_state()) != _bytes(saved[2])

    def put_back(self, saved: Any) -> None:
        """Puts saved states back."""
        for place, then in zip(self._places, saved[0], strict=True):
            place.raw = then
        if self._wanted[0]:
            inst: Any = random._inst
            inst.gauss_next = saved[1]
        if self._wanted[2]:
            torch.default_generator.set_state(saved[2])


class ProcessGenerators:
    """Those of `random`, NumPy and torch.

    Attributes:
        quick: Whether their memory is known; otherwise they are asked, which takes long.
    """

    def __init__(self) -> None:
        self._watch = Watch(python=True, numpy=True, torch_=True)
        self.quick = self._watch.can_see

    def save(self) -> Any:
        """Their states."""
        if self._watch.follow():
            self.quick = self._watch.can_see
        return self._watch.save() if self.quick else everything()

    def are_as(self, saved: Any) -> bool:
        """Whether their states are those that were saved: all of it, numbers that were kept for later included."""
        return self._watch.drawn(saved) == (False, False) if self.quick else _are_equal(saved, everything())

    def put_back(self, saved: Any) -> None:
        """Puts saved states back."""
        if self.quick:
            self._watch.put_back(saved)
        else:
            put_back(saved)


def _bytes(state: torch.Tensor) -> bytes:
    return ctypes.string_at(state.data_ptr(), len(state))  # torch.equal takes ten times as long


def _are_equal(left: Any, right: Any) -> bool:
    one, two = left[1], right[1]
    numpy = np.array_equal(one["state"]["key"], two["state"]["key"]) and one["state"]["pos"] == two["state"]["pos"]
    gauss = one["has_gauss"] == two["has_gauss"] and one["gauss"] == two["gauss"]
    return bool(left[0] == right[0] and numpy and gauss and torch.equal(left[2], right[2]))


def _pythons_place() -> int | None:
    owner: Any = random._inst
    address, base = id(owner) + _HEADER, type(owner).__mro__[1]
    if base.__basicsize__ < _HEADER + _STATE:
        return None
    raw, state = np.frombuffer(ctypes.string_at(address, _STATE), np.uint32), random.getstate()[1]
    if raw[0] != state[-1] or not np.array_equal(raw[1:], np.array(state[:-1], np.uint32)):
        return None  # another Python, another layout
    return address


def _numpys_place() -> int | None:
    owner: Any = np.random.mtrand._rand._bit_generator
    if type(owner).__name__ != "MT19937":
        return None
    address: int = owner.ctypes.state_address
    return address


def _gauss_place() -> int | None:
    """Where `np.random` keeps the second of two normal numbers; looked for in an object of the same type."""
    owner: Any = np.random.mtrand._rand
    likeness: Any = np.random.RandomState(0)
    if type(owner) is not type(likeness):
        return None
    offsets = []
    for number in (1.2345678e-7, -7.654321e-8):
        likeness.set_state({**likeness.get_state(legacy=False), "has_gauss": 1, "gauss": number})
        raw = ctypes.string_at(id(likeness), type(likeness).__basicsize__)
        offsets.append(raw.find(struct.pack("=qd", 1, number)))
    return id(owner) + offsets[0] if offsets[0] == offsets[1] > 0 else None
