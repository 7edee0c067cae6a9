"""Worker processes as programs know them from `multiprocessing`."""

from __future__ import annotations

from typing import Any


class WorkerHandle:
    """One worker process, with the methods of `multiprocessing.Process` that are looked for in torch's iterators."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self.pid: int = worker.pid
        self.name = f"headrace-worker-{worker.pid}"
        self.daemon = True

    def __repr__(self) -> str:
        return f"WorkerHandle(pid {self.pid})"

    @property
    def exitcode(self) -> int | None:
        """None while it runs; negative if a signal ended it."""
        code = self._worker.exitcode
        return None if code is None else int(code)

    def is_alive(self) -> bool:
        """Whether it runs."""
        return bool(self._worker.is_alive())

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end."""
        self._worker.wait(1e9 if timeout is None else timeout)

    def terminate(self) -> None:
        """Ends it at once."""
        self._worker.kill()

    kill = terminate
