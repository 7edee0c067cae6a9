"""Hands columns to the frameworks, without copying where memory allows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.batch.columns import Ragged
from headrace.batch.tree import Tree, map_leaves


def to_torch(tree: Tree) -> Tree:
    """Makes torch tensors of the columns of a batch, sharing their memory.

    Arrays become tensors, `Ragged` becomes a nested tensor of jagged layout; texts and Python objects stay.
    An array that can't be shared (read-only, of a byte order or dtype that torch doesn't have) is copied or left:
    read-only arrays are copied, unsigned integers above 8 bits keep their type.

    Raises:
        ImportError: If torch isn't installed; `pip install headrace[torch]`.

    Example:
        >>> import numpy as np
        >>> import headrace as hr
        >>> x = np.arange(4.0)
        >>> tensor = hr.to_torch({"x": x})["x"]
        >>> tensor[0] = 7
        >>> float(x[0])
        7.0
    """
    import torch

    def convert(_: str, leaf: Any) -> Any:
        if isinstance(leaf, Ragged):
            return torch.nested.nested_tensor_from_jagged(_tensor(torch, leaf.values), _tensor(torch, leaf.offsets))
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc" and leaf.dtype.char not in "gG":
            return _tensor(torch, leaf)
        return leaf

    return map_leaves(convert, tree)


def _tensor(torch: Any, array: np.ndarray[Any, Any]) -> Any:
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return torch.from_numpy(array)
