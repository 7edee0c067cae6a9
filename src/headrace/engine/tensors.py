"""How tensors of PyTorch travel between processes: as the bytes of an array, beside the pickle."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@functools.cache
def reducers() -> dict[Any, Callable[[Any], Any]]:
    """What a pickler's table needs. Imports PyTorch."""
    import torch

    return {torch.Tensor: _reduce}


@functools.cache
def _names() -> dict[Any, str]:
    import torch

    # Quantised numbers need more than their bytes, and PyTorch's own pickling of the youngest kinds fails.
    kinds = {kind for kind in vars(torch).values() if isinstance(kind, torch.dtype)}
    quantised = {torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4}
    return {kind: str(kind).removeprefix("torch.") for kind in kinds - quantised}


def _reduce(tensor: torch.Tensor) -> Any:
    import torch

    name = _names().get(tensor.dtype)
    plain = tensor.device.type == "cpu" and tensor.layout is torch.strided and tensor.is_leaf
    if name is None or not plain or tensor.is_conj() or tensor.is_neg():
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)  # type: ignore[no-untyped-call]
    octets: Any = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return _rebuild, (pickle.PickleBuffer(octets), name, tuple(tensor.shape), tensor.requires_grad)


def _rebuild(octets: Any, name: str, shape: tuple[int, ...], requires_grad: bool) -> torch.Tensor:
    import torch

    dtype: torch.dtype = getattr(torch, name)
    if memoryview(octets).nbytes:
        tensor = torch.frombuffer(octets, dtype=torch.uint8).view(dtype).reshape(shape)
    else:
        tensor = torch.empty(shape, dtype=dtype)
    return tensor.requires_grad_() if requires_grad else tensor
