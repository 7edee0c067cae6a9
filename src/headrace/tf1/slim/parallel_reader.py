"""Several readers that fill one queue."""

from __future__ import annotations

import glob
from typing import Any

from headrace.tf1.dtypes import string
from headrace.tf1.graph import Tensor
from headrace.tf1.ops import add
from headrace.tf1.producers import string_input_producer
from headrace.tf1.queues import FIFOQueue, QueueBase, RandomShuffleQueue
from headrace.tf1.runners import QueueRunner, add_queue_runner

__all__ = ["ParallelReader", "get_data_files", "parallel_read", "single_pass_read"]


class ParallelReader:
    """Readers that take files from one queue and put records into another.

    Args:
        reader_class: The class of the readers.
        common_queue: Where records go: two strings each.
        num_readers: How many.
        reader_kwargs: Arguments for each.

    Raises:
        TypeError: If the queue doesn't hold two strings.
    """

    def __init__(self, reader_class: Any, common_queue: QueueBase, num_readers: int = 4, reader_kwargs: Any = None):
        if [d.name for d in common_queue.dtypes] != ["string", "string"]:
            raise TypeError(f"common_queue must hold two strings, a key and a value; it holds {common_queue.dtypes}")
        if num_readers < 1:
            raise ValueError(f"expected at least one reader, got {num_readers}")
        self._readers = [reader_class(**(reader_kwargs or {})) for _ in range(num_readers)]
        self._queue = common_queue

    @property
    def common_queue(self) -> QueueBase:
        """Where records go."""
        return self._queue

    @property
    def num_readers(self) -> int:
        """How many readers there are."""
        return len(self._readers)

    def read(self, queue: QueueBase, name: str | None = None) -> Any:
        """The next record of any of the readers."""
        ops = [self._queue.enqueue(list(reader.read(queue))) for reader in self._readers]
        add_queue_runner(QueueRunner(self._queue, ops))
        return self._queue.dequeue(name=name)

    def read_up_to(self, queue: QueueBase, num_records: Any, name: str | None = None) -> Any:
        """The next records of the readers: up to `num_records`, at least one."""
        ops = [self._queue.enqueue_many(list(reader.read_up_to(queue, num_records))) for reader in self._readers]
        add_queue_runner(QueueRunner(self._queue, ops))
        return self._queue.dequeue_up_to(num_records, name=name)

    def _sum(self, tensors: list[Tensor]) -> Tensor:
        total = tensors[0]
        for tensor in tensors[1:]:
            total = add(total, tensor)
        return total

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """How many records the readers have given."""
        return self._sum([reader.num_records_produced() for reader in self._readers])

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """How many files they have read to their end."""
        return self._sum([reader.num_work_units_completed() for reader in self._readers])


def get_data_files(data_sources: Any) -> list[str]:
    """File names: those of a list, those that match a pattern, or the one given.

    Raises:
        ValueError: If there are none.
    """
    if isinstance(data_sources, list | tuple):
        found = [name for source in data_sources for name in get_data_files(source)]
    elif any(mark in data_sources for mark in "*?["):
        found = sorted(glob.glob(data_sources))
    else:
        found = [data_sources]
    if not found:
        raise ValueError(f"No data files found in {data_sources}")
    return found


def parallel_read(
    data_sources: Any,
    reader_class: Any,
    num_epochs: int | None = None,
    num_readers: int = 4,
    reader_kwargs: Any = None,
    shuffle: bool = True,
    dtypes: Any = None,
    capacity: int = 256,
    min_after_dequeue: int = 128,
    seed: int | None = None,
    scope: str | None = None,
) -> Any:
    """Records of many files, read by several readers at once.

    Args:
        data_sources: File names, or a pattern.
        reader_class: The class of the readers.
        num_epochs: How many times all files are read; for ever if not given.
        num_readers: How many readers.
        reader_kwargs: Arguments for each.
        shuffle: Whether files come in a random order, and records are drawn from the queue at random.
        dtypes: Of the queue's components: two strings.
        capacity: Records in the queue.
        min_after_dequeue: Records that stay behind in it when shuffling.
        seed: For the random orders.
        scope: Ignored.

    Raises:
        ValueError: If there are no files.
    """
    kinds = dtypes or [string, string]
    names = string_input_producer(
        get_data_files(data_sources), num_epochs=num_epochs, shuffle=shuffle, seed=seed, name="filenames"
    )
    queue: QueueBase
    if shuffle:
        queue = RandomShuffleQueue(capacity, min_after_dequeue, kinds, seed=seed, name="common_queue")
    else:
        queue = FIFOQueue(capacity, kinds, name="common_queue")
    return ParallelReader(reader_class, queue, num_readers, reader_kwargs).read(names)


def single_pass_read(data_sources: Any, reader_class: Any, reader_kwargs: Any = None, scope: str | None = None) -> Any:
    """Records of many files in order, once, read by whoever asks for them."""
    names = string_input_producer(
        get_data_files(data_sources), num_epochs=1, shuffle=False, capacity=1, name="filenames"
    )
    return reader_class(**(reader_kwargs or {})).read(names)
