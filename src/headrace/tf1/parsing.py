"""Examples to tensors: the descriptions of features, and the operations that parse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.tf1 import errors, example_values
from headrace.tf1.dtypes import DType, as_dtype, as_shape, as_value, int32, int64, string
from headrace.tf1.graph import Tensor, add_op, constant_value, convert
from headrace.tf1.session import Run
from headrace.tf1.sparse import RaggedTensor, SparseTensor

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "SparseFeature",
    "VarLenFeature",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
]


class FixedLenFeature(NamedTuple):
    """Always the same number of values, with a default for when the key is missing."""

    shape: Any
    dtype: Any
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """Any number of values, as a sparse tensor."""

    dtype: Any


class FixedLenSequenceFeature(NamedTuple):
    """Any number of rows of one shape."""

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class SparseFeature(NamedTuple):
    """A sparse tensor whose places and values stand under keys of their own."""

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False


class _Partition(NamedTuple):
    kind: str
    key: Any


class RaggedFeature(NamedTuple):
    """Rows of different length; each partition adds a dimension, the outermost first."""

    dtype: Any
    value_key: str | None = None
    partitions: Sequence[Any] = ()
    row_splits_dtype: Any = int32
    validate: bool = False

    @staticmethod
    def RowSplits(key: str) -> _Partition:
        """Where rows begin and end."""
        return _Partition("RowSplits", key)

    @staticmethod
    def RowLengths(key: str) -> _Partition:
        """How long rows are."""
        return _Partition("RowLengths", key)

    @staticmethod
    def RowStarts(key: str) -> _Partition:
        """Where rows begin."""
        return _Partition("RowStarts", key)

    @staticmethod
    def RowLimits(key: str) -> _Partition:
        """Where rows end."""
        return _Partition("RowLimits", key)

    @staticmethod
    def ValueRowIds(key: str) -> _Partition:
        """The row of each value."""
        return _Partition("ValueRowIds", key)

    @staticmethod
    def UniformRowLength(length: int) -> _Partition:
        """All rows are of this length."""
        return _Partition("UniformRowLength", length)


def _type(key: str, given: Any) -> DType:
    dtype = as_dtype(given)
    if dtype.name not in ("int64", "float32", "string"):
        raise TypeError(f"feature '{key}': expected tf.int64, tf.float32 or tf.string, got {dtype}")
    return dtype


class _Feature(NamedTuple):
    """A feature, checked: how the formats room describes it, and what it becomes in a graph."""

    described: Any
    outputs: list[tuple[DType, Any]]  # of one Example, without the dimension of the batch
    kind: str  # dense, sparse, ragged


def _check(key: str, feature: Any, in_sequence: bool = False) -> _Feature:
    if isinstance(feature, SparseFeature):
        keys = [feature.index_key] if isinstance(feature.index_key, str) else list(feature.index_key)
        sizes = [feature.size] if np.ndim(feature.size) == 0 else list(feature.size)
        if len(keys) != len(sizes):
            raise ValueError(f"feature '{key}': expected a size for each of the index keys {keys}, got {sizes}")
        dtype = _type(key, feature.dtype)
        made = example_values.sparse(keys, feature.value_key, dtype.name, sizes, feature.already_sorted)
        return _Feature(made, [(int64, [None, len(keys)]), (dtype, [None]), (int64, [len(keys)])], "sparse")
    if isinstance(feature, VarLenFeature):
        dtype = _type(key, feature.dtype)
        rank = 2 if in_sequence else 1
        outputs: list[tuple[DType, Any]] = [(int64, [None, rank]), (dtype, [None]), (int64, [rank])]
        return _Feature(example_values.var_len(dtype.name), outputs, "sparse")
    if isinstance(feature, RaggedFeature):
        dtype = _type(key, feature.dtype)
        parts = [(p.kind, p.key) for p in feature.partitions]
        made = example_values.ragged(
            dtype.name, feature.value_key or key, parts, as_dtype(feature.row_splits_dtype).name
        )
        splits: list[tuple[DType, Any]] = [(as_dtype(feature.row_splits_dtype), [None])] * len(parts)
        return _Feature(made, [(dtype, None), *splits], "ragged")
    if not isinstance(feature, FixedLenFeature | FixedLenSequenceFeature):
        raise ValueError(f"feature '{key}': expected a feature such as tf.FixedLenFeature, got {feature!r}")
    dtype, shape = _type(key, feature.dtype), as_shape(feature.shape)
    if feature.shape is None or not shape.is_fully_defined():
        raise ValueError(f"feature '{key}': all dimensions of its shape must be known, got {feature.shape}")
    dims = [d for d in shape.known() if d is not None]
    default = constant_value(feature.default_value)
    if isinstance(feature, FixedLenSequenceFeature):
        if not feature.allow_missing and not in_sequence:
            raise ValueError(f"feature '{key}': FixedLenSequenceFeature needs allow_missing=True in an Example")
        if default is not None:
            default = as_value(default, dtype)
        made = example_values.sequence(dims, dtype.name, feature.allow_missing, default)
        return _Feature(made, [(dtype, [None, *dims])], "dense")
    if default is not None:
        default = as_value(default, dtype)
        if np.size(default) != int(np.prod(dims)):
            raise ValueError(
                f"feature '{key}': Cannot reshape a default of {np.size(default)} elements to shape {dims}"
            )
        default = np.reshape(np.asarray(default, dtype.as_numpy_dtype), dims)
    return _Feature(example_values.fixed(dims, dtype.name, default), [(dtype, dims)], "dense")


def _checked(features: Any, in_sequence: bool = False) -> dict[str, _Feature]:
    return {key: _check(key, features[key], in_sequence) for key in sorted(features or {})}


def _tensors(features: Mapping[str, _Feature], outputs: list[Tensor]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, feature in features.items():
        parts = [outputs.pop(0) for _ in feature.outputs]
        if feature.kind == "sparse":
            made[key] = SparseTensor(*parts)
        elif feature.kind == "ragged" and len(parts) > 1:
            made[key] = RaggedTensor(parts[0], parts[1:])
        else:
            made[key] = parts[0]
    return made


def _batched(feature: _Feature, more: int = 1) -> _Feature:
    """The outputs of a batch."""
    if feature.kind == "sparse":
        (i, (_, rank)), values, (s, _) = feature.outputs[0], feature.outputs[1], feature.outputs[2]
        return feature._replace(outputs=[(i, [None, rank + more]), values, (s, [rank + more])])
    if feature.kind == "ragged":
        splits = feature.outputs[1][0] if len(feature.outputs) > 1 else as_dtype(feature.described.row_splits_dtype)
        return feature._replace(outputs=[(feature.outputs[0][0], None), (splits, [None]), *feature.outputs[1:]])
    dtype, dims = feature.outputs[0]
    return feature._replace(outputs=[(dtype, [None, *dims])])


def _text(serialized: Any, rank: int) -> Tensor:
    x = convert(serialized, string)
    if x.shape.ndims is not None and x.shape.ndims != rank:
        what = "one serialized Example, a scalar" if rank == 0 else "a vector of serialized Examples"
        raise ValueError(f"expected {what}, got shape {x.shape}")
    return x


def parse_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, **ignored: Any
) -> dict[str, Any]:
    """A batch of serialized Examples, each feature as one tensor.

    Args:
        serialized: A vector of strings.
        features: What to take: `FixedLenFeature`, `VarLenFeature`, `FixedLenSequenceFeature`, `SparseFeature`,
            `RaggedFeature`.
        name: Of the operation.
        **ignored: Names for messages.

    Raises:
        ValueError: Without features, or when one contradicts itself.
        TypeError: For a type that Examples don't have.
        InvalidArgumentError: When it runs: for an Example that doesn't fit.
    """
    if not features:
        raise ValueError("Missing: features was {}.")
    checked = {key: _batched(f) for key, f in _checked(features).items()}
    described = {key: f.described for key, f in checked.items()}
    x = _text(serialized, 1)

    def compute(run: Run, texts: Any) -> Any:
        columns = example_values.parse(texts.tolist(), described)
        return _values(checked, columns, single=False)

    outputs = [o for f in checked.values() for o in f.outputs]
    return _tensors(checked, list(add_op("ParseExample", compute, [x], outputs, name).outputs))


def parse_single_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, **ignored: Any
) -> dict[str, Any]:
    """One serialized Example, each feature as a tensor without the dimension of a batch.

    The arguments are those of `parse_example`, but `serialized` is one string.
    """
    if not features:
        raise ValueError("Missing: features was {}.")
    checked = _checked(features)
    described = {key: f.described for key, f in checked.items()}
    x = _text(serialized, 0)

    def compute(run: Run, text: Any) -> Any:
        if not isinstance(text, bytes):
            raise errors.InvalidArgumentError(None, None, f"expected one serialized Example, got {np.shape(text)}")
        return _values(checked, example_values.parse([text], described), single=True)

    outputs = [o for f in checked.values() for o in f.outputs]
    return _tensors(checked, list(add_op("ParseSingleExample", compute, [x], outputs, name).outputs))


def _values(features: Mapping[str, _Feature], columns: Mapping[str, Any], single: bool) -> Any:
    flat: list[Any] = []
    for key, feature in features.items():
        flat += example_values.plain(columns[key], feature.kind, single, len(feature.outputs))
    return tuple(flat) if len(flat) != 1 else flat[0]


def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One serialized SequenceExample: the features of its context and those of its steps.

    Raises:
        ValueError: Without features, or when one contradicts itself.
        InvalidArgumentError: When it runs: for a SequenceExample that doesn't fit.
    """
    made: Any = _sequence(_text(serialized, 0), context_features, sequence_features, name, single=True)
    return made[0], made[1]


