"""The fast step against the model under autograd: the same loss and gradients."""

import numpy as np
import pytest
import torch

from headrace.nmt.saved.weights import export_gradients
from headrace.nmt.speed import fast
from headrace.nmt.speed.recurrence import pack
from tests.nmt.conftest import MakeBatch, MakeModel

VARIANTS: list[dict[str, object]] = [
    {},
    {"num_layers": 1},
    {"encoder_type": "bi"},
    {"num_layers": 3, "residual": True},
    {"attention": "luong"},
    {"attention": "luong", "num_layers": 1},
    {"attention": "scaled_luong", "encoder_type": "bi", "num_layers": 4, "residual": True},
    {"attention": "scaled_luong", "output_attention": False, "num_layers": 3, "residual": True},
    {"attention": "scaled_luong", "pass_hidden_state": False, "forget_bias": 0.3},
    {"attention": "luong", "num_encoder_layers": 3, "num_decoder_layers": 2},
    {"attention": "luong", "share_vocab": True},
]


@pytest.mark.parametrize("training", [False, True], ids=["plain", "dropout"])
@pytest.mark.parametrize("settings", VARIANTS, ids=lambda s: "-".join(map(str, s.values())) or "none")
def test_same_loss_and_gradients(
    make_batch: MakeBatch, make_model: MakeModel, settings: dict[str, object], training: bool
) -> None:
    model = make_model(dropout=0.3, **settings).train(training)
    batch = make_batch([3, 7, 1, 5, 7], [6, 2, 9, 1, 4])
    if model.hparams.share_vocab:
        batch = batch._replace(src_BS=batch.src_BS % 11)
    masks = model.draw_masks(batch, torch.Generator().manual_seed(5))
    results = []
    for loss_of in (type(model).loss, fast.loss):
        loss = loss_of(model, batch, masks)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = model.src_embedding_VU.grad._values().norm()  # type: ignore[union-attr]
        results.append({"loss": loss.item(), "embedding norm": norm.item(), **export_gradients(model.float())})
        model = model.double()
        model.zero_grad()
    expected, got = results
    assert expected.keys() == got.keys()
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, rtol=1e-6, atol=1e-9, msg=name)


def test_the_models_own_precision(make_batch: MakeBatch, make_model: MakeModel) -> None:
    """In float32, where products go another way, too."""
    batch = make_batch([3, 7, 1, 5], [6, 2, 9, 1])
    gradients = []
    for loss_of in (lambda m, b: m.loss(b), fast.loss):
        model = make_model(attention="scaled_luong", encoder_type="bi").float()
        loss_of(model, batch).backward()
        gradients.append(export_gradients(model))
    for name, value in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], value, rtol=1e-5, atol=1e-6, msg=name)


def test_a_model_that_is_sure_of_the_wrong_words_has_a_finite_loss(
    make_batch: MakeBatch, make_model: MakeModel
) -> None:
    torch.set_flush_denormal(True)
    model = make_model(attention="luong").float()
    with torch.no_grad():
        model.projection_UV.mul_(1e4)
    batch = make_batch([3, 7, 1, 5], [6, 2, 9, 1])
    expected = model.loss(batch).item()
    assert expected > 500
    assert fast.loss(model, batch).item() == pytest.approx(expected, rel=1e-5)


