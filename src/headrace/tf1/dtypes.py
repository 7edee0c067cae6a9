"""Types of elements and shapes of tensors, as graphs know them before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

__all__ = [
    "DType",
    "TensorShape",
    "as_dtype",
    "as_shape",
    "as_value",
    "bool_",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "string",
    "uint8",
    "uint16",
    "variant",
]


class DType:
    """The type of a tensor's elements: `tf.int64`, `tf.float32`, `tf.string` …"""

    def __init__(self, name: str, numpy: np.dtype[Any]):
        self.name = name
        self._numpy = numpy

    @property
    def as_numpy_dtype(self) -> Any:
        """The type of NumPy that holds such elements; strings are `object`s of type `bytes`."""
        return self._numpy.type

    def zero(self) -> Any:
        """What pads: 0, or the empty string."""
        return b"" if self.name == "string" else self._numpy.type(0)

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __eq__(self, other: object) -> bool:
        try:
            return self.name == as_dtype(other).name
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)


_NAMES = ("bool", "uint8", "uint16", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
_TYPES = {name: DType(name, np.dtype(name)) for name in _NAMES}
bool_, uint8, uint16, int8, int16, int32, int64, float16, float32, float64 = (_TYPES[name] for name in _NAMES)
string = _TYPES["string"] = DType("string", np.dtype(object))
variant = _TYPES["variant"] = DType("variant", np.dtype(object))  # sparse tensors on their way through queues


def as_dtype(given: Any) -> DType:
    """The type that a name, a NumPy type or a `DType` means."""
    if isinstance(given, DType):
        return given
    if isinstance(given, str) and given in _TYPES:
        return _TYPES[given]
    if isinstance(given, type) and given in (str, bytes, int, float, bool):
        return {str: string, bytes: string, int: int32, float: float32, bool: bool_}[given]
    try:
        found = np.dtype(given)
    except TypeError:
        found = None
    if found is not None and found.kind in "OSU":
        return string
    if found is not None and found.name in _TYPES:
        return _TYPES[found.name]
    raise TypeError(f"expected a type such as tf.int64 or tf.string, got {given!r}")


class TensorShape:
    """A shape in which dimensions, or even their number, may be unknown (None)."""

    def __init__(self, dims: Any = None):
        if isinstance(dims, TensorShape):
            dims = dims.dims
        elif dims is not None and not isinstance(dims, Sequence | np.ndarray):
            dims = [dims]
        self.dims: tuple[int | None, ...] | None = (
            None if dims is None else tuple(None if d is None or d == -1 else int(d) for d in dims)
        )

    @property
    def ndims(self) -> int | None:
        """The number of dimensions, or None where it is unknown."""
        return None if self.dims is None else len(self.dims)

    def known(self) -> tuple[int | None, ...]:
        """The dimensions, of which there must be a known number."""
        if self.dims is None:
            raise ValueError("the number of dimensions of this shape is unknown")
        return self.dims

    def as_list(self) -> list[int | None]:
        """The dimensions as a list."""
        return list(self.known())

    def is_fully_defined(self) -> bool:
        """Whether all dimensions are known."""
        return self.dims is not None and None not in self.dims

    def num_elements(self) -> int | None:
        """The product of the dimensions, if all are known."""
        product = 1
        for d in self.dims if self.dims is not None else (None,):
            if d is None:
                return None
            product *= d
        return product

    def is_compatible_with(self, other: Any) -> bool:
        """Whether one tensor could have both shapes."""
        other = TensorShape(other)
        if self.dims is None or other.dims is None:
            return True
        return len(self.dims) == len(other.dims) and all(
            a is None or b is None or a == b for a, b in zip(self.dims, other.dims, strict=True)
        )

    def merge_with(self, other: Any) -> TensorShape:
        """What is known when both are true."""
        other = TensorShape(other)
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are not compatible")
        if self.dims is None or other.dims is None:
            return other if self.dims is None else self
        return TensorShape([b if a is None else a for a, b in zip(self.dims, other.dims, strict=True)])

    def concatenate(self, other: Any) -> TensorShape:
        """These dimensions and then those."""
        other = TensorShape(other)
        return TensorShape(None if self.dims is None or other.dims is None else self.dims + other.dims)

    def common_with(self, other: TensorShape) -> TensorShape:
        """What both have in common: dimensions that differ become unknown."""
        if self.dims is None or other.dims is None or len(self.dims) != len(other.dims):
            return TensorShape(None)
        return TensorShape([a if a == b else None for a, b in zip(self.dims, other.dims, strict=True)])

    def __len__(self) -> int:
        return len(self.known())

    def __iter__(self) -> Iterator[int | None]:
        return iter(self.known())

    @overload
    def __getitem__(self, at: int) -> int | None: ...
    @overload
    def __getitem__(self, at: slice) -> TensorShape: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return TensorShape(None if self.dims is None else self.dims[at])
        return self.known()[at] if self.dims is not None else None

    def __eq__(self, other: object) -> bool:
        try:
            return self.dims == TensorShape(other).dims
        except (TypeError, ValueError):
            return False

    def __hash__(self) -> int:
        return hash(self.dims)

    def __repr__(self) -> str:
        return f"TensorShape({None if self.dims is None else list(self.dims)})"

    def __str__(self) -> str:
        return "<unknown>" if self.dims is None else f"({', '.join('?' if d is None else str(d) for d in self.dims)})"


def as_shape(given: Any) -> TensorShape:
    """The shape that a list, a number or None means."""
    return TensorShape(given)


def as_bytes(text: Any) -> bytes:
    """A string element."""
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode()
    raise TypeError(f"expected a string (bytes or str), got {text!r}")


def _array(given: Any) -> Any:
    """An array; of texts one of objects, as NumPy's own arrays of bytes drop NULs at the end."""
    first = given
    while isinstance(first, list | tuple) and first:
        first = first[0]
    return np.asarray(given, object if isinstance(first, bytes | str) else None)


def as_value(given: Any, dtype: DType | None = None) -> Any:
    """A value as it passes from operation to operation: an array, or a scalar of NumPy or `bytes`."""
    if dtype is not None and dtype.name == "variant":
        return given
    if isinstance(given, bytes | str) and dtype in (None, string):
        return as_bytes(given)
    found = _array(given)
    if dtype is None:
        if found.dtype.kind in "OSU":
            dtype = string
        elif isinstance(given, np.ndarray | np.generic):
            dtype = as_dtype(found.dtype)
        elif found.dtype.kind == "f":
            dtype = float32
        else:
            dtype = {"i": int32, "b": bool_}.get(found.dtype.kind) or as_dtype(found.dtype)
    if dtype == string:
        if found.dtype.kind not in "OSU" and found.size:
            raise TypeError(f"expected strings, got {found.dtype} values")
        whole = np.empty(found.size, object)
        whole[:] = [as_bytes(x) for x in found.reshape(-1).tolist()]
        return whole.reshape(found.shape) if found.ndim else whole[0]
    if found.dtype.kind in "OSU" and found.size:
        raise TypeError(f"expected {dtype.name} values, got {given!r}")
    if found.dtype.kind == "f" and dtype.name.startswith(("int", "uint")) and found.size:
        raise TypeError(f"expected {dtype.name} values, got {given!r}")
    return np.asarray(given, dtype._numpy)[()]
