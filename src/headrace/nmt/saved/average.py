"""Averages of the weights of a run's last checkpoints, which often translate better than any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from headrace.nmt.saved import checkpoint

__all__ = ["average", "last_weights"]


def average(weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Returns the mean of each weight; what isn't a number (which vectors are frozen) is as in the last one.

    Args:
        weights: Of several models of one shape, the latest last.

    Example:
        >>> average([{"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([3.0, 2.0])}])
        {'w': tensor([2., 2.])}
    """
    means = {}
    for name, last in weights[-1].items():
        if last.is_floating_point():
            total = torch.zeros_like(last, dtype=torch.float64)
            for each in weights:  # in order, so that the mean is the same whenever it is computed
                total += each[name]
            means[name] = (total / len(weights)).to(last.dtype)
        else:
            means[name] = last
    return means


def last_weights(folder: Path, before: int, count: int) -> list[dict[str, Tensor]] | None:
    """Reads the weights of the last checkpoints of a folder, the oldest first; None if there are too few.

    Args:
        folder: Where they are.
        before: Checkpoints of this step and later ones are left out.
        count: How many.

    Raises:
        CheckpointError: One of them can't be read.
    """
    paths = [path for step, path in checkpoint.steps_of(folder).items() if step < before][-count:] if count else []
    if len(paths) < count:
        return None
    return [checkpoint.load(path).weights for path in paths]
