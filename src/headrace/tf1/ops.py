"""Arithmetic, shapes and choices: the plain operations of graphs, carried out by NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.tf1 import errors
from headrace.tf1.dtypes import TensorShape, as_dtype, as_shape, as_value, bool_, float32, float64, int32, int64
from headrace.tf1.graph import Operation, Tensor, add_op, constant, constant_value, convert, get_default_graph
from headrace.tf1.session import Run
from headrace.tf1.sparse import SparseTensor


def _dims(x: Tensor) -> tuple[int, ...]:
    """A shape that is known."""
    return tuple(int(d or 0) for d in x.shape)


def elementwise(kind: str, function: Callable[..., Any], dtype: Any = None) -> Callable[..., Tensor]:
    """An operation on two tensors, element by element."""

    def build(x: Any, y: Any, name: str | None = None) -> Tensor:
        if isinstance(x, Tensor):
            y = convert(y, x.dtype)
        elif isinstance(y, Tensor):
            x = convert(x, y.dtype)
        x, y = convert(x), convert(y, convert(x).dtype)
        shape = TensorShape(None)
        if x.shape.is_fully_defined() and y.shape.is_fully_defined():
            shape = TensorShape(np.broadcast_shapes(_dims(x), _dims(y)))
        elif y.shape == []:
            shape = x.shape
        elif x.shape == []:
            shape = y.shape
        kept = None if dtype is not None else x.dtype.as_numpy_dtype

        def compute(run: Run, a: Any, b: Any) -> Any:
            made = np.asarray(function(a, b))
            return made.astype(kept)[()] if kept is not None and made.dtype != kept else made[()]

        return add_op(kind, compute, [x, y], [(dtype or x.dtype, shape)], name).outputs[0]

    build.__doc__ = f"{kind} of two tensors, element by element."
    return build


def _objects(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Comparison also of strings."""
    return lambda a, b: function(np.asarray(a, object) if isinstance(a, bytes) else a, b)


add = elementwise("add", np.add)
subtract = elementwise("sub", np.subtract)
multiply = elementwise("mul", np.multiply)
divide = elementwise("truediv", np.true_divide)
floordiv = elementwise("floordiv", np.floor_divide)
mod = elementwise("mod", np.mod)
maximum = elementwise("Maximum", np.maximum)
minimum = elementwise("Minimum", np.minimum)
less = elementwise("Less", np.less, bool_)
less_equal = elementwise("LessEqual", np.less_equal, bool_)
greater = elementwise("Greater", np.greater, bool_)
greater_equal = elementwise("GreaterEqual", np.greater_equal, bool_)
equal = elementwise("Equal", _objects(np.equal), bool_)
not_equal = elementwise("NotEqual", _objects(np.not_equal), bool_)
logical_and = elementwise("LogicalAnd", np.logical_and, bool_)
logical_or = elementwise("LogicalOr", np.logical_or, bool_)


def logical_not(x: Any, name: str | None = None) -> Tensor:
    """True where false."""
    x = convert(x, bool_)
    return add_op("LogicalNot", lambda run, a: np.logical_not(a), [x], [(bool_, x.shape)], name).outputs[0]


def identity(x: Any, name: str | None = None) -> Tensor:
    """The same value; runs after what `control_dependencies` names."""
    x = convert(x)
    return add_op("Identity", lambda run, a: a, [x], [(x.dtype, x.shape)], name).outputs[0]


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """The values in another type."""
    target = as_dtype(dtype)
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, cast(x.values, target), x.dense_shape)
    x = convert(x)
    compute = lambda run, a: np.asarray(a).astype(target.as_numpy_dtype)[()]  # noqa: E731
    return add_op("Cast", compute, [x], [(target, x.shape)], name).outputs[0]


to_float = functools.partial(cast, dtype=float32)
to_int32 = functools.partial(cast, dtype=int32)
to_int64 = functools.partial(cast, dtype=int64)


def zeros(shape: Any, dtype: Any = float32, name: str = "zeros") -> Tensor:
    """A constant of zeros, or of empty strings."""
    kind = as_dtype(dtype)
    return constant(np.full(tuple(shape), kind.zero(), kind.as_numpy_dtype), kind, name=name)


