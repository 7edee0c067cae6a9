"""What travels to worker processes, and what it does there."""

from __future__ import annotations

import contextlib
import dis
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from headrace.clock import Clock
from headrace.engine import Seat
from headrace.torch import held, randomness, twisters
from headrace.torch.fetch import PARTS, Begin, Extra, MapFetcher, Skipped, part_size
from headrace.torch.info import become, has_looked, make_info
from headrace.torch.streams import End, Stream


@dataclass(frozen=True, slots=True)
class Setup:
    """What is another one in each epoch.

    Attributes:
        base_seed: Drawn for the iterator.
        epoch: The number that sets this epoch's random numbers apart from others with the same base seed.
        number: The epoch's number in the loader's life.
        digests: What stands for the first states of generators that the dataset holds.
        places: Of a stream: for each worker the batches to skip, or the state to go on from, and whether it is over.
    """

    base_seed: int
    epoch: int
    number: int
    digests: list[int]
    places: list[Place] | None = None


@dataclass(slots=True)
class Place:
    """Where a worker is in its stream.

    Attributes:
        batches: Batches that it has given.
        state: The stream's own state, if it has one.
        ended: Whether it is over.
    """

    batches: int = 0
    state: Any = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a batch.

    Attributes:
        key: What the batch's random numbers come from.
        number: The part's number in the batch.
        keys: Its keys.
    """

    key: int
    number: int
    keys: Any


def cut(piece: tuple[int, Any]) -> list[Part]:
    """The parts of a batch."""
    key, keys = piece
    if type(keys) is not list and type(keys) is not tuple:
        return []
    size = part_size(len(keys))
    return [Part(key, first // size, keys[first : first + size]) for first in range(0, len(keys), size)]


@dataclass(slots=True)
class LoadJob:
    """How batches of a dataset are made; the same in all epochs, so that it is sent once."""

    dataset: Any
    batched: bool
    collate_fn: Callable[[Any], Any]
    worker_init_fn: Callable[[int], None] | None
    skip: bool
    stream: bool = False
    size: int | None = None
    drop_last: bool = False
    rank: int = 0
    ranks: int = 1

    @classmethod
    def of(cls, loader: Any) -> LoadJob:
        """The job of a loader."""
        return cls(
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.worker_init_fn,
            loader.on_error == "skip",
            loader._dataset_kind == 1,
            loader.batch_size if loader._auto_collation else None,
            loader.drop_last,
            loader.rank,
            loader.world_size,
        )

    def open(self, seat: Seat) -> Work:
        """The worker begins."""
        return (StreamWork if self.stream else Work)(self, seat)


class Work:
    """A worker process's work for a dataset that is read by keys."""

    def __init__(self, job: LoadJob, seat: Seat) -> None:
        torch.set_num_threads(1)
        with contextlib.suppress(Exception):
            torch.multiprocessing._set_thread_name("pt_data_worker")
        self._job = job
        self._enter(seat)
        seed = randomness.seed_worker(self._setup.base_seed, seat.id)
        become(make_info(seat.id, seat.count, seed, job.dataset), process=True)
        self._seeds = (True, True, True)
        self._init_divides = False
        if job.worker_init_fn is not None:
            before = twisters.everything()
            job.worker_init_fn(seat.id)
            # Who seeds a generator there, wants these numbers: it is left alone from then on.
            python, numpy, torch_ = randomness.freshly_seeded(before, twisters.everything())
            self._seeds = (not python, not numpy, not torch_)
            self._init_divides = uses_its_argument(job.worker_init_fn)
        self._held = held.held_generators(job.dataset, job.collate_fn)
        python, numpy, torch_ = self._seeds
        self._watch = twisters.Watch(python=python, numpy=numpy, torch_=torch_)
        # Whether pieces draw from Python's or NumPy's generators, and whether from torch's; None: not known yet.
        self._draws: tuple[bool, bool] | None = None if self._watch.can_see else (True, True)
        self._lightly = False
        self._begin()

    def _enter(self, seat: Seat) -> None:
        assert isinstance(seat.setup, Setup)
        self._seat = seat
        self._setup = seat.setup

    def _begin(self) -> None:
        self._fetch = MapFetcher(self._job.dataset, self._job.batched, self._job.collate_fn, skip=self._job.skip)

    def restart(self, seat: Seat) -> None:
        """The worker goes on to another epoch, with the dataset as it has become."""
        self._enter(seat)
        self._begin()
        self._settle()

    def seed(self, key: int, part: int = 0) -> None:
        """Makes the random numbers of a piece, or of one of its parts, its own."""
        setup = self._setup
        python, numpy, torch_ = self._seeds
        if self._lightly:
            python = numpy = False
        numbers = randomness.words(setup.base_seed, setup.epoch, key, randomness.of_part(part))
        if not torch_:
            randomness.seed_piece(numbers, python=python, numpy=numpy, torch_=False)
        else:
            randomness.seed_piece(numbers, python=python, numpy=numpy)
            if _cuda_draws():
                torch.cuda.manual_seed(numbers[3] >> 1)
        if self._held:
            held.seed_held(self._held, setup.digests, setup.number, key, part)

    def __call__(self, piece: tuple[int, Any] | Part, clock: Clock) -> Any:
        """The batch of some keys; `piece` is (what its random numbers come from, keys). Of a part its samples."""
        if isinstance(piece, Part):
            part = piece
            with clock.stage("fetch"):
                return self._with_numbers(part.key, part.number, lambda _: self._fetch.some(part.keys, self._seat.at))
        key, keys = piece
        return self._with_numbers(key, 0, lambda begin: self._fetch.timed(keys, clock, self._seat.at, begin))

    def join(self, piece: tuple[int, Any], parts: list[tuple[list[Any], list[Skipped]]], clock: Clock) -> Any:
        """The batch of samples that have been read by parts."""
        key, keys = piece
        data = [sample for samples, _ in parts for sample in samples]
        left_out = [one for _, skipped in parts for one in skipped]
        with clock.stage("collate"):
            return self._with_numbers(key, PARTS, lambda _: self._fetch.finish(keys, data, left_out))

    def _with_numbers(self, key: int, part: int, read: Callable[[Begin | None], Any]) -> Any:
        """Does what is to have the random numbers of a piece, from a part of it on.

        Seeding the generators of Python and NumPy takes longer than many a small sample, and seeding torch's for each
        part is felt. While nothing has drawn from them it is left out; what then turns out to draw is undone and done
        again.
        """
        if self._draws == (False, False) and not self._held and not _cuda_draws():
            done, value = self._unless_drawn(lambda: read(None), lambda drawn: drawn != (False, False))
            if done:
                return value
        if self._draws is not None and not self._draws[0]:
            self._lightly = True
            try:
                done, value = self._unless_drawn(lambda: self._seeded(key, part, read), lambda drawn: drawn[0])
            finally:
                self._lightly = False
            if done:
                return value
        return self._seeded(key, part, read)

    def _unless_drawn(self, work: Callable[[], Any], spoilt: Callable[[tuple[bool, bool]], bool]) -> tuple[bool, Any]:
        """Does work that is expected not to draw; if it has, that is undone and noted, for the work to be done anew."""
        saved, value = self._watch.save(), None
        try:
            value = work()
        except Exception:
            if not spoilt(drawn := self._watch.drawn(saved)):
                raise
        else:
            if not spoilt(drawn := self._watch.drawn(saved)):
                return True, value
        self._watch.put_back(saved)
        assert self._draws is not None
        self._draws = (self._draws[0] or drawn[0], self._draws[1] or drawn[1])
        return False, None

    def _seeded(self, key: int, part: int, read: Callable[[Begin | None], Any]) -> Any:
        asked = self._draws is None
        seen = (False, False)
        before: Any = None

        def look() -> None:
            nonlocal seen
            drawn = self._watch.drawn(before)
            seen = (seen[0] or drawn[0], seen[1] or drawn[1])

        def begin(part: int) -> None:
            nonlocal before
            if asked and before is not None:
                look()
            self.seed(key, part)
            before = self._watch.save() if asked else None

        begin(part)
        value = read(begin)
        if asked:
            look()
            self._draws = seen
            self._settle()
        return value

    def _settle(self) -> None:
        """What `torch.initial_seed()` gives is the same in all workers where pieces aren't seeded one by one."""
        if self._draws == (False, False) and self._seeds[2]:
            torch.default_generator.manual_seed(self._setup.base_seed)


