"""Runs graphs: a session holds the state of queues, readers and tables, and computes what is asked for."""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.tf1 import errors
from headrace.tf1.dtypes import as_value
from headrace.tf1.graph import Graph, Operation, Tensor, get_default_graph, sessions

__all__ = ["ConfigProto", "InteractiveSession", "Run", "RunOptions", "Session", "get_default_session"]


class RunOptions(NamedTuple):
    """How one call runs: a time limit in milliseconds, 0 for none."""

    timeout_in_ms: int = 0


class ConfigProto:
    """A session's settings, of which the time limit of a call counts here; the others are taken and ignored."""

    def __init__(self, operation_timeout_in_ms: int = 0, **ignored: Any):
        self.operation_timeout_in_ms = operation_timeout_in_ms
        self.__dict__.update(ignored)


class Run:
    """One call of `Session.run`: what operations may ask while they compute."""

    __slots__ = ("deadline", "feeds", "session")

    def __init__(self, session: Session, deadline: float | None, feeds: Mapping[Tensor, Any] | None = None):
        self.session = session
        self.deadline = deadline
        self.feeds = feeds or {}

    def resource(self, key: str, make: Callable[[], Any]) -> Any:
        """The session's state under that key, made at its first use."""
        return self.session.resource(key, make)


class _Plan:
    """The operations that a call needs, in an order in which each comes after its inputs."""

    def __init__(self, targets: Sequence[Any], fed: Sequence[Tensor]):
        self.slots: dict[Tensor, int] = {tensor: i for i, tensor in enumerate(fed)}
        self.steps: list[tuple[Operation, list[int], list[int]]] = []
        done: set[Operation] = set()
        stack = [(t.op if isinstance(t, Tensor) else t, False) for t in reversed(targets) if t not in self.slots]
        while stack:
            op, ready = stack.pop()
            if op in done:
                continue
            if not ready:
                stack.append((op, True))
                needed = [x.op for x in op.inputs if x not in self.slots] + list(op.control_inputs)
                stack.extend((x, False) for x in reversed(needed) if x not in done)
                continue
            done.add(op)
            takes = [self.slots[x] for x in op.inputs]
            gives = []
            for tensor in op.outputs:
                gives.append(self.slots.setdefault(tensor, len(self.slots)))
            if any(tensor in fed for tensor in op.outputs):  # what is fed wins over what is computed
                gives = [-1 if tensor in fed else slot for tensor, slot in zip(op.outputs, gives, strict=True)]
            self.steps.append((op, takes, gives))

    def execute(self, run: Run, fed: Sequence[Any]) -> list[Any]:
        values: list[Any] = [*fed, *[None] * (len(self.slots) - len(fed))]
        for op, takes, gives in self.steps:
            try:
                result = op.compute(run, *[values[i] for i in takes])
            except errors.OpError as error:
                if error.op is None:
                    error.op = op
                raise
            except Exception as error:
                raise errors.translate(error, op) from error
            if len(gives) == 1:
                if gives[0] >= 0:
                    values[gives[0]] = result
            else:
                for slot, value in zip(gives, result if gives else (), strict=True):
                    if slot >= 0:
                        values[slot] = value
        return values


class Function:
    """A part of a graph that can be called: what datasets do with the functions that users give them."""

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]):
        self._plan = _Plan(outputs, inputs)
        self._out = [self._plan.slots[t] for t in outputs]

    def __call__(self, run: Run, *values: Any) -> list[Any]:
        found = self._plan.execute(run, values)
        return [found[i] for i in self._out]


_live: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for session in list(_live):
        session.close()


