"""Graphs of operations that run later: what TensorFlow 1 programs build first.

An operation is a Python function and the tensors it takes; a tensor is one of its results, with what is known of
type and shape. Nothing is computed here: `session.py` does.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.tf1.dtypes import DType, TensorShape, as_dtype, as_shape, as_value

if TYPE_CHECKING:
    from headrace.tf1.session import Run, Session

__all__ = ["Graph", "Operation", "Tensor", "add_op", "constant_value", "convert", "get_default_graph"]

Compute = Callable[..., Any]  # (run, *values of the inputs) → value, or a tuple of values


class Operation:
    """One step of a graph, with inputs and outputs."""

    def __init__(
        self, graph: Graph, name: str, kind: str, compute: Compute, inputs: Sequence[Tensor], control: Sequence[Any]
    ):
        self.graph = graph
        self.name = name
        self.type = kind
        self.compute = compute
        self.inputs = tuple(inputs)
        self.control_inputs: tuple[Operation, ...] = tuple(c.op if isinstance(c, Tensor) else c for c in control)
        self.outputs: tuple[Tensor, ...] = ()

    def run(self, feed_dict: Any = None, session: Session | None = None) -> None:
        """Runs this operation in the session given or the default one."""
        _session(session).run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


class Tensor:
    """A value that an operation will give."""

    __array_priority__ = 100.0  # `array * tensor` asks the tensor

    def __init__(self, op: Operation, index: int, dtype: DType, shape: TensorShape):
        self.op = op
        self.value_index = index
        self.dtype = dtype
        self._shape = shape

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self.op.graph

    @property
    def name(self) -> str:
        """The operation's name and the number of the output."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def shape(self) -> TensorShape:
        """What is known of the shape."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """What is known of the shape."""
        return self._shape

    def set_shape(self, shape: Any) -> None:
        """Says what the graph can't know; it is believed."""
        self._shape = self._shape.merge_with(shape)

    def eval(self, feed_dict: Any = None, session: Session | None = None) -> Any:
        """The value, computed in the session given or the default one."""
        return _session(session).run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self._shape} dtype={self.dtype.name}>"

    def __bool__(self) -> bool:
        raise TypeError("a tensor has no value while the graph is built; run it in a session, or use graph operations")

    def __iter__(self) -> Iterator[Tensor]:
        if self._shape.ndims is None or not self._shape.ndims or self._shape[0] is None:
            raise TypeError(f"a tensor of shape {self._shape} can't be taken apart while the graph is built")
        return (self[i] for i in range(self._shape[0]))

    def __getitem__(self, at: Any) -> Tensor:
        return _operator("element", self, at)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other  # as TensorFlow 1 has it

    def __add__(self, other: Any) -> Tensor:
        return _operator("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _operator("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _operator("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _operator("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _operator("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _operator("multiply", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _operator("divide", self, other)

    def __floordiv__(self, other: Any) -> Tensor:
        return _operator("floordiv", self, other)

    def __mod__(self, other: Any) -> Tensor:
        return _operator("mod", self, other)

    def __neg__(self) -> Tensor:
        return _operator("multiply", self, -1)

    def __lt__(self, other: Any) -> Tensor:
        return _operator("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _operator("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _operator("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _operator("greater_equal", self, other)

    def __and__(self, other: Any) -> Tensor:
        return _operator("logical_and", self, other)

    def __or__(self, other: Any) -> Tensor:
        return _operator("logical_or", self, other)

    def __invert__(self) -> Tensor:
        return _operator("logical_not", self)


def _operator(name: str, *args: Any) -> Tensor:
    from headrace.tf1 import ops  # ops.py makes tensors, so it imports this module

    made: Tensor = getattr(ops, name)(*args)
    return made


class Graph:
    """Operations by name, and collections of things that belong to them."""

    def __init__(self) -> None:
        self._operations: dict[str, Operation] = {}
        self._collections: dict[str, list[Any]] = {}
        self._lock = threading.RLock()
        self._numbers: dict[str, int] = {}
        self._scopes: list[str] = []
        self._control: list[Sequence[Any]] = []
        self.seed: int | None = None

    def unique_name(self, name: str) -> str:
        """The name in the scope that is open, with a number when it is taken."""
        full = "/".join([*self._scopes, name])
        with self._lock:
            number = self._numbers.get(full, 0)
            self._numbers[full] = number + 1
        return full if not number else f"{full}_{number}"

    @contextlib.contextmanager
    def name_scope(self, name: str) -> Iterator[str]:
        """Names made inside begin with this one."""
        full = self.unique_name(name)
        before, self._scopes = self._scopes, [full]
        try:
            yield full + "/"
        finally:
            self._scopes = before

    @contextlib.contextmanager
    def control_dependencies(self, operations: Sequence[Any]) -> Iterator[None]:
        """Operations made inside run after those given."""
        self._control.append(operations)
        try:
            yield
        finally:
            self._control.pop()

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Makes this the graph that operations are added to, in this thread."""
        _stack().append(self)
        try:
            yield self
        finally:
            _stack().remove(self)

    def add(self, operation: Operation) -> None:
        """Keeps an operation by its name."""
        with self._lock:
            self._operations[operation.name] = operation

    def get_operations(self) -> list[Operation]:
        """All operations, in the order in which they were made."""
        with self._lock:
            return list(self._operations.values())

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation of that name; KeyError if there is none."""
        if name not in self._operations:
            raise KeyError(f"the graph has no operation '{name}'")
        return self._operations[name]

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor of that name, such as `batch:0`."""
        head, _, index = name.partition(":")
        outputs = self.get_operation_by_name(head).outputs
        if not index.isdigit() or int(index) >= len(outputs):
            raise KeyError(f"operation '{head}' has {len(outputs)} outputs, asked for '{name}'")
        return outputs[int(index)]

    def add_to_collection(self, key: str, value: Any) -> None:
        """Appends to a list of the graph's."""
        with self._lock:
            self._collections.setdefault(key, []).append(value)

    def get_collection(self, key: str) -> list[Any]:
        """A copy of a list of the graph's."""
        with self._lock:
            return list(self._collections.get(key, []))


_local = threading.local()
_default = Graph()


def _stack() -> list[Graph]:
    if not hasattr(_local, "graphs"):
        _local.graphs = []
    graphs: list[Graph] = _local.graphs
    return graphs


def get_default_graph() -> Graph:
    """The graph that operations are added to."""
    return _stack()[-1] if _stack() else _default


def reset_default_graph() -> None:
    """Begins a new default graph."""
    global _default
    if _stack():
        raise AssertionError("reset_default_graph() can't be used inside `with graph.as_default()`")
    _default = Graph()


def set_random_seed(seed: int | None) -> None:
    """Sets the graph's seed: with it, what is random is the same in every session."""
    get_default_graph().seed = seed


def sessions() -> list[Session]:
    """The sessions that are default ones in this thread, the last one in force."""
    if not hasattr(_local, "sessions"):
        _local.sessions = []
    found: list[Session] = _local.sessions
    return found


def _session(given: Session | None) -> Session:
    if given is not None:
        return given
    if not sessions():
        raise ValueError("no session: give one, or use `with tf.Session():`")
    return sessions()[-1]


def add_op(
    kind: str,
    compute: Compute,
    inputs: Sequence[Any] = (),
    outputs: Sequence[tuple[Any, Any]] = (),
    name: str | None = None,
    control: Sequence[Any] = (),
) -> Operation:
    """Adds an operation to the default graph.

    Args:
        kind: The operation's type; also its name where none is given.
        compute: Takes the run and a value per input, gives a value, or a tuple of values for several outputs.
        inputs: Tensors, or what can be made constants.
        outputs: Type and shape of each result.
        name: The operation's name.
        control: Operations that run before.
    """
    graph = get_default_graph()
    tensors = [convert(x) for x in inputs]
    for tensor in tensors:
        if tensor.graph is not graph:
            raise ValueError(f"tensor '{tensor.name}' belongs to another graph than the one that is being built")
    before = [*control, *(c for group in graph._control for c in group)]
    operation = Operation(graph, graph.unique_name(name or kind), kind, compute, tensors, before)
    operation.outputs = tuple(
        Tensor(operation, i, as_dtype(dtype), as_shape(shape)) for i, (dtype, shape) in enumerate(outputs)
    )
    graph.add(operation)
    return operation


class Constant:
    """The function of an operation that always gives one value."""

    def __init__(self, value: Any):
        self.value = value

    def __call__(self, run: Run) -> Any:
        return self.value


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor:
    """A tensor with a value that never changes.

    >>> from headrace import tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     print(sess.run(tf.constant([1, 2])))
    [1 2]
    """
    made = as_value(value, None if dtype is None else as_dtype(dtype))
    if shape is not None:
        import numpy as np

        target = tuple(d for d in as_shape(shape).known() if d is not None)
        made = np.broadcast_to(made, target).copy() if np.size(made) == 1 else np.reshape(made, target)
    kind = as_dtype("string") if isinstance(made, bytes) else as_dtype(made.dtype)
    return add_op("Const", Constant(made), [], [(kind, getattr(made, "shape", ()))], name).outputs[0]


def constant_value(given: Any) -> Any:
    """The value of something that is known while the graph is built; None for a tensor that isn't."""
    if not isinstance(given, Tensor):
        return given
    return given.op.compute.value if isinstance(given.op.compute, Constant) else None


def convert(given: Any, dtype: Any = None) -> Tensor:
    """A tensor, made a constant if it isn't one; TypeError if the type isn't the one asked for."""
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(given, Tensor):
        if wanted is not None and given.dtype != wanted:
            raise TypeError(f"expected a tensor of {wanted.name}, got {given.dtype.name} ('{given.name}')")
        return given
    if hasattr(given, "as_tensor"):
        return convert(given.as_tensor(), dtype)
    if isinstance(given, list | tuple) and any(isinstance(x, Tensor) for x in given):
        return _operator("stack", list(given))
    return constant(given, wanted)