def _cuda_draws() -> bool:
    """Whether there are generators of GPUs, which nothing watches."""
    return "torch.cuda" in sys.modules and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


class StreamWork(Work):
    """A worker process's work for an iterable dataset: it reads its part of the stream forward."""

    def _begin(self) -> None:
        self._stream: Stream | None = None
        self._at = 0

    def _open(self) -> Stream:
        job = self._job
        places = self._setup.places or []
        place = places[self._seat.id] if self._seat.id < len(places) else Place()
        self.seed(-1)
        stream = Stream(job.dataset, job.size, job.drop_last, rank=job.rank, ranks=job.ranks, state=place.state)
        self._at = place.batches if stream.is_stateful and place.state is not None else 0
        self._stream = stream
        return stream

    def __call__(self, piece: Any, clock: Clock) -> Any:
        """The batch of a number, counted in this worker; `piece` is (worker, number)."""
        seat, number = piece
        stream = self._stream or self._open()
        try:
            while self._at < number:  # after a resume, or in the place of a worker that died
                stream.next()
                self._at += 1
            self.seed(seat << 40 | number)
            self._seat.at(number)
            with clock.stage("fetch"):
                self._at += 1
                data = stream.next()
        except StopIteration:
            return Extra(End(), state=(self._sharded(), None))
        except Exception as error:
            if not self._job.skip:
                raise
            return Extra(has_batch=False, skipped=[Skipped(number, f"{type(error).__name__}: {error}"[:500])])
        state = stream.state()
        with clock.stage("collate"):
            batch = self._job.collate_fn(data)
        return Extra(batch, state=(self._sharded(), state))

    def _sharded(self) -> bool:
        """Whether the dataset's author divides the stream among workers."""
        return self._init_divides or has_looked()


def uses_its_argument(function: Any) -> bool:
    """Whether a `worker_init_fn` does anything with the worker's number; when in doubt, yes.

    Example:
        >>> uses_its_argument(lambda worker: None), uses_its_argument(lambda worker: print(worker))
        (False, True)
    """
    if not isinstance(function, types.FunctionType) or function.__code__.co_argcount != 1:
        return True
    argument = function.__code__.co_varnames[0]
    if argument in function.__code__.co_cellvars:
        return True
    for step in dis.get_instructions(function):
        named = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if step.opname.startswith("LOAD") and argument in named:
            return True
    return False
