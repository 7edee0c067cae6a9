"""Finished batches, kept ready."""

from __future__ import annotations

from typing import Any

from headrace.tf1.batching import flatten
from headrace.tf1.graph import convert
from headrace.tf1.queues import FIFOQueue, PaddingFIFOQueue, QueueBase
from headrace.tf1.runners import QueueRunner, add_queue_runner

__all__ = ["prefetch_queue"]


def prefetch_queue(
    tensors: Any,
    capacity: int = 8,
    num_threads: int = 1,
    dynamic_pad: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """A queue of whole batches, filled ahead; its `dequeue` gives one.

    Args:
        tensors: A batch: a list or a dict of tensors.
        capacity: Batches in the queue.
        num_threads: Threads that fill it.
        dynamic_pad: Whether shapes may have unknown dimensions, as with a smaller last batch.
        shared_name: Queues of that name are one.
        name: Of the operations.

    Raises:
        ValueError: If a shape isn't known and `dynamic_pad` isn't set.
    """
    flat, names = flatten(tensors)
    parts = [convert(x) for x in flat]
    kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
    queue: QueueBase = kind(
        capacity,
        [t.dtype for t in parts],
        [t.shape for t in parts],
        names=names,
        shared_name=shared_name,
        name=name or "prefetch_queue",
    )
    element: Any = parts if names is None else dict(zip(names, parts, strict=True))
    add_queue_runner(QueueRunner(queue, [queue.enqueue(element)] * num_threads))
    return queue