def test_bfloat16_is_near(make_batch: MakeBatch, make_model: MakeModel) -> None:
    batch = make_batch([3, 7, 1, 5], [6, 2, 9, 1])
    model = make_model(attention="scaled_luong", compute_dtype="bfloat16").float()
    loss = fast.loss(model, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    near = export_gradients(model)
    assert loss.item() == pytest.approx(model.loss(batch).item(), rel=1e-2)
    model.zero_grad()
    model.loss(batch).backward()  # type: ignore[no-untyped-call]
    for name, value in export_gradients(model).items():
        assert np.linalg.norm(near[name] - value) < 0.05 * max(0.05, float(np.linalg.norm(value))), name


def test_more_rows_than_fit_at_once(
    make_batch: MakeBatch, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = make_model(), make_batch([3, 4, 5], [5, 2, 3])
    whole = fast.loss(model, batch)
    monkeypatch.setattr(fast, "ROWS_AT_ONCE", 4)
    torch.testing.assert_close(fast.loss(model, batch), whole)


def test_evaluation_makes_no_gradients(make_batch: MakeBatch, make_model: MakeModel) -> None:
    model, batch = make_model(attention="luong"), make_batch([3, 4], [5, 2])
    with torch.no_grad():
        loss = fast.loss(model, batch)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, model.loss(batch).detach())


def test_an_empty_source_is_left_to_the_model(make_batch: MakeBatch, make_model: MakeModel) -> None:
    model, batch = make_model(attention="luong"), make_batch([3, 0], [5, 2])
    torch.testing.assert_close(fast.loss(model, batch), model.loss(batch))


def test_packing() -> None:
    packing = pack(torch.tensor([2, 4, 1]))
    assert packing.order_B.tolist() == [1, 0, 2]
    padded = torch.tensor([[10, 20, 30], [11, 21, 0], [0, 22, 0], [0, 23, 0]])  # tens: sentence + 1; units: step
    rows = packing.take(padded)
    assert rows[: packing.real].tolist() == [20, 10, 30, 21, 11, 22, 23]
    assert [rows[s].tolist() for s in packing.slices] == [[20, 10, 30], [21, 11], [22], [23]]
    assert rows[packing.previous_N][:4].tolist() == [20, 10, 21, 22]
    assert rows[packing.last_B].tolist() == [23, 11, 30]
    assert rows[packing.reversed_N][: packing.real].tolist() == [23, 11, 30, 22, 10, 21, 20]
    assert packing.pad(rows).tolist() == [[20, 10, 30], [21, 11, 0], [22, 0, 0], [23, 0, 0]]


def test_packing_makes_few_shapes() -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(50):
        lengths = torch.randint(1, 30, (int(torch.randint(1, 130, (), generator=generator)),), generator=generator)
        packing = pack(lengths)
        rows = len(packing.step_N)
        assert packing.real == int(lengths.sum()) <= rows < packing.real + 128
        assert rows % 64 == 0
        for narrow, wide in zip(packing.slices, packing.wide, strict=True):
            assert narrow.start == wide.start
            assert narrow.stop <= wide.stop <= rows
            assert (wide.stop - wide.start) % 16 == 0 or wide.stop - wide.start == len(lengths)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    "settings",
    [
        {"attention": "scaled_luong", "encoder_type": "bi"},
        {"unit_type": "gru", "attention": "normed_bahdanau", "num_layers": 3, "residual": True},
        {"unit_type": "layer_norm_lstm", "attention": "luong"},
        {"unit_type": "nas", "encoder_type": "gnmt", "attention_architecture": "gnmt_v2", "attention": "bahdanau"},
        {"unit_type": "cudnn_gru", "source_reverse": True, "num_sampled_softmax": 4},
        {"architecture": "transformer", "num_heads": 2, "label_smoothing": 0.1, "tied_embeddings": True},
        {"language_model": True, "unit_type": "gru"},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_sixteen_bits_are_near_with_every_model(
    make_batch: MakeBatch, make_model: MakeModel, settings: dict[str, object], dtype: str
) -> None:
    found = []
    batch = make_batch([3, 7, 1, 5, 7], [6, 2, 9, 1, 4])
    for precision in ("float32", dtype):
        model = make_model(dropout=0.3, compute_dtype=precision, **settings).float().train()
        masks = model.draw_masks(batch, torch.Generator().manual_seed(5))
        loss = fast.loss(model, batch, masks)
        (loss * 64.0).backward()  # type: ignore[no-untyped-call]
        assert loss.dtype == torch.float32
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        assert {gradient.dtype for gradient in gradients.values()} == {torch.float32}
        found.append((loss.item(), torch.cat([g.to_dense().flatten() for g in gradients.values()]) / 64.0))
        with torch.no_grad():
            plain = model.eval().loss(batch).item()
            assert fast.loss(model, batch).item() == pytest.approx(plain, rel=1e-6)  # evaluations are in full
    (full, gradient), (near, near_gradient) = found
    assert not torch.equal(near_gradient, gradient)
    assert near == pytest.approx(full, rel=0.01)
    assert (near_gradient - gradient).norm() < 0.1 * gradient.norm()
