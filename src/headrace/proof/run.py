"""Goes through a run with a chain of events, and compares all that comes with the plan."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from headrace.batch.convert import deliver
from headrace.batch.tree import Tree
from headrace.checks import one_of, whole_of, wholes_of
from headrace.dataset import Batches, Dataset
from headrace.engine import Mode
from headrace.errors import PlanError, StateError, VerificationError, add_note
from headrace.loader import Loader
from headrace.plan import Rows
from headrace.proof.chain import Stop, random_chain
from headrace.proof.compare import difference
from headrace.proof.foreign import argument_names, foreign_maker, verify_foreign
from headrace.proof.reference import Reference
from headrace.proof.report import Verified

Make = Callable[[int, int, int], Loader]
_ENDED: Any = object()
_BATCH = 16  # records a batch of a dataset that was given without batches


def verify(
    data: Batches | Dataset | Loader | Callable[..., Any],
    *,
    events: int | Sequence[Stop] = 50,
    seed: int = 0,
    workers: Sequence[int] = (0, 2),
    ranks: Sequence[int] = (1, 2, 3),
    mode: Literal["threads", "processes"] | None = None,
    max_batches: int = 1000,
) -> Verified:
    """Proves that every record comes exactly once and in its place, whatever happens to the run.

    The run goes through a chain of events: it is stopped, restored from JSON into new loaders with other numbers of
    workers and ranks, broken out of, and taken back to positions saved before. Every record of every rank is compared,
    bit for bit, with what the plan says, which is walked through apart, in one piece. All ranks must save the same
    position, and the same place must give the same position whatever way led there. At the end the epoch is read to
    its end, and in epochs that were read completely the records are counted against the order.

    Args:
        data: What to verify: batches, a dataset (in batches of 16), a loader (for its description and its settings), or
            a function: without arguments it gives one of these; with `workers`, `rank` and `world_size` a loader. A
            function of `num_workers` gives any loader with `state_dict` and `load_state_dict`, `headrace.torch`'s say:
            that has no plan, so one epoch is compared with itself undisturbed, on one rank.
        events: How many events of a random chain, or the chain.
        seed: Of the random chain.
        workers: Numbers of workers that the random chain takes.
        ranks: Numbers of ranks that it takes.
        mode: What workers are. Processes are killed, too, in the middle of their work. None keeps those of a loader
            that is given, and otherwise takes threads.
        max_batches: Batches that are read at most to get to the epoch's end when the chain is through.

    Returns:
        What was proven.

    Raises:
        VerificationError: With the first difference: epoch, batch, rank, record, what was expected and what came.
        PlanError: If an argument is out of range or nothing that can be verified was given.

    Example:
        >>> import headrace as hr
        >>> proven = hr.verify(hr.from_dataset(range(100)).shuffle(seed=1).batch(8), events=20)
        >>> proven.events, proven.epochs >= 1
        (20, True)
    """
    workers = wholes_of("verify", "workers", workers, 0, some=True)
    ranks = wholes_of("verify", "ranks", ranks, 1, some=True)
    max_batches = whole_of("verify", "max_batches", max_batches, 1)
    if mode is not None:
        one_of("verify", "mode", mode, ("threads", "processes"))
    foreign = foreign_maker(data)
    make = _maker(data, mode) if foreign is None else None
    given: int | None = None
    if isinstance(events, Sequence):
        chain = list(events)
        for stop in chain:
            if not isinstance(stop, Stop):
                raise PlanError(f"verify: a chain is a list of hr.Stop, got {type(stop).__name__} {stop!r:.60} in it")
    else:
        given = whole_of("verify", "seed", seed, None)
        count = whole_of("verify", "events", events, 0, otherwise=" or a list of hr.Stop")
        chain = random_chain(count, given, workers, ranks, mode == "processes")
    if make is None:
        assert foreign is not None
        return verify_foreign(foreign, chain, given, max_batches)
    run = _Run(make, given)
    try:
        run.go(chain, max_batches)
        return run.report(len(chain))
    finally:
        run.close()


def _maker(data: Any, mode: Mode | None) -> Make:
    if isinstance(data, Dataset):
        data = data.batch(_BATCH)
    if isinstance(data, Batches):
        data = Loader(data)
    if isinstance(data, Loader):
        return lambda workers, rank, world_size: data._like(
            workers=workers, rank=rank, world_size=world_size, mode=mode
        )
    if callable(data):
        if {"workers", "rank", "world_size"} <= argument_names(data):
            return lambda workers, rank, world_size: _loader(
                data(workers=workers, rank=rank, world_size=world_size), data
            )
        return _maker(_result(data), mode)
    raise PlanError(
        f"verify takes batches, a dataset, a loader or a function that gives one of them, got {type(data).__name__}"
        + ("; of other loaders, a function of num_workers that makes one" if hasattr(data, "state_dict") else "")
    )


def _result(function: Callable[[], Any]) -> Any:
    result = function()
    if callable(result) and not isinstance(result, (Loader, Dataset, Batches)):
        raise PlanError(f"verify: {function!r:.60} returned another function, expected a dataset, batches or a loader")
    return result


def _loader(made: Any, function: Any) -> Loader:
    if not isinstance(made, Loader):
        raise PlanError(f"verify: {function!r:.60} gave {type(made).__name__}, expected a Loader for its arguments")
    return made


class _Run:
    """Loaders of all ranks, and where they should be."""

    def __init__(self, make: Make, seed: int | None) -> None:
        self._make = make
        self._seed = seed
        self._loaders = [make(0, 0, 1)]
        self._workers = 0
        first = self._loaders[0]
        self._reference = Reference(first._data)
        self._split = first._split
        self._uneven = first._uneven
        self._deliver = deliver(first._to)
        self._streams = self._reference.streams()
        self._iterators: list[Iterator[Tree]] | None = None
        self._epoch = first.epoch
        self._index = first.state_dict()["batch"]
        self._saved: list[tuple[int, int, str]] = []
        self._at: dict[tuple[int, int], str] = {}
        self._covered: dict[tuple[int, int], int] = {}
        self._complete: list[int] = []
        self._counted = 0
        self._repeated = 0
        self._done: Counter[str] = Counter()
        self._events = 0
        self._used_workers, self._used_ranks = {0}, {1}
        self._last = "nothing yet"

    # what happens ----------------------------------------------------------------------------------------------------

    def go(self, chain: Sequence[Stop], max_batches: int) -> None:
        self._save()
        for stop in chain:
            self._steps(stop.after)
            self._happen(stop)
            self._events += 1
            self._done[stop.how] += stop.how != "kill"
        epoch, left = self._epoch, max_batches
        while self._epoch == epoch and left > 0:
            left -= max(1, self._in_epoch(min(left, 64)))
        self._save()

    def _happen(self, stop: Stop) -> None:
        if stop.how == "kill":
            self._kill()
            return
        state = self._save()
        self._last = f"{stop.how} at batch {self._index} of epoch {self._epoch}"
        if stop.how == "restore":
            self.close()
            self._loaders = [self._make(stop.workers, rank, stop.world_size) for rank in range(stop.world_size)]
            self._workers = stop.workers
            self._used_workers.add(stop.workers)
            self._used_ranks.add(stop.world_size)
            self._last += f", into {stop.world_size} ranks with {stop.workers} workers"
        elif stop.how == "rewind":
            self._epoch, self._index, state = self._saved[max(0, len(self._saved) - 1 - stop.back)]
            self._last += f", to batch {self._index} of epoch {self._epoch}"
        self._iterators = None
        if stop.how != "break":
            for rank, loader in enumerate(self._loaders):
                try:
                    loader.load_state_dict(json.loads(state))
                except StateError as error:
                    self._fail(rank, None, f"a position that can be restored, {state}", str(error))

    def _kill(self) -> None:
        """Ends a worker process as the system would, where there is one; its run goes on and mustn't notice."""
        count = len(self._loaders)
        turns = (self._loaders[(self._events + i) % count] for i in range(count))
        if any(loader._workers.kill(self._events) for loader in turns):
            self._done["kill"] += 1
            self._last = f"kill at batch {self._index} of epoch {self._epoch}"

    def _save(self) -> str:
        """The position, which must be the same on all ranks and in whatever way the run came here."""
        if self._loaders[0].epoch > self._epoch:  # the last batch was the epoch's last, and the loader knows
            if self._reference.batch(self._epoch, self._index) is not None:
                self._fail(0, None, "more batches", f"position at epoch {self._loaders[0].epoch}")
            self._next_epoch()
        states = [json.dumps(loader.state_dict()) for loader in self._loaders]
        for rank, state in enumerate(states):
            if state != states[0]:
                self._fail(rank, None, f"the position of rank 0, {states[0]}", f"the position {state}")
        place = (self._epoch, self._index)
        before = self._at.setdefault(place, states[0])
        # Of a stream nobody knows that a batch was the last before it is asked for the next, so there are two there.
        if before != states[0] and not self._streams:
            self._fail(0, None, f"the position that was saved here before, {before}", states[0])
        self._saved.append((*place, states[0]))
        return states[0]

    # reading ---------------------------------------------------------------------------------------------------------

    def _steps(self, count: int) -> None:
        empty = 0
        while count and empty < 2:
            epoch = self._epoch
            done = self._in_epoch(count)
            count -= done
            empty = 0 if done or self._epoch == epoch else empty + 1

    def _in_epoch(self, count: int) -> int:
        """At most so many steps, to the end of the epoch at most; gives how many were made."""
        if self._iterators is None:
            if self._loaders[0].epoch > self._epoch:
                self._save()
            self._iterators = [iter(loader) for loader in self._loaders]
        for step in range(count):
            size = len(self._loaders)
            dealt = self._split == "batches" and size > 1
            group = [self._reference.batch(self._epoch, self._index + (r if dealt else 0)) for r in range(size)]
            if group[0] is None or (self._uneven == "drop" and dealt and group[-1] is None):
                self._end(complete=group[0] is None)
                return step
            for rank, batch in enumerate(group):
                if batch is None:
                    continue
                own = self._index + (rank if dealt else 0)
                self._compare(rank, own, *((0, 1) if dealt else (rank, size)))
            present = [batch for batch in group if batch is not None]
            for number, batch in enumerate(present if dealt else present[:1]):
                place = (self._epoch, self._index + number)
                self._repeated += place in self._covered
                self._covered[place] = len(batch.rows)
            self._index += len(present) if dealt else 1
            if len(present) < size:
                self._end(complete=True)
                return step + 1
        return count

    def _next(self, rank: int) -> Any:
        assert self._iterators is not None
        try:
            return next(self._iterators[rank], _ENDED)
        except Exception as error:
            add_note(error, f"headrace: in verify, after {self._where()}")
            raise

    def _compare(self, rank: int, index: int, part: int, parts: int) -> None:
        rows, expected = self._reference.share(self._epoch, index, part, parts)
        got = self._next(rank)
        if got is _ENDED:
            self._fail(
                rank, self._name(rows, 0), f"batch {index} of {len(rows)} records", "the end of the epoch", index
            )
        found = difference(self._deliver(expected), got)
        if found is None:
            return
        name = None if found.row is None else self._name(rows, found.row)
        column = f" in column {found.column!r}" if found.column else ""
        row = "" if found.row is None else f"row {found.row}{column}: "
        self._fail(rank, name, row + found.expected, found.got, index)

    def _name(self, rows: Rows, row: int) -> str | None:
        return self._reference.where(self._epoch, rows, row) if row < len(rows) else None

    def _end(self, complete: bool) -> None:
        for rank in range(len(self._loaders)):
            got = self._next(rank)
            if got is not _ENDED:
                self._fail(rank, None, "the end of the epoch", f"another batch, {' '.join(repr(got).split()):.80}")
        for rank, loader in enumerate(self._loaders):
            if loader.epoch != self._epoch + 1:
                self._fail(rank, None, f"the position at epoch {self._epoch + 1}", f"epoch {loader.epoch}")
        if complete:
            self._count()
        self._epoch, self._index, self._iterators = self._epoch + 1, 0, None

    def _next_epoch(self) -> None:
        self._count()
        self._epoch, self._index, self._iterators = self._epoch + 1, 0, None

    def _count(self) -> None:
        """An epoch is through; if all of it was seen, its records are counted."""
        epoch = self._epoch
        if epoch in self._complete or any((epoch, i) not in self._covered for i in range(self._index)):
            return
        self._complete.append(epoch)
        lost = self._reference.lost(epoch)
        if lost is not None:
            self._fail(0, None, "every record of the order as often as it comes there", lost)
        self._counted += self._reference.counted(epoch)

    # reporting -------------------------------------------------------------------------------------------------------

    def _where(self) -> str:
        seed = "a given chain" if self._seed is None else f"seed {self._seed}"
        return f"{self._events} events ({seed}; the last: {self._last})"

    def _fail(self, rank: int, record: str | None, expected: str, got: str, index: int | None = None) -> None:
        index = self._index if index is None else index
        of = "" if record is None else f" ({record})"
        raise VerificationError(
            f"the run differs from the plan in batch {index} of epoch {self._epoch}{of}, rank {rank} of "
            f"{len(self._loaders)} with {self._workers} workers, after {self._where()}: expected {expected}, got {got}",
            epoch=self._epoch,
            batch=index,
            rank=rank,
            record=record,
            event=self._events,
            expected=expected,
            got=got,
        )

    def report(self, events: int) -> Verified:
        return Verified(
            events=events,
            restores=self._done["restore"],
            breaks=self._done["break"],
            rewinds=self._done["rewind"],
            kills=self._done["kill"],
            batches=len(self._covered),
            records=sum(self._covered.values()),
            repeated=self._repeated,
            epochs=len(self._complete),
            counted=self._counted,
            positions=len(self._saved),
            largest_state=max(len(state) for _, _, state in self._saved),
            workers=tuple(sorted(self._used_workers)),
            ranks=tuple(sorted(self._used_ranks)),
            split=self._split,
            seed=self._seed,
            description=repr(self._loaders[0]._data),
        )

    def close(self) -> None:
        self._iterators = None
        for loader in self._loaders:
            loader.close()
