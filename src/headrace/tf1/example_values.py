"""What graphs take from the room that parses Examples: descriptions of features, and columns as plain arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.errors import DataError
from headrace.formats import example
from headrace.tf1 import errors

__all__ = ["fixed", "parse", "parse_sequences", "plain", "ragged", "sequence", "sparse", "var_len"]

PARTITIONS = {
    "RowSplits": "row_splits",
    "RowLengths": "row_lengths",
    "RowStarts": "row_starts",
    "RowLimits": "row_limits",
    "ValueRowIds": "value_rowids",
    "UniformRowLength": "uniform_row_length",
}


def _name(dtype: str) -> str:
    return "bytes" if dtype == "string" else dtype


def fixed(shape: Sequence[int], dtype: str, default: Any) -> Any:
    """As many values in every Example."""
    return example.FixedLen(tuple(shape), _name(dtype), default)


def var_len(dtype: str) -> Any:
    """Any number of values."""
    return example.VarLen(_name(dtype))


def sequence(shape: Sequence[int], dtype: str, allow_missing: bool, default: Any) -> Any:
    """Rows of one shape."""
    return example.FixedLenSequence(tuple(shape), _name(dtype), allow_missing, default)


def sparse(index_keys: Sequence[str], value_key: str, dtype: str, sizes: Sequence[int], already_sorted: bool) -> Any:
    """Places and values under keys of their own."""
    return example.SparseFeature(list(index_keys), value_key, _name(dtype), [int(n) for n in sizes], already_sorted)


def ragged(dtype: str, value_key: str, partitions: Sequence[tuple[str, Any]], row_splits_dtype: str) -> Any:
    """Rows of different length."""
    parts = [(PARTITIONS[kind], by) for kind, by in partitions]
    return example.RaggedFeature(_name(dtype), value_key, parts, row_splits_dtype)


def parse(serialized: Sequence[bytes], features: Mapping[str, Any]) -> Mapping[str, Any]:
    """The columns of Examples.

    Raises:
        InvalidArgumentError: If one doesn't fit.
    """
    try:
        return example.parse_examples(serialized, features)
    except DataError as error:
        raise errors.InvalidArgumentError(None, None, str(error)) from error


def parse_sequences(serialized: Sequence[bytes], context: Mapping[str, Any], steps: Mapping[str, Any]) -> Any:
    """The columns of SequenceExamples: of the context, of the steps, and the numbers of steps.

    Raises:
        InvalidArgumentError: If one doesn't fit.
    """
    try:
        return example.parse_sequence_examples(serialized, context, steps)
    except DataError as error:
        raise errors.InvalidArgumentError(None, None, str(error)) from error


def plain(column: Any, kind: str, single: bool, parts: int) -> list[Any]:
    """A column as the values of a feature's tensors; with `single`, those of its only row."""
    if kind == "sparse":
        indices, dense = column.indices, column.dense_shape
        return [indices[:, 1:], column.values, dense[1:]] if single else [indices, column.values, dense]
    if kind == "dense":
        return [column[0] if single else column]
    splits = []
    while hasattr(column, "offsets"):
        splits.append(np.asarray(column.offsets))
        column = column.values
    return [column, *splits[single:]][:parts]
