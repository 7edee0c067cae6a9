"""The model: padding, dropout, first weights, and the loss."""

import math

import pytest
import torch

from headrace.nmt.hparams import HParams
from headrace.nmt.layers.attention import LuongAttention
from headrace.nmt.layers.cells import draw_mask
from headrace.nmt.model import Batch, Seq2Seq
from tests.nmt.conftest import MakeBatch, MakeModel

VARIANTS: list[dict[str, object]] = [
    {},
    {"attention": "luong"},
    {"attention": "scaled_luong", "encoder_type": "bi"},
    {"encoder_type": "bi", "num_layers": 4, "residual": True},
    {"attention": "bahdanau"},
    {"attention": "normed_bahdanau", "encoder_type": "gnmt", "attention_architecture": "gnmt", "num_layers": 4},
    {"attention": "luong", "encoder_type": "bi", "attention_architecture": "gnmt_v2", "residual": True},
    {"attention": "luong", "encoder_type": "gnmt", "num_layers": 3, "residual": True},
    {"unit_type": "gru", "encoder_type": "bi"},
    {"unit_type": "cudnn_gru", "attention": "luong"},
    {"unit_type": "layer_norm_lstm"},
    {"unit_type": "nas", "attention": "scaled_luong"},
    {"language_model": True},
]


@pytest.mark.parametrize("settings", VARIANTS)
def test_padding_changes_nothing(make_batch: MakeBatch, make_model: MakeModel, settings: dict[str, object]) -> None:
    model = make_model(**settings)
    together = make_batch([3, 7, 5], [6, 2, 4])
    alone = [
        Batch(
            together.src_BS[row : row + 1, : int(together.src_len_B[row])],
            together.src_len_B[row : row + 1],
            together.tgt_BT1[row : row + 1, : int(together.tgt_len_B[row]) + 1],
            together.tgt_len_B[row : row + 1],
        )
        for row in range(3)
    ]
    mean = torch.stack([model.loss(batch) for batch in alone]).mean()
    torch.testing.assert_close(model.loss(together), mean, rtol=1e-12, atol=1e-12)


def test_loss_is_the_sum_over_words_per_sentence(make_batch: MakeBatch) -> None:
    model = Seq2Seq(HParams(num_units=4, init_weight=1e-6), 13, 11)
    loss = model.loss(make_batch([3, 4], [5, 2]))
    assert loss.item() == pytest.approx((6 + 3) / 2 * math.log(11), rel=1e-5)


def test_first_weights() -> None:
    generator = torch.Generator().manual_seed(1)
    model = Seq2Seq(HParams(attention="scaled_luong"), 50, 40, generator)
    assert model.projection_UV.abs().max().item() <= 0.1
    assert model.projection_UV.std().item() == pytest.approx(0.2 / math.sqrt(12), rel=0.1)
    assert model.decoder.attention is not None
    assert isinstance(model.decoder.attention, LuongAttention)
    assert model.decoder.attention.scale is not None
    assert model.decoder.attention.scale.item() == 1.0
    biases = [value for name, value in model.named_parameters() if "bias" in name]
    assert len(biases) == 4
    assert not any(bias.any() for bias in biases)
    again = Seq2Seq(HParams(attention="scaled_luong"), 50, 40, generator.manual_seed(1))
    assert torch.equal(model.projection_UV, again.projection_UV)


@pytest.mark.parametrize("init_op", ["glorot_normal", "glorot_uniform"])
def test_glorot_spread(init_op: str) -> None:
    model = Seq2Seq(HParams(num_units=64, init_op=init_op), 500, 400)
    assert model.projection_UV.std().item() == pytest.approx(math.sqrt(2 / 464), rel=0.03)


def test_shared_vocabulary_shares_the_embedding(make_model: MakeModel) -> None:
    model = make_model(share_vocab=True)
    assert model.tgt_embedding_VU is model.src_embedding_VU
    with pytest.raises(ValueError, match="share_vocab needs equal vocabularies, got 5 source and 6 target words"):
        Seq2Seq(HParams(share_vocab=True), 5, 6)


def test_dropout_only_in_training(make_batch: MakeBatch, make_model: MakeModel) -> None:
    model, batch = make_model(attention="luong"), make_batch([3, 4], [5, 2])
    assert model.draw_masks(batch).encoder is None
    model.train()
    masks = model.draw_masks(batch)
    assert masks.encoder is not None
    assert masks.decoder is not None
    assert [m.shape for m in masks.encoder[0]] == [(4, 2, 6), (4, 2, 6)]
    assert [m.shape for m in masks.decoder] == [(6, 2, 12), (6, 2, 6)]  # the bottom layer also takes the fed attention


def test_masks_have_the_right_share_and_scale() -> None:
    generator = torch.Generator().manual_seed(3)
    mask = draw_mask((50, 40, 99), 0.2, generator, torch.device("cpu"))
    assert mask.shape == (50, 40, 99)
    assert set(mask.flatten().tolist()) == {0.0, 1.25}
    assert float(mask.mean()) == pytest.approx(1.0, abs=0.005)
    assert not torch.equal(mask[0], mask[1])
    assert torch.equal(mask, draw_mask((50, 40, 99), 0.2, generator.manual_seed(3), torch.device("cpu")))


def test_an_empty_source_is_no_trouble(make_batch: MakeBatch, make_model: MakeModel) -> None:
    batch = make_batch([3, 0], [2, 2])
    for settings in VARIANTS:
        assert math.isfinite(make_model(**settings).loss(batch).item())
