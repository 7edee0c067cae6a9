"""Hands columns to the frameworks, without copying where memory allows it."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from headrace.batch.columns import Ragged
from headrace.batch.tree import Tree, map_leaves
from headrace.errors import PlanError

Delivery = Callable[[Tree], Tree]


def to_torch(tree: Tree) -> Tree:
    """Makes torch tensors of the columns of a batch, sharing their memory.

    Arrays become tensors, `Ragged` becomes a nested tensor of jagged layout; texts and Python objects stay.
    An array that can't be shared (read-only, of a byte order or dtype that torch doesn't have) is copied or left:
    read-only arrays are copied, unsigned integers above 8 bits keep their type.

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
    torch = _framework("torch", "headrace[torch]")

    def convert(_: str, leaf: Any) -> Any:
        if isinstance(leaf, Ragged):
            return torch.nested.nested_tensor_from_jagged(_tensor(torch, leaf.values), _tensor(torch, leaf.offsets))
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc" and leaf.dtype.char not in "gG":
            return _tensor(torch, leaf)
        return leaf

    return map_leaves(convert, tree)


def to_jax(tree: Tree) -> Tree:
    """Makes jax arrays of the columns of a batch.

    Numbers become arrays on jax's default device; on the CPU jax may share their memory, so don't write to the batch
    any more. jax narrows 64-bit numbers to 32 bits unless `jax_enable_x64` is set. `Ragged`, which jax doesn't have,
    texts and Python objects stay as they are: pad what a model is to read.

    Raises:
        ImportError: If jax isn't installed; `pip install jax`.
    """
    jnp = _framework("jax", "jax", "jax.numpy")

    def convert(_: str, leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray) or leaf.dtype.kind not in "biufc":
            return leaf
        return jnp.asarray(leaf if leaf.dtype.isnative else leaf.astype(leaf.dtype.newbyteorder("=")))

    return map_leaves(convert, tree)


def _as_is(tree: Tree) -> Tree:
    return tree


DELIVERIES: MappingProxyType[str, Delivery] = MappingProxyType({"numpy": _as_is, "torch": to_torch, "jax": to_jax})
"""What a loader can hand batches over as, by name."""

_NEEDS = {"torch": "headrace[torch]", "jax": "jax"}


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
    if to not in DELIVERIES:
        raise PlanError(f"batches are handed over as one of {', '.join(map(repr, DELIVERIES))}; got {to!r}")
    if to in _NEEDS:
        _framework(to, _NEEDS[to])
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
