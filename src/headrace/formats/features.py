"""What to take out of an Example: the kinds of features, by TensorFlow's names and rules."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

DType: TypeAlias = Literal["int64", "float32", "bytes", "str"]
KINDS: dict[str, int] = {"bytes": 1, "str": 1, "float32": 2, "int64": 3}
"""The number that the native core has for a type."""

_MOST_VALUES = 1 << 31  # no message of protocol buffers has more bytes
_NAMES = {"string": "bytes", "object": "bytes", "float": "float32"}


def key_bytes(key: Any) -> bytes:
    """A key as messages hold it. Bytes of one that is no UTF-8 stand in its name as Python escapes them.

    Raises:
        ValueError: If it is no text, or holds what no bytes can.
    """
    if not isinstance(key, str):
        raise ValueError(f"keys of features are str, got {key!r:.60}")
    try:
        return key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(f"the key {key!a} of a feature is no text that UTF-8 can hold ({error.reason})") from None


def _dtype(given: Any) -> DType:
    name: Any = given
    if given is bytes or given is str:
        name = given.__name__
    elif not isinstance(given, str):
        try:
            name = np.dtype(given).name
        except TypeError:
            name = repr(given)
    name = _NAMES.get(name, name)
    if name not in KINDS:
        raise ValueError(f"Examples hold 'int64', 'float32' and 'bytes' ('str' for texts), got the type {given!r:.60}")
    return name  # type: ignore[no-any-return]


def _shape(given: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(map(operator.index, given if isinstance(given, Iterable) else (given,)))
    except TypeError:
        sizes = (-1,)
    if any(size < 0 for size in sizes) or isinstance(given, (bool, np.bool_)):
        raise ValueError(f"a shape is whole numbers, all known, got {given!r:.60}; use VarLen where they vary")
    return sizes


def _fixed_shape(given: Any) -> tuple[int, ...]:
    sizes = _shape(given)
    if math.prod(sizes) > _MOST_VALUES:
        raise ValueError(f"no message holds as many values as the shape {sizes} has; it has at most {_MOST_VALUES}")
    return sizes


def _values(given: Any, dtype: DType) -> tuple[Any, ...]:
    """A default, as Python values in one row."""
    if KINDS[dtype] == 1:
        flat = np.asarray(given, object).ravel().tolist()
        texts = [text.encode() if isinstance(text, str) else text for text in flat]
        if not all(isinstance(text, bytes) for text in texts):
            raise ValueError(f"the default of a feature of {dtype} is bytes or str, got {given!r:.60}")
        return tuple(texts)
    try:
        array = np.asarray(given)
    except ValueError:  # rows of different lengths
        array = np.empty(0, object)
    wanted = "iu" if dtype == "int64" else "iuf"
    if array.dtype.kind not in wanted:
        raise ValueError(f"the default of a feature of {dtype} is of that type, got {given!r:.60}")
    with np.errstate(over="ignore"):
        values = array.astype(dtype)
    if (dtype == "int64" and (array != values).any()) or np.isinf(values).sum() != np.isinf(array).sum():
        raise ValueError(f"the default of a feature of {dtype} fits that type, got {given!r:.60}")
    return tuple(values.ravel().tolist())


class Feature:
    """What all kinds of features are."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class FixedLen(Feature):
    """A feature that has so many values in every Example; a column of that shape.

    Attributes:
        shape: Of a record's values; `()` is a single one.
        dtype: `"int64"`, `"float32"`, `"bytes"`, or `"str"`.
        default: The values where the feature is missing; None makes that an error.

    Raises:
        ValueError: If the shape isn't known, the type isn't one that Examples have, or the default has another size.

    Example:
        >>> import headrace as hr
        >>> hr.FixedLen((2,), "float32", default=[0, 1])
        FixedLen(shape=(2,), dtype='float32', default=(0.0, 1.0))
    """

    shape: Any
    dtype: Any
    default: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _fixed_shape(self.shape))
        object.__setattr__(self, "dtype", _dtype(self.dtype))
        if self.default is not None:
            object.__setattr__(self, "default", _values(self.default, self.dtype))
            if len(self.default) != math.prod(self.shape):
                raise ValueError(
                    f"the default of a feature of shape {self.shape} has {math.prod(self.shape)} values, got "
                    f"{len(self.default)}"
                )


@dataclass(frozen=True, slots=True)
class VarLen(Feature):
    """A feature that has any number of values, or is missing; a ragged column.

    Attributes:
        dtype: `"int64"`, `"float32"`, `"bytes"`, or `"str"`.

    Example:
        >>> import headrace as hr
        >>> hr.VarLen(int)
        VarLen(dtype='int64')
    """

    dtype: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _dtype(self.dtype))


