"""Shared memory for results: slots that workers fill, and that are free again when nobody looks at them."""

from __future__ import annotations

import ctypes
import functools
import io
import mmap
import os
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from headrace.engine.limits import refused

_ALIGNMENT = 64  # bytes; a cache line, and what vector code likes


def make_segment(nbytes: int) -> io.FileIO:
    """New, empty shared memory, as an open file.

    It isn't in `/dev/shm`, which containers make small, where the system has anonymous files (Linux); elsewhere it is a
    file that has no name any more. The memory is set aside at once, so that running short is an error here and no
    signal later.

    Raises:
        OSError: If there isn't so much.
    """
    try:
        return _make_segment(nbytes)
    except OSError as error:
        raise refused(error, f"shared memory ({nbytes / 1e6:,.1f} MB)") from error


def _make_segment(nbytes: int) -> io.FileIO:
    if hasattr(os, "memfd_create"):
        # The descriptor and its owner come in one step of the interpreter: no interrupt falls between.
        file = next(map(_own, map(os.memfd_create, ("headrace",), (os.MFD_CLOEXEC,))))
    else:
        import tempfile

        fd, path = tempfile.mkstemp(prefix="headrace-")
        os.unlink(path)
        file = _own(fd)
    try:
        os.ftruncate(file.fileno(), nbytes)
        if nbytes and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, nbytes)
    except BaseException:
        file.close()
        raise
    return file


def map_segment(fd: int, nbytes: int, *, private: bool = False) -> mmap.mmap:
    """Shared memory, mapped.

    Args:
        fd: Its descriptor.
        nbytes: Its bytes; 0: all.
        private: Whether what is written there stays in this process.

    Raises:
        OSError: If there is no room for it, or no descriptor left, of which a map has its own.
    """
    flags = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED
    try:
        return mmap.mmap(fd, nbytes, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    except OSError as error:
        raise refused(error, f"map of shared memory ({nbytes / 1e6:,.1f} MB)") from error


_own = functools.partial(io.FileIO, mode="r+b")


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
        self._file = make_segment(slots * slot_bytes)
        self._map = map_segment(self._file.fileno(), slots * slot_bytes)
        self._free: dict[int, Any] = dict.fromkeys(range(slots))
        self._lent: dict[int, weakref.ref[Slot]] = {}

    def __del__(self) -> None:
        if hasattr(self, "_file"):  # views that are still about keep the memory; the descriptor isn't needed for it
            self._file.close()

    @property
    def fd(self) -> int:
        """The descriptor of the memory."""
        return self._file.fileno()

    @property
    def free(self) -> int:
        """Slots that nobody uses."""
        return len(self._free)

    def take(self) -> Slot | None:
        """A slot for a result to be written, or None if all are in use."""
        try:
            number, _ = self._free.popitem()
        except KeyError:
            return None
        slot = Slot(self, number)
        # Slots are dropped at any point of any thread, and so are views. No code of Python's runs then, which an
        # interrupt could end, or which would swallow it.
        self._lent[number] = weakref.ref(slot, functools.partial(self._free.__setitem__, number))
        return slot

    def view(self, slot: Slot, nbytes: int) -> memoryview:
        """The first bytes of a slot, writeable. The slot stays in use until the last view of them is gone."""
        owner = _type_of(nbytes).from_buffer(self._map, slot.number * self.slot_bytes)
        owner.slot = slot  # type: ignore[attr-defined]
        return memoryview(owner).cast("B")


class Slot:
    """A slot of an arena in use; nobody uses it any more when this object is gone.

    Attributes:
        arena: The arena.
        number: Which of its slots it is.
    """

    __slots__ = ("__weakref__", "arena", "number")

    def __init__(self, arena: Arena, number: int) -> None:
        self.arena = arena
        self.number = number


@functools.lru_cache(maxsize=64)
def _type_of(nbytes: int) -> type[ctypes.Array[ctypes.c_char]]:
    return ctypes.c_char * nbytes