class Session:
    """Runs operations of a graph, and holds the state of its queues, readers, tables and iterators.

    Closing a session cancels every call that waits in it, so threads that run in it end.

    Args:
        target: Ignored; there is one process.
        graph: The graph to run; the default one if not given.
        config: Settings, of which `operation_timeout_in_ms` counts.

    Raises:
        RuntimeError: When a closed session is asked to run.

    Example:
        >>> from headrace import tf1 as tf
        >>> with tf.Graph().as_default(), tf.Session() as sess:
        ...     x = tf.placeholder(tf.int32)
        ...     print(sess.run(x * 2, feed_dict={x: 21}))
        42
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None):
        self.graph = graph or get_default_graph()
        self._config = config or ConfigProto()
        self._resources: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._plans: dict[Any, _Plan] = {}
        self._closed = threading.Event()
        self._on_close: list[Callable[[], None]] = []
        self._contexts: list[Any] = []
        _live.add(self)

    def run(self, fetches: Any, feed_dict: Any = None, options: RunOptions | None = None) -> Any:
        """Computes what is asked for, each operation once.

        Args:
            fetches: A tensor, an operation (gives None), a name, or lists, tuples and dicts of such.
            feed_dict: Values to use for tensors instead of computing them.
            options: A time limit.

        Raises:
            OpError: What an operation met, with its name.
        """
        flat: list[Any] = []
        rebuild = _flatten(fetches, flat, self.graph)
        fed = list(_feeds(feed_dict, self.graph))
        limit = options.timeout_in_ms if options else 0
        limit = limit or self._config.operation_timeout_in_ms
        run = Run(self, time.monotonic() + limit / 1000 if limit else None, dict(fed))
        plan = self._plan(flat, [tensor for tensor, _ in fed])
        found = plan.execute(run, [value for _, value in fed])
        return rebuild(iter([found[plan.slots[t]] if isinstance(t, Tensor) else None for t in flat]))

    def make_callable(self, fetches: Any, feed_list: Sequence[Tensor] | None = None) -> Callable[..., Any]:
        """A function that runs these fetches, with values for `feed_list` as its arguments."""
        return lambda *values: self.run(fetches, dict(zip(feed_list or (), values, strict=True)))

    def _plan(self, targets: Sequence[Any], fed: Sequence[Tensor]) -> _Plan:
        if self._closed.is_set():
            raise RuntimeError("Attempted to use a closed Session.")
        key = (tuple(map(id, targets)), tuple(map(id, fed)))  # the graph keeps them alive
        plan = self._plans.get(key)
        if plan is None:
            for target in targets:
                if target.graph is not self.graph:
                    raise ValueError(f"'{target.name}' isn't an element of this session's graph")
            plan = self._plans[key] = _Plan(targets, fed)
        return plan

    def resource(self, key: str, make: Callable[[], Any]) -> Any:
        """The state under that key, made at its first use."""
        found = self._resources.get(key)
        if found is None:
            with self._lock:
                found = self._resources.get(key)
                if found is None:
                    if self._closed.is_set():
                        raise errors.CancelledError(None, None, "the session has been closed")
                    found = self._resources[key] = make()
        return found

    @property
    def closed(self) -> bool:
        """Whether the session has been closed."""
        return self._closed.is_set()

    def on_close(self, call: Callable[[], None]) -> None:
        """Calls this when the session is closed."""
        with self._lock:
            self._on_close.append(call)

    def close(self) -> None:
        """Ends the session: calls that wait in it raise CancelledError, its files are closed."""
        with self._lock:
            self._closed.set()
            resources, self._resources = list(self._resources.values()), {}
            calls, self._on_close = self._on_close, []
        for resource in resources:
            if hasattr(resource, "abort"):
                resource.abort()
        for call in calls:
            call()

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Session]:
        """Makes this the session of `Tensor.eval` and `Operation.run` in this thread; doesn't close it."""
        sessions().append(self)
        try:
            yield self
        finally:
            sessions().remove(self)

    def __enter__(self) -> Session:
        context = contextlib.ExitStack()
        context.enter_context(self.graph.as_default())
        context.enter_context(self.as_default())
        self._contexts.append(context)
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
        self._contexts.pop().close()


class InteractiveSession(Session):
    """A session that is the default one from its making on, until it is closed."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None):
        super().__init__(target, graph, config)
        sessions().append(self)

    def close(self) -> None:
        """Ends the session."""
        super().close()
        if self in sessions():
            sessions().remove(self)


def get_default_session() -> Session | None:
    """The session in force in this thread, if there is one."""
    return sessions()[-1] if sessions() else None


def _flatten(fetch: Any, flat: list[Any], graph: Graph) -> Callable[[Iterator[Any]], Any]:
    """Appends the tensors of a structure, and gives what puts their values together again."""
    if isinstance(fetch, str):
        fetch = graph.get_tensor_by_name(fetch) if ":" in fetch else graph.get_operation_by_name(fetch)
    if isinstance(fetch, Tensor | Operation):
        flat.append(fetch)
        return next
    if hasattr(fetch, "fetch_parts"):  # sparse tensors and the like
        parts, build = fetch.fetch_parts()
        inner = [_flatten(part, flat, graph) for part in parts]
        return lambda values: build(*[part(values) for part in inner])
    if hasattr(fetch, "as_tensor"):
        return _flatten(fetch.as_tensor(), flat, graph)
    if isinstance(fetch, dict):
        parts_of = {key: _flatten(part, flat, graph) for key, part in fetch.items()}
        return lambda values: {key: part(values) for key, part in parts_of.items()}
    if isinstance(fetch, list | tuple):
        each = [_flatten(part, flat, graph) for part in fetch]
        kind: Any = type(fetch)
        if hasattr(fetch, "_fields"):
            return lambda values: kind(*[part(values) for part in each])
        return lambda values: kind([part(values) for part in each])
    raise TypeError(f"expected a tensor, an operation, a name, or a structure of such to fetch, got {fetch!r}")


def _feeds(feed_dict: Any, graph: Graph) -> Iterator[tuple[Tensor, Any]]:
    for tensor, value in (feed_dict or {}).items():
        if isinstance(tensor, str):
            tensor = graph.get_tensor_by_name(tensor)
        if hasattr(tensor, "fetch_parts"):
            yield from zip(tensor.fetch_parts()[0], value, strict=True)
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected a tensor to feed, got {tensor!r}")
        made = as_value(value, tensor.dtype)
        if not tensor.shape.is_compatible_with(np.shape(made)):
            raise ValueError(
                f"Cannot feed value of shape {np.shape(made)} for tensor '{tensor.name}', which has shape "
                f"{tensor.shape}"
            )
        yield tensor, made
