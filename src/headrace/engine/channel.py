"""Messages between two processes over a Unix socket, with the file descriptors that belong to them."""

from __future__ import annotations

import array
import contextlib
import io
import itertools
import os
import pickle
import select
import socket
import struct
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.engine.limits import refused, too_many_files

Message = tuple[Any, list[int]]
"""What was sent, and descriptors that came with it."""

_HEAD = struct.Struct("<QI")  # bytes of the message, descriptors that come with it
_MOST_FDS = 8
_CHUNK = 1 << 18
_SPACE = socket.CMSG_SPACE(_MOST_FDS * array.array("i").itemsize)


class Channel:
    """One end of a pair of connected sockets.

    Both ends trust each other: messages are pickles. A worker sends and receives blocking; the process that feeds
    workers posts and collects, which never block, so that two full sockets can't hold each other up.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        # In a cycle of garbage a socket would be finalised before those who close it, and complain.
        self._closer = weakref.finalize(self, end.close)
        self._closer.atexit = False
        self._inbox = bytearray()
        self._raw: deque[Any] = deque()  # received, not looked into
        self._fds: deque[int] = deque()
        self._outbox: deque[tuple[memoryview, Sequence[int]]] = deque()
        self._ended = False
        self._lost = False  # descriptors, as this process had too many open; nobody knows whose they were

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """A channel, and the other end for another process."""
        try:
            mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError as error:
            raise refused(error, "channel to a worker process") from error
        return cls(mine), other

    def fileno(self) -> int:
        """The socket's descriptor, -1 when closed."""
        return self._socket.fileno()

    @property
    def has_mail(self) -> bool:
        """Whether posted messages wait for room in the socket."""
        return bool(self._outbox)

    @property
    def has_news(self) -> bool:
        """Whether a message has been read from the socket already."""
        return self._is_whole()

    # blocking --------------------------------------------------------------------------------------------------------

    def send(self, message: Any, fds: Sequence[int] = ()) -> None:
        """Sends a message; waits for room.

        Raises:
            OSError: If the other end is gone.
        """
        rest = _packed(message, fds)
        while len(rest):
            sent = self._socket.sendmsg([rest], _ancillary(fds))
            rest, fds = rest[sent:], ()

    def receive(self) -> tuple[Any, list[int]]:
        """The next message and its descriptors, which are the caller's to close.

        There are no descriptors if this process has too many files open to be given them.

        Raises:
            EOFError: If the other end is gone.
        """
        while not self._is_whole():
            self._read(0)
            if self._ended and not self._is_whole():
                raise EOFError("the process at the other end is gone")
        message, count = self._take()
        return message, self._claim(count)

    def receive_within(self, seconds: float) -> tuple[Any, list[int]]:
        """As `receive`, but raises TimeoutError if nothing whole has come within some seconds."""
        while not self._is_whole():
            if not await_news([self.fileno()], seconds):
                raise TimeoutError(f"no answer within {seconds} s")
            self._read(0)
            if self._ended and not self._is_whole():
                raise EOFError("the process at the other end is gone")
        return self.receive()

    # not blocking ----------------------------------------------------------------------------------------------------

    def post(self, message: Any, fds: Sequence[int] = ()) -> None:
        """Sends a message, now or with a later `flush`. Descriptors must stay open until `has_mail` is false."""
        self._outbox.append((_packed(message, fds), fds))
        self.flush()

    def flush(self) -> None:
        """Sends what has been posted, as far as there is room. Nothing happens if the other end is gone."""
        try:
            while self._outbox:
                rest, fds = self._outbox[0]
                sent = self._socket.sendmsg([rest], _ancillary(fds), socket.MSG_DONTWAIT)
                if sent < len(rest):
                    self._outbox[0] = (rest[sent:], ())
                else:
                    self._outbox.popleft()
        except BlockingIOError:
            return
        except OSError:  # gone: whoever waits for its messages learns it from `collect`
            self._outbox.clear()

    def received(self) -> Iterator[Message]:
        """For who receives blocking: all messages that have come so far; descriptors are the caller's to close."""
        with contextlib.suppress(BlockingIOError):
            while not self._ended:
                self._read(socket.MSG_DONTWAIT)
        while self._is_whole():
            message, count = self._take()
            yield message, self._claim(count)

    def collect(self) -> Iterator[tuple[Any, list[io.FileIO]]]:
        """All messages that have come so far; descriptors as open files, which close themselves if they get lost.

        Raises:
            EOFError: After them, if the other end is gone.
            OSError: If this process has too many files open to be given more.
        """
        with contextlib.suppress(BlockingIOError):
            while not self._ended:
                self._read(socket.MSG_DONTWAIT)
        while self._is_whole():
            message, count = self._take()
            if self._lost or count > len(self._fds):
                raise too_many_files("descriptor of what a worker has read")
            yield message, [*map(io.FileIO, map(deque.popleft, itertools.repeat(self._fds, count)))]
        if self._ended:
            raise EOFError("the process at the other end is gone")

    # -----------------------------------------------------------------------------------------------------------------

    def _read(self, flags: int) -> None:
        flags |= socket.MSG_CMSG_CLOEXEC
        try:
            # Received and kept in one step of the interpreter: an interrupt doesn't lose descriptors.
            self._raw.extend(map(self._socket.recvmsg, (_CHUNK,), (_SPACE,), (flags,)))
        except BlockingIOError:
            raise
        except OSError:  # reset: it has gone with mail unread
            self._ended = True
        for data, ancillary, told, _ in self._raw:
            self._lost |= bool(told & socket.MSG_CTRUNC)
            self._fds.extend(_descriptors(ancillary))
            self._inbox += data
            self._ended = not data
        self._raw.clear()

    def _is_whole(self) -> bool:
        if len(self._inbox) < _HEAD.size:
            return False
        return len(self._inbox) - _HEAD.size >= int(_HEAD.unpack_from(self._inbox)[0])

    def _take(self) -> tuple[Any, int]:
        """The next message, and how many descriptors belong to it."""
        size, count = _HEAD.unpack_from(self._inbox)
        with memoryview(self._inbox) as inbox:
            message = pickle.loads(inbox[_HEAD.size : _HEAD.size + size])
        del self._inbox[: _HEAD.size + size]
        return message, count

    def _claim(self, count: int) -> list[int]:
        """The descriptors of the message that was taken."""
        if not self._lost and count <= len(self._fds):
            return [self._fds.popleft() for _ in range(count)]
        # Those that are left may belong to later messages: none is better than another's.
        while self._fds:
            os.close(self._fds.popleft())
        self._lost = bool(self._inbox)
        return []

    def close(self) -> None:
        """Closes this end, and descriptors that nobody has taken."""
        self._closer()
        self._outbox.clear()
        # An interrupt may have left some in both.
        left = {*self._fds, *(fd for raw in self._raw for fd in _descriptors(raw[1]))}
        self._fds.clear()
        self._raw.clear()
        for fd in left:
            os.close(fd)


def _descriptors(ancillary: Sequence[tuple[int, int, bytes]]) -> array.array[int]:
    received = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            received.frombytes(content[: len(content) // received.itemsize * received.itemsize])
    return received


def await_news(fds: Sequence[int], seconds: float) -> set[int]:
    """Those of some descriptors that can be read, within some seconds. Unlike `select`, it takes numbers above 1023."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll(seconds * 1e3)}


def _packed(message: Any, fds: Sequence[int]) -> memoryview:
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return memoryview(_HEAD.pack(len(content), len(fds)) + content)


def _ancillary(fds: Sequence[int]) -> list[tuple[int, int, array.array[int]]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