@dataclass(frozen=True, slots=True)
class FixedLenSequence(Feature):
    """A feature of steps, each with so many values; a ragged column of them.

    Attributes:
        shape: Of a step's values.
        dtype: `"int64"`, `"float32"`, `"bytes"`, or `"str"`.
        allow_missing: Take no steps where the feature is missing; otherwise that is an error.
        default: What `formats.example.parse_examples`, as TensorFlow, fills up short rows with: one value.

    Raises:
        ValueError: If the shape isn't known or has no values, or the type isn't one that Examples have.

    Example:
        >>> import headrace as hr
        >>> hr.FixedLenSequence((), "int64").shape
        ()
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _fixed_shape(self.shape))
        object.__setattr__(self, "dtype", _dtype(self.dtype))
        if math.prod(self.shape) == 0:
            raise ValueError(f"a step has at least one value, got the shape {self.shape}")
        if self.default is not None:
            object.__setattr__(self, "default", _values(self.default, self.dtype))
            if len(self.default) != 1:
                raise ValueError(f"the default of a FixedLenSequence is one value, got {len(self.default)}")


@dataclass(frozen=True, slots=True)
class SparseFeature(Feature):
    """Two or more features that together are sparse rows: places, and the values at them; a `Sparse` column.

    Rows of several dimensions are written out one after another, as NumPy stores arrays: with sizes 2 and 3 the place
    (1, 0) is column 3 of 6, and `column.to_dense().reshape(-1, 2, 3)` has them again.

    Attributes:
        index_key: The feature with the places; several for rows of several dimensions.
        value_key: The feature with the values.
        dtype: `"int64"`, `"float32"` or `"bytes"`, of the values.
        size: Numbers a row; several for several dimensions.
        already_sorted: Believe that the places ascend.

    Raises:
        ValueError: If there is not one size for each index.

    Example:
        >>> import headrace as hr
        >>> hr.SparseFeature("words/id", "words/count", "float32", size=10_000).size
        (10000,)
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False

    def __post_init__(self) -> None:
        keys = self.index_key
        keys = tuple(keys) if isinstance(keys, Iterable) and not isinstance(keys, (str, bytes)) else (keys,)
        for key in (*keys, self.value_key):
            key_bytes(key)
        object.__setattr__(self, "index_key", keys)
        object.__setattr__(self, "dtype", _dtype(self.dtype))
        object.__setattr__(self, "size", _shape(self.size))
        if not keys or len(keys) != len(self.size):
            raise ValueError(f"SparseFeature has one size for each index, got {len(keys)} and {len(self.size)}")


PARTITIONS = ("row_splits", "row_lengths", "row_starts", "row_limits", "value_rowids", "uniform_row_length")


@dataclass(frozen=True, slots=True)
class RaggedFeature(Feature):
    """A feature whose values are divided into rows by other features; a ragged column.

    Attributes:
        dtype: `"int64"`, `"float32"`, `"bytes"`, or `"str"`.
        value_key: The feature with the values.
        partitions: Pairs that say how values are divided, the outermost first: `("row_splits", key)`,
            `("row_lengths", key)`, `("row_starts", key)`, `("row_limits", key)`, `("value_rowids", key)` or
            `("uniform_row_length", length)`. Without any, each record is one row.
        row_splits_dtype: Kept for code that comes from TensorFlow; offsets are int64 here.

    Raises:
        ValueError: If a partition is none of these.

    Example:
        >>> import headrace as hr
        >>> hr.RaggedFeature("int64", "words", [("row_lengths", "sentences")]).partitions
        (('row_lengths', 'sentences'),)
    """

    dtype: Any
    value_key: str
    partitions: Sequence[tuple[str, Any]] = ()
    row_splits_dtype: Any = "int64"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _dtype(self.dtype))
        key_bytes(self.value_key)
        try:
            partitions = tuple((str(kind), by) for kind, by in self.partitions)
        except (TypeError, ValueError):
            raise ValueError(f"partitions are a list of pairs, got {self.partitions!r:.80}") from None
        object.__setattr__(self, "partitions", partitions)
        for kind, by in partitions:
            length = kind == "uniform_row_length"
            if kind not in PARTITIONS or isinstance(by, bool) or not isinstance(by, int if length else str):
                raise ValueError(f"partitions are pairs of one of {PARTITIONS} and a key, got {(kind, by)!r:.80}")
            if isinstance(by, int) and not 1 <= by <= _MOST_VALUES:
                raise ValueError(f"uniform_row_length is 1 to {_MOST_VALUES}, got {by}")
