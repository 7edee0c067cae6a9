"""Fetching: from keys to a batch, with errors that name the sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import repeat
from operator import getitem
from typing import Any

from headrace.clock import Clock
from headrace.errors import add_note
from headrace.torch.collate import default_collate, is_pristine, quick_collate
from headrace.torch.columns import Take, columns_of

At = Callable[[int], None]
"""Is told which record of its piece a worker is at."""


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
        self._skip = skip

    def __call__(self, keys: Any) -> Any:
        """The batch of some keys, read by whoever asks."""
        if self.take is not None:
            return self.take(keys)
        if self._skip:
            return self.skipping(keys)
        return self.collate(self.read(keys))

    def timed(self, keys: Any, clock: Clock, at: At | None = None) -> Any:
        """The batch of some keys, with a note of where the time goes and of which record is being read."""
        if self.take is not None:
            with clock.stage("read"):
                return self.take(keys)
        if self._skip:
            with clock.stage("fetch"):
                return self.skipping(keys)
        with clock.stage("fetch"):  # code of the user's
            data = self.read(keys, at)
        with clock.stage("collate"):
            return self.collate(data)

    def read(self, keys: Any, at: At | None = None) -> Any:
        """The samples of some keys, or the one of a key."""
        if not self.batched:
            return self._read_one(keys)
        if self._bulk:
            return self._read_bulk(keys)
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

    def skipping(self, keys: Any) -> Any:
        """The batch of those keys that can be read."""
        left_out: list[Skipped] = []
        if not self.batched:
            try:
                return self.collate(self._read_one(keys))
            except Exception as error:
                return Extra(has_batch=False, skipped=[_skipped(keys, error)])
        data: list[Any] | None = None
        if self._bulk:
            try:
                data = self._read_bulk(keys)
            except Exception:
                data = None  # one of them, or more: they are read one by one
        if data is None:
            data = []
            for key in keys:
                try:
                    data.append(self._read_one(key))
                except Exception as error:
                    left_out.append(_skipped(key, error))
        if not len(data):
            return Extra(has_batch=False, skipped=left_out)
        try:
            batch = self.collate(data)
        except Exception as error:
            return Extra(has_batch=False, skipped=[*left_out, _skipped(list(keys), error)])
        return Extra(batch, skipped=left_out) if left_out else batch


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
