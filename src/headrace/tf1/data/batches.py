"""Elements of datasets together: plain, padded, by window and by length."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.tf1 import errors
from headrace.tf1.data.dataset import Dataset
from headrace.tf1.data.structure import (
    Context,
    End,
    Next,
    Row,
    Spec,
    Traced,
    flatten_as,
    leaves_of,
    map_leaves,
    pack,
)
from headrace.tf1.dtypes import TensorShape, as_shape, as_value
from headrace.tf1.graph import Tensor, constant_value, convert
from headrace.tf1.ops import cast, placeholder

__all__ = ["batch", "bucket_by_sequence_length", "group_by_window", "padded_batch"]


def _groups(source: Dataset, batch_size: Any, drop: Any, context: Context) -> Callable[[], list[Row]]:
    size = int(context.value(batch_size))
    if size < 1:
        raise errors.InvalidArgumentError(None, None, f"Batch size must be greater than zero, got {size}")
    step = source.iterate(context)
    whole = bool(context.value(drop))

    def group() -> list[Row]:
        rows: list[Row] = []
        try:
            while len(rows) < size:
                rows.append(step())
        except End:
            if not rows or whole:
                raise
        return rows

    return group


def _first(batch_size: Any, drop: Any) -> int | None:
    known = constant_value(batch_size)
    return int(known) if drop is True and known is not None else None


def batch(source: Dataset, batch_size: Any, drop_remainder: Any = False) -> Dataset:
    """Elements of one shape together."""
    kinds = [leaf.dtype.as_numpy_dtype for leaf in leaves_of(source.spec)]
    first = as_shape([_first(batch_size, drop_remainder)])

    def join(values: Sequence[Any], kind: Any) -> Any:
        shapes = [np.shape(v) for v in values]
        wrong = next((s for s in shapes if s != shapes[0]), None)
        if wrong is not None:
            raise errors.InvalidArgumentError(
                None,
                None,
                "Cannot add tensor to the batch: number of elements does not match. "
                f"Shapes are: [tensor]: {list(wrong)}, [batch]: {list(shapes[0])}",
            )
        made = np.empty((len(values), *shapes[0]), kind)
        for i, value in enumerate(values):
            made[i] = value
        return made

    def iterate(context: Context) -> Next:
        group = _groups(source, batch_size, drop_remainder, context)
        return lambda: tuple(join(column, k) for column, k in zip(zip(*group(), strict=True), kinds, strict=True))

    return Dataset(map_leaves(lambda leaf: Spec(leaf.dtype, first.concatenate(leaf.shape)), source.spec), iterate)


def padded_batch(
    source: Dataset, batch_size: Any, padded_shapes: Any = None, padding_values: Any = None, drop_remainder: Any = False
) -> Dataset:
    """Elements together, padded to one shape."""
    leaves = leaves_of(source.spec)
    if padded_shapes is None:
        padded_shapes = source.output_shapes
    shapes = [as_shape(_static(s)) for s in flatten_as(source.spec, padded_shapes, "padded_shapes")]
    for leaf, shape in zip(leaves, shapes, strict=True):
        if leaf.shape.ndims is not None and leaf.shape.ndims != shape.ndims:
            raise ValueError(f"The padded shape {shape} is not compatible with the component's shape {leaf.shape}.")
    if padding_values is None:
        pads: list[Any] = [leaf.dtype.zero() for leaf in leaves]
    else:
        given = flatten_as(source.spec, padding_values, "padding_values")
        pads = [_padding(value, leaf) for value, leaf in zip(given, leaves, strict=True)]

    def join(values: Sequence[Any], shape: TensorShape, pad: Any, kind: Any) -> Any:
        dims = []
        for i, wanted in enumerate(shape.known()):
            longest = max((np.shape(v)[i] for v in values), default=0)
            if wanted is not None and longest > wanted:
                raise errors.DataLossError(
                    None, None, f"Attempted to pad to a smaller size than the input element: {longest} to {wanted}."
                )
            dims.append(longest if wanted is None else wanted)
        made = np.full((len(values), *dims), pad, kind)
        for i, value in enumerate(values):
            place: Any = (i, *[slice(n) for n in np.shape(value)])
            made[place] = value
        return made

    def iterate(context: Context) -> Next:
        fill = [context.value(pad) for pad in pads]
        group = _groups(source, batch_size, drop_remainder, context)

        def step() -> Row:
            columns = list(zip(*group(), strict=True))
            for column, shape in zip(columns, shapes, strict=True):
                for value in column:
                    if np.ndim(value) != shape.ndims:
                        raise errors.InvalidArgumentError(
                            None, None, f"All elements must have rank {shape.ndims}, got shape {np.shape(value)}"
                        )
            parts = zip(columns, shapes, fill, leaves, strict=True)
            return tuple(join(c, s, f, leaf.dtype.as_numpy_dtype) for c, s, f, leaf in parts)

        return step

    first = as_shape([_first(batch_size, drop_remainder)])
    specs = [Spec(leaf.dtype, first.concatenate(s)) for leaf, s in zip(leaves, shapes, strict=True)]
    return Dataset(pack(source.spec, list(specs)), iterate)


def _static(shape: Any) -> Any:
    known = constant_value(shape)
    if known is None and isinstance(shape, Tensor):
        raise ValueError("padded_shapes must be known while the graph is built")
    return [] if shape is None else known


def _padding(value: Any, leaf: Spec) -> Any:
    if isinstance(value, Tensor) or hasattr(value, "dtype"):
        tensor = convert(value)
        if tensor.dtype != leaf.dtype:
            raise TypeError(
                f"Invalid `padding_values`. `padding_values` values type {tensor.dtype} does not match type "
                f"{leaf.dtype} of the corresponding input component."
            )
        return tensor
    return as_value(value, leaf.dtype)


class _Windows:
    """Collects elements by key; a full window's output comes before more input is read."""

    def __init__(self, step: Next, key_of: Callable[[Row], int], size_of: Callable[[int], int], output: Any):
        self._step = step
        self._key_of = key_of
        self._size_of = size_of
        self._output = output
        self._kept: dict[int, list[Row]] = defaultdict(list)
        self._current: Next | None = None
        self._rest: deque[int] | None = None

    def __call__(self) -> Row:
        while True:
            if self._current is not None:
                try:
                    return self._current()
                except End:
                    self._current = None
            key = self._full()
            self._current = self._output(key, self._kept.pop(key))

    def _full(self) -> int:
        while self._rest is None:
            try:
                row = self._step()
            except End:
                self._rest = deque(sorted(self._kept))
                break
            key = self._key_of(row)
            window = self._kept[key]
            window.append(row)
            if len(window) >= self._size_of(key):
                return key
        if not self._rest:
            raise End
        return self._rest.popleft()


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[[Any, Dataset], Dataset],
    window_size: int | None = None,
    window_size_func: Callable[[Any], Any] | None = None,
) -> Callable[[Dataset], Dataset]:
    """For `Dataset.apply`: elements with one key together, up to `window_size`, each window made a dataset.

    At the end, the windows that are left come by ascending key.

    Raises:
        ValueError: If the key isn't an int64, or not one of the two sizes is given.
    """
    if (window_size is None) == (window_size_func is None):
        raise ValueError("Must pass either window_size or window_size_func.")

    def apply(source: Dataset) -> Dataset:
        keys = Traced(key_func, source.spec)
        key_tensor = convert(keys.result)
        if key_tensor.dtype.name != "int64" or key_tensor.shape.ndims not in (0, None):
            raise ValueError(f"`key_func` must return a single tf.int64 scalar, got {key_tensor}")
        rows_of = placeholder("variant", [], "window")
        window = Dataset(source.spec, lambda context: _steps(context.feeds[rows_of]))
        key_in = placeholder("int64", [], "key")
        made = reduce_func(key_in, window)
        if not isinstance(made, Dataset):
            raise TypeError(f"`reduce_func` must return a Dataset, got {made!r}")
        size_tensor = None if window_size_func is None else cast(convert(window_size_func(key_in)), "int64")

        def iterate(context: Context) -> Next:
            def size_of(key: int) -> int:
                size = (
                    window_size if size_tensor is None else context.inside({key_in: np.int64(key)}).value(size_tensor)
                )
                if size is None or size < 1:
                    raise errors.InvalidArgumentError(None, None, f"Window size must be greater than zero, got {size}")
                return int(size)

            if size_tensor is None:
                size_of(0)
            call = keys.bind([key_tensor], context)
            output = lambda key, rows: made.iterate(context.inside({key_in: np.int64(key), rows_of: rows}))  # noqa: E731
            return _Windows(source.iterate(context), lambda row: int(call(row)[0]), size_of, output)

        return Dataset(made.spec, iterate)

    return apply


