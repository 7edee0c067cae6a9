"""Workers on hire: who has them, what they know, and that none is left when nobody needs them."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from headrace.engine import interrupts
from headrace.engine.freight import Packed, Parcel, explain, open_parcel
from headrace.engine.glance import Glance
from headrace.engine.machine import current_directory
from headrace.engine.shelf import Shelf
from headrace.engine.waiting import GRACE
from headrace.engine.workers import (
    Origin,
    Worker,
    close_zygote,
    import_path,
    is_single_threaded,
    prepare_zygote,
    settle_zygote,
)
from headrace.errors import NotPicklableError, StuckError

Method = Literal["auto", "fork", "forkserver", "spawn"]
_Known = tuple[int, float, Parcel]  # its key, when it was made, the parcel
_Parcels = dict[bool, _Known]  # by whether they go by value

_LARGE = 1 << 16  # bytes of a packed job
_keys = itertools.count()
_runs = itertools.count(1)
_crews: weakref.WeakSet[Crew] = weakref.WeakSet()
_market = threading.RLock()  # held while workers change hands; the garbage collector may close a crew in the middle


class Crew:
    """Keeps worker processes from one run to the next, for as long as it is there itself.

    A run hires workers; when it ends they rest here, their job still at hand, until the next run. Crews help each other
    out: a resting worker is lent before another one is started, so that training and evaluation share theirs.

    How workers come about (`method="auto"`): while this process has a single thread they are forked from it, otherwise
    from a zygote, a process that has one. Either way they work on a copy of the job that was sent to them, so memory
    doesn't grow as reference counts are written into pages that processes share. A job that can't be sent is inherited
    by forking, if that is safe.

    Attributes:
        pace: Seconds that a piece took in the last run; None: not known.
        cuts: Whether pieces may be cut, as far as is known.

    Args:
        workers: How many a run has.
        method: `"auto"`, or how to start them: `"fork"` (of this process, the job inherited, whatever threads there
            are), `"forkserver"` (of a process with one thread), `"spawn"` (a fresh interpreter each).
    """

    def __init__(self, workers: int, method: Method = "auto") -> None:
        self.workers = workers
        self.method = method
        self.owner = os.getpid()
        self.resting: list[Worker] = []
        self.lends = True
        self.shelf = Shelf()
        self.pace: float | None = None
        self.cuts = workers > 1
        self._birthright: int | None = None  # what workers that inherited the job have for a key
        self._parcels: _Parcels = {}
        self._is_large = True  # whether packing the job takes long; not known yet
        _crews.add(self)
        if self._origin() == "zygote":
            prepare_zygote()

    def __del__(self) -> None:
        if hasattr(self, "resting") and not sys.is_finalizing():
            self.workers = 0  # a run that dies with it, and later, must not leave it any
            self.close()

    def close(self) -> None:
        """Lets resting workers go, and waits until they have gone."""
        with interrupts.undisturbed():
            with _market:
                resting, self.resting = self.resting, []
            dismiss(resting)

    # hiring ----------------------------------------------------------------------------------------------------------

    def hire(self, contract: Contract, hired: list[Worker]) -> None:
        """Fills a list with workers for a run, the own ones first.

        Raises:
            OSError: If the system doesn't let so many be started.
        """
        contract.prepare()
        with interrupts.undisturbed(), _market:
            hired += self._hire(contract)

    def _hire(self, contract: Contract) -> list[Worker]:
        mine = [worker for worker in self.resting if self._suits(worker, contract)]
        others = [worker for worker in self.resting if worker not in mine]
        self.resting = []
        while len(mine) < self.workers and (worker := self._borrow(contract)) is not None:
            mine.append(worker)
        dismiss([*others, *mine[self.workers :]])
        hired = mine[: self.workers]
        try:
            while len(hired) < self.workers:
                hired.append(contract.start())
        except OSError as error:
            dismiss(hired)
            if isinstance(error, StuckError):
                raise
            raise OSError(
                error.errno,
                f"{len(hired)} of {self.workers} worker processes could be started; then {error.strerror}",
            ) from error
        except BaseException:
            dismiss(hired)
            raise
        return hired

    def _borrow(self, contract: Contract) -> Worker | None:
        if contract.parcels is None:
            return None
        for crew in list(_crews):
            if crew is not self and crew.lends and crew.owner == os.getpid():
                for worker in crew.resting:
                    if not worker.pending and self._suits(worker, contract):
                        crew.resting.remove(worker)
                        return worker
        return None

    def _suits(self, worker: Worker, contract: Contract) -> bool:
        return worker.is_usable() and contract.fits(worker)

    def take_back(self, workers: list[Worker], *, lend: bool, keep: bool) -> None:
        """Workers of a run that is over: they rest, but for those that are too many or can't be of use again."""
        with interrupts.undisturbed():
            with _market:
                self.lends = lend
                room = max(0, self.workers - len(self.resting)) if keep else 0
                kept = [worker for worker in workers if worker.is_usable()][:room]
                self.resting += kept
            dismiss([worker for worker in workers if worker not in kept])

    # jobs ------------------------------------------------------------------------------------------------------------

    def contract(self, job: Any, *, fresh: bool) -> Contract:
        """How a run's workers come by its job.

        Args:
            job: The job.
            fresh: Whether it is to be as it is now; otherwise workers that have an earlier copy go on with that.

        Raises:
            NotPicklableError: If it can't be sent, and this process can't safely be forked.
        """
        origin = self._origin()
        if origin == "zygote":
            prepare_zygote({*_modules(job)})
        if self.method != "fork":
            try:
                return Contract(self, origin, self._pack(job, origin != "fork", fresh), job)
            except NotPicklableError as error:
                if self.method != "auto" or origin != "fork":
                    raise explain(job, error) from error.__cause__
        if fresh or self._birthright is None:
            self._birthright = -2 - next(_keys)
        return Contract(self, "fork", None, job, self._birthright)

    def _origin(self) -> Origin:
        if self.method == "spawn":
            return "spawn"
        return "fork" if self.method == "fork" or is_single_threaded() else "zygote"

    def _pack(self, job: Any, by_value: bool, fresh: bool) -> _Parcels:
        if self._parcels and not fresh:
            return self._parcels
        # One kind of parcel that is up to date is enough to begin with, whichever workers rest here.
        kind = next(iter(self._parcels), by_value)
        if (known := self._find(kind, lambda parcel: parcel.glance is not None and parcel.glance.holds(job))) is None:
            # Before it is packed: what changes meanwhile must be seen the next time.
            glance = Glance.at(job, kind) if self._is_large else None
            packed = Packed(job, by_value=kind)
            self._is_large = len(packed.stream) > _LARGE
            known = self._find(kind, lambda parcel: parcel.holds(packed))
            if known is None:
                if kind != by_value:
                    glance, packed = None, Packed(job, by_value=by_value)
                known = next(_keys), time.monotonic(), Parcel(packed)
            if glance is not None and glance.holds(job):
                known[2].glance = glance
        if known not in self._parcels.values():
            self._parcels = {known[2].by_value: known}
        return self._parcels

    def _find(self, by_value: bool, is_it: Callable[[Parcel], bool]) -> _Known | None:
        """The own parcel of a job, or that of another crew, which resting workers may have open already."""
        for crew in [self, *(crew for crew in _crews if crew is not self)]:
            known = crew._parcels.get(by_value)
            # Of others not where it goes by names of __main__: these may have been defined anew.
            if known is not None and (crew is self or not known[2].names_main) and is_it(known[2]):
                return known
        return None


