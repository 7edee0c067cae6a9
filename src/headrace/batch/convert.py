"""Hands columns to PyTorch, JAX and Arrow, without copying where memory allows it."""

from __future__ import annotations

import importlib
import shlex
import warnings
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from headrace.batch.column import Column
from headrace.batch.columns import Bytes, Ragged, Strings
from headrace.batch.sparse import Sparse
from headrace.batch.tree import Tree, leaves, map_leaves
from headrace.checks import one_of
from headrace.errors import DataError

Delivery = Callable[[Tree], Tree]


class SparseSequences(NamedTuple):
    """Rows of varying length whose items are sparse, as torch tensors: torch has no nested tensor of these.

    Row `i` is `values[offsets[i]:offsets[i + 1]]`.
    """

    values: Any
    """Sparse CSR tensor of shape `(total, width)`."""
    offsets: Any
    """int64 tensor of shape `(rows + 1,)`."""


def to_torch(tree: Tree) -> Tree:
    """Makes torch tensors of the columns of a batch, sharing their memory.

    Arrays become tensors, `Ragged` becomes a nested tensor of jagged layout, `Sparse` a sparse CSR tensor (with
    indices sorted and those that come twice added up, as torch wants them), `Ragged` of `Sparse` a pair of such a
    tensor and offsets; texts, bytes, `Ragged` of those or of `Ragged`, and Python objects stay.
    An array that can't be shared (read-only, of a byte order or dtype that torch doesn't have) is copied or left:
    read-only arrays are copied, unsigned integers above 8 bits keep their type.

    Args:
        tree: The batch.

    Raises:
        ImportError: If torch isn't installed; `pip install 'headrace[torch]'`.

    Example:
        >>> import numpy as np
        >>> import headrace as hr
        >>> x = np.arange(4.0)
        >>> tensor = hr.to_torch({"x": x})["x"]
        >>> tensor[0] = 7
        >>> float(x[0])
        7.0
    """
    torch = _framework(*_NEEDS["torch"])

    def convert(_: str, leaf: Any) -> Any:
        if isinstance(leaf, Sparse):
            return _csr(torch, leaf)
        if isinstance(leaf, Ragged) and isinstance(leaf.values, Sparse):
            return SparseSequences(_csr(torch, leaf.values), _tensor(torch, leaf.offsets))
        if isinstance(leaf, Ragged) and not isinstance(leaf.values, Column):
            return torch.nested.nested_tensor_from_jagged(_tensor(torch, leaf.values), _tensor(torch, leaf.offsets))
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc" and leaf.dtype.char not in "gG":
            return _tensor(torch, leaf)
        return leaf

    return map_leaves(convert, tree)


def to_jax(tree: Tree) -> Tree:
    """Makes jax arrays of the columns of a batch.

    Numbers become arrays on jax's default device; on the CPU jax may share their memory, so don't write to the batch
    any more. jax narrows 64-bit numbers to 32 bits unless `jax_enable_x64` is set. `Ragged` and `Sparse`, which
    jax doesn't have, texts and Python objects stay as they are: pad or make dense what a model is to read.

    Raises:
        ImportError: If jax isn't installed; `pip install jax`.
    """
    jnp = _framework(*_NEEDS["jax"], "jax.numpy")

    def convert(_: str, leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray) or leaf.dtype.kind not in "biufc":
            return leaf
        return jnp.asarray(leaf if leaf.dtype.isnative else leaf.astype(leaf.dtype.newbyteorder("=")))

    return map_leaves(convert, tree)


