"""What iterating a DataLoader gives."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from headrace.clock import Clock
from headrace.engine import Feed
from headrace.errors import StuckError
from headrace.torch.begin import begin_epoch
from headrace.torch.deliver import Pulled, ToDevice, pin, should_pin
from headrace.torch.failures import as_torch
from headrace.torch.fetch import Extra, MapFetcher, Skipped, size_of
from headrace.torch.held import digest, held_generators, seed_held
from headrace.torch.job import Place
from headrace.torch.order import Piece
from headrace.torch.streams import End, Stream

_NOTHING = object()
_ASK = 64  # batches


class _BaseDataLoaderIter:
    """Goes once through a loader's data. Lives on its own: the loader may be dropped or iterated anew meanwhile.

    An interrupt (Ctrl-C, or whatever a signal's handler raises) loses no batch: the next one is that which would have
    come. Where that can't be, iterating further is an error.
    """

    _over = False

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
        self._amid = False  # on the way to a batch, as an interrupt leaves it
        self._hand: list[Any] = []  # what the next batch is made of, or it; emptied as the consumer gets it
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

    def _can_go_on(self) -> bool:
        """Whether batches can still be had after an interrupt on the way to one."""
        return self._to_device is None or not self._to_device.reads_ahead

    def __next__(self) -> Any:
        if self._amid and not self._over and not self._can_go_on():
            raise StuckError(
                "this iteration was interrupted on the way to a batch, as by Ctrl-C, and can't go on; iterate the "
                "loader anew, after load_state_dict(state_dict()) from where it was"
            )
        self._amid = True
        while True:
            try:
                if torch._C._autograd._profiler_enabled():
                    with torch.autograd.profiler.record_function(self._profile_name):
                        mark, batch, error = self._advance()
                else:
                    mark, batch, error = self._advance()
            except StopIteration:
                self._epoch.over, self._amid = True, False
                raise
            epoch = self._epoch
            gives = error is None and batch is not _NOTHING
            if gives and self._dataset_kind == 1:
                self._check_length(self._num_yielded + 1)
            seat, place, now = self._moved(mark)
            # No call from here on, which could be interrupted: the consumer has got the batch, or it hasn't.
            epoch.batches, epoch.units, epoch.ahead, epoch.turn = now
            if place is not None:
                epoch.places[seat] = place
            del self._hand[:]
            if gives:
                self._num_yielded += 1
                self._amid = False
                return batch
            if error is not None:
                self._amid = False
                try:
                    raise error
                finally:
                    del error  # its traceback refers to this frame

    def _advance(self) -> Pulled:
        if self._to_device is None:
            return self._take()
        return self._to_device(self._take_ahead if self._to_device.reads_ahead else self._take)

    def _take_ahead(self) -> Pulled:
        pulled = self._take()
        del self._hand[:]
        return pulled

    def _take(self) -> Pulled:
        """The next batch as the consumer gets it, on the way to its device."""
        mark, batch, error = self._pull()
        if error is not None:
            return mark, None, as_torch(error, self._timeout)
        if type(batch) is Extra:
            try:
                for skipped in batch.skipped:
                    if skipped.epoch < 0:  # not yet noted, before an interrupt
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

    def _moved(self, mark: Any) -> tuple[int, Place | None, tuple[int, int, list[int], int]]:
        """The position behind what `mark` stands for: a reader, its place, and the epoch's numbers."""
        epoch = self._epoch
        if mark is None:  # nothing came, so nothing moves
            return 0, None, (epoch.batches, epoch.units, epoch.ahead, epoch.turn)
        if epoch.order is not None:
            return 0, None, (epoch.batches + 1, epoch.units + epoch.order.unit, epoch.ahead, epoch.turn)
        seat, number, state = mark
        place = Place(number + 1, state, epoch.places[seat].ended)
        return seat, place, (epoch.batches + 1, epoch.units, epoch.ahead, (seat + 1) % len(epoch.places))

    def _check_length(self, count: int) -> None:
        told = self._IterableDataset_len_called
        if told is None or count <= told:
            return
        message = (
            f"Length of IterableDataset {self._dataset} was reported to be {told}"
            f"(when accessing len(dataloader)), but {count} samples have been fetched. "
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
        super().__init__(loader)
        if self._timeout != 0 and loader.num_workers == 0 and loader.mode != "auto":
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")

    def _open(self, loader: Any) -> None:
        self._over = False
        self._guard = self._runtime.guard
        self._clock = Clock()
        self._asked, self._busy = 0, 1.0
        if self._dataset_kind == 1:
            self._stage = "fetch"
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
        self._stage = "read" if self._gathers else "fetch"
        self._pieces = self._pieces_left(loader, rows=self._gathers)
        self._feed = Feed(self._pieces)
        self._hand = self._feed.held

    def _can_go_on(self) -> bool:
        return self._dataset_kind == 0 and super()._can_go_on()  # a stream that was interrupted may be over now

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
        clock.seconds = {"piece": (spent, cpu), self._stage: (spent, cpu)}
        clock.began, clock.ended = began, began + spent
        stats.waited(spent, ready=0)
        stats.finished(clock, nbytes, delivered=error is None)
        if error is None:
            stats.gave(records)
        return pulled

    def _pull_piece(self) -> Pulled:
        feed = self._feed
        if not feed.take():
            if feed.error is not None:
                error, feed.error = feed.error, None
                raise error
            self._over = True
            raise StopIteration
        key, keys = feed.held[0]
        try:
            if self._gathers:
                return key, self._fetch(keys), None
            return key, self._guard.run((self._base_seed, self._epoch.resets, key), self._read, (key, keys)), None
        except StopIteration as error:
            return key, None, _no_stop(error)
        except Exception as error:
            return key, None, error

    def _read(self, piece: Piece) -> Any:
        key, keys = piece
        if not self._held and not self._guard.seeding:  # no numbers, no parts that have their own
            return self._fetch(keys)

        def begin(part: int) -> None:
            seed_held(self._held, self._runtime.digests, self._epoch.number, key, part)
            if part:
                self._guard.part(part)

        begin(0)  # here, as the piece may be done once more
        return self._fetch(keys, begin)

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