class Contract:
    """How a run's workers come by its job, for as long as the run lasts.

    Args:
        crew: Whose.
        origin: Where new workers come from.
        parcels: The packed job, by whether it goes by value, with its key and when it was made; None: it is inherited.
        job: The job.
        birthright: The key of workers that have inherited it.
    """

    def __init__(
        self, crew: Crew, origin: Origin, parcels: _Parcels | None, job: Any, birthright: int | None = None
    ) -> None:
        self.parcels = parcels
        self._birthright = birthright
        self.run = next(_runs)
        self._crew = crew
        self._origin = origin
        self._job = job

    @property
    def inherited(self) -> bool:
        """Whether workers are born with the job, so that they are of no use to anybody else."""
        return self.parcels is None

    def prepare(self) -> None:
        """Waits until workers can be started without delay. The wait can be interrupted."""
        if not self.inherited and (self._origin == "zygote" or not is_single_threaded()) and self._origin != "spawn":
            settle_zygote()

    def start(self) -> Worker:
        """A new worker.

        Raises:
            NotPicklableError: If this process must not be forked any more and the job can't be sent.
        """
        if self.inherited:
            if self._crew.method == "auto" and not is_single_threaded():
                try:
                    Packed(self._job, by_value=True)
                except NotPicklableError as error:
                    raise explain(self._job, error) from error.__cause__
            worker = Worker("fork", self._job)
            assert self._birthright is not None
            worker.key = self._birthright
            return worker
        origin = self._origin
        if origin == "fork" and not is_single_threaded():
            origin = "zygote"  # it has got threads since
        return Worker(origin)

    def fits(self, worker: Worker) -> bool:
        """Whether a worker that is already there can do the job."""
        if self.parcels is None:
            return worker.key == self._birthright
        if worker.key < -1:
            return False  # born for another job
        key, made, parcel = self._parcel_for(worker)
        # A name of __main__ may mean something else to a process that was forked before it was (re)defined.
        return worker.key == key or not parcel.names_main or worker.born > made

    def equip(self, worker: Worker) -> None:
        """Sends a worker the job, unless it has it."""
        if self.parcels is None:
            return
        key, _, parcel = self._parcel_for(worker)
        if worker.key != key:
            worker.channel.post(("parcel", key, parcel.label), [parcel.fd])
            worker.key = key

    def _parcel_for(self, worker: Worker) -> tuple[int, float, Parcel]:
        assert self.parcels is not None
        by_value = worker.origin != "fork"
        if by_value not in self.parcels:
            # From the parcel, not from the job: that may have changed since the run began.
            _, _, other = self.parcels[not by_value]
            job = open_parcel(other.fd, other.label)
            self.parcels[by_value] = (next(_keys), time.monotonic(), Parcel(Packed(job, by_value=by_value)))
        return self.parcels[by_value]

    def surroundings(self) -> tuple[list[str] | None, str | None]:
        """What workers that weren't born here must be told of this process: where modules and files are."""
        return import_path(), current_directory()


def _modules(job: Any) -> Iterator[str]:
    """Where the job and what it consists of come from."""
    for part in (job, *getattr(job, "__dict__", {}).values()):
        for thing in (part, type(part)):
            if isinstance(name := getattr(thing, "__module__", None), str):
                yield name


def dismiss(workers: Iterable[Worker]) -> None:
    """Ends workers, all at once: they may finish the piece that they are in, for a while."""
    with interrupts.undisturbed():
        workers = list(workers)
        for worker in workers:
            worker.dismiss()
        deadline = time.monotonic() + GRACE
        for worker in workers:
            worker.bury(max(0.0, deadline - time.monotonic()))


def _close_all() -> None:
    for crew in list(_crews):
        crew.close()
    close_zygote()


atexit.register(_close_all)
