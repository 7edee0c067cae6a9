"""Iterating a DataLoader that chooses by measuring where its batches are made (`mode="auto"`)."""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Generator, Iterator
from typing import Any

from headrace.clock import Clock
from headrace.engine import Auto, Feed, Mode, ProcessRun, Result, run_auto, run_threads
from headrace.errors import StuckError
from headrace.torch.deliver import Pulled
from headrace.torch.fetch import Extra, size_of
from headrace.torch.iterators import _SingleProcessDataLoaderIter
from headrace.torch.job import LoadJob
from headrace.torch.order import Piece
from headrace.torch.runs import MAX_BYTES


class _AutoDataLoaderIter(_SingleProcessDataLoaderIter):
    """Tries the first batches in the consumer's thread, then workers if those would help, and keeps what is best.

    How many workers there are, up to `num_workers`, is part of the choice, which holds for the loader's later epochs.
    Streams are read in the consumer's thread.
    """

    _results: Any = None

    def _open(self, loader: Any) -> None:
        super()._open(loader)
        if self._dataset_kind == 1:
            return
        runtime = self._runtime
        if runtime.auto is None:
            modes: list[Mode] = ["inline", "threads" if self._gathers else "processes"]
            runtime.auto = Auto(modes, most=int(loader.num_workers) or None)
        auto = runtime.auto
        prefetch = loader.prefetch_factor or 2
        limits: dict[str, Any] = {"prefetch": prefetch, "max_bytes": MAX_BYTES, "timeout": loader.timeout or None}
        how: dict[str, Any] = {"fresh": not loader.persistent_workers, "setup": self._epoch.setup(runtime.digests)}
        job = LoadJob.of(loader)
        crew_of = functools.partial(runtime.crew, loader)
        self._stuck: StuckError | None = None  # once it has waited in vain, this iteration gives nothing more

        me: _AutoDataLoaderIter = weakref.proxy(self)  # what refers to itself isn't let go at once
        stats, fetch = self._stats, self._fetch

        def processes(pieces: Iterator[Piece], workers: int) -> Generator[Result[Piece]]:
            began = time.perf_counter()
            run = ProcessRun(crew_of(workers), pieces, job, stats, **limits, **how)
            stats.waited(time.perf_counter() - began, ready=0)  # for the workers to start, in the midst of an epoch
            try:
                yield from run
            finally:
                run.close()
                if auto.decided and auto.current.mode != "processes":
                    runtime.let_go()

        def threads(pieces: Iterator[Piece], workers: int) -> Generator[Result[Piece]]:
            yield from run_threads(
                pieces, lambda piece, clock: fetch.timed(piece[1], clock), stats, workers=workers, **limits
            )

        def inline(pieces: Iterator[Piece], workers: int) -> Generator[Result[Piece]]:
            for piece in pieces:
                me._feed = Feed([piece])
                mark, batch, error = _SingleProcessDataLoaderIter._pull(me)
                me._over = False
                clock = Clock()
                clock.seconds = me._clock.seconds
                yield Result((mark, None), batch, error, 0, clock)

        runners: Any = {"inline": inline, "threads": threads, "processes": processes}
        self._hand = []
        self._results = run_auto(self._pieces, auto, runners, self._stats, prefetch=prefetch)

    def _pull(self) -> Pulled:
        if self._results is None:
            return super()._pull()
        if self._stuck is not None:
            return None, None, self._stuck
        try:
            result = next(self._results)
        except StuckError as error:
            self._stuck = error
            return None, None, error
        if result.error is None and result.clock.worker is not None:
            value = result.value.batch if type(result.value) is Extra else result.value
            self._stats.gave(size_of(value)[1])
        return result.piece[0], result.value, result.error

    def _can_go_on(self) -> bool:
        return self._results is None and super()._can_go_on()

    def _close(self) -> None:
        if self._results is not None:
            self._results.close()
