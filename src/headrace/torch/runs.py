"""Iterating a DataLoader whose batches are made by workers: processes, or threads."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

from headrace.engine import HOLD, ProcessRun, run_threads
from headrace.errors import NotPicklableError, StateError, StuckError
from headrace.torch.deliver import Pulled
from headrace.torch.fetch import Extra, MapFetcher, size_of
from headrace.torch.handles import WorkerHandle
from headrace.torch.iterators import _BaseDataLoaderIter, _SingleProcessDataLoaderIter
from headrace.torch.job import LoadJob, Place, cut
from headrace.torch.position import Epoch
from headrace.torch.streams import End
from headrace.torch.threads import Caught, StreamPieces, ThreadWork

_log = logging.getLogger("headrace")

MAX_BYTES = 1 << 30  # of batches that may be ahead


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Gets batches from worker processes."""

    _run: Any = None

    def __init__(self, loader: Any) -> None:
        if loader.prefetch_factor is not None and loader.prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        super().__init__(loader)

    def _readers(self) -> int:
        return int(self._num_workers)

    def _open(self, loader: Any) -> None:
        self._in_order = loader.in_order
        stream = self._dataset_kind == 1
        job = LoadJob.of(loader)
        pieces: Iterator[Any] = _stream_pieces(self._epoch, self._num_workers) if stream else self._pieces_left(loader)
        how: dict[str, Any] = {
            "prefetch": loader.prefetch_factor or 2,
            "max_bytes": MAX_BYTES,
            "timeout": loader.timeout or None,
            "in_order": loader.in_order,
            "seat_of": (lambda piece: int(piece[0])) if stream else None,
            "fresh": not loader.persistent_workers,
            "setup": self._epoch.setup(self._runtime.digests),
            "cut": cut if self._may_be_cut(loader) else None,
        }
        crew = loader._runtime.crew(loader, int(loader.num_workers))
        try:
            self._run = ProcessRun(crew, pieces, job, self._stats, **how)
        except NotPicklableError:
            # Locks, values and queues of multiprocessing are only inherited. Forking is safe enough if nobody can hold
            # a lock of Python meanwhile; what other threads there are belongs to native code.
            if crew.method != "auto" or threading.active_count() > 1 or not hasattr(os, "fork"):
                raise
            crew = loader._runtime.crew_of(crew.workers, "fork")
            self._run = ProcessRun(crew, pieces, job, self._stats, **how)
        self._hand = self._run.held

    def _may_be_cut(self, loader: Any) -> bool:
        """Whether a batch may be read by several workers: where who reads what is nobody's business."""
        fetcher = MapFetcher(self._dataset, self._auto_collation, self._collate_fn)
        return self._dataset_kind == 0 and fetcher.has_parts and loader.worker_init_fn is None

    @property
    def _workers(self) -> list[WorkerHandle]:
        return [WorkerHandle(worker) for worker in self._run.workers]

    def _shutdown_workers(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._run is not None:
            self._run.close()

    def _pull(self) -> Pulled:
        while True:
            try:
                result = self._run.head()
            except StuckError as error:
                if not self._timeout:
                    raise
                return None, None, error
            value, piece, failure = result.value, result.piece, result.error
            if self._dataset_kind == 0:
                if failure is None:
                    self._stats.gave(size_of(value.batch if type(value) is Extra else value)[1])
                return piece[0] if piece is not None else None, value, failure
            if piece is None or failure is not None:
                return (*(piece or (0, 0)), None), None, failure
            seat, number = piece
            state = None
            if value.state is not None:
                state = value.state[1]
                self._learn(value.state[0])
            if isinstance(value.batch, End):
                self._epoch.places[seat].ended = True
                del self._hand[:]
                continue
            if value.has_batch:
                self._stats.gave(size_of(value.batch)[1])
            return (seat, number, state), value, None

    def _learn(self, sharded: bool) -> None:
        """What a worker says of whether the stream is divided."""
        epoch = self._epoch
        if epoch.sharded is None:
            if sharded and epoch.alone:
                raise StateError(
                    "the state was saved by one reader of this stream, whose author divides it among workers: go on "
                    "with num_workers=0 or 1, as it was saved"
                )
            epoch.sharded = sharded

    def _moved(self, mark: Any) -> tuple[int, Place | None, tuple[int, int, list[int], int]]:
        epoch = self._epoch
        if mark is None or self._in_order or epoch.order is None:
            return super()._moved(mark)
        unit, units = epoch.order.unit, epoch.units
        first = mark % unit if unit > 1 else 0
        waiting = {*epoch.ahead, mark}
        while units + first in waiting:
            waiting.discard(units + first)
            units += unit
        return 0, None, (epoch.batches + 1, units, sorted(waiting), epoch.turn)

    def __del__(self) -> None:
        self._close()


def _stream_pieces(epoch: Epoch, count: int) -> Iterator[Any]:
    """Whose turn it is to read on: all workers in a cycle, or one alone if the stream isn't divided among them."""
    numbers = [place.batches for place in epoch.places]
    turn = epoch.turn
    if count > 1 and epoch.sharded is None:
        yield 0, numbers[0]
        numbers[0] += 1
        turn = 1
        while epoch.sharded is None:
            yield HOLD
    while True:
        alive = [seat for seat in range(count) if not epoch.places[seat].ended]
        if epoch.sharded is False or count == 1:
            alive = [seat for seat in alive if seat == 0]
        if not alive:
            return
        seat = min(alive, key=lambda seat: (seat - turn) % count)
        yield seat, numbers[seat]
        numbers[seat] += 1
        turn = (seat + 1) % count


class _ThreadsDataLoaderIter(_SingleProcessDataLoaderIter):
    """Gets batches from worker threads, which share the dataset.

    The process's random generators can't be seeded for one thread alone. So the first batch is made here: if making it
    draws from them, or from generators of the dataset's own, all batches are.
    """

    _batches: Any = None
    _workers: tuple[Any, ...] = ()  # processes, of which there are none

    def _open(self, loader: Any) -> None:
        self._options = {
            "workers": max(1, loader.num_workers),
            "prefetch": loader.prefetch_factor or 2,
            "max_bytes": MAX_BYTES,
            "timeout": loader.timeout or None,
        }
        self._init_fn = loader.worker_init_fn
        self._stuck: StuckError | None = None  # once it has waited in vain, this iteration gives nothing more
        self._batches = None
        super()._open(loader)
        self._alone = bool(self._held) and self._dataset_kind == 0
        self._tried = self._dataset_kind == 0 and self._gathers

    def _pull(self) -> Pulled:
        if self._over:
            raise StopIteration
        if self._stuck is not None:
            return None, None, self._stuck
        if self._batches is None:
            if self._alone:
                return super()._pull()
            if self._dataset_kind == 0 and not self._tried:
                return self._try_first()
            self._batches = self._start()
            self._hand = []
        try:
            result = next(self._batches)
        except StopIteration:
            self._over = True
            raise
        except StuckError as error:
            self._stuck = error
            return None, None, error
        mark, value = result.value
        if type(value) is Caught:
            return mark, None, value.error
        self._stats.gave(size_of(value)[1])
        return mark, value, None

    def _try_first(self) -> Pulled:
        self._tried = True
        known = self._guard.drawing  # to who iterates the loader: it was said in an earlier epoch
        with ThreadWork.as_first(self._dataset, self._base_seed, self._options["workers"]):
            if self._init_fn is not None:
                self._init_fn(0)
            pulled = super()._pull()
        if self._guard.drawing:
            self._alone = True
        if self._alone and not known:
            _log.warning(
                "%s draws from the random generators of the process, which threads can't have each for itself: its "
                "batches are made one after another in the consumer's thread. Draw from get_worker_info().rng, or use "
                "mode='processes'",
                type(self._dataset).__name__,
            )
        return pulled

    def _start(self) -> Any:
        seeds = (self._base_seed, self._epoch.resets)
        if self._dataset_kind == 1:
            pieces: Any = StreamPieces(self._stream, self._number)
            fetch: Any = self._collate_fn
        else:
            pieces = self._pieces
            fetch = MapFetcher(self._dataset, self._auto_collation, self._collate_fn, skip=self._skip)
        work = ThreadWork(fetch, self._dataset, seeds, self._options["workers"], self._init_fn)
        return run_threads(pieces, work, self._stats, **self._options)

    def _can_go_on(self) -> bool:
        return self._batches is None and super()._can_go_on()

    def _close(self) -> None:
        if self._batches is not None:
            self._batches.close()