def _steps(rows: list[Row]) -> Next:
    left = deque(rows)

    def step() -> Row:
        if not left:
            raise End
        return left.popleft()

    return step


def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Callable[[Dataset], Dataset]:
    """For `Dataset.apply`: batches of elements of about one length.

    Args:
        element_length_func: An element's length.
        bucket_boundaries: Where buckets end; bucket i holds boundaries[i − 1] ≤ length < boundaries[i].
        bucket_batch_sizes: The size of a batch of each bucket, one more than boundaries.
        padded_shapes: As in `padded_batch`.
        padding_values: As in `padded_batch`.
        pad_to_bucket_boundary: Whether to pad up to the boundary, without; the last bucket has none and fails.
        no_padding: Whether elements have one shape already.
        drop_remainder: Whether smaller last batches are dropped.

    Raises:
        ValueError: If there isn't one size more than boundaries.
    """
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError(
            "`len(bucket_batch_sizes)` must equal `len(bucket_boundaries) + 1` but "
            f"`len(bucket_batch_sizes)={len(bucket_batch_sizes)}` and "
            f"`len(bucket_boundaries)={len(bucket_boundaries)}`."
        )

    def batches(bucket: int, window: Dataset) -> Dataset:
        size = bucket_batch_sizes[bucket]
        if no_padding:
            return batch(window, size, drop_remainder)
        shapes = window.output_shapes if padded_shapes is None else padded_shapes
        if pad_to_bucket_boundary:
            if bucket == len(bucket_boundaries):
                raise errors.InvalidArgumentError(
                    None, None, "When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries)."
                )
            flat = [as_shape(_static(s)) for s in flatten_as(window.spec, shapes, "padded_shapes")]
            edge = bucket_boundaries[bucket] - 1
            shapes = pack(window.spec, [TensorShape([edge if d is None else d for d in s]) for s in flat])
        return padded_batch(window, size, shapes, padding_values, drop_remainder)

    def apply(source: Dataset) -> Dataset:
        lengths = Traced(element_length_func, source.spec)
        length = convert(lengths.result)
        rows_of = placeholder("variant", [], "window")
        window = Dataset(source.spec, lambda context: _steps(context.feeds[rows_of]))
        made = [batches(i, window) for i in range(len(bucket_boundaries) + (not pad_to_bucket_boundary))]

        def iterate(context: Context) -> Next:
            call = lengths.bind([length], context)

            def key_of(row: Row) -> int:
                return int(np.searchsorted(bucket_boundaries, int(call(row)[0]), side="right"))

            def output(key: int, rows: list[Row]) -> Next:
                if key == len(made):
                    batches(key, window)  # raises
                return made[key].iterate(context.inside({rows_of: rows}))

            return _Windows(source.iterate(context), key_of, lambda key: bucket_batch_sizes[key], output)

        first = made[0].spec
        if pad_to_bucket_boundary or len(made) > 1:
            flat = [leaves_of(d.spec) for d in made]
            merged = [Spec(column[0].dtype, _common([c.shape for c in column])) for column in zip(*flat, strict=True)]
            first = pack(first, list(merged))
        return Dataset(first, iterate)

    return apply


def _common(shapes: Sequence[TensorShape]) -> TensorShape:
    shape = shapes[0]
    for other in shapes[1:]:
        shape = shape.common_with(other)
    return shape
