"""Writes Examples and SequenceExamples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.column import offsets_of
from headrace.batch.columns import Bytes, Ragged, Strings
from headrace.errors import DataError
from headrace.formats.features import key_bytes

_TEXTS = (bytes, bytearray, memoryview)
_Values = tuple[int, NDArray[Any], NDArray[np.int64] | None, int]
"""Kind, values, offsets of strings, number of values."""
_Input = tuple[bytes, int, bool, Any, Any, NDArray[np.int64], NDArray[np.int64] | None]


def encode_example(features: Mapping[str, Any]) -> bytes:
    """Makes a `tf.train.Example`.

    Whole numbers and booleans become int64 lists, floats float lists (32 bits), `bytes` and `str` (as UTF-8) bytes
    lists; arrays are written row by row. None leaves a key out.

    Args:
        features: Values by key: one, a list, or an array.

    Raises:
        DataError: If a value is of another type, doesn't fit, or is an empty list, whose type nobody knows (give an
            empty array).

    Example:
        >>> import headrace as hr
        >>> len(hr.encode_example({"label": 3, "name": "mill", "weights": [0.5, 1.5]}))
        61
    """
    inputs = [_feature(key, value) for key, value in _items("features", features) if value is not None]
    data, _ = _native.encode_examples(1, inputs)
    return data.tobytes()


def encode_sequence_example(context: Mapping[str, Any], sequences: Mapping[str, Any]) -> bytes:
    """Makes a `tf.train.SequenceExample`.

    Args:
        context: Values by key, as for `encode_example`.
        sequences: By key a list of steps, each as a value for `encode_example`; a two-dimensional array has a step in
            each row.

    Raises:
        DataError: As `encode_example`; also if steps differ in type.

    Example:
        >>> import headrace as hr
        >>> message = hr.encode_sequence_example({"id": 7}, {"words": ["to", "the", "mill"]})
        >>> hr.from_dataset([message]).parse_sequence_example({}, {"words": hr.VarLen("str")})[0]["words"].tolist()
        [['to'], ['the'], ['mill']]
    """
    inputs: list[_Input] = [_feature(key, value) for key, value in _items("context", context) if value is not None]
    inputs += [_list(key, steps) for key, steps in _items("sequences", sequences) if steps is not None]
    data, _ = _native.encode_examples(1, inputs)
    return data.tobytes()


def encode_examples(columns: Mapping[str, Any]) -> Bytes:
    """Makes an Example of each row of columns, in one native call.

    Args:
        columns: Arrays, `Ragged`, `Strings` or `Bytes` with the same number of rows, or `Ragged` of those two.

    Raises:
        DataError: If a column is of another type, or they differ in length.

    Example:
        >>> import numpy as np
        >>> import headrace as hr
        >>> messages = hr.encode_examples({"x": np.eye(2, dtype=np.float32), "name": hr.Strings.from_rows(["a", "b"])})
        >>> hr.from_arrays(messages).parse_example({"x": hr.FixedLen(2, "float32")})[1]["x"].tolist()
        [0.0, 1.0]
    """
    sizes = {key: _rows(key, column) for key, column in _items("columns", columns)}
    if len(set(sizes.values())) > 1:
        raise DataError(f"columns need the same number of rows, got {sizes}")
    rows = next(iter(sizes.values()), 0)
    inputs = []
    for key, column in columns.items():
        kind, values, items, count = _flat(key, column.values if isinstance(column, Ragged) else column)
        if isinstance(column, Ragged):
            per_item = count // len(column.values) if len(column.values) else 1
            offsets = column.offsets * per_item
        else:
            offsets = np.arange(rows + 1) * (count // rows if rows else 0)
        inputs.append((_key(key), kind, False, values, items, np.ascontiguousarray(offsets, np.int64), None))
    return Bytes(*_native.encode_examples(rows, inputs))


def _items(what: str, values: Any) -> list[tuple[Any, Any]]:
    if not isinstance(values, Mapping):
        raise DataError(f"{what} are a dict of values by key, got {type(values).__name__} {values!r:.60}")
    return list(values.items())


def _key(key: Any) -> bytes:
    try:
        return key_bytes(key)
    except ValueError as error:
        raise DataError(str(error)) from None


def _rows(key: str, column: Any) -> int:
    try:
        if not isinstance(column, (str, bytes, Mapping)):
            return len(column)
    except TypeError:
        pass
    raise DataError(f"column {key!r} has a row for each message, got {type(column).__name__} {column!r:.60}")


def _feature(key: str, value: Any) -> _Input:
    kind, values, items, count = _flat(key, value)
    return _key(key), kind, False, values, items, np.array([0, count]), None


def _list(key: str, steps: Any) -> _Input:
    try:
        own = None if isinstance(steps, (str, bytes, bytearray, Mapping)) else list(steps)
    except TypeError:
        own = None
    if own is None:
        raise DataError(f"feature list {key!r} is a list of steps, got {type(steps).__name__} {steps!r:.60}")
    parts = [_flat(f"{key}, step {i}", step) for i, step in enumerate(own)]
    kinds = {kind for kind, _, _, _ in parts}
    if len(kinds) > 1:
        raise DataError(f"feature list {key!r}: steps are of one type, got {len(kinds)} different ones")
    kind = kinds.pop() if kinds else 3
    nothing = np.empty(0, {1: np.uint8, 2: np.float32, 3: np.int64}[kind])
    values = np.concatenate([nothing, *(values for _, values, _, _ in parts)])
    items = None
    if kind == 1:
        items = offsets_of(
            np.concatenate([np.empty(0, np.int64), *(np.diff(i) for _, _, i, _ in parts if i is not None)])
        )
    offsets = offsets_of([count for _, _, _, count in parts])
    return _key(key), kind, True, values, items, offsets, np.array([0, len(parts)])


def _flat(key: str, value: Any) -> _Values:
    """A value as the native core takes it."""
    if isinstance(value, (str, *_TEXTS)):
        value = [value]
    if isinstance(value, (list, tuple)) and not len(value):
        raise DataError(
            f"feature {key!r} is an empty list, whose type isn't known; give an empty array: np.empty(0, np.int64)"
        )
    if isinstance(value, (list, tuple)) and isinstance(value[0], (str, *_TEXTS)):
        value = _strings(key, value)
    if isinstance(value, (Bytes, Strings)):
        data, offsets = np.ascontiguousarray(value.data), np.ascontiguousarray(value.offsets)
        return 1, data, offsets, len(value)
    try:
        array = np.asarray(value)
        if array.dtype.kind in "SU" and not isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value, object)  # NumPy makes texts of numbers that stand beside some
    except (TypeError, ValueError) as error:
        raise DataError(f"feature {key!r} can't be taken as an array: {error}") from None
    if array.dtype.kind in "OSU":
        return _flat(key, _strings(key, array.ravel().tolist()))
    if array.dtype.kind in "biu":
        if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
            raise DataError(f"feature {key!r} holds {int(array.max())}, which int64 can't")
        return 3, np.ascontiguousarray(array, np.int64).ravel(), None, math.prod(array.shape)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            narrow = np.ascontiguousarray(array, np.float32).ravel()
        if not np.isfinite(narrow).all() and np.isinf(narrow).sum() != np.isinf(array).sum():
            raise DataError(f"feature {key!r} holds {float(np.abs(array).max())}, which 32-bit floats can't")
        return 2, narrow, None, math.prod(array.shape)
    raise DataError(f"feature {key!r} is {array.dtype}; Examples hold whole numbers, floats and bytes")


def _strings(key: str, texts: Sequence[Any]) -> Bytes:
    others = [text for text in texts if not isinstance(text, (str, *_TEXTS))]
    if others:
        for number in others:
            if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
                raise DataError(f"feature {key!r} holds {number}, which int64 can't")
        kinds = " and ".join(sorted({type(text).__name__ for text in texts}))
        raise DataError(f"feature {key!r} is numbers or texts, all of one type, got {kinds}: {others[0]!r:.60}")
    try:
        return Bytes.from_rows([bytes(text) if isinstance(text, _TEXTS) else text for text in texts])
    except ValueError as error:
        raise DataError(f"feature {key!r}: {error}") from None
