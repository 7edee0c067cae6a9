"""Worker processes as the process that they work for sees them: how they are started, how they end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, cast

from headrace.engine import interrupts
from headrace.engine.arena import Arena, Slot
from headrace.engine.channel import Channel
from headrace.engine.limits import no_interpreter, refused
from headrace.engine.machine import current_directory
from headrace.engine.seat import Page
from headrace.engine.worker import serve
from headrace.errors import StuckError

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

Origin = Literal["fork", "zygote", "spawn"]

_PRELOADED = ("numpy", "torch", "cloudpickle", "headrace", "headrace.torch")
_BOOT_SECONDS = 120.0
_SLICE = 0.2  # seconds between looks whether somebody wants to interrupt the waiting
_alive: weakref.WeakSet[Worker] = weakref.WeakSet()


def is_single_threaded() -> bool:
    """Whether a fork of this process is safe: no other thread, of Python or not, may hold a lock in it."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return threading.active_count() == 1 and sys.platform != "darwin"


def import_path() -> list[str]:
    """Where this process finds modules, as others are told."""
    return [entry for entry in sys.path if isinstance(entry, str)]


class Worker:
    """One worker process.

    Args:
        origin: `"fork"`: of this process; `"zygote"`: of the zygote; `"spawn"`: an interpreter of its own.
        inherited: The job that a fork is born with, if it is to get none by its channel.

    Attributes:
        channel: To it.
        page: Shared with it.
        pid: Its number.
        key: The parcel that it has.
        arena: The arena that it knows, whose slots it may be given.
        pending: Pieces that it was sent and hasn't answered, by run and number; with each the slot that waits for it.
    """

    def __init__(self, origin: Origin, inherited: Any = None) -> None:
        self.origin = origin
        self.owner = os.getpid()
        self.born = time.monotonic()
        self.pid = self.pidfd = self.key = -1
        self.arena: Arena | None = None
        self.pending: dict[tuple[int, int], Slot | None] = {}
        self._process: BaseProcess | subprocess.Popen[bytes] | None = None
        self._zygote: _Zygote | None = None  # held, for its workers end with it
        self._gone = False
        self._code: int | None = None
        self.channel, end = Channel.pair()
        try:
            self.page = Page()
            self.pid = self._start(end, inherited)
            if hasattr(os, "pidfd_open"):
                self.pidfd = _pidfd(self.pid)
        except BaseException:
            self.bury(0.0)
            raise
        finally:
            end.close()
        _alive.add(self)

    def _start(self, end: socket.socket, inherited: Any) -> int:
        if self.origin == "fork":
            import multiprocessing  # not before it is needed: programs without workers start sooner

            process = multiprocessing.get_context("fork").Process(
                target=_be_worker, args=(self, end, _is_main_thread(), inherited), name="headrace-worker", daemon=True
            )
            _start(process)
            self._process = process
            assert process.pid is not None
            return process.pid
        if self.origin == "zygote":
            self._zygote = _zygote()
            return self._zygote.fork(end.fileno(), self.page.fd)
        self._process = _interpreter("serve_alone", [end.fileno(), self.page.fd], _is_main_thread())
        return self._process.pid

    def __repr__(self) -> str:
        return f"Worker(pid {self.pid}, {self.origin})"

    def is_alive(self) -> bool:
        """Whether the process is still there. Asks nobody but the system: the garbage collector may want to know."""
        if not self._gone:
            if self._process is None:
                self._gone = _is_gone(self.pidfd, self.pid)
            else:
                process = self._process
                self._code = process.poll() if isinstance(process, subprocess.Popen) else process.exitcode
                self._gone = self._code is not None
        return not self._gone

    def is_usable(self) -> bool:
        """Whether work can be sent to it. The garbage collector closes channels before it finalises their users."""
        return self.owner == os.getpid() and self.channel.fileno() >= 0 and self.is_alive()

    @property
    def exitcode(self) -> int | None:
        """As of `multiprocessing.Process`: None while it runs, negative if a signal ended it."""
        if not self.is_alive() and self._code is None and self._zygote is not None:
            self._code = self._zygote.status(self.pid)
        return self._code

    def wait(self, seconds: float) -> bool:
        """Waits for its end; whether it has come."""
        deadline = time.monotonic() + seconds
        pause = 0.001
        while self.is_alive():
            left = deadline - time.monotonic()
            if left <= 0 or (interrupts.is_pressed() and left < seconds - 0.1):
                return False
            time.sleep(min(pause, left))
            pause = min(pause * 2, 0.05)
        return True

    def kill(self) -> bool:
        """Ends it at once; whether it was still there."""
        if self.owner != os.getpid() or not self.is_alive():
            return False
        try:
            if self.pidfd >= 0:  # which no other process can have got meanwhile
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            else:
                os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has just ended by itself
            return False
        return True

    def dismiss(self) -> None:
        """Lets it end with the piece that it is in. `bury` must follow."""
        self.channel.close()

    def bury(self, grace: float) -> None:
        """Waits for the end of a dismissed worker, makes it so after some seconds, and lets go of all that it had.

        The garbage collector may come here in the middle of anything, so nothing here waits for a lock.
        """
        self.channel.close()
        if self.owner == os.getpid():
            if not self.wait(grace):
                self.kill()
                self.wait(10.0)
            if self.origin == "fork" and self._process is not None and not self.is_alive():
                cast("BaseProcess", self._process).close()
                self._process = None
        self.pending.clear()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        _alive.discard(self)

    def how_it_ended(self) -> str:
        """Exit code or signal, in words."""
        code = self.exitcode
        if code is None:
            return "is out of reach"
        if code >= 0:
            return f"exited unexpectedly with code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = {
            "SIGKILL": ", as the system does when memory runs out",
            "SIGSEGV": ", a fault in native code",
            "SIGBUS": ", a fault in native code, or in a file that was cut short while it was mapped",
        }.get(name, "")
        return f"was killed by signal {-code} ({name}){hint}"


