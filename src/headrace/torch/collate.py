"""torch's default collation, faster: for the usual kinds of samples; torch's own code makes batches of all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data._utils import collate as torch_collate

default_collate: Any = torch_collate.default_collate
_AS_ARRAY: dict[type, Any] = {int: np.int64, float: np.float64, bool: np.bool_}
_PRISTINE = dict(torch_collate.default_collate_fn_map)


def is_pristine() -> bool:
    """Whether nobody has added to, or changed, torch's registry of collate functions."""
    return torch_collate.default_collate_fn_map == _PRISTINE


def quick_collate(batch: Any) -> Any:
    """What `default_collate` gives for a batch.

    Example:
        >>> quick_collate([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}])
        {'x': tensor([1., 2.], dtype=torch.float64), 'name': ['a', 'b']}
    """
    first = batch[0]
    kind = type(first)
    if kind is str or kind is bytes:
        return batch
    kinds = set(map(type, batch))
    if len(kinds) > 1:
        return default_collate(batch)
    if kind in _AS_ARRAY:
        try:
            return torch.from_numpy(np.array(batch, _AS_ARRAY[kind]))
        except OverflowError:
            return default_collate(batch)
    if kind is torch.Tensor:
        if first.layout is torch.strided and not first.is_nested:
            return torch.stack(batch)
        return default_collate(batch)
    if kind is np.ndarray:
        return _stack(batch, first)
    if kind is dict:
        return {key: quick_collate([sample[key] for sample in batch]) for key in first}
    if kind is tuple or kind is list:
        if any(len(sample) != len(first) for sample in batch):
            return default_collate(batch)
        return [quick_collate(samples) for samples in zip(*batch, strict=True)]
    if issubclass(kind, np.generic) and first.dtype.kind in "biuf":
        return torch.from_numpy(np.array(batch))
    return default_collate(batch)


def _stack(batch: Any, first: np.ndarray[Any, Any]) -> Any:
    dtype, shape = first.dtype, first.shape
    if dtype.kind not in "biuf" or not dtype.isnative:
        return default_collate(batch)
    for array in batch:
        if array.dtype != dtype or array.shape != shape:
            return default_collate(batch)
    return torch.from_numpy(np.stack(batch))