def to_arrow(tree: Tree) -> Any:
    """Makes an Arrow record batch of the columns of a batch, sharing their memory where Arrow's layout is the same.

    Arrays become (nested, fixed-size) lists, `Ragged` large lists, `Sparse` large lists of structs of `index` and
    `value`, texts large strings (large binary where one isn't UTF-8), bytes large binary. Names of nested columns are
    joined by dots; a bare column is named `value`.

    Args:
        tree: The batch.

    Returns:
        A `pyarrow.RecordBatch`.

    Raises:
        ImportError: If pyarrow isn't installed; `pip install 'headrace[arrow]'`.
        DataError: If a column holds Python objects.

    Example:
        >>> import numpy as np
        >>> import headrace as hr
        >>> hr.to_arrow({"x": np.arange(2), "words": hr.Ragged.from_rows([[1, 2], []])}).to_pylist()
        [{'x': 0, 'words': [1, 2]}, {'x': 1, 'words': []}]
    """
    pa = _framework(*_NEEDS["arrow"])
    return pa.RecordBatch.from_pydict(
        {name or "value": _arrow(pa, leaf, name or "value") for name, leaf in leaves(tree)}
    )


def _as_is(tree: Tree) -> Tree:
    return tree


DELIVERIES: MappingProxyType[str, Delivery] = MappingProxyType(
    {"numpy": _as_is, "torch": to_torch, "jax": to_jax, "arrow": to_arrow}
)
"""What a loader can hand batches over as, by name."""

_NEEDS = {"torch": ("torch", "headrace[torch]"), "jax": ("jax", "jax"), "arrow": ("pyarrow", "headrace[arrow]")}


def deliver(to: str) -> Delivery:
    """The function that turns a batch into what a loader hands over.

    Args:
        to: A name in `DELIVERIES`.

    Raises:
        PlanError: If there is no such name.
        ImportError: If the framework isn't installed. It is imported here, so that this is known before data is read.

    Example:
        >>> import numpy as np
        >>> from headrace.batch.convert import deliver
        >>> deliver("numpy")({"x": np.arange(2)})
        {'x': array([0, 1])}
    """
    one_of("Loader", "to", to, tuple(DELIVERIES))
    if to in _NEEDS:
        _framework(*_NEEDS[to])
    return DELIVERIES[to]


def _framework(name: str, package: str, module: str | None = None) -> Any:
    try:
        return importlib.import_module(module or name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise  # installed, but something that it needs itself is missing
        raise ImportError(
            f"handing batches to {name} needs it installed: pip install {shlex.quote(package)}", name=name
        ) from None


def _tensor(torch: Any, array: np.ndarray[Any, Any]) -> Any:
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return torch.from_numpy(array)


def _csr(torch: Any, column: Sparse) -> Any:
    column = column.canonical()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state", UserWarning)
        return torch.sparse_csr_tensor(
            _tensor(torch, column.offsets),
            _tensor(torch, column.indices.astype(np.int64)),  # torch wants offsets and indices of one type
            _tensor(torch, column.values),
            column.shape,
            check_invariants=False,  # canonical() has seen to them
        )


def _arrow(pa: Any, column: Any, name: str) -> Any:
    if isinstance(column, (Strings, Bytes)):
        buffers = [None, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
        if isinstance(column, Bytes):
            return pa.Array.from_buffers(pa.large_binary(), len(column), buffers)
        try:
            texts = pa.Array.from_buffers(pa.large_string(), len(column), buffers)
            texts.validate(full=True)
            return texts
        except pa.ArrowInvalid:
            return pa.Array.from_buffers(pa.large_binary(), len(column), buffers)
    if isinstance(column, Sparse):
        entries = pa.StructArray.from_arrays([pa.array(column.indices), pa.array(column.values)], ["index", "value"])
        return pa.LargeListArray.from_arrays(pa.array(column.offsets), entries)
    if isinstance(column, Ragged):
        return pa.LargeListArray.from_arrays(pa.array(column.offsets), _arrow(pa, column.values, name))
    if not isinstance(column, np.ndarray):
        raise DataError(f"column {name!r} holds Python objects ({type(column).__name__}), which Arrow has no type for")
    if 0 in column.shape[1:]:
        raise DataError(
            f"column {name!r} has rows of shape {column.shape[1:]}, without numbers; Arrow has no such lists"
        )
    array = pa.array(np.ascontiguousarray(column).reshape(-1))
    for size in reversed(column.shape[1:]):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array
