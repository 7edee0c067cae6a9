"""The order of an epoch: which keys are in batch k, and what that was drawn from."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import data as torch_data

from headrace.errors import StateError
from headrace.torch.drawn import Surroundings, keep_torch, torch_state
from headrace.torch.samplers import RandomSampler, draw_seed, random_order

Piece = tuple[int, Any]
"""What makes the piece's random numbers its own, and its keys."""

_KNOWN: tuple[type, ...] = (
    torch_data.SequentialSampler,
    torch_data.RandomSampler,
    RandomSampler,
    torch_data.SubsetRandomSampler,
    torch_data.WeightedRandomSampler,
)


@dataclass(frozen=True, slots=True)
class Ranks:
    """The place of this process among those that train together, and what becomes of an uneven end."""

    rank: int = 0
    count: int = 1
    uneven: str = "pad"


@dataclass(slots=True)
class Batching:
    """How keys become batches: `size` None gives single keys."""

    size: int | None
    drop_last: bool
    ranks: Ranks

    @property
    def step(self) -> int:
        """Keys that all ranks take together at a time."""
        return (self.size or 1) * self.ranks.count

    def share(self, keys: Any, total: Any) -> Any:
        """This rank's part of one step's keys; None: it has none. `total` gives keys to fill up with."""
        ranks = self.ranks
        if len(keys) < self.step:
            if self.drop_last:
                return None
            rest = len(keys) % ranks.count
            if rest and ranks.uneven == "drop":
                keys = keys[: len(keys) - rest]
            elif rest and ranks.uneven == "pad":
                keys = _join(keys, total(ranks.count - rest))
        mine = keys if ranks.count == 1 else keys[ranks.rank :: ranks.count]
        return mine if len(mine) else None


def _join(keys: Any, more: Any) -> Any:
    if isinstance(keys, torch.Tensor):
        return torch.cat([keys, more])
    return [*keys, *more]


class Order:
    """The keys of one epoch's batches.

    Args:
        kept: What `keep` gave of this epoch, to have the same order again; None: it is drawn now.
    """

    def __init__(self, kept: dict[str, Any] | None) -> None:
        self._kept = kept

    @property
    def unit(self) -> int:
        """Units that one batch of this rank stands for, all ranks' taken together."""
        raise NotImplementedError

    def pieces(self, skip: int, *, rows: bool = False) -> Iterator[Piece]:
        """This rank's pieces.

        Args:
            skip: Units to leave out from the beginning: keys of all ranks, or batches of a batch sampler.
            rows: Whether keys may come as slices and tensors.
        """
        raise NotImplementedError

    def keep(self) -> dict[str, Any]:
        """What the order was drawn from."""
        raise NotImplementedError


class IndexOrder(Order):
    """The order of one of torch's own samplers: batch k is found without the batches before it."""

    def __init__(self, sampler: Any, batching: Batching, kept: dict[str, Any] | None, seed: int | None = None) -> None:
        super().__init__(kept)
        self._sampler = sampler
        self._batching = batching
        self._seed = seed
        generator = getattr(sampler, "generator", None)
        self._generator: torch.Generator | None = generator
        if generator is not None and kept is not None and "generator" in kept:
            generator.set_state(torch_state(kept["generator"]))
        self._origin = None if generator is None else (generator.get_state(), generator.initial_seed())
        if kept is not None:
            self._check(kept)
        self._note: dict[str, Any] = {}

    @property
    def unit(self) -> int:
        """What one batch counts."""
        return self._batching.step

    def keep(self) -> dict[str, Any]:
        """What the order was drawn from."""
        if self._origin is not None:
            return {"generator": keep_torch(*self._origin)}
        return dict(self._note)

    def _check(self, kept: dict[str, Any]) -> None:
        """That the order of then can be had again."""
        if type(self._sampler) is torch_data.SequentialSampler:
            return
        drawn = isinstance(self._sampler, torch_data.RandomSampler)
        name = "generator" if self._generator is not None else "seed" if drawn else "torch"
        if name not in kept:
            raise StateError(
                f"the loader's state is damaged, or was saved with another generator: its order was drawn from "
                f"{sorted(kept) or 'nothing'}, expected {name!r}; go on with a generator if there was one then"
            )
        if name == "seed" and (type(kept["seed"]) is not int or not 0 <= kept["seed"] < 1 << 64):
            raise StateError(f"the loader's state is damaged: the seed of its order is {kept['seed']!r:.60}")

    def _indices(self) -> Any:
        sampler, kept = self._sampler, self._kept or {}
        if type(sampler) is torch_data.SequentialSampler:
            return range(len(sampler.data_source))
        if isinstance(sampler, torch_data.RandomSampler):
            generator = self._generator
            if generator is None:
                seed = kept.get("seed", self._seed)
                self._note["seed"] = draw_seed() if seed is None else seed
                generator = torch.Generator().manual_seed(self._note["seed"])
            return random_order(sampler, generator)
        if self._generator is not None:
            return _listed(sampler)
        present = torch.default_generator.get_state()
        if "torch" in kept:
            torch.default_generator.set_state(torch_state(kept["torch"]))
        try:
            state = torch.default_generator.get_state(), torch.default_generator.initial_seed()
            self._note["torch"] = keep_torch(*state)
            return _listed(sampler)
        finally:
            if "torch" in kept:
                torch.default_generator.set_state(present)

    def pieces(self, skip: int, *, rows: bool = False) -> Iterator[Piece]:
        """This rank's pieces."""
        batching, whole = self._batching, self._indices()
        length, step = len(whole), batching.step
        first, size, alone = batching.ranks.rank, batching.size, batching.ranks.count == 1
        for begin in range(skip, length, step):
            keys = whole[begin : begin + step]
            if not alone or len(keys) < step:
                keys = batching.share(keys, lambda count: _first(whole, count))
                if keys is None:
                    return
            yield begin + first, _finish(keys, size, rows)


