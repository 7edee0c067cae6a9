"""Single elements into batches: a queue, threads that fill it, and a dequeue of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.tf1.dtypes import TensorShape, as_shape, int64, variant
from headrace.tf1.graph import Tensor, add_op, constant_value, convert
from headrace.tf1.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from headrace.tf1.runners import QueueRunner, add_queue_runner
from headrace.tf1.sparse import SparseTensor, SparseTensorValue, join_sparse

__all__ = [
    "batch",
    "batch_join",
    "maybe_batch",
    "maybe_batch_join",
    "maybe_shuffle_batch",
    "maybe_shuffle_batch_join",
    "shuffle_batch",
    "shuffle_batch_join",
]


def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of elements in the order in which they come.

    Args:
        tensors: One element: a tensor, a list or a dict of tensors, which may be sparse.
        batch_size: Elements in a batch.
        num_threads: Threads that compute elements; with several, their order is free.
        capacity: Elements in the queue.
        enqueue_many: Whether `tensors` hold many elements, one a row.
        shapes: The shapes of an element, if they aren't known.
        dynamic_pad: Whether rows of different length are padded to the longest of the batch.
        allow_smaller_final_batch: Whether the last batch may be smaller; it is dropped otherwise.
        shared_name: Queues of that name are one.
        name: Of the operations.

    Raises:
        ValueError: If a shape isn't known and `dynamic_pad` isn't set.

    Example:
        >>> from headrace import tf1 as tf
        >>> with tf.Graph().as_default(), tf.Session() as sess:
        ...     number = tf.train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue()
        ...     numbers = tf.train.batch([number], 3, allow_smaller_final_batch=True)
        ...     threads = tf.train.start_queue_runners(sess)
        ...     print(sess.run(numbers), sess.run(numbers))
        [0 1 2] [3 4]
    """
    return maybe_batch(
        tensors, None, batch_size, num_threads, capacity, enqueue_many, shapes, dynamic_pad,
        allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_batch(
    tensors: Any,
    keep_input: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, of elements for which `keep_input` is true; with `enqueue_many`, it may be a vector."""
    return _make(
        [tensors] * num_threads, keep_input, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
        shared_name, name or "batch", dynamic_pad=dynamic_pad, same=True,
    )  # fmt: skip


def batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, from several sources, each with a thread of its own."""
    return maybe_batch_join(
        tensors_list, None, batch_size, capacity, enqueue_many, shapes, dynamic_pad, allow_smaller_final_batch,
        shared_name, name,
    )  # fmt: skip


def maybe_batch_join(
    tensors_list: Sequence[Any],
    keep_input: Any,
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch_join`, of elements for which `keep_input` is true."""
    return _make(
        tensors_list, keep_input, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch, shared_name,
        name or "batch_join", dynamic_pad=dynamic_pad,
    )  # fmt: skip


def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of elements drawn from a queue in which at least `min_after_dequeue` stay behind.

    The other arguments are those of `batch`.

    Raises:
        ValueError: If `capacity` isn't above `min_after_dequeue`, or a shape isn't known.
    """
    return maybe_shuffle_batch(
        tensors, batch_size, capacity, min_after_dequeue, None, num_threads, seed, enqueue_many, shapes,
        allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch`, of elements for which `keep_input` is true."""
    return _make(
        [tensors] * num_threads, keep_input, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch,
        shared_name, name or "shuffle_batch", shuffle=(min_after_dequeue, seed), same=True,
    )  # fmt: skip


def shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch`, from several sources, each with a thread of its own."""
    return maybe_shuffle_batch_join(
        tensors_list, batch_size, capacity, min_after_dequeue, None, seed, enqueue_many, shapes,
        allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `shuffle_batch_join`, of elements for which `keep_input` is true."""
    return _make(
        tensors_list, keep_input, batch_size, capacity, enqueue_many, shapes, allow_smaller_final_batch, shared_name,
        name or "shuffle_batch_join", shuffle=(min_after_dequeue, seed),
    )  # fmt: skip


def flatten(tensors: Any) -> tuple[list[Any], list[str] | None]:
    """The tensors of an element, and the names of a dict's, sorted."""
    if isinstance(tensors, Mapping):
        names = sorted(tensors)
        return [tensors[n] for n in names], names
    if not isinstance(tensors, list | tuple):
        tensors = [tensors]
    return list(tensors), None


def _pack(element: Any, many: bool) -> Tensor:
    if not isinstance(element, SparseTensor):
        return convert(element)
    return element.packed() if not many else _rows(element)


def _rows(sparse: SparseTensor) -> Tensor:
    """A sparse tensor as a vector of its rows."""

    def compute(run: Any, indices: Any, values: Any, dense: Any) -> Any:
        import numpy as np

        rows = np.empty(int(dense[0]), object)
        for i in range(len(rows)):
            here = indices[:, 0] == i
            rows[i] = SparseTensorValue(indices[here, 1:], values[here], dense[1:])
        return rows

    return add_op("SerializeManySparse", compute, sparse.fetch_parts()[0], [(variant, [None])]).outputs[0]


def _unpack(packed: Tensor, sample: Any) -> Any:
    if not isinstance(sample, SparseTensor):
        return packed
    dtype, rank = sample.dtype, sample.dense_shape.shape[0]
    columns = None if rank is None else rank + 1
    op = add_op(
        "DeserializeManySparse",
        lambda run, rows: tuple(join_sparse(rows.tolist(), dtype)),
        [packed],
        [(int64, [None, columns]), (dtype, [None]), (int64, [columns])],
    )
    return SparseTensor(*op.outputs)


def _shapes(lists: Sequence[Sequence[Tensor]], given: Any, many: bool) -> list[TensorShape]:
    if given is not None:
        found = [as_shape(s) for s in given]
        if len(found) != len(lists[0]):
            raise ValueError(f"expected a shape for each of {len(lists[0])} tensors, got {len(found)}")
        return found
    shapes = []
    for column in zip(*lists, strict=True):
        shape = column[0].shape
        for other in column[1:]:
            shape = shape.common_with(other.shape)
        if many and shape.ndims is not None:
            if not shape.ndims:
                raise ValueError("with enqueue_many every tensor needs at least one dimension")
            shape = shape[1:]
        shapes.append(shape)
    return shapes


def _make(
    tensors_list: Sequence[Any],
    keep_input: Any,
    batch_size: Any,
    capacity: int,
    many: bool,
    shapes: Any,
    smaller: bool,
    shared_name: str | None,
    name: str,
    *,
    dynamic_pad: bool = False,
    shuffle: tuple[int, int | None] | None = None,
    same: bool = False,
) -> Any:
    if not tensors_list:
        raise ValueError("expected at least one element, or at least one thread, to batch")
    if shuffle is not None and 0 <= capacity <= shuffle[0]:
        raise ValueError(f"capacity {capacity} must be bigger than min_after_dequeue {shuffle[0]}.")
    flat = [flatten(tensors) for tensors in tensors_list]
    samples, names = flat[0]
    if not samples:
        raise ValueError("expected at least one tensor to batch")
    for other, keys in flat[1:]:
        if keys != names or len(other) != len(samples):
            raise ValueError(f"all elements need the same components: {names or len(samples)}, {keys or len(other)}")
    if same:  # one operation for all threads: the components of an element come from one evaluation
        packed = [[_pack(x, many) for x in samples]] * len(flat)
    else:
        packed = [[_pack(x, many) for x in each] for each, _ in flat]
    types = [t.dtype for t in packed[0]]
    for each in packed:
        if [t.dtype for t in each] != types:
            raise TypeError(f"all elements need the same types, got {types} and {[t.dtype for t in each]}")
    known = _shapes(packed, shapes, many)
    queue: QueueBase
    if shuffle is not None:
        queue = RandomShuffleQueue(capacity, shuffle[0], types, known, None, shuffle[1], shared_name, name)
    elif dynamic_pad:
        queue = PaddingFIFOQueue(capacity, types, known, shared_name=shared_name, name=name)
    else:
        queue = FIFOQueue(capacity, types, known, shared_name=shared_name, name=name)
    keep = None if keep_input is None or constant_value(keep_input) is True else keep_input
    distinct = [queue.put_op(packed[0], many, keep)] * len(packed) if same else [
        queue.put_op(each, many, keep) for each in packed
    ]  # fmt: skip
    add_queue_runner(QueueRunner(queue, distinct))
    taken = queue.dequeue_up_to(batch_size) if smaller else queue.dequeue_many(batch_size)
    made = [_unpack(t, s) for t, s in zip(taken if isinstance(taken, list) else [taken], samples, strict=True)]
    if names is not None:
        return dict(zip(names, made, strict=True))
    return made[0] if len(made) == 1 else made
