"""Attention mechanisms against formulas written out in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from headrace.nmt.hparams import HParams
from headrace.nmt.layers.attention import AttentionMechanism, BahdanauAttention, LuongAttention, Memory, make_attention
from headrace.nmt.model import Seq2Seq

UNITS, DEPTH, STEPS = 4, 6, 5


def made(name: str, architecture: str = "standard") -> AttentionMechanism:
    """Makes a mechanism with random weights."""
    settings = HParams(attention=name, attention_architecture=architecture, num_units=UNITS)
    attention = make_attention(settings)
    assert attention is not None
    generator = torch.Generator().manual_seed(3)
    attention.double()
    with torch.no_grad():
        for weight in attention.parameters():
            weight.normal_(0.0, 0.7, generator=generator)
    return attention


@pytest.mark.parametrize("name", ["luong", "scaled_luong", "bahdanau", "normed_bahdanau"])
@pytest.mark.parametrize("queries", [1, 3])
def test_weights(name: str, queries: int) -> None:
    attention = made(name)
    rng = np.random.default_rng(0)
    values, query = rng.normal(size=(2, STEPS, UNITS)), rng.normal(size=(2 * queries, UNITS))
    real = np.array([[True] * STEPS, [True, True, False, False, False]])
    w = {key: weight.detach().numpy() for key, weight in attention.named_parameters()}
    tensor = torch.from_numpy(values)
    memory = Memory(tensor, attention.keys(tensor), torch.from_numpy(real))
    got = attention(torch.from_numpy(query), memory).detach().numpy()
    assert got.shape == (2, queries, STEPS)
    for sentence in range(2):
        for number in range(queries):
            q = query[sentence * queries + number]
            keys = values[sentence] @ w["memory_layer_DU"]
            if name.endswith("luong"):
                scores = keys @ q * w.get("scale", 1.0)
            else:
                v = w["v_U"]
                if name == "normed_bahdanau":
                    v = w["length"] * v / math.sqrt((v * v).sum())
                scores = np.tanh(q @ w["query_layer_UU"] + keys + w.get("bias_U", 0.0)) @ v
            weights = np.exp(scores) * real[sentence]
            np.testing.assert_allclose(got[sentence, number], weights / weights.sum(), rtol=1e-10)


def test_the_attention_vector() -> None:
    query, context = torch.randn(2, UNITS).double(), torch.randn(2, UNITS).double()
    mixing, plain = made("bahdanau"), made("bahdanau", "gnmt")
    assert mixing.layer_CU is not None
    torch.testing.assert_close(mixing.vector(query, context), torch.cat([query, context], dim=1) @ mixing.layer_CU)
    assert plain.layer_CU is None
    assert torch.equal(plain.vector(query, context), context)


def test_first_values() -> None:
    model = Seq2Seq(HParams(attention="normed_bahdanau", num_units=16), 20, 20)
    attention = model.decoder.attention
    assert isinstance(attention, BahdanauAttention)
    assert attention.length is not None
    assert attention.bias_U is not None
    assert attention.length.item() == 0.25
    assert not attention.bias_U.any()
    assert 0 < attention.v_U.abs().max() <= 0.1
    other = Seq2Seq(HParams(attention="scaled_luong"), 20, 20).decoder.attention
    assert isinstance(other, LuongAttention)
    assert other.scale is not None
    assert other.scale.item() == 1.0
    assert not hasattr(other, "v_U")


def test_first_values_of_cells() -> None:
    model = Seq2Seq(HParams(unit_type="gru"), 20, 20)
    biases = {name: weight for name, weight in model.named_parameters() if "bias" in name}
    assert len(biases) == 8
    assert all(bool((bias == (1.0 if "gates" in name else 0.0)).all()) for name, bias in biases.items())
    normed = Seq2Seq(HParams(unit_type="layer_norm_lstm"), 20, 20)
    norms = [weight.detach() for name, weight in normed.named_parameters() if "norms" in name]
    assert len(norms) == 2 * 5 * 4
    assert sorted({float(value) for norm in norms for value in norm.flatten()}) == [0.0, 1.0]
