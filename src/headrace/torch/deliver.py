"""The last steps of a batch: pinned memory, and the way to a device."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data._utils import pin_memory as torch_pin

Pulled = tuple[Any, Any, BaseException | None]
"""What the batch means for the position, the batch, or why there is none."""


def should_pin(wanted: bool, device: str) -> bool:
    """Whether batches are pinned; warns, as torch does, where that is asked for in vain."""
    if wanted and device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{device}'.",
            stacklevel=4,
        )
    if wanted and not _accelerator():
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, "
            "then device pinned memory won't be used.",
            stacklevel=4,
        )
        return False
    if wanted and _accelerator() == "mps":
        warnings.warn(
            "'pin_memory' argument is set as true but not supported on MPS now, device pinned memory won't be used.",
            stacklevel=4,
        )
        return False
    return wanted


def _accelerator() -> str:
    if hasattr(torch, "accelerator"):
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return found.type if found is not None else ""
    return "cuda" if torch.cuda.is_available() else ""  # before torch 2.6


def pin(batch: Any) -> Any:
    """A batch in pinned memory; containers and types with `pin_memory()` as torch treats them."""
    return torch_pin.pin_memory(batch)  # type: ignore[no-untyped-call]


def moved(batch: Any, move: Callable[[Any], Any]) -> Any:
    """A batch whose tensors have gone through `move`; containers keep their types."""
    if isinstance(batch, torch.Tensor) or (hasattr(batch, "to") and not isinstance(batch, type)):
        return move(batch)
    if isinstance(batch, dict):
        parts = {key: moved(part, move) for key, part in batch.items()}
        return parts if type(batch) is dict else _like(batch, parts)
    if isinstance(batch, tuple):
        parts_ = [moved(part, move) for part in batch]
        return type(batch)(*parts_) if hasattr(batch, "_fields") else type(batch)(parts_)
    if isinstance(batch, list):
        return [moved(part, move) for part in batch]
    return batch


def _like(batch: dict[Any, Any], parts: dict[Any, Any]) -> Any:
    try:
        made = batch.copy()
        made.update(parts)
        return made
    except TypeError:
        return parts


class ToDevice:
    """Hands batches over on a device.

    For CUDA the next batch is copied from pinned memory on a stream of its own while the consumer works on this one.

    Args:
        device: The device.

    Raises:
        RuntimeError: If it is CUDA's and there is none.
    """

    def __init__(self, device: torch.device) -> None:
        if device.type == "cuda" and not torch.cuda.is_available():
            raise RuntimeError(
                f"device='{device}': PyTorch finds no GPU here (torch.cuda.is_available() is False); leave device out, "
                "or give 'cpu'"
            )
        self._device = device
        self._ahead = 1 if device.type == "cuda" else 0
        self._stream: Any = torch.cuda.Stream(device) if self._ahead else None  # type: ignore[no-untyped-call]
        self._waiting: deque[Pulled] = deque()
        self._over = False

    @property
    def reads_ahead(self) -> bool:
        """Whether batches are pulled before they are asked for."""
        return self._ahead > 0

    def __call__(self, pull: Callable[[], Pulled]) -> Pulled:
        """The next batch, on the device. `pull` gives the next one before that; StopIteration ends it."""
        while not self._over and len(self._waiting) <= self._ahead:
            try:
                mark, batch, error = pull()
            except StopIteration:
                self._over = True
            else:
                self._waiting.append((mark, None if error else self._send(batch), error))
        if not self._waiting:
            raise StopIteration
        mark, batch, error = self._waiting.popleft()
        if self._stream is not None and error is None:
            present = torch.cuda.current_stream(self._device)
            present.wait_stream(self._stream)
            moved(batch, lambda tensor: self._note(tensor, present))
        return mark, batch, error

    def _send(self, batch: Any) -> Any:
        if self._stream is None:
            return moved(batch, lambda tensor: tensor.to(self._device))
        pinned = pin(batch)
        with torch.cuda.stream(self._stream):
            return moved(pinned, lambda tensor: tensor.to(self._device, non_blocking=True))

    @staticmethod
    def _note(tensor: Any, stream: Any) -> Any:
        if isinstance(tensor, torch.Tensor):
            tensor.record_stream(stream)  # its memory isn't used anew before the consumer's work on it is done
        return tensor
