"""Where processes begin that aren't forked from the one that they work for.

A fork of a process with threads may inherit a lock that nobody will ever let go. A zygote is a fresh interpreter with
one thread and the modules that it was told to import; it forks workers in some milliseconds.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import signal
import socket
import sys

from headrace.engine.channel import Channel, await_news
from headrace.engine.seat import Page
from headrace.engine.worker import serve

# Messages to it:
#   ("import", modules, sys.path)                   not answered
#   ("fork",) with a channel's end and a page       answered by ("pid", number), or minus the error's
#   ("settle",)                                     answered by ("settled", 0): what was told before is done
#   ("status", pid)                                 answered by ("status", wait status), when it has ended


def fork_workers(fd: int) -> None:
    """Forks workers as the channel asks for, until its other end or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    channel = Channel(socket.socket(fileno=fd))
    ended: dict[int, int] = {}
    # A worker's end wakes the loop below, so that it doesn't stay a zombie.
    woken, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with contextlib.suppress(EOFError, OSError):
        while os.getppid() == parent:
            _reap(-1, ended)
            if not channel.has_news:
                news = await_news([channel.fileno(), woken], 1.0)
                if woken in news:
                    os.read(woken, 4096)
                if channel.fileno() not in news:
                    continue
            (kind, *what), fds = channel.receive()
            if kind == "fork":
                pid = _fork(channel, (woken, waker), *fds)
                ended.pop(pid, None)  # of an earlier process with this number
                channel.send(("pid", pid))
            elif kind == "settle":
                channel.send(("settled", 0))
            elif kind == "status":
                channel.send(("status", _reap(what[0], ended)))
            else:
                _import(*what)
    os._exit(0)


def _import(modules: list[str], path: list[str]) -> None:
    """Imports once what every worker would otherwise have to."""
    sys.path[:] = path
    for name in modules:
        # What can't be imported, or only in part, will say so in the worker that needs it.
        with contextlib.suppress(BaseException):
            importlib.import_module(name)


def serve_alone(fd: int, page: int, by_signal: bool) -> None:
    """This very process is a worker."""
    serve(Channel(socket.socket(fileno=fd)), Page(page), os.getppid(), by_signal)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _fork(channel: Channel, pipe: tuple[int, int], end: int = -1, page: int = -1) -> int:
    if page < 0:
        return -errno.EMFILE  # no descriptor was left here to take them
    zygote = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        pid = -(error.errno or 1)
    if pid:
        os.close(end)
        os.close(page)
        return pid
    try:
        channel.close()
        signal.set_wakeup_fd(-1)
        for fd in pipe:
            os.close(fd)
        serve(Channel(socket.socket(fileno=end)), Page(page), zygote, True)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _reap(wanted: int, ended: dict[int, int]) -> int:
    """The wait status of a process that has ended; of -1: collects those of all that have."""
    if wanted in ended:
        return ended.pop(wanted)
    with contextlib.suppress(ChildProcessError):
        if wanted > 0:
            return os.waitpid(wanted, 0)[1]
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    return 0
