"""Recurrent cells, by the tutorial's names, and stacks of them. Shapes are named as in `model.py`.

A cell goes one step: `cell(x_BI, state) -> (output_BU, state)`. What a state is, each cell says for itself: LSTMs keep
a cell state c_BU beside their output h_BU, GRUs nothing but their output. `CONSTANTS` are first values of weights that
are not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from headrace.nmt.hparams import HParams
from headrace.nmt.layers.steady import multiply, sigmoid, tanh

__all__ = [
    "Cell",
    "CudnnGRUCell",
    "GRUCell",
    "LSTMCell",
    "LayerNormLSTMCell",
    "NASCell",
    "Stack",
    "States",
    "draw_mask",
]

CellState = tuple[Tensor, ...]  # what one layer keeps from step to step; its output comes last
States = tuple[CellState, ...]  # of each layer


def draw_mask(shape: tuple[int, ...], dropout: float, generator: Generator | None, device: torch.device) -> Tensor:
    """Draws factors for dropout: 0 with the probability `dropout` (to a 65,536th), else 1 / (1 - dropout)."""
    # Four 16-bit numbers out of each draw take a fifth of the time of `bernoulli_`, which would be a tenth of training.
    size = math.prod(shape)
    where = device if generator is None else generator.device  # the same numbers for weights on any device
    draws = torch.empty(-(-size // 4), dtype=torch.int64, device=where).random_(-(2**63), None, generator=generator)
    kept = draws.view(torch.int16)[:size] >= round(dropout * 65536) - 32768
    return (kept.view(shape) * (1.0 / (1.0 - dropout))).to(device)


class Cell(nn.Module):
    """What all cells have.

    Args:
        input_size: Width of what a step takes.
        units: Width of what it gives.
    """

    CONSTANTS: ClassVar[dict[str, float]] = {}
    STATES: ClassVar[int] = 2  # tensors of a state

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.input_size, self.units = input_size, units

    def zero_state(self, x_BI: Tensor) -> CellState:
        """Returns the state before the first step."""
        return (x_BI.new_zeros(len(x_BI), self.units),) * self.STATES

    def forward(self, x_BI: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Returns the output and the next state."""
        raise NotImplementedError