def _start(process: BaseProcess) -> None:
    """Starts a process, in a pool's processes, too."""
    import multiprocessing

    # Those are daemons, which may have no children, as these would outlive them. Ours don't: they watch their parent.
    settings: dict[str, Any] = getattr(multiprocessing.current_process(), "_config", {})
    daemon = settings.pop("daemon", None)
    try:
        process.start()
    except OSError as error:
        raise refused(error, "new process") from error
    finally:
        if daemon is not None:
            settings["daemon"] = daemon


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _be_worker(worker: Worker, end: socket.socket, by_signal: bool, inherited: Any) -> None:
    interrupts.forget()
    parent = worker.owner
    # A copy of another worker's end of a channel would keep that worker from seeing that we are gone.
    for other in list(_alive):
        other.channel.close()
    worker.channel.close()
    serve(Channel(end), worker.page, parent, by_signal, inherited)


def _pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        raise refused(error, "descriptor of a worker process") from error


def _is_gone(pidfd: int, pid: int) -> bool:
    if pidfd >= 0:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(0))
    return not os.path.exists(f"/proc/{pid}")


def _interpreter(function: str, fds: Iterable[int], *args: object) -> subprocess.Popen[bytes]:
    """A fresh interpreter that finds what this one finds, and calls a function of the module `zygote`.

    Args:
        function: Its name.
        fds: Descriptors that it gets, and that are its first arguments.
        args: The others.

    Raises:
        OSError: If the system refuses.
    """
    # Where standard streams are closed, what is opened takes their numbers; there it would be written to as such.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    with contextlib.ExitStack() as stack:
        try:
            passed = [_above_streams(fd, stack) for fd in fds]
            call = f"zygote.{function}({', '.join(map(repr, [*passed, *args]))})"
            code = f"import sys; sys.path[:] = {import_path()!r}; from headrace.engine import zygote; {call}"
            return subprocess.Popen(
                [sys.executable or "", *flags, "-c", code],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if sys.__stdout__ is None else None,
                stderr=subprocess.DEVNULL if sys.__stderr__ is None else None,
                cwd=None if current_directory() else "/",  # torch can't be imported in a directory that is gone
                env={**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")},
            )
        except OSError as error:
            raise no_interpreter(error) from error


def _above_streams(fd: int, stack: contextlib.ExitStack) -> int:
    if fd > 2:
        return fd
    import fcntl

    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    stack.callback(os.close, copy)
    return copy


# the zygote ----------------------------------------------------------------------------------------------------------


class _Zygote:
    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._retired = False
        self._settled = True
        self._files: dict[str, float] = {}  # of the modules that it was told to import, when they were written
        self._channel, end = Channel.pair()
        try:
            self._process = _interpreter("fork_workers", [end.fileno()])
        finally:
            end.close()
        self.preload(_PRELOADED)

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.close()

    def is_there(self) -> bool:
        return self.owner == os.getpid() and self._process.poll() is None

    def is_of_use(self) -> bool:
        """Whether it can be asked for workers."""
        return not self._retired and self.is_there() and self._is_up_to_date()

    def _is_up_to_date(self) -> bool:
        # A module that has been edited and loaded anew here: workers must not go on with what it was.
        return all(_written(name) == when for name, when in self._files.items())

    def preload(self, modules: Iterable[str]) -> None:
        new = [name for name in modules if name in sys.modules and name not in self._files and name != "__main__"]
        if new:
            self._files |= {name: _written(name) for name in new}
            with self._lock, contextlib.suppress(OSError):
                self._settled = False
                self._channel.send(("import", new, import_path()))

    def settle(self) -> None:
        if not self._settled:
            self._ask(("settle",), [])
            self._settled = True

    def fork(self, end: int, page: int) -> int:
        pid = int(self._ask(("fork",), [end, page]))
        if pid < 0:
            raise refused(OSError(-pid, os.strerror(-pid)), "new process")
        return pid

    def status(self, pid: int) -> int:
        if not self._retired and self.is_there():
            with contextlib.suppress(StuckError):
                return os.waitstatus_to_exitcode(int(self._ask(("status", pid), [])))
        return -signal.SIGKILL  # its workers end with it

    def _ask(self, question: tuple[Any, ...], fds: list[int]) -> Any:
        with self._lock:
            if self._retired:
                raise StuckError(
                    "the process that starts workers was interrupted in an answer; iterate the loader anew"
                )
            try:
                self._channel.send(question, fds)
                answer = self._answer()
            except BaseException as error:
                # An answer that comes after all, as after Ctrl-C, would be taken for that to the next question.
                self._retired = True
                if not isinstance(error, (OSError, EOFError)):
                    raise
                code = self._ending() if isinstance(error, (EOFError, ConnectionError)) else self._process.poll()
                state = "has it been stopped?" if code is None else f"it has ended, exit code {code}"
                raise StuckError(
                    f"the process that starts workers gives no answer ({error}; {state}); iterate the loader anew: "
                    "that starts another"
                ) from error
        return answer

    def _ending(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(1.0)  # it has hung up, so its end is near
        return None

    def _answer(self) -> Any:
        deadline = time.monotonic() + _BOOT_SECONDS
        while True:
            try:
                (_, answer), _ = self._channel.receive_within(_SLICE)
                return answer
            except TimeoutError:
                if interrupts.is_pressed() or time.monotonic() > deadline:
                    raise

    def close(self) -> None:
        self._channel.close()
        if self.owner == os.getpid():
            try:
                self._process.wait(0.5)
            except subprocess.TimeoutExpired:  # it is importing
                self._process.kill()
                self._process.wait()
        else:
            self._process.returncode = 0  # another process's child; nothing to wait for here


def _written(module: str) -> float:
    try:
        return os.stat(sys.modules[module].__file__ or "").st_mtime
    except (KeyError, AttributeError, OSError, TypeError):
        return 0.0


_the_zygote: _Zygote | None = None
_zygote_lock = threading.Lock()


def prepare_zygote(modules: Iterable[str] = ()) -> None:
    """Has a zygote begin to import what workers will need, so that they needn't wait for it later.

    Args:
        modules: Names of further modules, of those that are loaded here.
    """
    _zygote().preload(modules)


def settle_zygote() -> None:
    """Waits until the zygote has imported what it was told to and forks at once. The wait can be interrupted."""
    _zygote().settle()


def _zygote() -> _Zygote:
    global _the_zygote
    with interrupts.undisturbed(), _zygote_lock:
        if _the_zygote is None or not _the_zygote.is_of_use():
            _the_zygote = _Zygote()
        return _the_zygote


def close_zygote() -> None:
    """Ends the zygote, if there is one."""
    global _the_zygote
    with interrupts.undisturbed(), _zygote_lock:
        _the_zygote = None


def _after_fork_in_child() -> None:
    global _zygote_lock
    _zygote_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)
