"""What iterating a DataLoader gives."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from headrace.clock import Clock
from headrace.torch.begin import begin_epoch
from headrace.torch.deliver import Pulled, ToDevice, pin, should_pin
from headrace.torch.failures import as_torch
from headrace.torch.fetch import Extra, MapFetcher, Skipped, size_of
from headrace.torch.held import digest, held_generators, seed_held
from headrace.torch.order import Piece
from headrace.torch.streams import End, Stream

_NOTHING = object()
_ASK = 64  # batches


class _BaseDataLoaderIter:
    """Goes once through a loader's data. Lives on its own: the loader may be dropped or iterated anew meanwhile."""

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._collate_fn = loader.collate_fn
        self._timeout = loader.timeout
        self._persistent_workers = loader.persistent_workers
        self._pin_memory = should_pin(loader.pin_memory, loader.pin_memory_device)
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"
        self._skip = loader.on_error == "skip"
        self._runtime = loader._runtime
        self._stats = loader._runtime.stats
        # No bound method is kept: a cycle of references would keep workers until the garbage collector comes.
        self._to_device = ToDevice(loader.device) if loader.device is not None else None
        self._epoch = begin_epoch(loader, self._readers())
        self._base_seed = self._epoch.base_seed
        self._enter(loader)

    def _readers(self) -> int:
        """How many readers share a stream."""
        return 1

    def _enter(self, loader: Any) -> None:
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._stats.began()
        self._find_held(loader)
        self._open(loader)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begins anew, as persistent workers do with each epoch."""
        self._close()
        self._epoch = begin_epoch(loader, self._readers(), self._epoch)
        self._to_device = ToDevice(loader.device) if loader.device is not None else None
        self._enter(loader)

    def _find_held(self, loader: Any) -> None:
        """Generators among the dataset's attributes; their first states stand for them from then on."""
        self._held = held_generators(loader.dataset, loader.collate_fn, without=(loader.generator,))
        digests = self._runtime.digests
        if len(digests) != len(self._held):
            digests[:] = [digest(generator) for generator in self._held]

    def _pieces_left(self, loader: Any, *, rows: bool = False) -> Iterator[Piece]:
        """The pieces of what is left of the epoch; if nothing is, of the next one."""
        order = self._epoch.order
        assert order is not None
        if not self._epoch.units and not self._epoch.ahead:
            return order.pieces(0, rows=rows)
        ahead = set(self._epoch.ahead)
        pieces = (piece for piece in order.pieces(self._epoch.units, rows=rows) if piece[0] not in ahead)
        first = next(pieces, None)
        if first is not None:
            return itertools.chain([first], pieces)
        self._epoch = begin_epoch(loader, self._readers())
        self._base_seed = self._epoch.base_seed
        return self._pieces_left(loader, rows=rows)

    def _open(self, loader: Any) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        """Lets go of what runs."""

    def _pull(self) -> Pulled:
        raise NotImplementedError

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def __next__(self) -> Any:
        if torch._C._autograd._profiler_enabled():
            with torch.autograd.profiler.record_function(self._profile_name):
                return self._advance()
        return self._advance()

    def _advance(self) -> Any:
        while True:
            try:
                mark, batch, error = self._take() if self._to_device is None else self._to_device(self._take)
            except StopIteration:
                self._epoch.over = True
                raise
            self._note(mark)
            if error is not None:
                try:
                    raise error
                finally:
                    del error  # its traceback refers to this frame
            if batch is not _NOTHING:
                self._num_yielded += 1
                if self._dataset_kind == 1:
                    self._check_length()
                return batch

    def _take(self) -> Pulled:
        """The next batch as the consumer gets it, on the way to its device."""
        mark, batch, error = self._pull()
        if error is not None:
            return mark, None, as_torch(error, self._timeout)
        if type(batch) is Extra:
            try:
                for skipped in batch.skipped:
                    self._log(skipped)
            except RuntimeError as too_many:
                return mark, None, too_many
            if not batch.has_batch:
                return mark, _NOTHING, None
            batch = batch.batch
        if self._pin_memory:
            try:
                batch = pin(batch)
            except Exception as failure:
                return mark, None, failure
        return mark, batch, None

    def _log(self, skipped: Skipped) -> None:
        skipped.epoch, skipped.batch = self._epoch.number, self._epoch.batches
        self._runtime.skip(skipped)

    def _note(self, mark: Any) -> None:
        """The consumer gets what `mark` stands for: the position moves on."""
        epoch = self._epoch
        epoch.batches += 1
        if epoch.order is not None:
            epoch.units += epoch.order.unit
        else:
            seat, number, state = mark
            place = epoch.places[seat]
            place.batches, place.state = number + 1, state
            epoch.turn = (seat + 1) % len(epoch.places)

    def _check_length(self) -> None:
        told = self._IterableDataset_len_called
        if told is None or self._num_yielded <= told:
            return
        message = (
            f"Length of IterableDataset {self._dataset} was reported to be {told}"
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            message += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            )
        warnings.warn(message, stacklevel=4)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Makes each batch in the consumer's own thread, when it is asked for."""

    def __init__(self, loader: Any) -> None:
        self._over = False
        super().__init__(loader)
        if self._timeout != 0 and loader.num_workers == 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")

    def _open(self, loader: Any) -> None:
        self._over = False
        self._guard = self._runtime.guard
        self._clock = Clock()
        self._asked, self._busy = 0, 1.0
        if self._dataset_kind == 1:
            self._work: Any = self._collate_fn
            self._stream = self._guard.run((self._base_seed, 0, -1), self._open_stream, loader, again=False)
            self._number = self._epoch.places[0].batches
            if self._epoch.places[0].state is None:
                try:
                    self._stream.skip(self._number)
                except StopIteration:
                    self._epoch = begin_epoch(loader, 1)
                    self._open(loader)
            return
        self._fetch = MapFetcher(self._dataset, self._auto_collation, self._collate_fn, skip=self._skip)
        self._gathers = self._fetch.take is not None
        self._pieces = self._pieces_left(loader, rows=self._gathers)

    def _open_stream(self, loader: Any) -> Stream:
        size = loader.batch_size if self._auto_collation else None
        state = self._epoch.places[0].state
        return Stream(self._dataset, size, self._drop_last, rank=loader.rank, ranks=loader.world_size, state=state)

    def _pull(self) -> Pulled:
        if self._over:
            raise StopIteration
        # Asking for the time of the processor takes longer than a small batch does: now and then is enough.
        ask = self._asked == 0
        self._asked = (self._asked + 1) % _ASK
        began, cpu = time.perf_counter(), time.thread_time() if ask else 0.0
        pulled = self._pull_sample() if self._dataset_kind == 1 else self._pull_piece()
        spent = time.perf_counter() - began
        if ask:
            self._busy = (time.thread_time() - cpu) / max(spent, 1e-9)
        _, batch, error = pulled
        nbytes, records = size_of(batch)
        cpu, clock, stats = spent * self._busy, self._clock, self._stats
        clock.seconds = {"piece": (spent, cpu), "read": (spent, cpu)}
        clock.began, clock.ended = began, began + spent
        stats.waited(spent, ready=0)
        stats.finished(clock, nbytes, delivered=error is None)
        if error is None:
            stats.gave(records)
        return pulled

    def _pull_piece(self) -> Pulled:
        try:
            piece = next(self._pieces)
        except StopIteration:
            self._over = True
            raise
        key, keys = piece
        try:
            if self._gathers:
                return key, self._fetch(keys), None
            if self._held:
                seed_held(self._held, self._runtime.digests, self._epoch.number, key)
            return key, self._guard.run((self._base_seed, self._epoch.resets, key), self._fetch, keys), None
        except StopIteration as error:
            return key, None, _no_stop(error)
        except Exception as error:
            return key, None, error
        except BaseException:  # an interrupt: the batch is had again
            self._pieces = itertools.chain([piece], self._pieces)
            raise

    def _pull_sample(self) -> Pulled:
        number = self._number
        if self._held:
            seed_held(self._held, self._runtime.digests, self._epoch.number, number)
        mark: Any = (0, number, None)
        try:
            data = self._guard.run((self._base_seed, 0, number), self._next_of_stream, None, again=False)
        except Exception as error:
            self._number += 1
            if self._skip:
                return mark, Extra(has_batch=False, skipped=[Skipped(number, f"{type(error).__name__}: {error}")]), None
            return mark, None, error
        if data is End:
            self._over = True
            raise StopIteration
        self._number += 1
        return (0, number, self._stream.state()), data, None

    def _next_of_stream(self, _: Any) -> Any:
        try:
            data = self._stream.next()
        except StopIteration:
            return End
        try:
            return self._collate_fn(data)
        except StopIteration as error:
            raise _no_stop(error) from error


def _no_stop(error: StopIteration) -> RuntimeError:
    wrapped = RuntimeError("collate_fn raised StopIteration, which would have ended the epoch without a word")
    wrapped.__cause__ = error
    return wrapped
