"""Operations on strings: numbers from text, arrays from bytes, fields of CSV, words of a line."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.tf1 import errors
from headrace.tf1.dtypes import as_bytes, as_dtype, as_value, float32, int64, string
from headrace.tf1.graph import Tensor, add_op, constant_value, convert
from headrace.tf1.session import Run
from headrace.tf1.sparse import SparseTensor

__all__ = ["decode_csv", "decode_raw", "string_join", "string_split", "string_to_number", "substr"]

_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_BLANKS = b" \t\n\v\f\r"


def _number(text: bytes, kind: str) -> Any:
    word = text.strip(_BLANKS)
    try:
        if b"_" in word:
            raise ValueError
        if kind in _RANGES:
            value = int(word)
            low, high = _RANGES[kind]
            if not low <= value <= high:
                raise ValueError
            return value
        return float(word)
    except ValueError:
        raise errors.InvalidArgumentError(
            None, None, f"StringToNumberOp could not correctly convert string: {text.decode(errors='replace')}"
        ) from None


def string_to_number(string_tensor: Any, out_type: Any = float32, name: str | None = None) -> Tensor:
    """Numbers from texts.

    Raises:
        InvalidArgumentError: When a text is no number of that type.
    """
    x = convert(string_tensor, string)
    kind = as_dtype(out_type)

    def compute(run: Run, text: Any) -> Any:
        if isinstance(text, bytes):
            return kind.as_numpy_dtype(_number(text, kind.name))
        flat = [_number(t, kind.name) for t in text.reshape(-1)]
        return np.array(flat, kind.as_numpy_dtype).reshape(text.shape)

    return add_op("StringToNumber", compute, [x], [(kind, x.shape)], name).outputs[0]


def decode_raw(bytes: Any, out_type: Any, little_endian: bool = True, name: str | None = None) -> Tensor:
    """An array from the bytes that hold it.

    Raises:
        InvalidArgumentError: When the length is no multiple of an element's, or strings differ in length.
    """
    x = convert(bytes, string)
    kind = as_dtype(out_type)
    order = np.dtype(kind.as_numpy_dtype).newbyteorder("<" if little_endian else ">")

    def compute(run: Run, data: Any) -> Any:
        single = np.ndim(data) == 0
        rows = [data] if single else data.reshape(-1).tolist()
        lengths = {len(r) for r in rows}
        if len(lengths) > 1:
            raise errors.InvalidArgumentError(
                None, None, f"DecodeRaw requires input strings to all be the same size, got {sorted(lengths)}"
            )
        width = lengths.pop() if lengths else 0
        if width % order.itemsize:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Input to DecodeRaw has length {width}, no multiple of {order.itemsize}, the size of {kind}",
            )
        joined = np.frombuffer(b"".join(rows), order).astype(kind.as_numpy_dtype)
        return joined if single else joined.reshape(*data.shape, width // order.itemsize)

    return add_op("DecodeRaw", compute, [x], [(kind, x.shape.concatenate([None]))], name).outputs[0]


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Tensor]:
    """The fields of lines of CSV, one tensor a column.

    Args:
        records: Lines.
        record_defaults: For each column a list with its default, which also says the type; an empty one (or a type):
            the field must be there.
        field_delim: What separates fields.
        use_quote_delim: Whether double quotes hold fields together.
        name: The operation's name.
        na_value: A text that, like none, means the default.
        select_cols: Numbers of the columns wanted, in increasing order.

    Raises:
        InvalidArgumentError: When a line has another number of fields, or a field is no number or missing.
    """
    x = convert(records, string)
    kinds, defaults = [], []
    for given in record_defaults:
        known = constant_value(given)
        if isinstance(given, Tensor):
            kinds.append(given.dtype)
        else:
            try:
                kinds.append(as_dtype(known))
                known = []
            except TypeError:
                kinds.append(as_dtype(as_value(known).dtype) if np.size(known) else float32)
        flat = np.reshape(np.asarray(known, object), -1)
        defaults.append(flat[0] if len(flat) else None)

    def field(text: str, column: int, line: int) -> Any:
        if text in ("", na_value):
            if defaults[column] is None:
                raise errors.InvalidArgumentError(
                    None, None, f"Field {column} is required but missing in record {line}!"
                )
            return as_value(defaults[column], kinds[column])
        raw = text.encode("latin-1")
        if kinds[column] == string:
            return raw
        try:
            return kinds[column].as_numpy_dtype(_number(raw, kinds[column].name))
        except errors.InvalidArgumentError:
            raise errors.InvalidArgumentError(
                None, None, f"Field {column} in record {line} is not a valid {kinds[column].name}: {text}"
            ) from None

    def compute(run: Run, lines: Any) -> Any:
        flat = [lines] if isinstance(lines, bytes) else lines.reshape(-1).tolist()
        rows = []
        for number, line in enumerate(flat):
            quoting: Any = csv.QUOTE_MINIMAL if use_quote_delim else csv.QUOTE_NONE
            text = line.decode("latin-1")
            if any(mark in text for mark in '"\r\n'):
                records = csv.reader(io.StringIO(text, newline=""), delimiter=field_delim, quoting=quoting)
                fields = next(records, [""])
            else:  # of any length, where csv has a limit
                fields = text.split(field_delim)
            if select_cols is not None:
                if fields and max(select_cols, default=0) >= len(fields):
                    raise errors.InvalidArgumentError(
                        None, None, f"Expect column {max(select_cols)} but have {len(fields)} fields in record {number}"
                    )
                fields = [fields[c] for c in select_cols]
            if len(fields) != len(kinds):
                raise errors.InvalidArgumentError(
                    None, None, f"Expect {len(kinds)} fields but have {len(fields)} in record {number}"
                )
            rows.append([field(f, c, number) for c, f in enumerate(fields)])
        if isinstance(lines, bytes):
            out = tuple(rows[0])
        else:
            out = tuple(
                np.array([row[c] for row in rows], kind.as_numpy_dtype).reshape(lines.shape)
                for c, kind in enumerate(kinds)
            )
        return out if len(out) > 1 else out[0]

    return list(add_op("DecodeCSV", compute, [x], [(k, x.shape) for k in kinds], name).outputs)


def split_words(line: bytes, delimiter: bytes, skip_empty: bool) -> list[bytes]:
    """The words of a line: each character of the delimiter splits, an empty one splits into bytes."""
    if not delimiter:
        return [line[i : i + 1] for i in range(len(line))]
    for other in delimiter[1:]:
        line = line.replace(bytes([other]), delimiter[:1])
    words = line.split(delimiter[:1]) if line else []
    return [w for w in words if w] if skip_empty else words


def string_split(source: Any, delimiter: str | bytes = " ", skip_empty: bool = True) -> SparseTensor:
    """The words of lines, as a sparse tensor with a row a line.

    >>> from headrace import tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     print(sess.run(tf.string_split(["to be", "or"])).values.tolist())
    [b'to', b'be', b'or']
    """
    x = convert(source, string)
    by = as_bytes(constant_value(delimiter))

    def compute(run: Run, lines: Any) -> Any:
        rows = [split_words(line, by, skip_empty) for line in lines.tolist()]
        lengths = [len(r) for r in rows]
        indices = np.empty((sum(lengths), 2), np.int64)
        indices[:, 0] = np.repeat(np.arange(len(rows)), lengths)
        indices[:, 1] = [i for n in lengths for i in range(n)]
        values = np.empty(len(indices), object)
        values[:] = [w for r in rows for w in r]
        return indices, values, np.array([len(rows), max(lengths, default=0)], np.int64)

    op = add_op("StringSplit", compute, [x], [(int64, [None, 2]), (string, [None]), (int64, [2])])
    return SparseTensor(*op.outputs)


def string_join(inputs: Sequence[Any], separator: str | bytes = "", name: str | None = None) -> Tensor:
    """Texts joined, element by element."""
    parts = [convert(x, string) for x in inputs]
    by = as_bytes(separator)

    def compute(run: Run, *texts: Any) -> Any:
        if all(isinstance(t, bytes) for t in texts):
            return by.join(texts)
        rows = np.broadcast_arrays(*[np.asarray(t, object) for t in texts])
        whole = np.empty(rows[0].shape, object)
        whole.reshape(-1)[:] = [by.join(ts) for ts in zip(*[r.reshape(-1) for r in rows], strict=True)]
        return whole

    shape = next((p.shape for p in parts if p.shape.ndims != 0), parts[0].shape)
    return add_op("StringJoin", compute, parts, [(string, shape)], name).outputs[0]


def substr(input: Any, pos: int, len: int, name: str | None = None) -> Tensor:
    """A piece of each text, in bytes."""
    x = convert(input, string)

    def compute(run: Run, text: Any) -> Any:
        if isinstance(text, bytes):
            return text[pos : pos + len]
        return as_value([t[pos : pos + len] for t in text.reshape(-1)], string).reshape(text.shape)

    return add_op("Substr", compute, [x], [(string, x.shape)], name).outputs[0]
