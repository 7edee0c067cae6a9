"""Queues of file names, numbers or rows, filled epoch after epoch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.tf1 import errors
from headrace.tf1.dtypes import as_shape, string
from headrace.tf1.graph import Tensor, add_op, constant_value, convert, get_default_graph
from headrace.tf1.ops import gather, range_
from headrace.tf1.queues import FIFOQueue, random_seed
from headrace.tf1.runners import QueueRunner, add_queue_runner
from headrace.tf1.session import Run

__all__ = [
    "input_producer",
    "limit_epochs",
    "match_filenames_once",
    "range_input_producer",
    "slice_input_producer",
    "string_input_producer",
]


class _Epochs:
    """How many epochs a session has begun, and the random numbers for their order."""

    def __init__(self, seeds: Sequence[int] | None):
        self.begun = 0
        self.rng = np.random.default_rng(None if seeds is None else list(seeds))
        self.lock = threading.Lock()


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Tensor:
    """The tensor, `num_epochs` times; then the end.

    Raises:
        ValueError: If `num_epochs` isn't above 0.
        OutOfRangeError: When it runs once more.
    """
    return _epochs(convert(tensor), num_epochs, False, None, None, name or "limit_epochs")


def _epochs(
    rows: Tensor, count: int | None, shuffle: bool, seed: int | None, check: Callable[[Any], None] | None, name: str
) -> Tensor:
    if count is not None and count <= 0:
        raise ValueError(f"num_epochs must be > 0 not {count}.")
    key = f"epochs/{get_default_graph().unique_name(name + '/epochs')}"
    seeds = random_seed(seed) if shuffle else None

    def compute(run: Run, values: Any) -> Any:
        if check is not None:
            check(values)
        state = run.resource(key, lambda: _Epochs(seeds))
        with state.lock:
            if count is not None and state.begun >= count:
                raise errors.OutOfRangeError(None, None, f"Reached limit of {count}")
            state.begun += 1
            return state.rng.permutation(values) if shuffle else values

    return add_op("Epochs", compute, [rows], [(rows.dtype, rows.shape)], name).outputs[0]


def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
    _check: Callable[[Any], None] | None = None,
) -> FIFOQueue:
    """A queue of the rows of a tensor, with a runner that fills it.

    Args:
        input_tensor: The rows.
        element_shape: The shape of one, if it isn't known.
        num_epochs: How many times all of them come; for ever if not given.
        shuffle: Whether each epoch has an order of its own.
        seed: With it, the orders are the same in every session.
        capacity: Elements in the queue.
        shared_name: Queues of that name are one.
        summary_name: Ignored.
        name: Of the operations.
        cancel_op: What a coordinator's stop runs.

    Raises:
        ValueError: If the shape of an element is unknown, or `num_epochs` isn't above 0.
    """
    rows = convert(input_tensor)
    element = as_shape(element_shape) if element_shape is not None else None
    shape = rows.shape[1:] if element is None else rows.shape[1:].merge_with(element)
    if not shape.is_fully_defined():
        raise ValueError("Either input_tensor must have a fully defined shape or element_shape must be specified")
    name = name or "input_producer"
    order = _epochs(rows, num_epochs, shuffle, seed, _check, name)
    queue = FIFOQueue(capacity, [rows.dtype], [shape], shared_name=shared_name, name=name)
    add_queue_runner(QueueRunner(queue, [queue.enqueue_many([order])], cancel_op=cancel_op))
    return queue


def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """A queue of strings, such as file names; the arguments are those of `input_producer`.

    >>> from headrace import tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     names = tf.train.string_input_producer(["a.txt", "b.txt"], num_epochs=1, shuffle=False)
    ...     name = names.dequeue()
    ...     threads = tf.train.start_queue_runners(sess)
    ...     print(sess.run(name), sess.run(name))
    b'a.txt' b'b.txt'
    """
    message = "string_input_producer requires a non-null input tensor"
    known = constant_value(string_tensor)
    if known is not None and not np.size(known):
        raise ValueError(message)

    def check(values: Any) -> None:
        if not len(values):
            raise errors.InvalidArgumentError(None, None, message)

    return input_producer(
        convert(string_tensor, string),
        [],
        num_epochs,
        shuffle,
        seed,
        capacity,
        shared_name,
        None,
        name,
        cancel_op,
        check,
    )


def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> FIFOQueue:
    """A queue of the numbers from 0 up to `limit`; the other arguments are those of `input_producer`."""
    return input_producer(range_(limit), [], num_epochs, shuffle, seed, capacity, shared_name, None, name)


def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """One row of each tensor; the other arguments are those of `input_producer`.

    Raises:
        ValueError: Without tensors.
        InvalidArgumentError: When a tensor has fewer rows than the first one.
    """
    if not tensor_list:
        raise ValueError("Expected at least one tensor in slice_input_producer().")
    tensors = [convert(t) for t in tensor_list]
    count: Any = tensors[0].shape[0] if tensors[0].shape.ndims else None
    if count is None:
        from headrace.tf1.ops import shape

        count = shape(tensors[0])[0]
    queue = range_input_producer(count, num_epochs, shuffle, seed, capacity, shared_name, name)
    index = queue.dequeue()
    return [gather(t, index) for t in tensors]


def match_filenames_once(pattern: Any, name: str = "matching_filenames") -> Tensor:
    """Names of the files that match a pattern, or one of several, looked up once in a session."""
    import glob

    key = f"files/{get_default_graph().unique_name(name)}"
    patterns = pattern if isinstance(pattern, list | tuple) else [pattern]

    def find() -> Any:
        texts = [p.decode() if isinstance(p, bytes) else p for p in patterns]
        names = [n.encode() for p in texts for n in sorted(glob.glob(p))]
        found = np.empty(len(names), object)
        found[:] = names
        return found

    return add_op("MatchFiles", lambda run: run.resource(key, find), (), [(string, [None])], name).outputs[0]