def ones(shape: Any, dtype: Any = float32, name: str = "ones") -> Tensor:
    """A constant of ones."""
    return constant(np.ones(tuple(shape), as_dtype(dtype).as_numpy_dtype), dtype, name=name)


def placeholder(dtype: Any, shape: Any = None, name: str = "Placeholder") -> Tensor:
    """A tensor whose value is fed.

    Raises:
        InvalidArgumentError: When it is needed and isn't fed.
    """

    def compute(run: Run) -> Any:
        raise errors.InvalidArgumentError(None, None, f"You must feed a value for placeholder of {as_dtype(dtype)}")

    return add_op("Placeholder", compute, (), [(dtype, shape)], name).outputs[0]


def placeholder_with_default(value: Any, shape: Any, name: str = "PlaceholderWithDefault") -> Tensor:
    """A tensor whose value may be fed."""
    x = convert(value)
    return add_op("PlaceholderWithDefault", lambda run, a: a, [x], [(x.dtype, shape)], name).outputs[0]


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same values in another shape, of which one dimension may be −1."""
    x = convert(tensor)
    target = convert(shape, int64) if isinstance(shape, list | tuple) and not shape else convert(shape)

    def compute(run: Run, a: Any, wanted: Any) -> Any:
        try:
            return np.reshape(a, tuple(int(d) for d in np.atleast_1d(wanted)))[()]
        except ValueError as error:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Input to reshape is a tensor with {np.size(a)} values, but the requested shape is "
                f"{np.atleast_1d(wanted).tolist()}",
            ) from error

    known = constant_value(target)
    if known is not None:
        static = TensorShape(known)
    else:
        static = TensorShape([None] * (target.shape[0] or 0) if target.shape.ndims == 1 and target.shape[0] else None)
    return add_op("Reshape", compute, [x, target], [(x.dtype, static)], name).outputs[0]


def expand_dims(tensor: Any, axis: int = 0, name: str | None = None) -> Tensor:
    """One more dimension, of size 1."""
    x = convert(tensor)
    shape = x.shape.dims
    if shape is not None:
        at = axis + len(shape) + 1 if axis < 0 else axis
        shape = (*shape[:at], 1, *shape[at:])

    def compute(run: Run, a: Any) -> Any:
        if isinstance(a, bytes):
            a = np.array(a, object)
        return np.expand_dims(a, axis)

    return add_op("ExpandDims", compute, [x], [(x.dtype, shape)], name).outputs[0]


def squeeze(tensor: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Without dimensions of size 1."""
    x = convert(tensor)
    at = None if axis is None else tuple(np.atleast_1d(axis).tolist())
    shape: Any = None
    if x.shape.is_fully_defined():
        shape = np.squeeze(np.empty(_dims(x)), at).shape
    return add_op("Squeeze", lambda run, a: np.squeeze(a, at)[()], [x], [(x.dtype, shape)], name).outputs[0]


def stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Tensor:
    """Tensors of one shape as one, with one more dimension."""
    first = next((x for x in values if isinstance(x, Tensor)), None)
    tensors = [convert(x, None if first is None else first.dtype) for x in values]
    shape = tensors[0].shape
    for tensor in tensors[1:]:
        shape = shape.merge_with(tensor.shape)
    known = None if shape.dims is None else list(shape.dims)
    if known is not None:
        known.insert(axis if axis >= 0 else len(known) + 1 + axis, len(tensors))
    dtype = tensors[0].dtype
    compute = lambda run, *a: np.stack([np.asarray(x, dtype.as_numpy_dtype) for x in a], axis)  # noqa: E731
    return add_op("stack", compute, tensors, [(dtype, known)], name).outputs[0]


