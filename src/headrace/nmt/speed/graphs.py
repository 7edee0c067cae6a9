"""A step of training as CUDA graphs: the operations of one shape of batch are recorded once, and then only replayed.

A step of a recurrent model is some thousand small operations, which a GPU does in less time than Python takes to ask
for them. Shapes are few because lengths are rounded up; the padding that this makes is computed, and counts nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from headrace.nmt.model import Batch, Masks, Seq2Seq
from headrace.nmt.speed import fast
from headrace.nmt.text.special import EOS

__all__ = ["GraphedLoss", "round_up_steps"]

STEPS = 8  # what the lengths of a batch are rounded up to


def round_up_steps(batch: Batch) -> Batch:
    """Rounds the lengths of both sides of a batch up, so that there are few shapes."""
    source, target = batch.src_BS.shape[1], batch.tgt_BT1.shape[1] - 1
    src_BS = F.pad(batch.src_BS, (0, -source % STEPS), value=EOS)
    return batch._replace(src_BS=src_BS, tgt_BT1=F.pad(batch.tgt_BT1, (0, -target % STEPS), value=EOS))


class GraphedLoss:
    """The loss of `fast.py` and its gradients, by a CUDA graph for each shape of a batch.

    Args:
        model: A model that `fast.covers`. Its weights must stay where they are.
        capture: Records what a function does, and returns what does it again; None: as a CUDA graph.
    """

    def __init__(self, model: Seq2Seq, capture: Callable[[Callable[[], Tensor]], Callable[[], Tensor]] | None = None):
        self.model = model
        self.parameters = list(model.parameters())
        self.capture = capture or CudaGraphs()
        self.recorded: dict[tuple[torch.Size, ...], tuple[list[Tensor], Callable[[], Tensor], list[Tensor | None]]] = {}

    def __call__(self, batch: Batch, masks: Masks) -> Tensor:
        """Returns the loss; the gradients are in the weights' `grad`, as after `backward()`, until the next call.

        Args:
            batch: The batch, on the model's device; lengths as `round_up_steps` makes them, or many graphs will be.
            masks: Its dropout.
        """
        flat = [*batch, *[mask for stack in masks.encoder or [] for mask in stack], *(masks.decoder or [])]
        shape = tuple(tensor.shape for tensor in flat)
        if shape not in self.recorded:
            self.recorded[shape] = self._record(flat, masks)
        inputs, replay, gradients = self.recorded[shape]
        for mine, given in zip(inputs, flat, strict=True):
            mine.copy_(given)
        for weight in self.parameters:
            weight.grad = None
        value = replay()
        for weight, gradient in zip(self.parameters, gradients, strict=True):
            if weight.grad is None:  # a graph writes to where the gradient was, and knows nothing of weights
                weight.grad = gradient
        return value

    def _record(
        self, flat: list[Tensor], masks: Masks
    ) -> tuple[list[Tensor], Callable[[], Tensor], list[Tensor | None]]:
        inputs = [tensor.clone() for tensor in flat]
        batch, rest = Batch(*inputs[:4]), iter(inputs[4:])
        encoder = None if masks.encoder is None else [[next(rest) for _ in stack] for stack in masks.encoder]
        decoder = None if masks.decoder is None else [next(rest) for _ in masks.decoder]

        def step() -> Tensor:
            for weight in self.parameters:
                weight.grad = None
            loss = fast.loss(self.model, batch, Masks(encoder, decoder), padded=True)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.detach()

        replay = self.capture(step)
        return inputs, replay, [weight.grad for weight in self.parameters]


class CudaGraphs:
    """Records functions as CUDA graphs, which share their memory."""

    def __init__(self) -> None:
        self.pool: Any = None

    def __call__(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Runs a function, then records it; returns what replays it."""
        beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):  # libraries set themselves up in a first run, which must not be recorded
            for _ in range(2):
                step()
        torch.cuda.current_stream().wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            loss = step()
        self.pool = graph.pool()

        def replay() -> Tensor:
            graph.replay()
            return loss

        return replay
