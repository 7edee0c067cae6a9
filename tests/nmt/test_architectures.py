"""GNMT's encoder and attention, and language models: who takes what from whom."""

from __future__ import annotations

import pytest
import torch

from headrace.nmt.hparams import HParams
from headrace.nmt.layers.attention import Memory, State
from headrace.nmt.model import Decoder, Encoder, Seq2Seq
from headrace.nmt.saved.weights import export_variables, import_variables
from headrace.nmt.speed import fast
from headrace.nmt.translating.decode import beam_search, greedy_search
from tests.nmt.conftest import MakeBatch, MakeModel

GNMT: dict[str, object] = {"attention": "normed_bahdanau", "encoder_type": "gnmt", "num_layers": 4}
OTHERS: list[dict[str, object]] = [
    {**GNMT, "attention_architecture": "gnmt", "residual": True},
    {**GNMT, "attention_architecture": "gnmt_v2"},
    {"attention": "luong", "unit_type": "gru"},
    {"attention": "bahdanau", "unit_type": "layer_norm_lstm"},
    {"unit_type": "nas", "attention": "scaled_luong"},
    {"unit_type": "cudnn_gru"},
    {"language_model": True},
]


@pytest.mark.parametrize(
    ("settings", "encoder", "decoder"),
    [
        ({}, 0, 0),
        ({"residual": True}, 3, 3),
        ({"residual": True, "encoder_type": "bi"}, 1, 3),
        ({"residual": True, "encoder_type": "gnmt"}, 2, 2),
        ({"residual": True, "encoder_type": "gnmt", "num_decoder_layers": 3, "attention": "luong"}, 2, 2),
        ({"residual": True, "num_layers": 1}, 0, 0),
    ],
)
def test_how_many_layers_are_residual(settings: dict[str, object], encoder: int, decoder: int) -> None:
    hparams = HParams().replace(**{"num_layers": 4, **settings})
    assert (hparams.encoder_residuals, hparams.decoder_residuals) == (encoder, decoder)


def test_a_gnmt_encoder_reads_its_bottom_layer_from_both_ends(make_model: MakeModel) -> None:
    encoder = make_model(encoder_type="gnmt", num_layers=3).encoder
    assert isinstance(encoder, Encoder)
    assert encoder.top is not None
    assert [len(stack.cells) for stack in (*encoder.stacks, encoder.top)] == [1, 1, 2]
    x, real = torch.randn(4, 2, 6).double(), torch.ones(4, 2, dtype=torch.bool)
    memory, states = encoder(x, real, None)
    assert memory.shape == (4, 2, 6)
    assert len(states) == 3
    _, backward = encoder.read(encoder.stacks[1], x.flip(0), real, None)
    assert torch.equal(states[0][1], backward[0][1])
    assert torch.equal(states[2][1], memory[-1])


@pytest.mark.parametrize(("architecture", "now"), [("gnmt", False), ("gnmt_v2", True)])
def test_upper_layers_take_the_context_of_the_last_or_of_this_step(
    make_model: MakeModel, architecture: str, now: bool
) -> None:
    decoder = make_model(**GNMT, attention_architecture=architecture).decoder
    assert isinstance(decoder, Decoder)
    x = torch.randn(1, 6).double()
    cells = decoder.stack.zero_state(x)
    values = torch.randn(1, 5, 6).double()
    outputs, contexts = [], []
    for scale in (1.0, 2.0):  # another memory, the same keys: what is attended to stays, what it gives doubles
        memory = Memory(values * scale, values, torch.ones(1, 5, dtype=torch.bool))
        output, state, _ = decoder.step(x, State(cells, torch.zeros(1, 6).double()), memory)
        outputs.append(output)
        assert state.attention_BA is not None
        contexts.append(state.attention_BA)
    torch.testing.assert_close(contexts[1], 2.0 * contexts[0])
    assert torch.equal(*outputs) != now


