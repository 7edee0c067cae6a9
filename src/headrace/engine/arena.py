"""Shared memory for results: slots that workers fill, and that are free again when nobody looks at them."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import weakref
from collections.abc import Iterable, Sequence
from typing import TypeAlias

_ALIGNMENT = 64  # bytes; a cache line, and what vector code likes


def make_segment(nbytes: int) -> int:
    """A descriptor of new, empty shared memory.

    It isn't in `/dev/shm`, which containers make small, where the system has anonymous files (Linux); elsewhere it is a
    file that has no name any more. The memory is set aside at once, so that running short is an error here and no
    signal later.

    Raises:
        OSError: If there isn't so much.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("headrace", os.MFD_CLOEXEC)
    else:
        import tempfile

        fd, path = tempfile.mkstemp(prefix="headrace-")
        os.unlink(path)
    try:
        os.ftruncate(fd, nbytes)
        if nbytes and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, nbytes)
    except BaseException:
        os.close(fd)
        raise
    return fd


def aligned(nbytes: int) -> int:
    """So many bytes, rounded up to where the next buffer may begin."""
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def total_bytes(buffers: Iterable[memoryview]) -> int:
    """What buffers take when they are written one after the other."""
    return sum(aligned(buffer.nbytes) for buffer in buffers)


def write_buffers(target: memoryview, buffers: Iterable[memoryview]) -> None:
    """Writes buffers one after the other."""
    at = 0
    for buffer in buffers:
        target[at : at + buffer.nbytes] = buffer
        at += aligned(buffer.nbytes)


def cut_buffers(source: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    """The buffers of the given sizes that have been written one after the other."""
    cut = []
    at = 0
    for size in sizes:
        cut.append(source[at : at + size])
        at += aligned(size)
    return cut


class Arena:
    """Slots of equal size in one piece of shared memory, as the process that hands them out sees them.

    Args:
        slots: How many.
        slot_bytes: Bytes of each; a multiple of the page size.

    Raises:
        OSError: If the memory can't be had.
    """

    def __init__(self, slots: int, slot_bytes: int) -> None:
        self.slots = slots
        self.slot_bytes = slot_bytes
        self.fd = make_segment(slots * slot_bytes)
        try:
            self._map = mmap.mmap(self.fd, slots * slot_bytes)
        except BaseException:
            os.close(self.fd)
            raise
        self._free = list(range(slots))
        self._lent: dict[int, weakref.ref[ctypes.Array[ctypes.c_char]]] = {}

    def __del__(self) -> None:
        if hasattr(self, "_map"):  # views that are still about keep the memory; the descriptor isn't needed for it
            os.close(self.fd)

    @property
    def free(self) -> int:
        """Slots that nobody uses."""
        return len(self._free)

    def take(self) -> Slot | None:
        """A slot for a result to be written, or None if all are in use."""
        try:
            return self, self._free.pop()
        except IndexError:
            return None

    def put_back(self, slot: int) -> None:
        """Says that nobody uses a slot any more."""
        self._free.append(slot)

    def view(self, slot: int, nbytes: int) -> memoryview:
        """The first bytes of a slot, writeable; the slot is free again when the last view of them is gone."""
        owner = _type_of(nbytes).from_buffer(self._map, slot * self.slot_bytes)
        # Views of views refer to the object that exports the memory, so its end is theirs. Callbacks may come at any
        # point of any thread: appending is a single step of the interpreter.
        self._lent[slot] = weakref.ref(owner, functools.partial(_unlend, weakref.ref(self), slot))
        return memoryview(owner).cast("B")


Slot: TypeAlias = tuple[Arena, int]
"""A slot of an arena, by its number."""


def give_back(slot: Slot | None) -> None:
    """Says that nobody uses a slot any more, if there is one."""
    if slot is not None:
        slot[0].put_back(slot[1])


def _unlend(arena: weakref.ref[Arena], slot: int, _: object) -> None:
    if (alive := arena()) is not None:
        alive._lent.pop(slot, None)
        alive.put_back(slot)


@functools.lru_cache(maxsize=64)
def _type_of(nbytes: int) -> type[ctypes.Array[ctypes.c_char]]:
    return ctypes.c_char * nbytes
