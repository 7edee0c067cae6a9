"""The four kinds of queue, as graphs use them; `monitor.py` holds what they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.tf1 import errors
from headrace.tf1.dtypes import DType, TensorShape, as_dtype, as_shape, bool_, int32, int64
from headrace.tf1.graph import Operation, Tensor, add_op, convert, get_default_graph
from headrace.tf1.monitor import Fifo, Heap, QueueState, Shuffled, Store
from headrace.tf1.session import Run
from headrace.tf1.sparse import SparseTensorValue

__all__ = ["FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "QueueBase", "RandomShuffleQueue", "random_seed"]


def random_seed(op_seed: int | None) -> tuple[int, int] | None:
    """The seeds of the graph and of an operation, or None: then every session draws numbers of its own."""
    graph_seed = get_default_graph().seed
    if graph_seed is None and op_seed is None:
        return None
    return abs(graph_seed if graph_seed is not None else 87654321), abs(op_seed or 0)


class QueueBase:
    """What all queues do.

    Args:
        capacity: Elements that fit; −1 for no bound.
        dtypes: The type of each component.
        shapes: The shape of each component; None: every element may have others, and can only be taken one by one.
        names: Names of the components; elements are dicts then.
        shared_name: Queues of one such name in a graph are one queue.
        name: The name of its operations.

    Raises:
        ValueError: If the numbers of types, shapes and names differ.
    """

    _kind = "QueueBase"
    _partial = False  # whether dimensions may be unknown

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "queue",
        store: Callable[[], Store] = Fifo,
    ):
        self._graph = get_default_graph()
        self._dtypes = [as_dtype(d) for d in (dtypes if isinstance(dtypes, list | tuple) else [dtypes])]
        self._shapes = self._full_shapes(shapes)
        self._names = [names] if isinstance(names, str) else list(names) if names else None
        if self._names is not None and len(self._names) != len(self._dtypes):
            raise ValueError(f"expected as many names as types, got {len(self._names)} and {len(self._dtypes)}")
        self._capacity = capacity
        self._name = self._graph.unique_name(name)
        self._key = f"queue/{shared_name}" if shared_name else f"queue of/{self._name}"
        self._store = store
        self._ref = add_op("QueueRef", self._state, name=f"{name}/ref")

    def _full_shapes(self, shapes: Any) -> list[TensorShape] | None:
        if shapes is None:
            return None
        shapes = _shape_list(shapes)
        made = [as_shape(s) for s in shapes]
        if len(made) != len(self._dtypes):
            raise ValueError(f"expected a shape for each of {len(self._dtypes)} types, got {len(made)}")
        for shape in made:
            if not self._partial and not shape.is_fully_defined():
                raise ValueError(f"All shapes must be fully defined: {made}")
        return made

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._name

    @property
    def dtypes(self) -> list[DType]:
        """The types of the components."""
        return list(self._dtypes)

    @property
    def shapes(self) -> list[TensorShape]:
        """The shapes of the components, as far as known."""
        return list(self._shapes or [TensorShape(None)] * len(self._dtypes))

    @property
    def names(self) -> list[str] | None:
        """The names of the components."""
        return self._names

    @property
    def queue_ref(self) -> Operation:
        """The operation that stands for the queue."""
        return self._ref

    def _state(self, run: Run) -> QueueState:
        return self.state(run.session)

    def state(self, session: Any) -> QueueState:
        """The queue itself, of a session."""
        signature = (self._kind, self._capacity, self._dtypes, self._shapes)
        kept, state = session.resource(self._key, lambda: _Kept(signature, self._make())).parts()
        if kept != signature:
            raise errors.InvalidArgumentError(
                None, None, f"Shared queue '{self._key[6:]}' has other properties than this one: {kept} and {signature}"
            )
        found: QueueState = state
        return found

    def _make(self) -> QueueState:
        if not self._capacity:
            raise errors.InvalidArgumentError(None, None, f"{self._kind} '{self._name}': a capacity of 0 holds nothing")
        return QueueState(self._kind, self._name, self._capacity, self._store())

    # Adding

    def _components(self, vals: Any, many: bool) -> list[Tensor]:
        if isinstance(vals, Mapping):
            if self._names is None or sorted(vals) != sorted(self._names):
                raise ValueError(f"expected components named {self._names}, got {sorted(vals)}")
            vals = [vals[name] for name in self._names]
        elif self._names is not None:
            raise ValueError(f"this queue has named components: enqueue a dict with {self._names}")
        elif not isinstance(vals, list | tuple) or (len(self._dtypes) == 1 and not self._is_single(vals, many)):
            vals = [vals]
        if len(vals) != len(self._dtypes):
            raise ValueError(f"expected {len(self._dtypes)} components, got {len(vals)}")
        tensors = [convert(x, dtype) for x, dtype in zip(vals, self._dtypes, strict=True)]
        for i, (tensor, shape) in enumerate(zip(tensors, self.shapes, strict=True)):
            found = tensor.shape[1:] if many and tensor.shape.ndims != 0 else tensor.shape
            if (many and tensor.shape.ndims == 0) or not found.is_compatible_with(shape):
                raise ValueError(f"Shapes {found} and {shape} are not compatible: component {i} of {self._name}")
        if many and len({t.shape[0] for t in tensors} - {None}) > 1:
            raise ValueError(f"components must have as many rows each, got shapes {[str(t.shape) for t in tensors]}")
        return tensors

    def _is_single(self, vals: Any, many: bool) -> bool:
        """Whether a list means the list of components, not a value for the only one."""
        return len(vals) == 1 and (isinstance(vals[0], Tensor | np.ndarray | list | tuple) or not many)

    def _check(self, values: Sequence[Any], many: bool) -> None:
        for i, (value, shape) in enumerate(zip(values, self.shapes, strict=True)):
            found = np.shape(value) if not isinstance(value, SparseTensorValue) else ()
            if many and not found:
                raise errors.InvalidArgumentError(None, None, f"component {i} has no rows: it is a scalar")
            if not shape.is_compatible_with(found[1:] if many else found):
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"Shape mismatch in component {i} of queue {self._name}: expected {shape}, got "
                    f"{list(found[1:] if many else found)}",
                )

    def put_op(self, vals: Any, many: bool, keep: Any = None, name: str | None = None) -> Operation:
        """Adds an element, or with `many` the rows of each component; with `keep`, only where that is true."""
        tensors = self._components(vals, many)

        def put(run: Run, *values: Any) -> None:
            state = self._state(run)
            if keep is not None:
                *values, kept = values  # type: ignore[assignment]
                if not many or np.ndim(kept) == 0:
                    if not kept:
                        return
                else:
                    values = tuple(value[np.asarray(kept)] for value in values)
            self._check(values, many)
            if not many:
                state.put([tuple(values)], run.deadline)
                return
            counts = {len(value) for value in values}
            if len(counts) > 1:
                raise errors.InvalidArgumentError(
                    None, None, f"All components must have the same size in the 0th dimension, got {sorted(counts)}"
                )
            state.put(list(zip(*values, strict=True)), run.deadline)

        inputs = tensors if keep is None else [*tensors, convert(keep, bool_)]
        return add_op("QueueEnqueueMany" if many else "QueueEnqueue", put, inputs, (), name or f"{self._name}_enqueue")

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """An operation that adds one element, waiting for room."""
        return self.put_op(vals, many=False, name=name)

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """An operation that adds the rows of each component as elements."""
        return self.put_op(vals, many=True, name=name)

    # Taking

    def _deliver(self, op: Operation) -> Any:
        if self._names is not None:
            return dict(zip(self._names, op.outputs, strict=True))
        return op.outputs[0] if len(op.outputs) == 1 else list(op.outputs)

    def dequeue(self, name: str | None = None) -> Any:
        """The next element: a tensor, a list of tensors, or a dict where components have names."""

        def take(run: Run) -> Any:
            row = self._state(run).take(1, deadline=run.deadline)[0]
            return row if len(row) > 1 else row[0]

        outputs = list(zip(self._dtypes, self.shapes, strict=True))
        return self._deliver(add_op("QueueDequeue", take, (), outputs, name or f"{self._name}_Dequeue"))

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """The next n elements, each component as one tensor."""
        return self._take_many(n, False, name)

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """The next n elements; from a closed queue, what is left."""
        return self._take_many(n, True, name)

    def _take_many(self, n: Any, up_to: bool, name: str | None) -> Any:
        def take(run: Run, n: Any) -> Any:
            state = self._state(run)
            if self._shapes is None:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"{self._kind}'s DequeueMany and DequeueUpTo require the components to have specified shapes.",
                )
            if n < 0:
                raise errors.InvalidArgumentError(None, None, f"expected 0 or more elements to dequeue, got {n}")
            rows = state.take(int(n), up_to, run.deadline)
            made = tuple(self._join([row[i] for row in rows], i) for i in range(len(self._dtypes)))
            return made if len(made) > 1 else made[0]

        first = None if up_to or isinstance(n, Tensor) else n
        outputs = [(d, as_shape([first]).concatenate(s)) for d, s in zip(self._dtypes, self.shapes, strict=True)]
        kind = "QueueDequeueUpTo" if up_to else "QueueDequeueMany"
        return self._deliver(add_op(kind, take, [convert(n)], outputs, name or f"{self._name}_{kind[5:]}"))

    def _join(self, values: list[Any], component: int) -> Any:
        dtype, shape = self._dtypes[component], self.shapes[component].known()
        if not shape:
            whole = np.empty(len(values), dtype.as_numpy_dtype)
            for i, value in enumerate(values):
                whole[i] = value
            return whole
        longest = [
            d if d is not None else max((np.shape(v)[i] for v in values), default=0) for i, d in enumerate(shape)
        ]
        joined = np.full([len(values), *longest], dtype.zero(), dtype.as_numpy_dtype)
        for target, value in zip(joined, values, strict=True):
            target[tuple(slice(n) for n in np.shape(value))] = value
        return joined

    # The rest

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """An operation that ends adding; with `cancel_pending_enqueues` also for those who wait to add."""
        return add_op(
            "QueueClose",
            lambda run: self._state(run).close(cancel_pending_enqueues, run.deadline),
            name=name or f"{self._name}_Close",
        )

    def size(self, name: str | None = None) -> Tensor:
        """The number of elements."""
        compute = lambda run: np.int32(len(self._state(run)))  # noqa: E731
        return add_op("QueueSize", compute, (), [(int32, ())], name or f"{self._name}_Size").outputs[0]

    def is_closed(self, name: str | None = None) -> Tensor:
        """Whether the queue has been closed."""
        compute = lambda run: np.bool_(self._state(run).closed)  # noqa: E731
        return add_op("QueueIsClosed", compute, (), [(bool_, ())], name or f"{self._name}_Is_Closed").outputs[0]


def _shape_list(shapes: Any) -> list[Any]:
    """A list of shapes, also from one shape alone."""
    if isinstance(shapes, TensorShape):
        return [shapes]
    if all(d is None or isinstance(d, int | np.integer) for d in shapes):
        return [shapes]
    return list(shapes)


class _Kept:
    """A queue's state in a session, with what it was made of."""

    def __init__(self, signature: Any, state: QueueState):
        self._parts = signature, state
        self.abort = state.abort

    def parts(self) -> tuple[Any, QueueState]:
        return self._parts


