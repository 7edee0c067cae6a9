"""Cells against formulas written out in NumPy, and against PyTorch's own where it has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headrace.nmt.hparams import HParams
from headrace.nmt.layers.cells import (
    Cell,
    CudnnGRUCell,
    GRUCell,
    LayerNormLSTMCell,
    LSTMCell,
    NASCell,
    Stack,
    make_cell,
)

Array = NDArray[Any]
ROWS, INPUTS, UNITS = 4, 3, 5


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def filled(cell: Cell, seed: int = 0) -> dict[str, Array]:
    """Gives a cell random weights, biases too; returns them."""
    generator = torch.Generator().manual_seed(seed)
    cell.double()
    with torch.no_grad():
        for weight in cell.parameters():
            weight.normal_(0.0, 0.5, generator=generator)
    return {name: weight.detach().numpy() for name, weight in cell.named_parameters()}


def step(cell: Cell, seed: int = 1) -> tuple[Array, list[Array], list[Array]]:
    """Goes a step; returns input, the state before, and the state after."""
    rng = np.random.default_rng(seed)
    x, *before = (rng.normal(size=(ROWS, n)) for n in (INPUTS, *[UNITS] * cell.STATES))
    output, after = cell(torch.from_numpy(x), tuple(map(torch.from_numpy, before)))
    assert torch.equal(output, after[-1])
    return x, before, [part.detach().numpy() for part in after]


def test_lstm() -> None:
    cell = LSTMCell(INPUTS, UNITS, 0.7)
    w = filled(cell)
    x, (c, h), after = step(cell)
    i, j, f, o = np.split(np.concatenate([x, h], 1) @ w["kernel_IG"] + w["bias_G"], 4, axis=1)
    c = c * sigmoid(f + 0.7) + sigmoid(i) * np.tanh(j)
    np.testing.assert_allclose(after, [c, np.tanh(c) * sigmoid(o)], rtol=1e-12)


def test_gru_resets_before_the_product() -> None:
    cell = GRUCell(INPUTS, UNITS)
    w = filled(cell)
    x, (h,), after = step(cell)
    r, u = np.split(sigmoid(np.concatenate([x, h], 1) @ w["gates_kernel"] + w["gates_bias"]), 2, axis=1)
    candidate = np.tanh(np.concatenate([x, r * h], 1) @ w["candidate_kernel_IU"] + w["candidate_bias_U"])
    np.testing.assert_allclose(after, [u * h + (1 - u) * candidate], rtol=1e-12)


def test_cudnn_gru_is_pytorchs() -> None:
    cell = CudnnGRUCell(INPUTS, UNITS)
    w = filled(cell)
    x, (h,), after = step(cell)
    theirs = torch.nn.GRUCell(INPUTS, UNITS).double()
    kernel, hidden = np.split(w["gates_kernel"], [INPUTS])
    zeros = np.zeros(2 * UNITS)
    with torch.no_grad():
        theirs.weight_ih.copy_(torch.from_numpy(np.concatenate([kernel, w["input_kernel_IU"]], 1).T))
        theirs.weight_hh.copy_(torch.from_numpy(np.concatenate([hidden, w["hidden_kernel_UU"]], 1).T))
        theirs.bias_ih.copy_(torch.from_numpy(np.concatenate([w["gates_bias"], w["input_bias_U"]])))
        theirs.bias_hh.copy_(torch.from_numpy(np.concatenate([zeros, w["hidden_bias_U"]])))
        expected = theirs(torch.from_numpy(x), torch.from_numpy(h)).numpy()
    np.testing.assert_allclose(after, [expected], rtol=1e-12)


def test_layer_norm_lstm() -> None:
    cell = LayerNormLSTMCell(INPUTS, UNITS, 1.0)
    w = filled(cell)

    def norm(x: Array, number: int) -> Array:
        x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-12)
        found: Array = x * w[f"norms.{number}.weight"] + w[f"norms.{number}.bias"]
        return found

    x, (c, h), after = step(cell)
    gates = np.split(np.concatenate([x, h], 1) @ w["kernel_IG"], 4, axis=1)
    i, j, f, o = (norm(gate, number) for number, gate in enumerate(gates))
    c = norm(c * sigmoid(f + 1.0) + sigmoid(i) * np.tanh(j), 4)
    np.testing.assert_allclose(after, [c, np.tanh(c) * sigmoid(o)], rtol=1e-11)


def test_nas() -> None:
    cell = NASCell(INPUTS, UNITS)
    w = filled(cell)
    x, (c, h), after = step(cell)
    a, b = np.split(x @ w["kernel"], 8, axis=1), np.split(h @ w["recurrent_kernel"], 8, axis=1)
    s = [p + q for p, q in zip(a, b, strict=True)]
    left = np.tanh(np.tanh(sigmoid(s[0]) * np.maximum(s[1], 0)) + c)
    c = left * np.tanh(sigmoid(s[2]) + np.maximum(a[3] * b[3], 0))
    right = np.tanh(np.tanh(np.tanh(s[4]) * sigmoid(s[5])) + sigmoid(np.tanh(s[6]) + sigmoid(s[7])))
    np.testing.assert_allclose(after, [c, np.tanh(c * right)], rtol=1e-12)


@pytest.mark.parametrize("unit_type", ["lstm", "gru", "cudnn_gru", "layer_norm_lstm", "nas"])
def test_every_type_makes_a_stack(unit_type: str) -> None:
    hparams = HParams(unit_type=unit_type)
    stack = Stack(INPUTS, UNITS, 3, 2, hparams, extra=2)
    assert type(stack.cells[0]) is type(make_cell(INPUTS, UNITS, hparams))
    assert [cell.input_size for cell in stack.cells] == [INPUTS, UNITS + 2, UNITS + 2]
    assert [mask.shape[2] for mask in stack.draw_masks(4, 2, 0.5, None)] == [INPUTS, UNITS + 2, UNITS + 2]
    state = stack.zero_state(torch.zeros(ROWS, INPUTS))
    assert all(part.shape == (ROWS, UNITS) and not part.any() for layer in state for part in layer)


def test_residuals_are_at_the_top_and_without_what_comes_beside() -> None:
    stack = Stack(UNITS, UNITS, 3, 1, HParams(), extra=2)
    for cell in stack.cells:
        filled(cell)
    x = torch.randn(ROWS, UNITS + 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    state = stack.cells[1].zero_state(x)
    plain, _ = stack.cells[2](x, state)
    assert torch.equal(stack.layer(2, x, state, None)[0], plain + x[:, :UNITS])
    assert torch.equal(stack.layer(1, x, state, None)[0], stack.cells[1](x, state)[0])
