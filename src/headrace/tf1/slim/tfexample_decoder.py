"""Items out of Examples: what handlers make of the tensors of features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.tf1 import errors, parsing, sparse
from headrace.tf1.dtypes import as_dtype, as_shape, int64, uint8
from headrace.tf1.graph import Tensor as GraphTensor
from headrace.tf1.graph import add_op, convert
from headrace.tf1.image import decode
from headrace.tf1.ops import concat, expand_dims, reshape, sparse_tensor_to_dense, stack, to_int64, transpose
from headrace.tf1.session import Function, Run
from headrace.tf1.slim.data_decoder import DataDecoder

__all__ = [
    "BackupHandler",
    "BoundingBox",
    "BoundingBoxSequence",
    "Image",
    "ItemHandler",
    "ItemHandlerCallback",
    "KeypointsSequence",
    "LookupTensor",
    "NumBoxesSequence",
    "SparseTensor",
    "TFExampleDecoder",
    "TFSequenceExampleDecoder",
    "Tensor",
]


class ItemHandler:
    """Makes an item of the tensors of some features.

    Args:
        keys: The features' keys.
    """

    def __init__(self, keys: Any):
        self._keys: list[str] = [keys] if isinstance(keys, str) else list(keys)

    @property
    def keys(self) -> list[str]:
        """The keys of the features."""
        return self._keys

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """The item."""
        raise NotImplementedError


class ItemHandlerCallback(ItemHandler):
    """Leaves it to a function, which gets a dict of tensors by key."""

    def __init__(self, keys: Any, func: Callable[[Mapping[str, Any]], Any]):
        super().__init__(keys)
        self._func = func

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """What the function gives."""
        return self._func(keys_to_tensors)


def _dense(tensor: Any, default: Any = 0) -> Any:
    return sparse_tensor_to_dense(tensor, default) if isinstance(tensor, sparse.SparseTensor) else tensor


class Tensor(ItemHandler):
    """The feature itself, made dense.

    Args:
        tensor_key: The feature's key.
        shape_keys: Keys of features that hold the shape, together.
        shape: The shape; one dimension may be −1.
        default_value: What a sparse feature lacks; texts need `''`.

    Raises:
        ValueError: If both `shape_keys` and `shape` are given.
    """

    def __init__(self, tensor_key: str, shape_keys: Any = None, shape: Any = None, default_value: Any = 0):
        if shape_keys and shape is not None:
            raise ValueError("Cannot specify both shape_keys and shape parameters.")
        shape_keys = [shape_keys] if isinstance(shape_keys, str) else list(shape_keys or [])
        super().__init__([tensor_key, *shape_keys])
        self._tensor_key = tensor_key
        self._shape_keys = shape_keys
        self._shape = shape
        self._default = default_value

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """The feature, reshaped if a shape is known."""
        tensor = _dense(keys_to_tensors[self._tensor_key], self._default)
        shape = self._shape
        if self._shape_keys:
            shape = reshape(stack([_dense(keys_to_tensors[key]) for key in self._shape_keys]), [-1])
        return tensor if shape is None else reshape(tensor, shape)


class LookupTensor(Tensor):
    """As `Tensor`, and then looked up in a table."""

    def __init__(self, tensor_key: str, table: Any, shape_keys: Any = None, shape: Any = None, default_value: Any = ""):
        super().__init__(tensor_key, shape_keys, shape, default_value)
        self._table = table

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """What the table has for it."""
        return self._table.lookup(super().tensors_to_item(keys_to_tensors))


class BackupHandler(ItemHandler):
    """The item of one handler or, when that has no elements, of another."""

    def __init__(self, handler: ItemHandler, backup: ItemHandler):
        if not (isinstance(handler, ItemHandler) and isinstance(backup, ItemHandler)):
            raise ValueError("both handlers must be ItemHandlers")
        super().__init__([*handler.keys, *[k for k in backup.keys if k not in handler.keys]])
        self._handler, self._backup = handler, backup

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """The item; the second handler runs only when it is needed."""
        needed = [keys_to_tensors[key] for key in self._keys]
        inputs = [t for x in needed for t in (x.fetch_parts()[0] if hasattr(x, "fetch_parts") else [x])]
        items = [convert(h.tensors_to_item(keys_to_tensors)) for h in (self._handler, self._backup)]
        first, second = (Function(inputs, [item]) for item in items)

        def compute(run: Run, *values: Any) -> Any:
            found = first(run, *values)[0]
            return found if np.size(found) else second(run, *values)[0]

        shape = items[0].shape.common_with(items[1].shape)
        return add_op("BackupHandler", compute, inputs, [(items[0].dtype, shape)]).outputs[0]


class BoundingBox(ItemHandler):
    """Four features of sides as boxes: float [n, 4], in the order ymin, xmin, ymax, xmax.

    Args:
        keys: Names of the four, `["ymin", "xmin", "ymax", "xmax"]` if not given.
        prefix: Stands before each.

    Raises:
        ValueError: If there aren't four keys.
    """

    def __init__(self, keys: Sequence[str] | None = None, prefix: str = ""):
        keys = ["ymin", "xmin", "ymax", "xmax"] if keys is None else list(keys)
        if len(keys) != 4:
            raise ValueError(f"BoundingBox expects 4 keys but got {len(keys)}")
        super().__init__([prefix + key for key in keys])

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """The boxes."""
        sides = []
        for key in self._keys:
            side = keys_to_tensors[key]
            side = side.values if isinstance(side, sparse.SparseTensor) else side
            sides.append(expand_dims(side, 0))
        return transpose(concat(sides, 0))


class _Coordinates(ItemHandler):
    """Sparse features of sequences, padded and put side by side: [time, n, number of keys]."""

    _default_keys: Sequence[str] = ()

    def __init__(
        self, keys: Sequence[str] | None = None, prefix: str | None = None, return_dense: bool = True,
        default_value: float = -1.0,
    ):  # fmt: skip
        keys = list(self._default_keys) if keys is None else list(keys)
        if len(keys) != len(self._default_keys):
            raise ValueError(f"{type(self).__name__} expects {len(self._default_keys)} keys but got {len(keys)}")
        super().__init__([(prefix or "") + key for key in keys])
        self._return_dense = return_dense
        self._default = default_value

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """The coordinates."""
        if not self._return_dense:
            raise NotImplementedError("return_dense=False")
        sides = [expand_dims(_dense(keys_to_tensors[key], self._default), 2) for key in self._keys]
        return concat(sides, 2)


class BoundingBoxSequence(_Coordinates):
    """Boxes of each step, padded with −1: [time, n, 4]."""

    _default_keys = ("ymin", "xmin", "ymax", "xmax")


class KeypointsSequence(_Coordinates):
    """Points of each step, padded with −1: [time, n, 2]."""

    _default_keys = ("y", "x")


class NumBoxesSequence(ItemHandler):
    """How many boxes each step has: int64 [time].

    Args:
        keys: Features of boxes' sides.
        check_consistency: Whether all of them must say the same.
    """

    def __init__(self, keys: Any = ("ymin", "xmin", "ymax", "xmax"), check_consistency: bool = True):
        super().__init__(keys)
        self._check = check_consistency

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """The numbers."""
        keys = self._keys if self._check else self._keys[:1]
        parts = [t for key in keys for t in (keys_to_tensors[key].indices, keys_to_tensors[key].dense_shape)]

        def compute(run: Run, *values: Any) -> Any:
            counts = [
                np.bincount(indices[:, 0], minlength=int(dense[0])).astype(np.int64)
                for indices, dense in zip(values[::2], values[1::2], strict=True)
            ]
            if any(not np.array_equal(counts[0], other) for other in counts[1:]):
                raise errors.InvalidArgumentError(
                    None, None, f"the features {keys} have different numbers of boxes: {[c.tolist() for c in counts]}"
                )
            return counts[0]

        return add_op("NumBoxes", compute, parts, [(int64, [None])]).outputs[0]


class SparseTensor(ItemHandler):
    """A sparse tensor of two features: places, of which the values are the last coordinate, and values.

    Args:
        indices_key: The places.
        values_key: The values.
        shape_key: The shape.
        shape: The shape.
        densify: Whether to make it dense.
        default_value: What it lacks then.
    """

    def __init__(
        self, indices_key: str | None = None, values_key: str | None = None, shape_key: str | None = None,
        shape: Any = None, densify: bool = False, default_value: Any = 0,
    ):  # fmt: skip
        self._indices_key, self._values_key = indices_key or "indices", values_key or "values"
        self._shape_key = shape_key
        self._shape = shape
        self._densify = densify
        self._default = default_value
        super().__init__([self._indices_key, self._values_key, *([shape_key] if shape_key else [])])

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """The sparse tensor, or the dense one."""
        places, values = keys_to_tensors[self._indices_key], keys_to_tensors[self._values_key]
        if self._shape_key:
            shape = _dense(keys_to_tensors[self._shape_key])
        elif self._shape is not None:
            shape = self._shape
        else:
            shape = places.dense_shape
        last = reshape(to_int64(places.values), [-1, 1])
        made = sparse.SparseTensor(concat([places.indices[:, :-1], last], 1), values.values, shape)
        if not self._densify:
            return made
        dense = sparse_tensor_to_dense(made, self._default)
        if self._shape is not None:
            dense.set_shape(self._shape)
        return dense


class Image(ItemHandler):
    """A picture: bytes and the name of their format.

    The formats `raw` and `RAW` are an array's bytes; any other name is ignored, the first bytes decide.

    Args:
        image_key: The bytes.
        format_key: The name of the format.
        shape: The picture's shape; raw ones need it.
        channels: 1 grey, 3 RGB, 4 with alpha.
        dtype: The pixels' type; values aren't scaled.
        repeated: Whether there are several, all of one size.
        dct_method: Ignored: the accurate method is used.
    """

    def __init__(
        self,
        image_key: str | None = None,
        format_key: str | None = None,
        shape: Any = None,
        channels: int = 3,
        dtype: Any = uint8,
        repeated: bool = False,
        dct_method: str = "",
    ):
        self._image_key, self._format_key = image_key or "image/encoded", format_key or "image/format"
        super().__init__([self._image_key, self._format_key])
        self._shape = shape
        self._channels = channels
        self._dtype = as_dtype(dtype)
        self._repeated = repeated

    def _pixels(self, data: bytes, format_name: bytes) -> Any:
        kind = self._dtype.as_numpy_dtype
        if format_name in (b"raw", b"RAW"):
            if len(data) % np.dtype(kind).itemsize:
                raise errors.InvalidArgumentError(
                    None, None, f"a raw picture of {len(data)} bytes isn't made of whole {self._dtype.name} values"
                )
            return np.frombuffer(data, kind)
        return decode(data, self._channels).astype(kind, copy=False)

    def tensors_to_item(self, keys_to_tensors: Mapping[str, Any]) -> Any:
        """The pixels."""

        def compute(run: Run, data: Any, format_name: bytes) -> Any:
            if not self._repeated:
                return self._pixels(data, format_name)
            pictures = [self._pixels(one, format_name) for one in np.asarray(data, object).reshape(-1).tolist()]
            if len({p.shape for p in pictures}) > 1:
                raise errors.InvalidArgumentError(
                    None, None, f"repeated pictures must have one size, got {sorted({p.shape for p in pictures})}"
                )
            return np.stack(pictures) if pictures else np.empty((0, 0, 0, self._channels), self._dtype.as_numpy_dtype)

        inputs = [_dense(keys_to_tensors[self._image_key], ""), keys_to_tensors[self._format_key]]
        shape = as_shape([None] * (2 + self._repeated) + [self._channels])
        made = add_op("DecodeItem", compute, inputs, [(self._dtype, shape)]).outputs[0]
        if self._shape is None:
            return made
        whole = [-1, *self._shape] if self._repeated else self._shape
        return reshape(made, whole)


def _items(decoder: Any, tensors: Mapping[str, Any], items: Sequence[str]) -> list[Any]:
    made = []
    for item in items:
        handler = decoder[item]
        made.append(handler.tensors_to_item({key: tensors[key] for key in handler.keys}))
    return made


def _reshaped(features: Mapping[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    for key, feature in features.items():
        if isinstance(feature, parsing.FixedLenFeature) and isinstance(tensors[key], GraphTensor):
            tensors[key].set_shape(feature.shape)
    return tensors


class TFExampleDecoder(DataDecoder):
    """Makes items of serialized Examples.

    Args:
        keys_to_features: What to parse.
        items_to_handlers: What makes each item.
    """

    def __init__(self, keys_to_features: Mapping[str, Any], items_to_handlers: Mapping[str, ItemHandler]):
        self._features = dict(keys_to_features)
        self._handlers = dict(items_to_handlers)

    def list_items(self) -> list[str]:
        """The names of the items."""
        return list(self._handlers)

    def decode(self, serialized_example: Any, items: Sequence[str] | None = None) -> list[Any]:
        """The items asked for, or all, in that order.

        Raises:
            KeyError: For an item, or a handler's key, that there isn't.
        """
        tensors = parsing.parse_single_example(serialized_example, self._features) if self._features else {}
        return _items(self._handlers, _reshaped(self._features, tensors), items or self.list_items())


class TFSequenceExampleDecoder(DataDecoder):
    """Makes items of serialized SequenceExamples.

    Args:
        keys_to_context_features: What to parse of the context.
        keys_to_sequence_features: What to parse of the steps.
        items_to_handlers: What makes each item.

    Raises:
        ValueError: If a key is in both.
    """

    def __init__(
        self,
        keys_to_context_features: Mapping[str, Any],
        keys_to_sequence_features: Mapping[str, Any],
        items_to_handlers: Mapping[str, ItemHandler],
    ):
        both = sorted(set(keys_to_context_features) & set(keys_to_sequence_features))
        if both:
            raise ValueError(f"keys of the context and of the steps must differ, both have {both}")
        self._context = dict(keys_to_context_features)
        self._sequence = dict(keys_to_sequence_features)
        self._handlers = dict(items_to_handlers)

    def list_items(self) -> list[str]:
        """The names of the items."""
        return list(self._handlers)

    def decode(self, serialized_example: Any, items: Sequence[str] | None = None) -> list[Any]:
        """The items asked for, or all, in that order."""
        context, steps = parsing.parse_single_sequence_example(serialized_example, self._context, self._sequence)
        tensors = {**_reshaped(self._context, context), **steps}
        return _items(self._handlers, tensors, items or self.list_items())
