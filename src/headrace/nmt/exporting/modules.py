"""The two programs that a model is exported as, as modules that take and give nothing but tensors.

What a model calls memory and state are nested tuples, of whose tensors some may be missing. Here they are flat lists,
put together again inside. Shapes are named as in `model.py`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from headrace.nmt.layers.attention import Memory, State
from headrace.nmt.layers.cells import Stack, States
from headrace.nmt.model import Encoder, Seq2Seq

__all__ = ["Encode", "Step", "example", "flat_names"]


class Encode(nn.Module):
    """Reads source sentences; gives memory and state.

    Args:
        model: The model, which is changed: its encoder's loop over the words becomes one operation.
    """

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        if isinstance(model.encoder, Encoder):
            model.encoder.read = read_by_scan  # type: ignore[method-assign]
        if model.chars is not None:  # the words are known, so their vectors are
            with torch.no_grad():
                table_VU = model.chars(torch.arange(len(model.chars.bytes_VL)))
            model.src_embedding_VU, model.chars = nn.Parameter(table_VU), None
        self.model = model

    def forward(self, src: Tensor, src_len: Tensor) -> list[Tensor]:
        """Returns the tensors of memory and state."""
        memory, state = self.model.encode(src, src_len)
        return [*flat_memory(memory), *flat_state(state)]


class Step(nn.Module):
    """Goes one word on.

    Args:
        model: The model.
    """

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model
        with torch.no_grad():
            memory, state = model.encode(torch.tensor([[3, 3]]), torch.tensor([2]))
        self.sizes = [len(layer) for layer in state.cells]
        self.remembers, self.feeds = memory is not None, state.attention_BA is not None

    def outputs(self, names: list[str]) -> list[str]:
        """Names what it gives, by what the encoder gives."""
        weights = ["attention"] if self.model.attends else []
        return ["logits", *weights, *(f"next_{name}" for name in names if name.startswith("state"))]

    def forward(self, words: Tensor, memory: list[Tensor], state: list[Tensor]) -> list[Tensor]:
        """Returns the logits of the next words, the attention if there is one, and the tensors of the next state.

        Args:
            words: The last word of each sentence; sos at first.
            memory: What the encoder gave.
            state: What the encoder or the last step gave.
        """
        rest = list(state)
        cells: States = tuple(tuple(rest.pop(0) for _ in range(size)) for size in self.sizes)
        before = State(cells, rest.pop(0) if self.feeds else None)
        output_BU, after, weights_BS = self.model.step(words, before, Memory(*memory) if self.remembers else None)
        weights = [weights_BS] if weights_BS is not None else []
        return [self.model.logits(output_BU), *weights, *flat_state(after)]


def flat_memory(memory: Memory | None) -> list[Tensor]:
    """Lists the tensors of a memory."""
    return [] if memory is None else list(memory)


def flat_state(state: State) -> list[Tensor]:
    """Lists the tensors of a state."""
    fed = [] if state.attention_BA is None else [state.attention_BA]
    return [*(part for layer in state.cells for part in layer), *fed]


def flat_names(encode: Encode) -> list[str]:
    """Names the tensors that the encoder gives, those of the memory first."""
    with torch.no_grad():
        memory, state = encode.model.encode(torch.tensor([[3, 3]]), torch.tensor([2]))
    memories = [f"memory_{name}" for name in ("values", "keys", "real")[: len(flat_memory(memory))]]
    return [*memories, *(f"state_{number}" for number in range(len(flat_state(state))))]


def example(encode: Encode, step: Step | None) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Makes arguments of the encoder, or of the step, and says which of their sizes are free.

    Args:
        encode: The encoder.
        step: The step, to make its arguments.
    """
    batch, words, written = (torch.export.Dim(name, min=least) for name, least in (("B", 1), ("S", 1), ("P", 0)))
    src, src_len = torch.full((2, 5), 3), torch.tensor([5, 4])
    if step is None:
        return (src, src_len), ({0: batch, 1: words}, {0: batch})
    with torch.no_grad():
        memory, state = encode.model.encode(src, src_len)
    kept = [part.clone() for part in flat_state(state)]  # one tensor given twice would be taken for one input
    grows = bool(kept) and kept[0].dim() == 3  # a Transformer's state has all words before
    if grows:
        kept = [part.new_zeros(len(part), 3, part.shape[2]) for part in kept]
    memories = flat_memory(memory)
    shapes = [{0: batch, 1: words} for _ in memories], [{0: batch, 1: written} if grows else {0: batch} for _ in kept]
    return (torch.tensor([1, 1]), memories, kept), ({0: batch}, *shapes)


def read_by_scan(stack: Stack, x_SBU: Tensor, real_SB: Tensor, masks: object) -> tuple[Tensor, States]:
    """Does what `Encoder.read` does, by one operation: a Python loop would be exported for one length alone."""
    from torch._higher_order_ops.scan import scan  # where it is in 2.13; it has no public name yet

    state = stack.zero_state(x_SBU[0])
    sizes = [len(layer) for layer in state]

    def joined(parts: list[Tensor]) -> States:
        rest = list(parts)
        return tuple(tuple(rest.pop(0) for _ in range(size)) for size in sizes)

    def step(before: list[Tensor], now: tuple[Tensor, Tensor]) -> tuple[list[Tensor], Tensor]:
        x_BU, real_B1 = now
        output_BU, after = stack(x_BU, joined(before), None)
        new = [part for layer in after for part in layer]
        # Clones: an operation must not give the same tensor twice, as cells do whose state is their output.
        return [torch.where(real_B1, a, b).clone() for a, b in zip(new, before, strict=True)], output_BU * real_B1

    first = [part.clone() for layer in state for part in layer]
    last, output_SBU = scan(step, first, (x_SBU, real_SB.unsqueeze(2)))
    return output_SBU, joined(last)
