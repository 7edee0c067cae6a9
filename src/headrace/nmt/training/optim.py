"""The optimisers of the tutorial, its learning-rate schedules and gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from headrace.nmt.hparams import HParams

__all__ = ["Optimizer", "learning_rate"]

# Scheme: the share of training after which halving starts (a fraction), and how many halvings fit into the rest.
_DECAYS = {"luong5": (1, 2, 5), "luong10": (1, 2, 10), "luong234": (2, 3, 4)}

FIRST_SCALE, GOOD_STEPS = 65536.0, 2000  # of float16: the scale to begin with, and after how many steps it is doubled


def learning_rate(hparams: HParams, step: int) -> float:
    """Returns the learning rate of an update.

    It rises over the warm-up, exponentially from a hundredth or in equal steps, stays, and is halved at equal distances
    late in training; or it falls with the square root of the steps.

    Args:
        hparams: The settings.
        step: Updates made before this one.

    Example:
        >>> hparams = HParams(decay_scheme="luong234", num_train_steps=12000)
        >>> [learning_rate(hparams, step) for step in (0, 8999, 9000, 10000, 11999)]
        [1.0, 1.0, 0.5, 0.25, 0.125]
    """
    rate = hparams.learning_rate
    warmup = hparams.warmup_steps
    if step < warmup and hparams.warmup_factor is not None:
        rate *= hparams.warmup_factor ** (warmup - step)
    elif step < warmup:
        linear = hparams.warmup_scheme == "linear"
        rate *= (step + 1) / (warmup + 1) if linear else 0.01 ** ((warmup - step) / warmup)
    if hparams.decay_scheme == "inverse_sqrt":
        rate *= math.sqrt(warmup / max(step, warmup))
    elif hparams.decay_scheme:
        numerator, denominator, halvings = _DECAYS[hparams.decay_scheme]
        start = hparams.num_train_steps * numerator // denominator
        distance = max(1, (hparams.num_train_steps - start) // halvings)
        rate *= 0.5 ** max(0, (step - start) // distance)
    elif (hparams.start_decay_step, hparams.decay_steps, hparams.decay_factor) != (None, None, None):
        factor = 0.98 if hparams.decay_factor is None else hparams.decay_factor
        rate *= factor ** max(0, (step - (hparams.start_decay_step or 0)) // (hparams.decay_steps or 10000))
    return rate


class Optimizer:
    """SGD or Adam, after scaling all gradients down to a global norm.

    Both are TensorFlow's: Adam adds epsilon outside of the bias correction, unlike PyTorch's, and the norm takes the
    gradient of an embedding as the list of its occurrences in the batch, a word that comes twice counting as two.

    Args:
        parameters: The weights; each is updated in place from its `grad`, which may be sparse.
        hparams: The settings `optimizer`, `learning_rate`, `max_gradient_norm` and the schedule's.

    Example:
        >>> weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
        >>> weight.grad = torch.tensor([6.0, 8.0])
        >>> Optimizer([weight], HParams(max_gradient_norm=5.0)).step(0)
        10.0
        >>> weight.tolist()
        [0.0, 0.0]
    """

    def __init__(self, parameters: Iterable[Tensor], hparams: HParams) -> None:
        self.parameters = list(parameters)
        self.hparams = hparams
        # With float16, small gradients would be zero. So the loss, and with it all gradients, is made larger by as much
        # as these may be, which is tried out: less after one that was too large, more after many that were not.
        self.scale = FIRST_SCALE if hparams.compute_dtype == "float16" else 1.0
        self.lowered = False  # whether the last gradient was too large, and the next may be in range
        self._good = 0  # steps since the scale changed
        self.moments: list[list[Tensor]] = (
            [[torch.zeros_like(p) for p in self.parameters] for _ in range(2)] if hparams.optimizer == "adam" else []
        )

    @torch.no_grad()
    def step(self, step: int) -> float:
        """Updates the weights and drops the gradients; returns the norm that these had before clipping.

        A norm that is infinite or not a number leaves the weights alone, so that the caller can stop and say so; or go
        on, where `lowered` says that the next gradient may be in range. Gradients come `scale` times as large.

        Args:
            step: Updates made before this one.
        """
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        values = [g._values() if g.is_sparse else g for g in gradients]
        norm = math.sqrt(sum(float(n) ** 2 for n in torch._foreach_norm(values))) if values else 0.0
        norm /= self.scale
        if math.isfinite(norm):
            clip = self.hparams.max_gradient_norm / max(norm, self.hparams.max_gradient_norm) / self.scale
            rate = learning_rate(self.hparams, step)
            if self.hparams.optimizer == "adam":
                self._adam(step, rate, clip)
            else:
                for p in self.parameters:
                    if p.grad is not None:
                        p.add_(p.grad, alpha=-rate * clip)  # clips and steps in one pass; sparse rows alone
        for p in self.parameters:
            p.grad = None
        if self.hparams.compute_dtype == "float16":
            self._rescale(math.isfinite(norm))
        return norm

    def _rescale(self, good: bool) -> None:
        self.lowered = not good and self.scale > 1.0
        self._good = self._good + 1 if good else 0
        if self.lowered:
            self.scale /= 2.0
        elif self._good == GOOD_STEPS:
            self.scale, self._good = self.scale * 2.0, 0

    def _adam(
        self, step: int, rate: float, clip: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8
    ) -> None:
        rate *= math.sqrt(1 - beta2 ** (step + 1)) / (1 - beta1 ** (step + 1))
        for p, mean, square in zip(self.parameters, *self.moments, strict=True):
            gradient = torch.zeros_like(p) if p.grad is None else p.grad.to_dense() * clip
            mean.lerp_(gradient, 1 - beta1)
            square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            p.addcdiv_(mean, square.sqrt().add_(epsilon), value=-rate)

    def state_dict(self) -> dict[str, Any]:
        """Returns the moments of Adam, nothing for SGD, and with float16 the scale: the step is the caller's."""
        scale = {"scale": [self.scale, self._good]} if self.hparams.compute_dtype == "float16" else {}
        return {"moments": self.moments, **scale}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over a state of `state_dict`."""
        moments = state["moments"]
        if [[m.shape for m in row] for row in moments] != [[m.shape for m in row] for row in self.moments]:
            raise ValueError(f"the saved optimiser does not fit optimizer={self.hparams.optimizer} and these weights")
        if self.hparams.compute_dtype == "float16" and "scale" in state:
            self.scale, self._good = state["scale"]
        with torch.no_grad():
            for row, saved in zip(self.moments, moments, strict=True):
                for target, value in zip(row, saved, strict=True):
                    target.copy_(value)
