"""Datasets in the style of `tf.data`: chains of sources and operations, iterated in a session."""

from __future__ import annotations

import glob
import itertools
import os
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.tf1 import errors
from headrace.tf1.data.structure import (
    Context,
    End,
    Next,
    Row,
    Spec,
    Traced,
    flatten,
    flatten_as,
    leaves_of,
    map_leaves,
    pack,
)
from headrace.tf1.dtypes import TensorShape, as_shape, as_value, int64, string
from headrace.tf1.graph import Tensor, convert
from headrace.tf1.queues import random_seed

__all__ = ["Dataset"]

Iterate = Callable[[Context], Next]


class Dataset:
    """Elements that can be iterated again and again: a source and what is done to it.

    An error in one element doesn't end the iteration: the next call goes on with the next element.

    Example:
        >>> from headrace import tf1 as tf
        >>> with tf.Graph().as_default(), tf.Session() as sess:
        ...     data = tf.data.Dataset.range(5).map(lambda x: x * x).batch(3)
        ...     iterator = data.make_initializable_iterator()
        ...     sess.run(iterator.initializer)
        ...     print(sess.run(iterator.get_next()))
        [0 1 4]
    """

    def __init__(self, spec: Any, iterate: Iterate):
        self.spec = spec
        self.iterate = iterate

    @property
    def output_types(self) -> Any:
        """The types of an element's values."""
        return map_leaves(lambda leaf: leaf.dtype, self.spec)

    @property
    def output_shapes(self) -> Any:
        """What is known of the shapes of an element's values."""
        return map_leaves(lambda leaf: leaf.shape, self.spec)

    # Sources

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """The rows of tensors of one length.

        Raises:
            ValueError: If a tensor has no rows, or their numbers differ.
        """
        nest = map_leaves(convert, tuple(tensors) if isinstance(tensors, tuple) else tensors)
        flat: list[Tensor] = flatten(nest)
        counts = {t.shape[0] for t in flat if t.shape.ndims} - {None}
        if any(t.shape.ndims == 0 for t in flat) or len(counts) > 1:
            raise ValueError(f"from_tensor_slices needs tensors with as many rows each, got shapes {flat}")
        spec = map_leaves(lambda t: Spec(t.dtype, t.shape[1:]), nest)

        def iterate(context: Context) -> Next:
            values = [context.value(t) for t in flat]
            if len({len(v) for v in values}) > 1:
                raise errors.InvalidArgumentError(None, None, f"tensors differ in length: {[len(v) for v in values]}")
            rows = zip(*values, strict=True)
            return lambda: _take(rows)

        return Dataset(spec, iterate)

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """One element."""
        nest = map_leaves(convert, tensors)
        flat: list[Tensor] = flatten(nest)

        def iterate(context: Context) -> Next:
            rows = iter([tuple(context.value(t) for t in flat)])
            return lambda: _take(rows)

        return Dataset(map_leaves(lambda t: Spec(t.dtype, t.shape), nest), iterate)

    @staticmethod
    def range(*args: Any) -> Dataset:
        """Numbers, as Python's `range` gives them."""

        def iterate(context: Context) -> Next:
            numbers = iter(range(*[int(context.value(a)) for a in args]))
            return lambda: (np.int64(_take(numbers)),)

        return Dataset(Spec(int64, TensorShape([])), iterate)

    @staticmethod
    def list_files(file_pattern: Any, shuffle: bool | None = None, seed: Any = None) -> Dataset:
        """The names of the files that a pattern matches, or one of several, in random order unless `shuffle=False`."""
        patterns = convert(list(file_pattern) if isinstance(file_pattern, list | tuple) else file_pattern, string)

        def iterate(context: Context) -> Next:
            given = [os.fsdecode(p) for p in np.atleast_1d(np.asarray(context.value(patterns), object)).tolist()]
            names = sorted({name for pattern in given for name in glob.glob(pattern)})
            if not names:
                raise errors.NotFoundError(None, None, f"no file matches {', '.join(given)}")
            rows = iter([(os.fsencode(name),) for name in names])
            return lambda: _take(rows)

        found = Dataset(Spec(string, TensorShape([])), iterate)
        return found if shuffle is False else found.shuffle(1 << 30, seed)

    @staticmethod
    def from_generator(generator: Callable[[], Any], output_types: Any, output_shapes: Any = None) -> Dataset:
        """What a Python generator gives."""
        types = flatten(output_types)
        shapes = [None] * len(types) if output_shapes is None else flatten_as(output_types, output_shapes, "shapes")
        from headrace.tf1.dtypes import as_dtype

        kinds = [as_dtype(t) for t in types]
        spec = pack(output_types, [Spec(k, as_shape(s)) for k, s in zip(kinds, shapes, strict=True)])

        def iterate(context: Context) -> Next:
            made = iter(generator())

            def step() -> Row:
                parts = flatten_as(output_types, _take(made), "an element of the generator")
                return tuple(as_value(p, k) for p, k in zip(parts, kinds, strict=True))

            return step

        return Dataset(spec, iterate)

    @staticmethod
    def zip(datasets: Any) -> Dataset:
        """Elements of several datasets side by side, read from left to right; the shortest ends it."""
        flat: list[Dataset] = flatten(tuple(datasets) if isinstance(datasets, list) else datasets)
        spec = pack(datasets, [d.spec for d in flat])

        def iterate(context: Context) -> Next:
            steps = [d.iterate(context) for d in flat]
            return lambda: tuple(value for step in steps for value in step())

        return Dataset(spec, iterate)

    # Elements

    def map(self, map_func: Callable[..., Any], num_parallel_calls: Any = None, **ignored: Any) -> Dataset:
        """A function of tensors applied to each element; the order is kept."""
        traced = Traced(map_func, self.spec)
        nest = traced.tensors()
        outputs: list[Tensor] = flatten(nest)

        def iterate(context: Context) -> Next:
            step, call = self.iterate(context), traced.bind(outputs, context)
            return lambda: call(step())

        return Dataset(map_leaves(lambda t: Spec(t.dtype, t.shape), nest), iterate)

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """Only the elements for which the function gives true."""
        traced = Traced(predicate, self.spec)
        outputs = [convert(traced.result, "bool")]

        def iterate(context: Context) -> Next:
            step, call = self.iterate(context), traced.bind(outputs, context)

            def matching() -> Row:
                while True:
                    row = step()
                    if call(row)[0]:
                        return row

            return matching

        return Dataset(self.spec, iterate)

    def flat_map(self, map_func: Callable[..., Dataset]) -> Dataset:
        """The elements of the datasets that a function makes of each element."""
        return self.interleave(map_func, cycle_length=1)

    def interleave(
        self, map_func: Callable[..., Dataset], cycle_length: Any = 1, block_length: Any = 1, **ignored: Any
    ) -> Dataset:
        """The elements of several such datasets in turn, `block_length` from each."""
        traced = Traced(map_func, self.spec)
        inner: Dataset = traced.result
        if not isinstance(inner, Dataset):
            raise TypeError(f"`map_func` must return a Dataset, got {inner!r}")

        def iterate(context: Context) -> Next:
            outer = self.iterate(context)
            width, block = int(context.value(cycle_length)), int(context.value(block_length))
            if width < 1 or block < 1:
                raise errors.InvalidArgumentError(None, None, "cycle_length and block_length must be greater than zero")
            cycle: list[Next | None] = [None] * width
            place = [0, 0]  # slot, elements given from it
            more = [True]

            def turn() -> None:
                place[:] = [(place[0] + 1) % width, 0]

            def step() -> Row:
                empty = 0
                while True:
                    current = cycle[place[0]]
                    if current is None:
                        if not more[0]:
                            empty += 1
                            if empty > width:
                                raise End
                            turn()
                            continue
                        try:
                            row = outer()
                        except End:
                            more[0] = False
                            continue
                        current = cycle[place[0]] = inner.iterate(context.inside(traced.feeds(row)))
                    empty = 0
                    try:
                        found = current()
                    except End:
                        cycle[place[0]] = None
                        turn()
                        continue
                    place[1] += 1
                    if place[1] == block:
                        turn()
                    return found

            return step

        return Dataset(inner.spec, iterate)

    # Order and choice

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Every `num_shards`-th element, beginning with number `index`."""

        def iterate(context: Context) -> Next:
            n, i = int(context.value(num_shards)), int(context.value(index))
            if n < 1 or not 0 <= i < n:
                raise errors.InvalidArgumentError(None, None, f"shard needs 0 <= index < num_shards, got {i} and {n}")
            step = self.iterate(context)
            ahead = [i]

            def every() -> Row:
                while ahead[0]:
                    step()
                    ahead[0] -= 1
                row = step()
                ahead[0] = n - 1
                return row

            return every

        return Dataset(self.spec, iterate)

    def skip(self, count: Any) -> Dataset:
        """Without the first elements; −1: without any."""

        def iterate(context: Context) -> Next:
            left = [int(context.value(count))]
            step = self.iterate(context)

            def after() -> Row:
                if left[0] < 0:
                    raise End
                while left[0]:
                    step()
                    left[0] -= 1
                return step()

            return after

        return Dataset(self.spec, iterate)

    def take(self, count: Any) -> Dataset:
        """The first elements only; −1: all."""

        def iterate(context: Context) -> Next:
            left = [int(context.value(count))]
            step = self.iterate(context)

            def upto() -> Row:
                if not left[0]:
                    raise End
                left[0] -= 1
                return step()

            return upto

        return Dataset(self.spec, iterate)

    def repeat(self, count: Any = None) -> Dataset:
        """All elements several times; None or −1: for ever, unless there are none."""

        def iterate(context: Context) -> Next:
            left = [-1 if count is None else int(context.value(count))]
            step: list[Next | None] = [None]
            empty = [True]

            def again() -> Row:
                while True:
                    current = step[0]
                    if current is None:
                        if not left[0]:
                            raise End
                        step[0] = current = self.iterate(context)
                        empty[0] = True
                    try:
                        row = current()
                    except End:
                        step[0] = None
                        left[0] = 0 if empty[0] else left[0] - 1
                        continue
                    empty[0] = False
                    return row

            return again

        return Dataset(self.spec, iterate)

    def shuffle(self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: bool | None = None) -> Dataset:
        """Any element of a buffer, each as likely; its place is filled with the next.

        Args:
            buffer_size: Elements in the buffer.
            seed: With it, or a graph's seed, the order is the same after every initialisation.
            reshuffle_each_iteration: Whether each repetition has an order of its own.
        """
        seeds = random_seed(seed)
        key = object()
        anew = reshuffle_each_iteration is None or reshuffle_each_iteration

        def iterate(context: Context) -> Next:
            size = int(context.value(buffer_size))
            if size < 1:
                raise errors.InvalidArgumentError(None, None, f"buffer_size must be greater than zero, got {size}")
            rng = context.rng(key, seeds)
            if not anew:
                rng = np.random.default_rng(context.rngs.setdefault((key, "same"), int(rng.integers(2**63))))
            step: Next | None = self.iterate(context)
            buffer: list[Row] = []

            def chosen() -> Row:
                nonlocal step
                while step is not None and len(buffer) < size:
                    try:
                        buffer.append(step())
                    except End:
                        step = None
                if not buffer:
                    raise End
                at = int(rng.integers(len(buffer)))
                buffer[at], buffer[-1] = buffer[-1], buffer[at]
                return buffer.pop()

            return chosen

        return Dataset(self.spec, iterate)

    def concatenate(self, dataset: Dataset) -> Dataset:
        """These elements and then those."""
        if self.output_types != dataset.output_types:
            raise TypeError(f"expected elements of types {self.output_types}, got {dataset.output_types}")
        shapes = [
            Spec(a.dtype, a.shape.common_with(b.shape))
            for a, b in zip(leaves_of(self.spec), leaves_of(dataset.spec), strict=True)
        ]

        def iterate(context: Context) -> Next:
            steps = deque([self.iterate, dataset.iterate])
            current = [steps.popleft()(context)]

            def step() -> Row:
                while True:
                    try:
                        return current[0]()
                    except End:
                        if not steps:
                            raise
                        current[0] = steps.popleft()(context)

            return step

        return Dataset(pack(self.spec, list(shapes)), iterate)

    def enumerate(self, start: int = 0) -> Dataset:
        """Elements with their number."""

        def iterate(context: Context) -> Next:
            step, numbers = self.iterate(context), itertools.count(start)

            def numbered() -> Row:
                row = step()
                return (np.int64(next(numbers)), *row)

            return numbered

        return Dataset((Spec(int64, TensorShape([])), self.spec), iterate)

    def cache(self, filename: Any = "") -> Dataset:
        """The same elements: they are read again here, not kept."""
        return self

    def prefetch(self, buffer_size: Any) -> Dataset:
        """The same elements: nothing but time would change."""
        return self

    # Batches

    def batch(self, batch_size: Any, drop_remainder: bool = False) -> Dataset:
        """Elements of one shape together."""
        from headrace.tf1.data.batches import batch

        return batch(self, batch_size, drop_remainder)

    def padded_batch(
        self, batch_size: Any, padded_shapes: Any = None, padding_values: Any = None, drop_remainder: bool = False
    ) -> Dataset:
        """Elements together, padded to one shape.

        Args:
            batch_size: Elements in a batch.
            padded_shapes: The shape of each value; a dimension that is None or −1 becomes the longest of the batch.
            padding_values: What pads each value: 0 or the empty string if not given.
            drop_remainder: Whether a smaller last batch is dropped.
        """
        from headrace.tf1.data.batches import padded_batch

        return padded_batch(self, batch_size, padded_shapes, padding_values, drop_remainder)

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """What a function of datasets makes of this one."""
        return transformation_func(self)

    # Iterators

    def make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        """An iterator that begins when its `initializer` runs."""
        from headrace.tf1.data.iterator import Iterator

        return Iterator(self.spec, self, shared_name)

    def make_one_shot_iterator(self) -> Any:
        """An iterator that begins by itself, once."""
        from headrace.tf1.data.iterator import Iterator

        return Iterator(self.spec, self, one_shot=True)


def unbatch() -> Callable[[Dataset], Dataset]:
    """Takes elements apart along their first dimension."""

    def apply(source: Dataset) -> Dataset:
        pair = isinstance(source.spec, tuple) and not isinstance(source.spec, Spec)
        return source.flat_map(lambda *parts: Dataset.from_tensor_slices(parts if pair else parts[0]))

    return apply


def _take(rows: Any) -> Any:
    for row in rows:
        return row
    raise End