def _listed(sampler: Any) -> Any:
    keys = list(sampler)
    # Other keys than Python's integers reach the dataset as they are.
    return torch.as_tensor(keys, dtype=torch.int64) if all(type(key) is int for key in keys) else keys


def _first(whole: Any, count: int) -> Any:
    if isinstance(whole, torch.Tensor):
        return whole.repeat(-(-count // len(whole)))[:count]
    return list(itertools.islice(itertools.cycle(whole), count))


def _finish(keys: Any, size: int | None, rows: bool) -> Any:
    if size is None:
        key = keys[0]
        return key.item() if isinstance(key, torch.Tensor) else key
    if isinstance(keys, range):
        if rows and keys.step == 1:
            return slice(keys.start, keys.stop)
        return list(keys)
    if isinstance(keys, torch.Tensor):
        return keys if rows else keys.tolist()
    return keys


class SamplerOrder(Order):
    """The order of a sampler, or batch sampler, of any make: iterated on to the place where one goes on."""

    def __init__(self, sampler: Any, batching: Batching | None, kept: dict[str, Any] | None) -> None:
        super().__init__(kept)
        self._batching = batching
        self._sampler: Any = sampler
        self._hooks = hasattr(sampler, "state_dict") and hasattr(sampler, "load_state_dict")
        kept = kept or {}
        _check_kept(kept)
        if "epoch" in kept and hasattr(sampler, "set_epoch"):
            sampler.set_epoch(kept["epoch"])
        if self._hooks and "own" in kept:
            self._sampler.load_state_dict(kept["own"])
        self._own = self._sampler.state_dict() if self._hooks else None
        self._epoch = _epoch_of(sampler)
        self._generators = list(_generators_of(sampler))
        for generator, state in zip(self._generators, kept.get("generators", ()), strict=False):
            generator.set_state(torch_state(state))
        self._origins = [(g.get_state(), g.initial_seed()) for g in self._generators]
        fresh = self._kept is None
        self._begin = Surroundings(None if fresh else kept.get("begin", {}))
        self._first = Surroundings(None if fresh else kept.get("first", {}))
        with self._begin.watch():
            self._iterator = iter(sampler)

    @property
    def unit(self) -> int:
        """What one batch counts."""
        return 1 if self._batching is None else self._batching.step

    def keep(self) -> dict[str, Any]:
        """What the order was drawn from."""
        kept: dict[str, Any] = {}
        if self._kept is not None:
            return dict(self._kept)
        if self._epoch is not None:
            kept["epoch"] = self._epoch
        if self._own is not None:
            kept["own"] = self._own
        if self._generators:
            kept["generators"] = [keep_torch(*origin) for origin in self._origins]
        for name, around in (("begin", self._begin.kept()), ("first", self._first.kept())):
            if around:
                kept[name] = around
        return kept

    def _units(self) -> Iterator[Any]:
        with self._first.watch():
            first = next(self._iterator, self)
        if first is not self:
            yield first
            yield from self._iterator

    def pieces(self, skip: int, *, rows: bool = False) -> Iterator[Piece]:
        """This rank's pieces."""
        units = self._units()
        if self._batching is None:
            for number, keys in enumerate(units):
                if number >= skip:
                    yield number, keys
            return
        begin = 0
        for _ in itertools.islice(units, skip):
            begin += 1
        if begin < skip:
            return
        head: list[Any] = []
        while keys := list(itertools.islice(units, self._batching.step)):
            head = head or keys
            filler = head
            mine = self._batching.share(keys, lambda count, filler=filler: _first(filler, count))
            if mine is None:
                return
            yield begin + self._batching.ranks.rank, mine if self._batching.size is not None else mine[0]
            begin += self._batching.step


class BatchShare(SamplerOrder):
    """Whole batches of a batch sampler, dealt out to ranks in turn."""

    def __init__(self, sampler: Iterable[Any], ranks: Ranks, kept: dict[str, Any] | None) -> None:
        super().__init__(sampler, None, kept)
        self._ranks = ranks

    @property
    def unit(self) -> int:
        """What one batch counts."""
        return self._ranks.count

    def pieces(self, skip: int, *, rows: bool = False) -> Iterator[Piece]:
        """This rank's pieces."""
        ranks = self._ranks
        units = super().pieces(skip)
        while group := list(itertools.islice(units, ranks.count)):
            if len(group) < ranks.count and ranks.uneven != "short":
                if ranks.uneven == "drop":
                    return
                group = _first(group, ranks.count)
            if ranks.rank >= len(group):
                return
            yield group[ranks.rank]


def _check_kept(kept: dict[str, Any]) -> None:
    """That what was kept of a sampler of any make has the types that it needs."""
    kinds = {"epoch": int, "generators": (list, tuple), "begin": dict, "first": dict}
    for name, kind in kinds.items():
        if name in kept and not isinstance(kept[name], kind):  # type: ignore[arg-type]
            raise StateError(f"the loader's state is damaged: {name} of its order is {kept[name]!r:.60}")


def _epoch_of(sampler: Any) -> int | None:
    epoch = getattr(sampler, "epoch", None)
    return epoch if hasattr(sampler, "set_epoch") and type(epoch) is int else None


def _generators_of(sampler: Any) -> Iterator[torch.Generator]:
    for _ in range(3):  # a batch sampler's sampler, and what that may wrap
        generator = getattr(sampler, "generator", None)
        if isinstance(generator, torch.Generator):
            yield generator
        sampler = getattr(sampler, "sampler", None)


def keys_of(index_sampler: Any, batched: bool) -> int | None:
    """Keys of an epoch, where a sampler says so that is known to tell the truth; None: nobody knows.

    Args:
        index_sampler: The loader's batch sampler, or its sampler where there is no batching.
        batched: Which of the two it is.
    """
    if batched and type(index_sampler) is not torch_data.BatchSampler:
        return None
    inner = index_sampler.sampler if batched else index_sampler
    return len(inner) if type(inner) in _KNOWN else None


def order_of(index_sampler: Any, batched: bool, ranks: Ranks, kept: dict[str, Any] | None, seed: int | None) -> Order:
    """The order of a loader's epoch.

    Args:
        index_sampler: The loader's batch sampler, or its sampler where there is no batching.
        batched: Which of the two it is.
        ranks: Who takes which part.
        kept: What was kept of the epoch, if it is to be had again.
        seed: For shuffling, where it mustn't be drawn from the process's own generator.

    Raises:
        StateError: If what was kept is damaged.
    """
    inner, batching = index_sampler, Batching(None, False, ranks)
    if batched:
        if type(index_sampler) is not torch_data.BatchSampler:
            return (
                BatchShare(index_sampler, ranks, kept) if ranks.count > 1 else SamplerOrder(index_sampler, None, kept)
            )
        inner, batching = index_sampler.sampler, Batching(index_sampler.batch_size, index_sampler.drop_last, ranks)
    if type(inner) in _KNOWN:
        return IndexOrder(inner, batching, kept, seed)
    return SamplerOrder(inner, batching, kept)
