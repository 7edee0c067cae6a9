"""Datasets that are columns of memory: a batch of them is one gather, not a loop over samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset, TensorDataset

Take = Callable[[Any], Any]
"""Gives the batch of some rows: of a slice, a tensor of row numbers, or a list of keys."""


def columns_of(dataset: Any) -> Take | None:
    """How batches of a dataset are taken at once, as default collation of its samples gives them; None: can't be.

    Example:
        >>> take = columns_of(TensorDataset(torch.arange(5), torch.ones(5)))
        >>> take([3, 1])
        [tensor([3, 1]), tensor([1., 1.])]
    """
    if isinstance(dataset, TensorDataset) and _is_plain(type(dataset), TensorDataset):
        tensors = dataset.tensors
        if tensors and all(_is_column(tensor) for tensor in tensors):
            return lambda rows: [_rows(tensor, rows) for tensor in tensors]
    elif type(dataset) is torch.Tensor and _is_column(dataset):
        return lambda rows: _rows(dataset, rows)
    elif type(dataset) is np.ndarray and dataset.ndim and dataset.dtype.kind in "biuf" and dataset.dtype.isnative:
        return lambda rows: torch.from_numpy(_array_rows(dataset, rows))
    elif type(dataset) is Subset:
        return _subset(dataset)
    return None


def _is_plain(kind: Any, base: Any) -> bool:
    if hasattr(kind, "__getitems__") and not hasattr(base, "__getitems__"):
        return False
    return kind.__getitem__ is base.__getitem__ and kind.__len__ is base.__len__


def _is_column(tensor: Any) -> bool:
    return type(tensor) is torch.Tensor and tensor.layout is torch.strided and tensor.ndim > 0 and not tensor.is_nested


def _rows(tensor: torch.Tensor, rows: Any) -> torch.Tensor:
    if isinstance(rows, slice):
        return tensor[rows].clone(memory_format=torch.contiguous_format)
    if isinstance(rows, torch.Tensor):
        return tensor.index_select(0, rows)
    return tensor[torch.as_tensor(rows, dtype=torch.int64)]


def _array_rows(array: np.ndarray[Any, Any], rows: Any) -> np.ndarray[Any, Any]:
    if isinstance(rows, slice):
        return array[rows].copy()
    if isinstance(rows, torch.Tensor):
        rows = rows.numpy()
    taken: np.ndarray[Any, Any] = np.take(array, rows, axis=0)
    return taken


def _subset(dataset: Subset[Any]) -> Take | None:
    inner = columns_of(dataset.dataset)
    if inner is None:
        return None
    try:
        numbers = torch.as_tensor(dataset.indices, dtype=torch.int64)
    except (TypeError, ValueError, RuntimeError):
        return None
    length = len(dataset.dataset)  # type: ignore[arg-type]
    if numbers.ndim != 1 or (len(numbers) and not -length <= int(numbers.min()) <= int(numbers.max()) < length):
        return None
    numbers = torch.where(numbers < 0, numbers + length, numbers)
    take = inner
    return lambda rows: take(_rows(numbers, rows))
