"""Loaders that have no plan to be compared with: one epoch, disturbed, against itself undisturbed."""

from __future__ import annotations

import copy
import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from headrace.errors import PlanError, VerificationError, add_note
from headrace.proof.chain import Stop
from headrace.proof.compare import difference
from headrace.proof.report import Verified

MakeForeign = Callable[[int], Any]
_ENDED: Any = object()


def argument_names(function: Callable[..., Any]) -> set[str]:
    """The names of a function's arguments; none of one that doesn't say them."""
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def foreign_maker(data: Any) -> MakeForeign | None:
    """The function that makes a loader with so many workers, if that is what was given."""
    if not callable(data):
        return None
    names = argument_names(data)
    name = next((name for name in ("num_workers", "workers") if name in names), None)
    if name is None or {"rank", "world_size"} <= names:
        return None
    return lambda workers: data(**{name: workers})


def verify_foreign(make: MakeForeign, chain: Sequence[Stop], seed: int | None, max_batches: int) -> Verified:
    """Goes through one epoch with a chain of events, and compares it with the same epoch read in one go."""
    for stop in chain:
        if stop.how == "kill":
            raise PlanError("verify: only of headrace's own Loader are workers killed; leave 'kill' out")
    run = _ForeignRun(make, seed, max_batches)
    run.go(chain)
    return run.report(len(chain))


class _ForeignRun:
    def __init__(self, make: MakeForeign, seed: int | None, max_batches: int) -> None:
        self._make = make
        self._seed = seed
        first = make(0)
        for name in ("state_dict", "load_state_dict", "__iter__"):
            if not hasattr(first, name):
                raise PlanError(f"verify takes loaders with state_dict and load_state_dict, got {type(first).__name__}")
        self._description = f"{type(first).__module__.partition('.')[0]} {type(first).__name__}"
        self._whole: list[Any] = []
        self._states: list[Any] = []
        # The order of an epoch may be drawn when it begins, so it is compared from its first saved position on.
        for batch in first:
            self._whole.append(copy.deepcopy(batch))
            self._states.append(_saved(first.state_dict()))
            if len(self._whole) == max_batches:
                break
        self._is_whole = len(self._whole) < max_batches
        self._done: Counter[str] = Counter()
        self._covered: set[int] = set()
        self._read = 0
        self._workers = {0}
        self._events = 0
        self._at = 0
        self._loader: Any = first
        self._batches: Iterator[Any] = iter(())

    def go(self, chain: Sequence[Stop]) -> None:
        if not self._whole:
            return
        self._load(0, 1)
        for stop in chain:
            for _ in range(stop.after):
                self._step()
            self._happen(stop)
            self._events += 1
            self._done[stop.how] += 1
        while self._at < len(self._whole):
            self._step()
        self._step()

    def _happen(self, stop: Stop) -> None:
        if stop.how == "rewind" or self._at >= len(self._whole):
            self._load(stop.workers, max(1, self._at - stop.back))
        elif stop.how == "restore":
            self._load(stop.workers, self._at, _saved(self._loader.state_dict()))
        else:
            self._loader.load_state_dict(_saved(self._loader.state_dict()))
            self._batches = iter(self._loader)

    def _load(self, workers: int, at: int, state: Any = None) -> None:
        self._workers.add(workers)
        self._batches = iter(())  # the old loader's workers may go
        self._loader = self._make(workers)
        self._loader.load_state_dict(copy.deepcopy(self._states[at - 1]) if state is None else state)
        self._batches, self._at = iter(self._loader), at

    def _step(self) -> None:
        try:
            got = next(self._batches, _ENDED)
        except Exception as error:
            add_note(error, f"headrace: in verify, after {self._events} events, at batch {self._at}")
            raise
        if self._at == len(self._whole):
            if self._is_whole and got is not _ENDED:
                self._fail("the end of the epoch", f"another batch, {' '.join(repr(got).split()):.80}")
            self._load(0, max(1, self._at // 2))
            return
        if got is _ENDED:
            self._fail("a batch", "the end of the epoch")
        found = difference(self._whole[self._at], got)
        if found is not None:
            self._fail(found.expected, found.got)
        self._covered.add(self._at)
        self._at += 1
        self._read += 1

    def _fail(self, expected: str, got: str) -> NoReturn:
        seed = "a given chain" if self._seed is None else f"seed {self._seed}"
        raise VerificationError(
            f"the run differs from an undisturbed one in batch {self._at}, after {self._events} events ({seed}): "
            f"expected {expected}, got {got}",
            epoch=0,
            batch=self._at,
            rank=0,
            record=None,
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
            kills=0,
            batches=len(self._covered),
            records=sum(_rows(self._whole[i]) for i in self._covered),
            repeated=self._read - len(self._covered),
            epochs=int(self._is_whole and bool(self._whole)),
            counted=0,
            positions=len(self._states),
            largest_state=max((len(repr(state)) for state in self._states), default=0),
            workers=tuple(sorted(self._workers)),
            ranks=(1,),
            split="none",
            seed=self._seed,
            description=self._description,
            against="an undisturbed run",
        )


def _saved(state: Any) -> Any:
    """A state as it comes back from a file."""
    try:
        return json.loads(json.dumps(state))
    except (TypeError, ValueError):
        return copy.deepcopy(state)


def _rows(batch: Any) -> int:
    while isinstance(batch, (dict, list, tuple)) and len(batch):
        batch = next(iter(batch.values() if isinstance(batch, dict) else batch))
    try:
        return len(batch)
    except TypeError:
        return 1