class LSTMCell(Cell):
    """`lstm`: the gates in the kernel's columns are input, candidate, forget, output."""

    CONSTANTS: ClassVar[dict[str, float]] = {"bias_G": 0.0}

    def __init__(self, input_size: int, units: int, forget_bias: float) -> None:
        super().__init__(input_size, units)
        self.forget_bias = forget_bias
        self.kernel_IG = nn.Parameter(torch.empty(input_size + units, 4 * units))
        self.bias_G = nn.Parameter(torch.zeros(4 * units))

    def forward(self, x_BI: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Returns the output and the next state, (c_BU, h_BU)."""
        c_BU, h_BU = state
        gates_BG = multiply(torch.cat([x_BI, h_BU], dim=1), self.kernel_IG, self.bias_G)
        i, j, f, o = gates_BG.chunk(4, dim=1)
        c_BU = c_BU * sigmoid(f + self.forget_bias) + sigmoid(i) * tanh(j)
        h_BU = tanh(c_BU) * sigmoid(o)
        return h_BU, (c_BU, h_BU)


class Norm(nn.LayerNorm):
    """Brings rows to mean 0 and variance 1, then gives them a learned gain and shift."""

    CONSTANTS: ClassVar[dict[str, float]] = {"weight": 1.0, "bias": 0.0}


class LayerNormLSTMCell(Cell):
    """`layer_norm_lstm`: an LSTM whose four gates and cell state are each normed, so that the gates need no bias."""

    def __init__(self, input_size: int, units: int, forget_bias: float) -> None:
        super().__init__(input_size, units)
        self.forget_bias = forget_bias
        self.kernel_IG = nn.Parameter(torch.empty(input_size + units, 4 * units))
        # Of the gates input, candidate, forget, output, and of the cell state.
        self.norms: Sequence[Norm] = nn.ModuleList(Norm(units, eps=1e-12) for _ in range(5))  # type: ignore[assignment]

    def forward(self, x_BI: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Returns the output and the next state, (c_BU, h_BU)."""
        c_BU, h_BU = state
        gates_BG = multiply(torch.cat([x_BI, h_BU], dim=1), self.kernel_IG)
        i, j, f, o = (norm(gate_BU) for norm, gate_BU in zip(self.norms, gates_BG.chunk(4, dim=1), strict=False))
        c_BU = c_BU * sigmoid(f + self.forget_bias) + sigmoid(i) * tanh(j)
        c_BU = self.norms[4](c_BU)
        h_BU = tanh(c_BU) * sigmoid(o)
        return h_BU, (c_BU, h_BU)


class GRUCell(Cell):
    """`gru`: the tutorial's, which resets the last output *before* the candidate's matrix product."""

    CONSTANTS: ClassVar[dict[str, float]] = {"gates_bias": 1.0, "candidate_bias_U": 0.0}  # at first it remembers
    STATES: ClassVar[int] = 1

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__(input_size, units)
        self.gates_kernel = nn.Parameter(torch.empty(input_size + units, 2 * units))  # reset, update
        self.gates_bias = nn.Parameter(torch.ones(2 * units))
        self.candidate_kernel_IU = nn.Parameter(torch.empty(input_size + units, units))
        self.candidate_bias_U = nn.Parameter(torch.zeros(units))

    def forward(self, x_BI: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Returns the output and the next state, which are the same."""
        (h_BU,) = state
        gates = sigmoid(multiply(torch.cat([x_BI, h_BU], dim=1), self.gates_kernel, self.gates_bias))
        r, u = gates.chunk(2, dim=1)
        fed_BI = torch.cat([x_BI, r * h_BU], dim=1)
        candidate_BU = tanh(multiply(fed_BI, self.candidate_kernel_IU, self.candidate_bias_U))
        h_BU = u * h_BU + (1.0 - u) * candidate_BU
        return h_BU, (h_BU,)


class CudnnGRUCell(Cell):
    """`cudnn_gru`: cuDNN's and PyTorch's, which resets the last output *after* the candidate's matrix product."""

    CONSTANTS: ClassVar[dict[str, float]] = {"gates_bias": 1.0, "input_bias_U": 0.0, "hidden_bias_U": 0.0}
    STATES: ClassVar[int] = 1

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__(input_size, units)
        self.gates_kernel = nn.Parameter(torch.empty(input_size + units, 2 * units))  # reset, update
        self.gates_bias = nn.Parameter(torch.ones(2 * units))
        self.input_kernel_IU = nn.Parameter(torch.empty(input_size, units))
        self.input_bias_U = nn.Parameter(torch.zeros(units))
        self.hidden_kernel_UU = nn.Parameter(torch.empty(units, units))
        self.hidden_bias_U = nn.Parameter(torch.zeros(units))

    def forward(self, x_BI: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Returns the output and the next state, which are the same."""
        (h_BU,) = state
        gates = sigmoid(multiply(torch.cat([x_BI, h_BU], dim=1), self.gates_kernel, self.gates_bias))
        r, u = gates.chunk(2, dim=1)
        hidden_BU = multiply(h_BU, self.hidden_kernel_UU, self.hidden_bias_U)
        candidate_BU = tanh(multiply(x_BI, self.input_kernel_IU, self.input_bias_U) + r * hidden_BU)
        h_BU = u * h_BU + (1.0 - u) * candidate_BU
        return h_BU, (h_BU,)


class NASCell(Cell):
    """`nas`: the cell that Zoph and Le's search found; eight projections of input and last output, joined as a tree."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__(input_size, units)
        self.kernel = nn.Parameter(torch.empty(input_size, 8 * units))
        self.recurrent_kernel = nn.Parameter(torch.empty(units, 8 * units))

    def forward(self, x_BI: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Returns the output and the next state, (c_BU, h_BU)."""
        c_BU, h_BU = state
        x = multiply(x_BI, self.kernel).chunk(8, dim=1)
        h = multiply(h_BU, self.recurrent_kernel).chunk(8, dim=1)
        one = tanh(sigmoid(x[0] + h[0]) * torch.relu(x[1] + h[1]))
        two = tanh(sigmoid(x[2] + h[2]) + torch.relu(x[3] * h[3]))
        three = tanh(tanh(x[4] + h[4]) * sigmoid(x[5] + h[5]))
        four = sigmoid(tanh(x[6] + h[6]) + sigmoid(x[7] + h[7]))
        c_BU = tanh(one + c_BU) * two
        h_BU = tanh(c_BU * tanh(three + four))
        return h_BU, (c_BU, h_BU)


def make_cell(input_size: int, units: int, hparams: HParams) -> Cell:
    """Makes the cell that `unit_type` names."""
    match hparams.unit_type:
        case "lstm":
            return LSTMCell(input_size, units, hparams.forget_bias)
        case "layer_norm_lstm":
            return LayerNormLSTMCell(input_size, units, hparams.forget_bias)
        case "gru":
            return GRUCell(input_size, units)
        case "cudnn_gru":
            return CudnnGRUCell(input_size, units)
        case "nas":
            return NASCell(input_size, units)
    raise AssertionError(hparams.unit_type)


class Stack(nn.Module):
    """Layers, each reading the output of the one below.

    Args:
        input_size: Width of what the bottom layer takes.
        units: Width of every layer.
        layers: How many.
        residuals: How many of them, from the top, add their input to their output.
        hparams: The settings of the cells.
        extra: Width of what the layers above the bottom take beside the output below.
    """

    cells: Sequence[Cell]

    def __init__(
        self, input_size: int, units: int, layers: int, residuals: int, hparams: HParams, extra: int = 0
    ) -> None:
        super().__init__()
        widths = [input_size] + [units + extra] * (layers - 1)
        self.units, self.residuals = units, residuals
        self.cells = nn.ModuleList(make_cell(width, units, hparams) for width in widths)  # type: ignore[assignment]

    def zero_state(self, x_BI: Tensor) -> States:
        """Returns the state before the first step."""
        return tuple(cell.zero_state(x_BI) for cell in self.cells)

    def forward(self, x_BI: Tensor, states: States, masks: Sequence[Tensor] | None) -> tuple[Tensor, States]:
        """Goes one step; returns the top layer's output and the next states."""
        after = []
        for layer in range(len(self.cells)):
            x_BI, state = self.layer(layer, x_BI, states[layer], masks)
            after.append(state)
        return x_BI, tuple(after)

    def layer(
        self, layer: int, x_BI: Tensor, state: CellState, masks: Sequence[Tensor] | None
    ) -> tuple[Tensor, CellState]:
        """Goes one step in one layer."""
        output_BU, state = self.cells[layer](x_BI if masks is None else x_BI * masks[layer], state)
        if layer >= len(self.cells) - self.residuals:
            output_BU = output_BU + x_BI[:, : self.units]  # the output of the layer below; what comes beside it is not
        return output_BU, state

    def draw_masks(self, n: int, batch: int, dropout: float, generator: Generator | None) -> list[Tensor]:
        """Draws the masks of `n` steps for each layer."""
        device = next(self.parameters()).device
        return [draw_mask((n, batch, cell.input_size), dropout, generator, device) for cell in self.cells]
