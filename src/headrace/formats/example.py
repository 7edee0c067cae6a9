"""tf.train.Example and SequenceExample: batches of messages to columns, in one native call.

`ExampleSchema` gives headrace's own columns. `parse_examples` and `parse_sequence_examples` give what TensorFlow's
functions of like name do: dense arrays (of Python `bytes` for strings) and sparse tensors of coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.columns import Bytes, Ragged, Strings
from headrace.batch.sparse import Sparse
from headrace.errors import DataError
from headrace.formats.example_encode import encode_example, encode_examples, encode_sequence_example
from headrace.formats.features import (
    KINDS,
    Feature,
    FixedLen,
    FixedLenSequence,
    RaggedFeature,
    SparseFeature,
    VarLen,
    key_bytes,
)
from headrace.formats.ragged_feature import ragged_column

__all__ = [
    "ExampleSchema",
    "FixedLen",
    "FixedLenSequence",
    "RaggedFeature",
    "SparseFeature",
    "SparseTensor",
    "VarLen",
    "encode_example",
    "encode_examples",
    "encode_sequence_example",
    "parse_examples",
    "parse_sequence_examples",
]

Where = Callable[[int], str]


@dataclass(frozen=True, slots=True, eq=False)
class _Raw:
    """What the core took out for a key: values, those before each record (or step), steps before each record."""

    values: Any
    offsets: NDArray[np.int64]
    steps: NDArray[np.int64]

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)


class ExampleSchema:
    """Which features to take out of messages, and as what.

    Args:
        features: By name; the name is the key in the message, but for `SparseFeature` and `RaggedFeature`, which name
            theirs.
        sequences: Features of the feature lists of a SequenceExample: `FixedLenSequence`, `VarLen`, or `RaggedFeature`
            without partitions.

    Raises:
        ValueError: If there is no feature, a name comes twice, or a feature can't be in a list.
        TypeError: If something else than a feature is given.

    Example:
        >>> from headrace.formats.example import ExampleSchema, FixedLen, VarLen, encode_example
        >>> schema = ExampleSchema({"x": FixedLen((), "float32"), "ids": VarLen("int64")})
        >>> columns = schema.columns([encode_example({"x": 0.5, "ids": [3, 4]}), encode_example({"x": 1.5})])
        >>> columns["x"].tolist(), columns["ids"].tolist()
        ([0.5, 1.5], [[3, 4], []])
    """

    def __init__(self, features: Mapping[str, Feature], sequences: Mapping[str, Feature] | None = None) -> None:
        self.features = _by_name("features", features)
        self.sequences = _by_name("feature lists", {} if sequences is None else sequences)
        if not self.features and not self.sequences:
            raise ValueError("parsing needs at least one feature, got none")
        both = self.features.keys() & self.sequences.keys()
        if both:
            raise ValueError(f"{sorted(both)[0]!r} names a feature and a feature list; their columns would be one")
        self._wanted: list[tuple[bytes, int, bool, int, int, bool, Any, str]] = []
        self._dtypes: list[str] = []
        self._places = {name: self._want(name, feature) for name, feature in self.features.items()}
        self._places |= {name: self._want_list(name, feature) for name, feature in self.sequences.items()}
        self._parser = _native.ExampleParser(self._wanted)

    def __reduce__(self) -> tuple[Any, ...]:
        return ExampleSchema, (self.features, self.sequences)

    def __repr__(self) -> str:
        return f"{self.features}{f', {self.sequences}' if self.sequences else ''}"

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [*self.features, *self.sequences]

    def _add(
        self,
        key: str,
        dtype: str,
        words: str,
        *,
        in_list: bool = False,
        count: int = -1,
        multiple: int = 1,
        required: bool = False,
        default: Any = None,
    ) -> int:
        self._wanted.append((key_bytes(key), KINDS[dtype], in_list, count, multiple, required, default, words))
        self._dtypes.append(dtype)
        return len(self._wanted) - 1

    def _want(self, name: str, feature: Feature) -> list[int]:
        """Asks the native core for what a feature needs; gives the places of the answers."""
        match feature:
            case FixedLen(shape, dtype, default):
                words = f"FixedLen({list(shape)}, {dtype})"
                count, values = math.prod(shape), None if default is None else _native_default(default, dtype)
                return [self._add(name, dtype, words, count=count, required=default is None, default=values)]
            case VarLen(dtype):
                return [self._add(name, dtype, f"VarLen({dtype})")]
            case FixedLenSequence(shape, dtype, allow_missing):
                words = f"FixedLenSequence({list(shape)}, {dtype})"
                return [self._add(name, dtype, words, multiple=math.prod(shape), required=not allow_missing)]
            case SparseFeature(keys, value_key, dtype):
                words = f"of SparseFeature {name!r} ({dtype})"
                return [*(self._add(key, "int64", words) for key in keys), self._add(value_key, dtype, words)]
            case RaggedFeature(dtype, value_key, partitions):
                words = f"of RaggedFeature {name!r} ({dtype})"
                keys = [key for kind, key in partitions if kind != "uniform_row_length"]
                return [self._add(value_key, dtype, words), *(self._add(key, "int64", words) for key in keys)]
        raise TypeError(
            f"feature {name!r} is FixedLen, VarLen, FixedLenSequence, SparseFeature or RaggedFeature, "
            f"got {feature!r:.60}"
        )

    def _want_list(self, name: str, feature: Feature) -> list[int]:
        match feature:
            case FixedLenSequence(shape, dtype, allow_missing):
                words = f"FixedLenSequence({list(shape)}, {dtype})"
                count = math.prod(shape)
                return [self._add(name, dtype, words, in_list=True, count=count, required=not allow_missing)]
            case VarLen(dtype):
                return [self._add(name, dtype, f"VarLen({dtype})", in_list=True)]
            case RaggedFeature(dtype, value_key, ()):
                return [self._add(value_key, dtype, f"of RaggedFeature {name!r} ({dtype})", in_list=True)]
        raise ValueError(
            f"feature list {name!r} is FixedLenSequence, VarLen, or RaggedFeature without partitions, "
            f"got {feature!r:.60}"
        )

    def check_columns(self) -> None:
        """Refuses features that can't be columns, though TensorFlow's functions take them.

        Raises:
            ValueError: If there is one.
        """
        for name, feature in self.features.items():
            if isinstance(feature, SparseFeature) and (math.prod(feature.size) >= 1 << 31 or KINDS[feature.dtype] == 1):
                raise ValueError(
                    f"feature {name!r}: Sparse columns hold rows of fewer than 2**31 numbers, got {feature.dtype} of "
                    f"size {list(feature.size)}; take its keys as VarLen features instead"
                )

    def _raw(self, messages: Sequence[bytes] | Bytes | Strings, where: Where) -> dict[str, list[_Raw]]:
        rows = messages if isinstance(messages, (Bytes, Strings)) else Bytes.from_rows(messages)
        found, bad, text = self._parser.parse(np.ascontiguousarray(rows.data), np.ascontiguousarray(rows.offsets))
        if bad >= 0:
            raise DataError(f"{where(bad)}: {text}")
        raw = []
        for (values, ends, offsets, steps), dtype in zip(found, self._dtypes, strict=True):
            if ends is not None:
                bounds = np.concatenate([np.zeros(1, np.int64), ends])
                raw.append(_Raw((Strings if dtype == "str" else Bytes)(values, bounds), offsets, steps))
            else:
                raw.append(_Raw(values, offsets, steps))
        return {name: [raw[place] for place in places] for name, places in self._places.items()}

    def columns(self, messages: Sequence[bytes] | Bytes | Strings, where: Where = "record {}".format) -> dict[str, Any]:
        """Parses messages to columns.

        `FixedLen` gives an array of shape `(rows, *shape)`; for strings `Bytes` (`Strings`), in `Ragged` where there
        is a shape. `VarLen` gives `Ragged`; `FixedLenSequence` `Ragged` of steps; `SparseFeature` `Sparse`;
        `RaggedFeature` `Ragged`, of `Ragged` for each partition. In feature lists each of these is one `Ragged` deeper
        for the steps, but for `FixedLenSequence`.

        Args:
            messages: The messages.
            where: Names a message by its number, for errors.

        Raises:
            DataError: If a message is malformed or has something else in it than is wanted; named are the record, the
                feature, what was expected and what was found.
        """
        self.check_columns()
        raw = self._raw(messages, where)
        rows = len(messages)
        columns = {name: _column(name, feature, raw[name], rows, where) for name, feature in self.features.items()}
        for name, feature in self.sequences.items():
            (own,) = raw[name]
            if isinstance(feature, FixedLenSequence):
                columns[name] = Ragged(_shaped(own.values, feature.shape), own.steps)
            else:
                columns[name] = Ragged(Ragged(own.values, own.offsets), own.steps)
        return columns


def _by_name(what: str, features: Any) -> dict[str, Any]:
    try:
        found = dict(features)
    except (TypeError, ValueError):
        raise ValueError(f"{what} are a dict of them by name, got {features!r:.60}") from None
    for name in found:
        key_bytes(name)
    return found


def _native_default(values: tuple[Any, ...], dtype: str) -> Any:
    if KINDS[dtype] != 1:
        return np.array(values, dtype)
    joined = Bytes.from_rows(values)
    return joined.data, np.ascontiguousarray(joined.offsets[1:])


def _shaped(values: Any, shape: tuple[int, ...]) -> Any:
    """Values in rows of a shape; of strings as rows of equal length."""
    if isinstance(values, np.ndarray):
        return values.reshape(-1, *shape) if math.prod(shape) else values.reshape(0, *shape)
    rows = len(values)
    for size in reversed(shape):
        rows = rows // size if size else 0
        values = Ragged(values, np.arange(rows + 1) * size)
    return values


def _column(name: str, feature: Feature, raw: list[_Raw], rows: int, where: Where) -> Any:
    match feature:
        case FixedLen(shape):
            if math.prod(shape) == 0:  # no value says how many rows there are
                values = raw[0].values
                if isinstance(values, np.ndarray):
                    return values.reshape(rows, *shape)
                for place in reversed(range(len(shape))):
                    count = rows * math.prod(shape[:place])
                    values = Ragged(values, np.arange(count + 1) * shape[place])
                return values
            return _shaped(raw[0].values, shape)
        case VarLen():
            return Ragged(raw[0].values, raw[0].offsets)
        case FixedLenSequence(shape):
            return Ragged(_shaped(raw[0].values, shape), raw[0].offsets // math.prod(shape))
        case SparseFeature(_, _, _, size):
            places, values, offsets = _sparse(name, feature, raw, where)
            flat = places[0] if len(places) == 1 else np.ravel_multi_index(tuple(places), size)
            return Sparse(values, flat.astype(np.int32), offsets, math.prod(size))
    assert isinstance(feature, RaggedFeature)
    return ragged_column(name, feature, raw[0].values, [r.offsets for r in raw], [r.values for r in raw[1:]], where)


def _sparse(
    name: str, feature: SparseFeature, raw: list[_Raw], where: Where
) -> tuple[list[NDArray[np.int64]], Any, NDArray[np.int64]]:
    """Checks and sorts the entries of sparse rows: (places for each index, values, offsets)."""
    *indexes, values = raw
    rows = np.repeat(np.arange(len(values.counts)), values.counts)
    places = [index.values for index in indexes]
    for key, index, size in zip(feature.index_key, indexes, feature.size, strict=True):
        unequal = np.flatnonzero(index.counts != values.counts)
        if len(unequal):
            row = int(unequal[0])
            raise DataError(
                f"{where(row)}: feature {name!r}: expected one place for each value, found {index.counts[row]} in "
                f"{key!r} for {values.counts[row]} in {feature.value_key!r}"
            )
        outside = np.flatnonzero((index.values < 0) | (index.values >= size))
        if len(outside):
            row = int(rows[outside[0]])
            raise DataError(
                f"{where(row)}: feature {name!r}: expected places in {key!r} from 0 to before {size}, found "
                f"{int(index.values[outside[0]])}"
            )
    if feature.already_sorted:
        return places, values.values, values.offsets
    order = np.lexsort([*reversed(places), rows])
    taken = values.values[order] if isinstance(values.values, np.ndarray) else values.values.take(order)
    return [place[order] for place in places], taken, values.offsets


# As TensorFlow does ------------------------------------------------------------------------------------------------


class SparseTensor(NamedTuple):
    """Entries of a mostly empty array, each with its coordinates."""

    indices: NDArray[np.int64]
    """Coordinates, shape `(entries, dimensions)`."""
    values: NDArray[Any]
    """Shape `(entries,)`."""
    dense_shape: NDArray[np.int64]
    """The shape of the whole array."""


def parse_examples(serialized: Sequence[bytes], features: Mapping[str, Feature]) -> dict[str, Any]:
    """Parses Examples as `tf.io.parse_example` does.

    `FixedLen` gives an array, `VarLen` and `SparseFeature` a `SparseTensor`, `FixedLenSequence` an array filled up to
    the longest row with its default, `RaggedFeature` a `Ragged`. Strings are arrays of Python `bytes`. Unlike
    TensorFlow's, places outside of a `SparseFeature` are an error.

    Args:
        serialized: The messages.
        features: By name.

    Raises:
        ValueError: If there is no feature.
        DataError: If a message is malformed or has something else in it than is wanted.

    Example:
        >>> from headrace.formats.example import FixedLen, encode_example, parse_examples
        >>> parse_examples([encode_example({"n": 7})], {"n": FixedLen((), "int64")})["n"].tolist()
        [7]
    """
    schema = ExampleSchema(features)
    where = "example {} of the batch".format
    return _dense(schema, schema._raw(serialized, where), len(serialized), where)


def parse_sequence_examples(
    serialized: Sequence[bytes], context: Mapping[str, Feature], sequence: Mapping[str, Feature]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, NDArray[np.int64]]]:
    """Parses SequenceExamples as `tf.io.parse_sequence_example` does.

    Args:
        serialized: The messages.
        context: Features of the context, by name.
        sequence: Features of the lists, by name.

    Returns:
        The context's columns, the lists' columns, and the steps of each record for those that are `FixedLenSequence`.

    Raises:
        ValueError: If there is no feature.
        DataError: If a message is malformed or has something else in it than is wanted.
    """
    # A name may be used in both; the schema's columns may not.
    own = ExampleSchema({}, sequence) if sequence else None
    where = "example {} of the batch".format
    columns = parse_examples(serialized, context) if context else {}
    if own is None:
        if not context:
            raise ValueError("parsing needs at least one feature, got none")
        return columns, {}, {}
    raw, rows = own._raw(serialized, where), len(serialized)
    lists: dict[str, Any] = {}
    lengths: dict[str, NDArray[np.int64]] = {}
    for name, feature in own.sequences.items():
        (found,) = raw[name]
        values, steps = _objects(found.values), np.diff(found.steps)
        if isinstance(feature, FixedLenSequence):
            lengths[name] = steps
            lists[name] = _filled(values.reshape(-1, *feature.shape), found.steps, _default_of(feature))
        elif isinstance(feature, VarLen):
            counts = found.counts
            row_of_step, step = _coordinates(found.steps)
            of_value, place = _coordinates(found.offsets)
            indices = np.stack([row_of_step[of_value], step[of_value], place], axis=1)
            shape = np.array([rows, steps.max(initial=0), counts.max(initial=0)], np.int64)
            lists[name] = SparseTensor(indices, values, shape)
        else:
            lists[name] = Ragged(Ragged(values, found.offsets), found.steps)
    return columns, lists, lengths


def _dense(schema: ExampleSchema, raw: dict[str, list[_Raw]], rows: int, where: Where) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, feature in schema.features.items():
        own = raw[name]
        match feature:
            case FixedLen(shape):
                found[name] = _objects(own[0].values).reshape(rows, *shape)
            case VarLen():
                indices = np.stack(_coordinates(own[0].offsets), axis=1)
                shape_of_all = np.array([rows, own[0].counts.max(initial=0)], np.int64)
                found[name] = SparseTensor(indices, _objects(own[0].values), shape_of_all)
            case FixedLenSequence(shape):
                values = _objects(own[0].values).reshape(-1, *shape)
                found[name] = _filled(values, own[0].offsets // math.prod(shape), _default_of(feature))
            case SparseFeature():
                places, entries, offsets = _sparse(name, feature, own, where)
                indices = np.stack([_coordinates(offsets)[0], *places], axis=1)
                found[name] = SparseTensor(indices, _objects(entries), np.array([rows, *feature.size], np.int64))
            case _:
                found[name] = _with_objects(_column(name, feature, own, rows, where))
    return found


def _default_of(feature: FixedLenSequence) -> Any:
    if feature.default is not None:
        return feature.default[0]
    return b"" if KINDS[feature.dtype] == 1 else 0


def _objects(values: Any) -> NDArray[Any]:
    """Strings as an array of Python objects; numbers as they are."""
    if isinstance(values, np.ndarray):
        return values
    array = np.empty(len(values), object)
    array[:] = [values.bytes_at(row) for row in range(len(values))]
    return array


def _with_objects(column: Any) -> Any:
    if isinstance(column, Ragged):
        return Ragged(_with_objects(column.values), column.offsets)
    return _objects(column)


def _coordinates(offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The row of each value, and its place in the row."""
    counts = np.diff(offsets)
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, np.arange(len(rows)) - np.repeat(offsets[:-1], counts)


def _filled(values: NDArray[Any], offsets: NDArray[np.int64], default: Any) -> NDArray[Any]:
    counts = np.diff(offsets)
    filled = np.full((len(counts), counts.max(initial=0), *values.shape[1:]), default, values.dtype)
    filled[_coordinates(offsets)] = values
    return filled
