"""What worker threads do for a DataLoader."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import worker as torch_worker

from headrace.clock import Clock
from headrace.torch.fetch import MapFetcher
from headrace.torch.info import become, make_info
from headrace.torch.randomness import words
from headrace.torch.streams import Stream


@dataclass(slots=True)
class Caught:
    """An error that is met when its turn comes; the batches after it are made all the same."""

    error: BaseException


class StreamPieces:
    """Batches of samples of a stream, read forward by whichever thread takes the next piece, one at a time."""

    def __init__(self, stream: Stream, number: int) -> None:
        self._stream = stream
        self._number = number

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        number = self._number
        self._number += 1
        try:
            data = self._stream.next()
        except StopIteration:
            raise
        except Exception as error:
            return (0, number, None), Caught(error)
        return (0, number, self._stream.state()), data


class _Place(threading.local):
    rng: Any = None
    failed: BaseException | None = None


class ThreadWork:
    """Makes batches; called by several threads at once.

    Args:
        fetch: Makes a batch: of keys, or of a stream's samples.
        dataset: The dataset.
        seeds: Base seed and epoch.
        count: How many threads there are.
        init_fn: Called in each thread before its first batch.
    """

    def __init__(
        self, fetch: Any, dataset: Any, seeds: tuple[int, int], count: int, init_fn: Callable[[int], None] | None
    ) -> None:
        self._fetch = fetch
        self._dataset = dataset
        self._seeds = seeds
        self._count = count
        self._init_fn = init_fn
        self._numbers = itertools.count()
        self._here = _Place()

    @staticmethod
    @contextlib.contextmanager
    def as_first(dataset: Any, base_seed: int, count: int) -> Iterator[None]:
        """The caller's thread is worker 0 for a while."""
        become(make_info(0, count, base_seed, dataset, rng=_make_rng(), method="thread"), process=False)
        try:
            yield
        finally:
            become(None, process=False)

    def __call__(self, piece: tuple[Any, Any], clock: Clock) -> Any:
        """The mark of a piece, and its batch or what went wrong."""
        mark, keys = piece
        if type(keys) is Caught:
            return mark, keys
        try:
            self._enter(mark if isinstance(mark, int) else mark[1])
            if isinstance(self._fetch, MapFetcher):
                return mark, self._fetch.timed(keys, clock)
            with clock.stage("collate"):
                return mark, self._fetch(keys)
        except StopIteration as error:
            wrapped = RuntimeError("StopIteration was raised in making a batch; it would have ended the epoch early")
            wrapped.__cause__ = error
            return mark, Caught(wrapped)
        except Exception as error:
            return mark, Caught(error)

    def _enter(self, key: int) -> None:
        here = self._here
        if here.rng is None:
            number = next(self._numbers)
            here.rng = _make_rng()
            base = self._seeds[0]
            become(
                make_info(number, self._count, base + number, self._dataset, rng=here.rng, method="thread"),
                process=False,
            )
            if self._init_fn is not None:
                try:
                    self._init_fn(number)
                except Exception as error:
                    here.failed = error
        if here.failed is not None:
            raise here.failed
        if here.rng is not False:
            _seed(here.rng, words(*self._seeds, key))


def _make_rng() -> Any:
    kind = getattr(torch_worker, "_RNG", None)
    if kind is None:  # before torch 2.12
        return False
    return kind(random.Random(0), torch.Generator(), np.random.Generator(np.random.PCG64(0)))


def _seed(rng: Any, numbers: tuple[int, int, int, int]) -> None:
    rng.random_generator.seed(numbers[0])
    rng.torch_generator.manual_seed(numbers[1] >> 1)
    rng.numpy_generator.bit_generator.state = np.random.PCG64(numbers[2]).state
