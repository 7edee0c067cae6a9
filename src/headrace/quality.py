"""How well an order mixes the data, as a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from headrace.checks import LARGEST, whole_of
from headrace.dataset import Batches, Dataset, compile_program
from headrace.errors import PlanError

_WINDOWS = 32  # of a plan that are looked at
_ENDLESS = 4  # windows of a plan that has no end


def shuffle_quality(
    data: Dataset | Batches | Sequence[int] | NDArray[np.integer],
    *,
    epoch: int = 0,
    batch_size: int = 256,
    batches: int = 1000,
) -> float:
    """Says how well an order mixes the data: 1 as a full shuffle, 0 as reading one record after another.

    Looks at where in the data the records of each batch come from. The more evenly they are spread over all of it, the
    more alike the data the batch is; that is compared with batches drawn at random, and with neighbours. No record is
    read.

    Args:
        data: A description; or record numbers in the order of an epoch, of another library's sampler say.
        epoch: Which epoch's order.
        batch_size: Records of a batch, unless the description says it.
        batches: How many batches to look at, evenly spread over the epoch.

    Raises:
        PlanError: If there is no order to look at: of streams, whose length nobody knows, or of nothing.

    Example:
        >>> import numpy as np
        >>> import headrace as hr
        >>> data = hr.from_arrays(np.arange(100_000))
        >>> hr.shuffle_quality(data)
        0.0
        >>> hr.shuffle_quality(data.shuffle(seed=1)) > 0.98
        True
        >>> round(hr.shuffle_quality(data.shuffle(seed=1, window=10_000)), 1)
        0.1
    """
    epoch = whole_of("shuffle_quality", "epoch", epoch, 0, LARGEST)
    batch_size = whole_of("shuffle_quality", "batch_size", batch_size, 2)
    batches = whole_of("shuffle_quality", "batches", batches, 1)
    if isinstance(data, Dataset):
        data = data.batch(batch_size)
    order = _of_plan(data, epoch, batches) if isinstance(data, Batches) else _of_numbers(data, batch_size, batches)
    found = [ids for ids in order if len(ids) > 1]
    if not found:
        raise PlanError("shuffle_quality: there is no batch of two records or more")
    # Where a record is among those looked at is where it is in the data: they come from all over the epoch.
    every = np.unique(np.concatenate(found))
    got = [_unevenness((np.searchsorted(every, ids) + 0.5) / len(every)) for ids in found]
    rng, sizes = np.random.default_rng(0), [len(ids) for ids in found]
    random = [_unevenness(rng.random(size)) for size in sizes]
    width = 1 / len(sizes)  # of a batch of neighbours
    neighbours = [_unevenness(width * (number + np.linspace(0, 1, size))) for number, size in enumerate(sizes)]
    worst, best = float(np.mean(neighbours)), float(np.mean(random))
    if worst <= best:
        return 1.0  # a batch holds all the data, in whichever order
    return min(1.0, max(0.0, round((worst - float(np.mean(got))) / (worst - best), 4)))


def _unevenness(places: NDArray[np.float64]) -> float:
    """How far records would have to move, on average, to be spread evenly from 0 to 1."""
    even = (np.arange(len(places)) + 0.5) / len(places)
    return float(np.abs(np.sort(places) - even).mean())


def _some(count: int, most: int) -> list[int]:
    """Up to so many numbers below a count, evenly spread."""
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def _of_plan(data: Batches, epoch: int, batches: int) -> Iterator[NDArray[np.int64]]:
    program = compile_program(data._node)
    if program.streams:
        raise PlanError("shuffle_quality: a stream has no order but its own, and its length isn't known")
    count = program.plan.num_windows(epoch)
    windows = _some(_ENDLESS if count is None else count, _WINDOWS)
    for index in windows:
        window = program.plan.window(epoch, index)
        for number in _some(len(window), max(1, batches // len(windows))):
            yield window.rows(number).ids[0]


def _of_numbers(
    order: Sequence[int] | NDArray[np.integer], batch_size: int, batches: int
) -> Iterator[NDArray[np.integer]]:
    numbers = np.asarray(order)
    if numbers.ndim != 1 or not (np.issubdtype(numbers.dtype, np.integer) or not len(numbers)):
        raise PlanError(f"shuffle_quality: a description or record numbers, got {type(order).__name__}")
    for number in _some(-(-len(numbers) // batch_size), batches):
        yield numbers[number * batch_size : (number + 1) * batch_size]