@pytest.mark.parametrize("settings", OTHERS)
def test_training_goes_down_and_has_every_gradient(
    make_batch: MakeBatch, make_model: MakeModel, settings: dict[str, object]
) -> None:
    model = make_model(dropout=0.1, **settings).train()
    batch = make_batch([3, 5, 4], [4, 2, 5])
    before = fast.loss(model, batch)
    before.backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for name, weight in model.named_parameters():
            assert weight.grad is not None, name
            weight.sub_(0.02 * weight.grad.to_dense())
    assert fast.loss(model, batch) < before
    masks = model.draw_masks(batch, torch.Generator().manual_seed(1))
    assert fast.loss(model, batch, masks).isfinite()


@pytest.mark.parametrize("settings", OTHERS)
def test_searches_agree(make_batch: MakeBatch, make_model: MakeModel, settings: dict[str, object]) -> None:
    model, batch = make_model(**settings), make_batch([3, 7, 5], [1, 1, 1])
    limits = torch.tensor([6, 6, 6])
    greedy = greedy_search(model, batch.src_BS % 11, batch.src_len_B, limits)
    narrow = beam_search(model, batch.src_BS % 11, batch.src_len_B, limits, 1)
    assert torch.equal(greedy.ids_BKT, narrow.ids_BKT)
    wide = beam_search(model, batch.src_BS % 11, batch.src_len_B, limits, 4)
    assert (wide.log_probs_BK.diff(dim=1) <= 0).all()
    for row in range(3):  # alone as among others
        n = int(batch.src_len_B[row])
        one = beam_search(model, batch.src_BS[row : row + 1, :n] % 11, batch.src_len_B[row : row + 1], limits[:1], 4)
        torch.testing.assert_close(one.log_probs_BK[0], wide.log_probs_BK[row])


@pytest.mark.parametrize("settings", OTHERS)
def test_weights_go_out_and_in_by_name(make_model: MakeModel, settings: dict[str, object]) -> None:
    one, other = make_model(seed=1, **settings), make_model(seed=2, **settings)
    variables = export_variables(one)
    assert len(variables) == len(list(one.parameters()))
    import_variables(other, variables)
    for name, value in export_variables(other).items():
        assert (value == variables[name]).all()


def test_a_language_model_sees_no_source(make_batch: MakeBatch, make_model: MakeModel) -> None:
    model, batch = make_model(language_model=True), make_batch([3, 5], [4, 2])
    hparams = model.hparams
    assert (hparams.share_vocab, hparams.pass_hidden_state, model.encoder) == (True, False, None)
    assert torch.equal(model.loss(batch), model.loss(batch._replace(src_BS=batch.src_BS * 0)))
    assert HParams(language_model=True, src="de", tgt="en").src == "en"


def test_only_what_is_common_has_a_faster_way() -> None:
    assert fast.covers(HParams(attention="scaled_luong", encoder_type="bi", residual=True))
    assert not any(fast.covers(HParams().replace(**settings)) for settings in OTHERS)


def test_a_language_model_needs_one_vocabulary() -> None:
    with pytest.raises(ValueError, match="share_vocab needs equal vocabularies"):
        Seq2Seq(HParams(language_model=True), 5, 6)


def test_reading_backwards(make_batch: MakeBatch, make_model: MakeModel) -> None:
    """The encoder meets the words in the other order; what attention says is of the source's own order."""
    plain, turned = (make_model(attention="luong", source_reverse=turn) for turn in (False, True))
    batch = make_batch([3, 7, 5], [6, 2, 4])
    mirrored = batch.src_BS.clone()
    for row, n in enumerate(batch.src_len_B.tolist()):
        mirrored[row, :n] = batch.src_BS[row, :n].flip(0)
    assert not torch.equal(plain.loss(batch), turned.loss(batch))
    torch.testing.assert_close(plain.loss(batch._replace(src_BS=mirrored)), turned.loss(batch))
    limits = torch.tensor([4, 4, 4])
    there, here = (
        greedy_search(model, src, batch.src_len_B, limits) for model, src in ((plain, mirrored), (turned, batch.src_BS))
    )
    assert torch.equal(there.ids_BKT, here.ids_BKT)
    assert there.alignments_BKTS is not None
    assert here.alignments_BKTS is not None
    torch.testing.assert_close(there.alignments_BKTS[1, 0].flip(1), here.alignments_BKTS[1, 0])
    assert not fast.covers(turned.hparams)
