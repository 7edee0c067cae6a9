"""Random numbers that depend on what is read, not on who reads it.

Before each piece of work, and before each part of a large one, the generators of the process (`random`, NumPy, torch)
are seeded from base seed, epoch and piece: so augmented samples are the same for any number of workers, whoever does
which part. In the consumer's own thread they are put back afterwards.
Seeding all of them costs a twentieth of a millisecond, which small batches can't bear; so a piece that is expected to
draw nothing, and can be done again, is run first and checked for that: the states before and after are the same.
"""

from __future__ import annotations

import hashlib
import random
import struct
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from torch.utils.data._utils import worker as torch_worker

from headrace.torch.twisters import ProcessGenerators

T = TypeVar("T")

_MASK = (1 << 64) - 1


def words(base: int, epoch: int, key: int, more: int = 0) -> tuple[int, int, int, int]:
    """Four numbers of 64 bits that belong to one piece of one epoch.

    Example:
        >>> words(1, 0, 5) == words(1, 0, 5), words(1, 0, 5) == words(1, 1, 5)
        (True, False)
    """
    text = struct.pack("<QQQQ", base & _MASK, epoch & _MASK, key & _MASK, more & _MASK)
    return struct.unpack("<QQQQ", hashlib.blake2b(text, digest_size=32).digest())


def of_part(part: int, *, held: bool = False) -> int:
    """Sets the numbers of a piece's part apart, and those of generators that a dataset holds from the process's."""
    return 2 * part + held


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


class _Here(threading.local):
    """What a thread is at, of those that iterate one loader.

    Attributes:
        seeds: Of the piece that is being done, if it may draw.
        before: How the generators were as its part began, if it isn't known yet whether it draws.
    """

    seeds: tuple[int, int, int] | None = None
    before: Any = None


class Guard:
    """Runs pieces in the consumer's own thread, so that its generators seem untouched."""

    def __init__(self) -> None:
        self._quiet = False
        self._drawing = False
        self._generators = ProcessGenerators()
        self._here = _Here()

    @property
    def drawing(self) -> bool:
        """Whether a piece has been seen to draw from the process's generators."""
        return self._drawing

    @property
    def seeding(self) -> bool:
        """Whether the piece that this thread is at has numbers of its own: it may draw."""
        return self._here.seeds is not None

    def run(self, seeds: tuple[int, int, int], work: Callable[[Any], T], piece: Any, *, again: bool = True) -> T:
        """Does a piece.

        Args:
            seeds: What its random numbers are drawn from: base seed, epoch, the piece's own number.
            work: Does it.
            piece: The piece.
            again: Whether it may be done once more, if it turns out to have drawn without being expected to. A piece
                that may not is always seeded first.
        """
        generators = self._generators
        if self._quiet and again:
            before = generators.save()
            try:
                value = work(piece)
            except BaseException as error:
                if generators.are_as(before):
                    raise
                generators.put_back(before)
                if not isinstance(error, Exception):
                    raise
            else:
                if generators.are_as(before):
                    return value
                del value
                generators.put_back(before)
            self._quiet, self._drawing = False, True
        states = generators.save()
        self._here.seeds = seeds
        try:
            self._seed(0)
            value = work(piece)
            if again and not self._drawing:
                self._watch()
                self._quiet = not self._drawing and generators.quick
            return value
        finally:
            self._here.seeds = self._here.before = None
            generators.put_back(states)

    def part(self, number: int) -> None:
        """The piece that is being done comes to one of its parts, which has numbers of its own."""
        if self.seeding:
            self._watch()
            self._seed(number)

    def _seed(self, part: int) -> None:
        here = self._here
        assert here.seeds is not None
        seed_piece(words(*here.seeds, of_part(part)))
        here.before = None if self._drawing else self._generators.save()

    def _watch(self) -> None:
        before = self._here.before
        if before is not None and not self._generators.are_as(before):
            self._drawing = True