def parse_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A batch of serialized SequenceExamples: context, steps (padded), and how many steps each has."""
    context, steps, lengths = _sequence(_text(serialized, 1), context_features, sequence_features, name, single=False)
    return context, steps, lengths


def _sequence(x: Tensor, context: Any, sequence: Any, name: str | None, single: bool) -> Any:
    if not (context or sequence):
        raise ValueError("Missing features: give context_features or sequence_features.")
    both = sorted(set(context or {}) & set(sequence or {}))
    if both:
        raise ValueError(f"a feature is of the context or of the steps, not both: {both}")
    ctx, seq = _checked(context), _checked(sequence, in_sequence=True)
    if not single:
        ctx, seq = {k: _batched(f) for k, f in ctx.items()}, {k: _batched(f) for k, f in seq.items()}
    described = [{k: f.described for k, f in part.items()} for part in (ctx, seq)]
    counted = [k for k, f in seq.items() if f.kind == "dense"]

    def compute(run: Run, texts: Any) -> Any:
        found = example_values.parse_sequences([texts] if single else texts.tolist(), *described)
        flat: list[Any] = []
        for part, columns in zip((ctx, seq), found, strict=False):
            for key, feature in part.items():
                flat += example_values.plain(columns[key], feature.kind, single, len(feature.outputs))
        if not single:
            flat += [np.asarray(found[2][k], np.int64) for k in counted]
        return tuple(flat) if len(flat) != 1 else flat[0]

    outputs = [o for part in (ctx, seq) for f in part.values() for o in f.outputs]
    lengths: list[tuple[DType, Any]] = [] if single else [(int64, [None])] * len(counted)
    tensors = list(add_op("ParseSequenceExample", compute, [x], [*outputs, *lengths], name).outputs)
    parts = _tensors(ctx, tensors), _tensors(seq, tensors)
    return (*parts, dict(zip(counted, tensors, strict=False)))
