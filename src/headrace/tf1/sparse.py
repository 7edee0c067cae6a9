"""Sparse and ragged tensors: several tensors that belong together, and their values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.tf1.dtypes import DType, TensorShape, as_value, variant
from headrace.tf1.graph import Tensor, add_op, constant_value, convert

__all__ = ["RaggedTensor", "RaggedTensorValue", "SparseTensor", "SparseTensorValue", "join_sparse", "ragged_value"]


class SparseTensorValue(NamedTuple):
    """What running a `SparseTensor` gives."""

    indices: Any
    values: Any
    dense_shape: Any


class RaggedTensorValue:
    """What running a `RaggedTensor` gives: values, which may be ragged again, and where each row begins and ends."""

    def __init__(self, values: Any, row_splits: Any):
        self.values = values
        self.row_splits = row_splits

    def to_list(self) -> list[Any]:
        """The rows as lists."""
        rows = self.values.to_list() if isinstance(self.values, RaggedTensorValue) else self.values.tolist()
        splits = self.row_splits.tolist()
        return [rows[a:b] for a, b in itertools.pairwise(splits)]

    def __repr__(self) -> str:
        return f"RaggedTensorValue({self.to_list()})"


class SparseTensor:
    """A tensor of which only some elements are held: their places, their values, and the whole shape."""

    def __init__(self, indices: Any, values: Any, dense_shape: Any):
        self.indices = convert(np.asarray(indices, np.int64) if not isinstance(indices, Tensor) else indices)
        self.values = convert(values)
        self.dense_shape = convert(
            np.asarray(dense_shape, np.int64) if not isinstance(dense_shape, Tensor) else dense_shape
        )

    @property
    def dtype(self) -> DType:
        """The type of the values."""
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        """The whole shape, where it is known."""
        known = constant_value(self.dense_shape)
        if known is not None:
            return TensorShape(known)
        return TensorShape(None if self.dense_shape.shape.ndims is None else [None] * (self.dense_shape.shape[0] or 0))

    def get_shape(self) -> TensorShape:
        """The whole shape, where it is known."""
        return self.shape

    def fetch_parts(self) -> tuple[list[Tensor], Any]:
        """What a session computes, and what puts it together."""
        return [self.indices, self.values, self.dense_shape], SparseTensorValue

    def packed(self) -> Tensor:
        """All in one scalar, as it goes through a queue."""
        return add_op(
            "SerializeSparse",
            lambda run, *parts: SparseTensorValue(*parts),
            [self.indices, self.values, self.dense_shape],
            [(variant, ())],
        ).outputs[0]


class RaggedTensor:
    """A tensor whose rows have lengths of their own; `splits` from the outermost dimension inwards."""

    def __init__(self, flat_values: Tensor, splits: Sequence[Tensor]):
        self.flat_values = flat_values
        self.nested_row_splits = tuple(splits)

    @property
    def dtype(self) -> DType:
        """The type of the values."""
        return self.flat_values.dtype

    def fetch_parts(self) -> tuple[list[Tensor], Any]:
        """What a session computes, and what puts it together."""
        return [self.flat_values, *self.nested_row_splits], ragged_value


def ragged_value(flat: Any, *splits: Any) -> Any:
    """The value of a ragged tensor, from splits of the outermost dimension inwards."""
    for split in reversed(splits):
        flat = RaggedTensorValue(flat, split)
    return flat


def join_sparse(rows: Sequence[SparseTensorValue], dtype: DType) -> SparseTensorValue:
    """One sparse tensor of many: a batch, as long in each dimension as the longest.

    >>> from headrace import tf1 as tf
    >>> a, b = SparseTensorValue([[0]], [7], [1]), SparseTensorValue([[0], [1]], [8, 9], [2])
    >>> join_sparse([a, b], tf.int64).indices.tolist()
    [[0, 0], [1, 0], [1, 1]]
    """
    rank = max((len(np.atleast_1d(row.dense_shape)) for row in rows), default=1)
    indices = [
        np.column_stack([np.full(len(row.values), i, np.int64), np.asarray(row.indices, np.int64).reshape(-1, rank)])
        for i, row in enumerate(rows)
    ]
    longest = np.max([np.asarray(row.dense_shape) for row in rows], axis=0) if rows else np.zeros(rank)
    values = [np.atleast_1d(as_value(row.values, dtype)) for row in rows]
    return SparseTensorValue(
        np.concatenate(indices) if indices else np.zeros((0, rank + 1), np.int64),
        np.concatenate(values) if values else np.zeros(0, dtype.as_numpy_dtype),
        np.array([len(rows), *longest], np.int64),
    )
