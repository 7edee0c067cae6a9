"""Pieces that several workers are at, a part each: what has come of them so far.

Cutting is but a quicker way to the same result. Whatever goes wrong with a part, its piece is done again as a whole.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.engine.arena import aligned, cut_buffers, map_segment
from headrace.engine.freight import unpack
from headrace.engine.limits import too_many_files

_PART = 1 << 40  # a part's number: that of its piece, and as many of these as it comes after the beginning, plus one
_WORTH = 0.02  # seconds; pieces that take less are there as soon
_PLAIN: tuple[type, ...] = (int, float, complex, bool, str, bytes, type(None), np.ndarray, np.bool_)

Seconds = dict[str, tuple[float, float]]
"""Wall and CPU seconds by stage, as a clock has them."""

Cut = Callable[[Any], Sequence[Any]]
"""Gives the parts of a piece, in order; fewer than two leave it whole."""


def piece_of(number: int) -> int:
    """The piece that a number is of, its own or that of one of its parts."""
    return number % _PART


def is_part(number: int) -> bool:
    """Whether a number is that of a part."""
    return number >= _PART


def in_turn(number: int) -> tuple[int, int]:
    """What numbers of pieces and parts are sorted by."""
    return number % _PART, number // _PART


def is_worth_it(pace: float | None) -> bool:
    """Whether pieces that take so many seconds, or nobody knows how many, are cut."""
    return pace is None or pace >= _WORTH


class Carried:
    """What a worker has made of a part, unopened, on its way to the worker that puts the piece together.

    Args:
        stream: The pickle.
        sizes: Bytes of its buffers.
        files: The segment with these, if there are any; closed with this object.
    """

    def __init__(self, stream: bytes, sizes: list[int], files: list[io.FileIO]) -> None:
        self.label = (stream, sizes)
        self.files = files

    def __del__(self) -> None:
        for file in self.files:
            file.close()


class Descriptors(list[int]):
    """The descriptors of what is carried, which stay open for as long as somebody has the list."""

    def __init__(self, carried: Sequence[Carried]) -> None:
        super().__init__(file.fileno() for one in carried for file in one.files)
        self.owners = carried


def open_carried(labels: Sequence[tuple[bytes, list[int]]], fds: Sequence[int]) -> list[Any]:
    """What was carried, in memory of this process's own; the descriptors are closed."""
    rest = list(fds)
    values = []
    try:
        for stream, sizes in labels:
            buffers: list[memoryview] = []
            if need := sum(map(aligned, sizes)):
                if not rest:
                    raise too_many_files("descriptor of what other workers have read")
                segment = map_segment(rest[0], need, private=True)
                os.close(rest.pop(0))
                buffers = cut_buffers(memoryview(segment), sizes)
            values.append(unpack(stream, buffers))
    finally:
        for fd in rest:
            os.close(fd)
    return values


class _Open:
    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.carried: dict[int, Carried] = {}
        self.seconds: Seconds = {}


class Cuts:
    """The pieces of a run that have been cut."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}

    def __contains__(self, piece: int) -> bool:
        return piece in self._open

    def begin(self, piece: int, parts: int) -> list[int]:
        """A piece is cut; gives the numbers of its parts."""
        self._open[piece] = _Open(parts)
        return [piece + (part + 1) * _PART for part in range(parts)]

    def keep(self, number: int, carried: Carried, seconds: Seconds) -> None:
        """Takes in what has come of a part."""
        one = self._open[piece_of(number)]
        one.carried[number // _PART - 1] = carried
        one.seconds = _sum(one.seconds, seconds)

    def is_waiting(self, piece: int) -> bool:
        """Whether a piece is cut and not all of its parts have come."""
        one = self._open.get(piece)
        return one is not None and len(one.carried) < one.parts

    def carried(self, piece: int) -> list[Carried]:
        """What has come of all parts, in order."""
        one = self._open[piece]
        return [one.carried[i] for i in range(one.parts)]

    def end(self, piece: int, seconds: Seconds) -> Seconds:
        """A piece is done, or to be done as a whole; gives what it took altogether, its parts included."""
        one = self._open.pop(piece, None)
        return seconds if one is None else _sum(one.seconds, seconds)

    def clear(self) -> None:
        """Forgets everything."""
        self._open.clear()


def _sum(seconds: Seconds, more: Seconds) -> Seconds:
    total = dict(seconds)
    for name, (wall, cpu) in more.items():
        before = total.get(name, (0.0, 0.0))
        total[name] = before[0] + wall, before[1] + cpu
    return total


def check_plain(value: Any) -> None:
    """Makes sure that pickling a part and reading it again changes nothing that anybody could notice.

    Raises:
        TypeError: If there is something in it of which that isn't known.
    """
    rest = [value]
    while rest:
        thing = rest.pop()
        kind = type(thing)
        if kind is list or kind is tuple:
            rest += thing
        elif kind is dict:
            rest += thing.keys()
            rest += thing.values()
        elif kind in _PLAIN:
            if kind is np.ndarray and (thing.dtype.hasobject or not thing.flags.forc):
                raise TypeError("an array of objects, or one with gaps, isn't sent in parts")
        elif not _is_tensor(thing) and not _is_ours(kind):
            raise TypeError(f"{kind.__name__} isn't sent in parts")


def _is_ours(kind: type) -> bool:
    # Numbers of NumPy, and what holds columns here.
    return issubclass(kind, np.number) or kind.__module__.startswith("headrace.")


def _is_tensor(thing: Any) -> bool:
    kind = type(thing)
    if kind.__module__ != "torch" or kind.__name__ != "Tensor":
        return False
    plain = thing.layout.__repr__() == "torch.strided" and thing.device.type == "cpu" and not thing.requires_grad
    return bool(plain and not vars(thing) and thing.is_contiguous())