class FIFOQueue(QueueBase):
    """First in, first out.

    >>> from headrace import tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     queue = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    ...     sess.run(queue.enqueue_many([[1, 2, 3]]))
    ...     sess.run(queue.close())
    ...     print(sess.run(queue.dequeue_up_to(5)))
    [1 2 3]
    """

    _kind = "FIFOQueue"

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ):
        super().__init__(capacity, dtypes, shapes, names, shared_name, name)


class PaddingFIFOQueue(QueueBase):
    """First in, first out; dimensions that are unknown are padded to the longest when several elements are taken."""

    _kind = "PaddingFIFOQueue"
    _partial = True

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ):
        if shapes is None or any(as_shape(s).ndims is None for s in _shape_list(shapes)):
            raise ValueError("When providing partial shapes, a list of shapes must be provided, each of known rank.")
        super().__init__(capacity, dtypes, shapes, names, shared_name, name)


class RandomShuffleQueue(QueueBase):
    """Gives any element, each as likely, and keeps `min_after_dequeue` of them until it is closed."""

    _kind = "RandomShuffleQueue"

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ):
        self._min = min_after_dequeue
        seeds = random_seed(seed)
        super().__init__(capacity, dtypes, shapes, names, shared_name, name, lambda: Shuffled(min_after_dequeue, seeds))

    def _make(self) -> QueueState:
        if self._min < 0 or 0 <= self._capacity <= self._min:
            raise errors.InvalidArgumentError(
                None, None, f"min_after_dequeue {self._min} must be at least 0 and < capacity {self._capacity}"
            )
        return super()._make()


class PriorityQueue(QueueBase):
    """Gives the element of the lowest priority, an int64 which is the first component of each."""

    _kind = "PriorityQueue"

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ):
        types = list(types) if isinstance(types, list | tuple) else [types]
        shapes = None if shapes is None else [[], *_shape_list(shapes)]
        super().__init__(capacity, [int64, *types], shapes, names, shared_name, name, Heap)