def concat(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Tensor:
    """Tensors end to end."""
    first = next((x for x in values if isinstance(x, Tensor)), None)
    tensors = [convert(x, None if first is None else first.dtype) for x in values]
    ranks = {t.shape.ndims for t in tensors} - {None}
    dims: list[int | None] | None = None
    if len(ranks) == 1:
        rank = ranks.pop() or 0
        dims = [None] * rank
        full = [t.shape.known() for t in tensors if t.shape.dims is not None]
        for i in range(rank):
            sizes = [s[i] for s in full]
            if i == axis % rank:
                whole = len(full) == len(tensors) and None not in sizes
                dims[i] = sum(n for n in sizes if n is not None) if whole else None
            else:
                dims[i] = next((n for n in sizes if n is not None), None)
    compute = lambda run, *a: np.concatenate(a, axis)  # noqa: E731
    return add_op("concat", compute, tensors, [(tensors[0].dtype, dims)], name).outputs[0]


def element(tensor: Any, at: Any, name: str | None = None) -> Tensor:
    """Elements and slices, as `tensor[…]` has them."""
    x = convert(tensor)
    parts = at if isinstance(at, tuple) else (at,)
    dynamic: list[Tensor] = []
    plan: list[Any] = []
    for part in parts:
        if isinstance(part, Tensor):
            plan.append(len(dynamic))
            dynamic.append(part)
        elif isinstance(part, slice):
            ends = []
            for end in (part.start, part.stop, part.step):
                if isinstance(end, Tensor):
                    dynamic.append(end)
                    end = dynamic[-1]
                ends.append(end)
            plan.append(ends)
        else:
            plan.append((part,))
    static: Any = None
    if not dynamic and x.shape.is_fully_defined():
        static = np.empty(_dims(x))[at].shape
    elif not dynamic and x.shape.ndims is not None and all(isinstance(p, int) for p in parts):
        static = x.shape[len(parts) :]
    elif x.shape.ndims is not None and all(isinstance(p, slice | Tensor | int) for p in parts):
        kept = [None for p in parts if isinstance(p, slice)]
        static = [*kept, *x.shape.known()[len(parts) :]]

    def compute(run: Run, a: Any, *given: Any) -> Any:
        values = dict(zip(dynamic, given, strict=True))
        key = tuple(
            given[p]
            if isinstance(p, int)
            else slice(*[values[e] if isinstance(e, Tensor) else e for e in p])
            if isinstance(p, list)
            else p[0]
            for p in plan
        )
        return a[key]

    return add_op("strided_slice", compute, [x, *dynamic], [(x.dtype, static)], name).outputs[0]


def _whole(what: str, numbers: Any) -> list[int]:
    known = constant_value(numbers) if isinstance(numbers, Tensor) else numbers
    if known is None:
        raise ValueError(f"{what} is whole numbers that are known when the graph is built, got {numbers!r:.60}")
    return [int(number) for number in np.atleast_1d(known)]


def strided_slice(input_: Any, begin: Any, end: Any, strides: Any = None, name: str | None = None) -> Tensor:
    """From a place to before another in each of the first dimensions."""
    first, last = _whole("begin", begin), _whole("end", end)
    steps = [1] * len(first) if strides is None else _whole("strides", strides)
    if not len(first) == len(last) == len(steps):
        raise ValueError(f"begin, end and strides have one length, got {len(first)}, {len(last)} and {len(steps)}")
    return convert(input_)[tuple(map(slice, first, last, steps))]


def slice_(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """So many values from a place on in each dimension; −1 for all that follow."""
    first, count = _whole("begin", begin), _whole("size", size)
    if len(first) != len(count):
        raise ValueError(f"begin and size have one length, got {len(first)} and {len(count)}")
    return convert(input_)[tuple(slice(b, None if n == -1 else b + n) for b, n in zip(first, count, strict=True))]


def gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """Rows by number."""
    x, i = convert(params), convert(indices)

    def compute(run: Run, a: Any, at: Any) -> Any:
        wrong = np.asarray(at)[(np.asarray(at) < 0) | (np.asarray(at) >= len(a))]
        if wrong.size:
            raise errors.InvalidArgumentError(None, None, f"indices = {wrong.flat[0]} is not in [0, {len(a)})")
        return a[at]

    return add_op("Gather", compute, [x, i], [(x.dtype, i.shape.concatenate(x.shape[1:]))], name).outputs[0]


def shape(input: Any, out_type: Any = int32, name: str | None = None) -> Tensor:
    """The shape as a vector."""
    x = convert(input)
    kind = as_dtype(out_type)
    compute = lambda run, a: np.array(np.shape(a), kind.as_numpy_dtype)  # noqa: E731
    return add_op("Shape", compute, [x], [(kind, [x.shape.ndims])], name).outputs[0]


def size(input: Any, out_type: Any = int32, name: str | None = None) -> Tensor:
    """The number of elements."""
    kind = as_dtype(out_type)
    compute = lambda run, a: kind.as_numpy_dtype(np.size(a))  # noqa: E731
    return add_op("Size", compute, [convert(input)], [(kind, ())], name).outputs[0]


def range_(start: Any, limit: Any = None, delta: Any = 1, name: str | None = None) -> Tensor:
    """Numbers from `start` up to, without, `limit`."""
    if limit is None:
        start, limit = 0, start
    first = next((x for x in (start, limit, delta) if isinstance(x, Tensor)), None)
    if first is not None:
        kind = first.dtype
    else:  # NumPy would make float64 of an int32 beside a float32
        found = [as_dtype(as_value(x).dtype) for x in (start, limit, delta)]
        kind = next((wide for wide in (float64, float32, int64) if wide in found), found[1])
    parts = [convert(x, kind) for x in (start, limit, delta)]
    known = [constant_value(p) for p in parts]
    count = len(np.arange(*known)) if all(k is not None for k in known) else None
    compute = lambda run, a, b, c: np.arange(a, b, c, dtype=kind.as_numpy_dtype)  # noqa: E731
    return add_op("range", compute, parts, [(kind, [count])], name).outputs[0]


def one_hot(indices: Any, depth: int, on_value: Any = 1, off_value: Any = 0, dtype: Any = float32) -> Tensor:
    """A row for each number, with `on_value` at its place."""
    x = convert(indices)
    kind = as_dtype(dtype).as_numpy_dtype
    compute = lambda run, a: np.where(np.asarray(a)[..., None] == np.arange(depth), kind(on_value), kind(off_value))  # noqa: E731
    return add_op("one_hot", compute, [x], [(dtype, x.shape.concatenate([depth]))]).outputs[0]


def reduction(kind: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """An operation that makes one element of many."""

    def build(input_tensor: Any, axis: Any = None, name: str | None = None) -> Tensor:
        x = convert(input_tensor)
        at = tuple(np.atleast_1d(axis).tolist()) if axis is not None else None
        rank = 0 if at is None else None if x.shape.ndims is None else x.shape.ndims - len(at)
        dims = None if rank is None else [None] * rank
        compute = lambda run, a: np.asarray(function(a, at)).astype(np.asarray(a).dtype)[()]  # noqa: E731
        return add_op(kind, compute, [x], [(x.dtype, dims)], name).outputs[0]

    build.__doc__ = f"{kind} over all dimensions, or over those given."
    return build


reduce_sum = reduction("Sum", np.sum)
reduce_mean = reduction("Mean", np.mean)
reduce_max = reduction("Max", np.max)
reduce_min = reduction("Min", np.min)


def transpose(a: Any, perm: Sequence[int] | None = None, name: str | None = None) -> Tensor:
    """Dimensions in another order."""
    x = convert(a)
    order = list(perm) if perm is not None else list(range(x.shape.ndims or 0))[::-1]
    dims = None if x.shape.dims is None else [x.shape.dims[i] for i in order]
    return add_op("transpose", lambda run, v: np.transpose(v, order), [x], [(x.dtype, dims)], name).outputs[0]


def assert_less(
    x: Any, y: Any, data: Any = None, summarize: Any = None, message: str = "", name: str | None = None
) -> Operation:
    """Fails unless x < y everywhere.

    Raises:
        InvalidArgumentError: When it runs.
    """
    first = next((t for t in (x, y) if isinstance(t, Tensor)), None)
    pair = [convert(t, None if first is None else first.dtype) for t in (x, y)]

    def compute(run: Run, a: Any, b: Any) -> None:
        if not np.all(np.asarray(a) < np.asarray(b)):
            raise errors.InvalidArgumentError(None, None, f"assertion failed: {message} {a} < {b} doesn't hold")

    return add_op("assert_less", compute, pair, (), name)


def py_func(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, stateful: bool = True, name: str = "PyFunc"
) -> Any:
    """Calls a function of the user's with the values; its errors are causes of ours.

    Raises:
        InvalidArgumentError: When the function raises ValueError or TypeError, or gives other types than `Tout`.
        UnknownError: When it raises something else.
    """
    kinds = [as_dtype(t) for t in (Tout if isinstance(Tout, list | tuple) else [Tout])]

    def compute(run: Run, *values: Any) -> Any:
        made = func(*values)
        found = list(made) if isinstance(made, list | tuple) else [made]
        if len(found) != len(kinds):
            raise errors.InvalidArgumentError(
                None, None, f"the function gives {len(found)} values, Tout has {len(kinds)}"
            )
        out = tuple(as_value(v, k) for v, k in zip(found, kinds, strict=True))
        return out if len(out) > 1 else out[0]

    op = add_op("PyFunc", compute, inp, [(k, None) for k in kinds], name)
    return list(op.outputs) if isinstance(Tout, list | tuple) else op.outputs[0]


def no_op(name: str = "NoOp") -> Operation:
    """Does nothing."""
    return add_op("NoOp", lambda run: None, name=name)


def group(*inputs: Any, name: str = "group_deps") -> Operation:
    """An operation that runs all those given."""
    flat = [x for item in inputs for x in (item if isinstance(item, list | tuple) else [item])]
    return add_op("NoOp", lambda run: None, name=name, control=flat)


def local_variables_initializer() -> Operation:
    """Does nothing: counters of epochs begin by themselves."""
    return no_op("init")


global_variables_initializer = local_variables_initializer
initialize_all_variables = local_variables_initializer
initialize_local_variables = local_variables_initializer


def control_dependencies(operations: Sequence[Any]) -> Any:
    """A block in which operations run after those given."""
    return get_default_graph().control_dependencies(operations)


def name_scope(name: str, default_name: str | None = None, values: Any = None) -> Any:
    """A block in which names begin with this one."""
    return get_default_graph().name_scope(name or default_name or "scope")


def sparse_tensor_to_dense(sp_input: SparseTensor, default_value: Any = 0, name: str | None = None) -> Tensor:
    """All elements, with a default where the sparse tensor holds none.

    Raises:
        InvalidArgumentError: When a place lies outside the shape.
    """
    dtype = sp_input.dtype
    default = as_value(constant_value(default_value), dtype)

    def compute(run: Run, indices: Any, values: Any, dense: Any) -> Any:
        whole = np.full(tuple(int(d) for d in dense), default, dtype.as_numpy_dtype)
        places = np.asarray(indices).reshape(-1, whole.ndim)
        if len(places) and ((places < 0) | (places >= whole.shape)).any():
            raise errors.InvalidArgumentError(None, None, f"an index lies outside of the shape {list(whole.shape)}")
        whole[tuple(places.T)] = values
        return whole

    parts = sp_input.fetch_parts()[0]
    return add_op("SparseToDense", compute, parts, [(dtype, sp_input.shape)], name).outputs[0]


def sparse_to_dense(
    sparse_indices: Any, output_shape: Any, sparse_values: Any, default_value: Any = 0, validate_indices: bool = True
) -> Tensor:
    """As `sparse_tensor_to_dense`, from parts."""
    return sparse_tensor_to_dense(SparseTensor(sparse_indices, sparse_values, output_shape), default_value)


def random_uniform(
    shape: Any, minval: Any = 0, maxval: Any = 1, dtype: Any = float32, seed: int | None = None
) -> Tensor:
    """Random numbers, new ones in each run; the same in each session if a seed is set."""
    from headrace.tf1.queues import random_seed

    seeds = random_seed(seed)
    kind = as_dtype(dtype)
    name = get_default_graph().unique_name("random_uniform")

    def compute(run: Run) -> Any:
        rng = run.resource(f"random/{name}", lambda: np.random.default_rng(None if seeds is None else list(seeds)))
        return np.asarray(rng.uniform(minval, maxval, tuple(shape)), kind.as_numpy_dtype)[()]

    return add_op("random_uniform", compute, (), [(kind, as_shape(shape))]).outputs[0]
