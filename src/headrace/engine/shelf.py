"""Where results from worker processes wait for the consumer: in shared memory, unopened."""

from __future__ import annotations

import io
import logging
import mmap
from collections.abc import Sequence
from typing import Generic

from headrace.clock import Clock
from headrace.engine.arena import Arena, Slot, aligned, cut_buffers, map_segment
from headrace.engine.freight import unpack
from headrace.engine.machine import available_bytes
from headrace.engine.result import P, Result

_log = logging.getLogger("headrace")

_PAGE = 1 << 12
_HELD = 4  # slots for results that the consumer has in hand
_SHARE = 0.5  # of the memory that is left, what slots may take


class Parked(Generic[P]):
    """A result that has come but isn't unpacked yet.

    Args:
        piece: Its piece.
        stream: The pickle.
        sizes: Bytes of its buffers.
        slot: The slot that holds the buffers, or None.
        segment: A mapping of its own that holds them, or None.
        clock: Where the time went.
    """

    __slots__ = ("clock", "piece", "segment", "sizes", "slot", "stream")

    def __init__(
        self,
        piece: P,
        stream: bytes,
        sizes: Sequence[int],
        slot: Slot | None,
        segment: mmap.mmap | None,
        clock: Clock,
    ) -> None:
        self.piece = piece
        self.stream = stream
        self.sizes = sizes
        self.slot = slot
        self.segment = segment
        self.clock = clock

    def buffers(self) -> list[memoryview]:
        """The buffers, writeable, which keep the memory that they are in."""
        need = sum(map(aligned, self.sizes))
        if self.slot is None:
            view = memoryview(b"" if self.segment is None else self.segment)
        else:
            arena = self.slot.arena
            view = arena.view(self.slot, need)
            if arena.free == 0:
                # The consumer keeps what it got: it may, but in memory of its own, or workers would have none to fill.
                view = memoryview(bytearray(view))
        return cut_buffers(view, self.sizes)


class Shelf:
    """The slots of a crew, which grow with what results need.

    Attributes:
        arena: Where the next result is to go; None until the size of one is known.
        typical: Bytes that a result takes here; 0 until one has come.
    """

    def __init__(self) -> None:
        self.arena: Arena | None = None
        self.typical = 0
        self._refused = 0

    def park(
        self,
        piece: P,
        stream: bytes,
        sizes: Sequence[int],
        slot: Slot | None,
        in_slot: bool,
        files: Sequence[io.FileIO],
        clock: Clock,
        limit: int,
    ) -> Parked[P]:
        """Takes in a result that has come.

        Args:
            piece: Its piece.
            stream: The pickle.
            sizes: Bytes of its buffers.
            slot: What it was given.
            in_slot: Whether its buffers are there.
            files: The segment that has them otherwise, if there are any.
            clock: Where the time went.
            limit: Results that may wait here.
        """
        need = sum(map(aligned, sizes))
        segment = None
        for file in files:
            with file:
                segment = map_segment(file.fileno(), need)
        self.typical = max(self.typical, need + len(stream))
        if segment is not None and (self.arena is None or need > self.arena.slot_bytes):
            self._grow(need, limit)
        return Parked(piece, stream, sizes, slot if in_slot else None, segment, clock)

    def _grow(self, need: int, limit: int) -> None:
        """Makes slots that such a result fits into, as many as may be wanted and as memory allows."""
        slot_bytes = -(-(need + need // 4) // _PAGE) * _PAGE
        if self._refused and slot_bytes >= self._refused:
            return
        slots = limit + _HELD
        if available := available_bytes():
            affordable = int(available * _SHARE) // slot_bytes
            if affordable < slots:
                _log.warning(
                    "results of %.1f MB from worker processes would take %.1f MB of shared memory, of %.1f MB that are "
                    "left; %s. Smaller batches, or fewer ahead, would help",
                    need / 1e6,
                    slots * slot_bytes / 1e6,
                    available / 1e6,
                    f"only {affordable} go through slots" if affordable else "each gets memory when it is there",
                )
                slots = affordable
        try:
            self.arena = Arena(slots, slot_bytes) if slots else None
        except OSError as error:
            _log.warning("no shared memory for slots (%s); each result gets some when it is there", error)
            self.arena = None
        if self.arena is None:
            self._refused = slot_bytes

    def unpark(self, parked: Parked[P]) -> Result[P]:
        """Unpacks a result, which the consumer is about to get."""
        nbytes = sum(map(aligned, parked.sizes)) + len(parked.stream)
        try:
            value = unpack(parked.stream, parked.buffers())
        except BaseException as error:
            try:
                unpack(parked.stream, parked.buffers())
            except BaseException:  # of a class that can't be read as it was written
                if isinstance(error, StopIteration) or not isinstance(error, Exception):
                    # It would end the consumer's loop, or the program, as if that were meant.
                    return Result(parked.piece, None, _unreadable(error), 0, parked.clock)
                return Result(parked.piece, None, error, 0, parked.clock)
            raise  # it can be read: the error is of a signal's handler
        return Result(parked.piece, value, None, nbytes, parked.clock)


def _unreadable(cause: BaseException) -> RuntimeError:
    error = RuntimeError(f"a result can't be unpickled: that raises {type(cause).__name__}: {cause}")
    error.__cause__ = cause
    return error
