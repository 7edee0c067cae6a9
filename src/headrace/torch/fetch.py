"""Fetching: from keys to a batch, with errors that name the sample."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat
from operator import getitem
from typing import Any

from torch.utils.data import Subset

from headrace.clock import Clock
from headrace.errors import add_note
from headrace.torch.collate import default_collate, is_pristine, quick_collate
from headrace.torch.columns import Take, columns_of

At = Callable[[int], None]
"""Is told which record of its piece a worker is at."""
Begin = Callable[[int], None]
"""Is told which part of its piece comes now."""


@dataclass(slots=True)
class Skipped:
    """A sample, or a batch, that was left out because of an error.

    Attributes:
        index: Its key in the dataset; of a whole batch, the list of them.
        error: What happened.
        epoch: The epoch.
        batch: The number of the batch in it.
    """

    index: Any
    error: str
    epoch: int = -1
    batch: int = -1


@dataclass(slots=True)
class Extra:
    """A batch with what comes along: what was left out of it, the state of its stream. Without a batch: all was."""

    batch: Any = None
    has_batch: bool = True
    skipped: list[Skipped] = field(default_factory=list)
    state: Any = None


PARTS = 8
"""A batch has at most so many parts, each with random numbers of its own, and then those of its collation."""
_SMALLEST = 4  # samples of a part: seeding takes as long as reading some small ones


def part_size(samples: int) -> int:
    """Samples in each part of a batch but the last; it depends on nothing else, so numbers don't either.

    Example:
        >>> part_size(256), part_size(20), part_size(3)
        (32, 4, 4)
    """
    return max(_SMALLEST, -(-samples // PARTS))


class MapFetcher:
    """Reads batches, or single samples, of a dataset that is read by keys.

    Args:
        dataset: The dataset.
        batched: Whether what comes is lists of keys.
        collate_fn: Makes a batch of samples.
        skip: Whether samples whose reading fails are left out.
    """

    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable[[Any], Any], *, skip: bool = False) -> None:
        self.dataset = dataset
        self.batched = batched
        default = collate_fn is default_collate and is_pristine()
        self.collate: Callable[[Any], Any] = quick_collate if default else collate_fn
        self.take: Take | None = columns_of(dataset) if default and batched else None
        self._bulk = batched and bool(getattr(dataset, "__getitems__", None))
        self.has_parts = batched and self.take is None and _reads_apart(dataset)
        self._skip = skip

    def __call__(self, keys: Any, begin: Begin | None = None) -> Any:
        """The batch of some keys, read by whoever asks; `begin` is called as each part but the first one begins."""
        return self.timed(keys, _NO_CLOCK, begin=begin)

    def timed(self, keys: Any, clock: Clock | _NoClock, at: At | None = None, begin: Begin | None = None) -> Any:
        """The batch of some keys, with a note of where the time goes and of which record is being read."""
        if self.take is not None:
            with clock.stage("read"):
                return self.take(keys)
        with clock.stage("fetch"):  # code of the user's
            data, left_out = self.samples(keys, at, begin)
        with clock.stage("collate"):
            return self.finish(keys, data, left_out, begin)

    def samples(self, keys: Any, at: At | None = None, begin: Begin | None = None) -> tuple[Any, list[Skipped]]:
        """The samples of some keys (of a single key, its sample in a list), and what was left out of them.

        Without `begin` they are read in one go: nobody asks for parts.
        """
        if not self.batched:
            return self._read([keys], at, [])
        if not self.has_parts or begin is None:
            return self._read(keys, at, [])
        keys = keys if type(keys) is list or type(keys) is tuple else list(keys)
        size = part_size(len(keys))
        if len(keys) <= size:
            return self._read(keys, at, [])
        data: list[Any] = []
        left_out: list[Skipped] = []
        for first in range(0, len(keys), size):
            if first:
                begin(first // size)
            data += self._read(keys[first : first + size], at, left_out)[0]
        return data, left_out

    def some(self, keys: Any, at: At | None = None) -> tuple[Any, list[Skipped]]:
        """As `samples`, of one part of a batch."""
        return self._read(keys, at, [])

    def finish(self, keys: Any, data: Any, left_out: list[Skipped], begin: Begin | None = None) -> Any:
        """The batch of samples that have been read."""
        if begin is not None and self.has_parts and len(keys) > part_size(len(keys)):
            begin(PARTS)
        if not self._skip:
            return self.collate(data if self.batched else data[0])
        if not len(data):
            return Extra(has_batch=False, skipped=left_out)
        try:
            batch = self.collate(data if self.batched else data[0])
        except Exception as error:
            which = list(keys) if self.batched else keys
            return Extra(has_batch=False, skipped=[*left_out, _skipped(which, error)])
        return Extra(batch, skipped=left_out) if left_out else batch

    def _read(self, keys: Any, at: At | None, left_out: list[Skipped]) -> tuple[Any, list[Skipped]]:
        if self._skip:
            return self._read_what_can_be(keys, left_out), left_out
        return (self._read_bulk(keys) if self._bulk else self._read_each(keys, at)), left_out

    def _read_each(self, keys: Any, at: At | None) -> list[Any]:
        keys = keys if type(keys) is list or type(keys) is tuple else list(keys)
        data: list[Any] = []
        try:
            if at is None:
                data.extend(map(getitem, repeat(self.dataset), keys))
            else:
                for key in keys:
                    at(key if type(key) is int else len(data))
                    data.append(self.dataset[key])
        except StopIteration as error:
            raise _stopped(keys[len(data)]) from error
        except Exception as error:
            if len(data) < len(keys):
                name(error, keys[len(data)])
            raise
        if len(data) < len(keys):  # `extend` took the sample's StopIteration for the end of the samples
            raise _stopped(keys[len(data)])
        return data

    def _read_one(self, key: Any) -> Any:
        try:
            return self.dataset[key]
        except StopIteration as error:
            raise _stopped(key) from error
        except Exception as error:
            name(error, key)
            raise

    def _read_bulk(self, keys: Any) -> Any:
        try:
            return self.dataset.__getitems__(keys)
        except StopIteration as error:
            raise _stopped(keys) from error

    def _read_what_can_be(self, keys: Any, left_out: list[Skipped]) -> Any:
        if self._bulk:
            with contextlib.suppress(Exception):  # one of them, or more: they are read one by one
                return self._read_bulk(keys)
        data: list[Any] = []
        for key in keys:
            try:
                data.append(self._read_one(key))
            except Exception as error:
                left_out.append(_skipped(key, error))
        return data


def _reads_apart(dataset: Any) -> bool:
    """Whether it is all the same to a dataset if a batch is read at once or in parts."""
    if type(dataset) is Subset:  # it hands lists on to a dataset that takes them
        return _reads_apart(dataset.dataset)
    return getattr(dataset, "__getitems__", None) is None


class _NoClock:
    def stage(self, name: str) -> contextlib.AbstractContextManager[None]:
        return _NOTHING


_NO_CLOCK = _NoClock()
_NOTHING = contextlib.nullcontext()


def name(error: Exception, key: Any) -> None:
    """Says which sample an error is about."""
    add_note(error, f"headrace: in reading the sample of index {key!r:.100}")


def _skipped(key: Any, error: Exception) -> Skipped:
    return Skipped(key, f"{type(error).__name__}: {error}"[:500])


def _stopped(key: Any) -> RuntimeError:
    return RuntimeError(
        f"the dataset raised StopIteration for index {key!r:.100}, which would have ended the epoch without a word; "
        "raise IndexError for an index out of range, or make the dataset an IterableDataset"
    )


def size_of(batch: Any) -> tuple[int, int]:
    """Bytes of a batch's tensors and arrays, and the records that it seems to have."""
    nbytes = getattr(batch, "nbytes", None)
    if nbytes is not None:
        shape: Any = getattr(batch, "shape", ())
        return nbytes, shape[0] if len(shape) else 1
    if isinstance(batch, dict):
        parts = [size_of(part) for part in batch.values()]
    elif isinstance(batch, (list, tuple)):
        if not batch or (not isinstance(batch[0], (list, tuple, dict)) and getattr(batch[0], "nbytes", None) is None):
            return 0, len(batch)
        parts = [size_of(part) for part in batch[:64]]
    else:
        return 0, 1
    return sum(part[0] for part in parts), parts[0][1] if parts else 0
