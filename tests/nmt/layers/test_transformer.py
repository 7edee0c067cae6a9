"""The Transformer, and embeddings that predict words."""

from pathlib import Path

import pytest
import torch
from torch import nn

from headrace.nmt.hparams import HParamError, HParams
from headrace.nmt.infer import Translator
from headrace.nmt.layers.attention import Memory
from headrace.nmt.layers.transformer import DecoderLayer, Linear, MultiHeadAttention
from headrace.nmt.model import Batch, Seq2Seq, steps
from headrace.nmt.saved import checkpoint
from headrace.nmt.saved.weights import export_variables
from headrace.nmt.text.special import EOS, SOS
from headrace.nmt.train import train
from headrace.nmt.training.optim import Optimizer
from headrace.nmt.translating.decode import translate
from tests.nmt.conftest import TGT_WORDS, MakeBatch, MakeModel, Toy

SMALL: dict[str, object] = {"architecture": "transformer", "num_heads": 3, "ffn_units": 10}
VARIANTS: list[dict[str, object]] = [
    SMALL,
    SMALL | {"tied_embeddings": True, "share_vocab": True},
    SMALL | {"num_encoder_layers": 1, "num_decoder_layers": 3, "source_reverse": True},
    SMALL | {"language_model": True},
]


def known(batch: Batch) -> Batch:
    """Makes all source words those that a shared vocabulary has, too."""
    return batch._replace(src_BS=batch.src_BS.clamp(max=TGT_WORDS - 1))


@pytest.mark.parametrize("settings", VARIANTS)
def test_a_word_does_not_depend_on_those_after_it(
    make_batch: MakeBatch, make_model: MakeModel, settings: dict[str, object]
) -> None:
    model, batch = make_model(**settings), known(make_batch([3, 5], [6, 4]))
    before = model(batch)
    for t in range(1, 7):
        words = batch.tgt_BT1.clone()
        words[:, t] = (words[:, t] + 1) % 11
        after = model(batch._replace(tgt_BT1=words))
        assert torch.equal(after[:t], before[:t])
        assert not torch.isclose(after[t], before[t]).all()


@pytest.mark.parametrize("settings", VARIANTS)
def test_neither_padding_nor_neighbours_change_anything(
    make_batch: MakeBatch, make_model: MakeModel, settings: dict[str, object]
) -> None:
    model, together = make_model(**settings), known(make_batch([3, 7, 5], [6, 2, 4]))
    logits = model(together)
    for row in range(3):
        source, target = int(together.src_len_B[row]), int(together.tgt_len_B[row])
        one = slice(row, row + 1)
        alone = Batch(
            together.src_BS[one, :source],
            together.src_len_B[one],
            together.tgt_BT1[one, : target + 1],
            together.tgt_len_B[one],
        )
        torch.testing.assert_close(logits[:target, one], model(alone), rtol=1e-11, atol=1e-11)
    other = together.src_BS.clone()
    other[0, 3:] = 9  # past the end of the first sentence
    torch.testing.assert_close(model(together._replace(src_BS=other)), logits, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("settings", VARIANTS)
def test_word_by_word_is_the_same_as_all_at_once(
    make_batch: MakeBatch, make_model: MakeModel, settings: dict[str, object]
) -> None:
    model, batch = make_model(**settings), known(make_batch([3, 5], [6, 4]))
    expected = model.outputs(batch)
    memory, state = model.encode(batch.src_BS, batch.src_len_B)
    for t, words in enumerate(batch.tgt_in_TB):
        output, state, weights = model.decoder.step(model.tgt_embedding_VU[words], state, memory)
        torch.testing.assert_close(output, expected[t], rtol=1e-11, atol=1e-11)
        if weights is None:
            assert model.encoder is None
            continue
        torch.testing.assert_close(weights.sum(dim=1), torch.ones(2).double())
        assert not weights[0, 3:].any()


def log_prob(model: Seq2Seq, batch: Batch, row: int, words: list[int]) -> float:
    """Computes the probability of a translation without what decoding remembers."""
    n = int(batch.src_len_B[row])
    whole = Batch(
        batch.src_BS[row : row + 1, :n],
        batch.src_len_B[row : row + 1],
        torch.tensor([[SOS, *words]]),
        torch.tensor([len(words)]),
    )
    found = model(whole)[:, 0].log_softmax(dim=1)
    return float(found[torch.arange(len(words)), torch.tensor(words)].detach().sum())


@pytest.mark.parametrize("search", [{}, {"beam_width": 4}, {"infer_mode": "sample", "sampling_temperature": 1.0}])
def test_searches_know_the_probability_of_what_they_find(
    make_batch: MakeBatch, make_model: MakeModel, search: dict[str, object]
) -> None:
    model, batch = make_model(**SMALL, seed=2), make_batch([3, 6, 1, 4], [1] * 4)
    hparams = model.hparams.replace(random_seed=3, **search)
    found = translate(model, batch.src_BS, batch.src_len_B, hparams)
    assert found.alignments_BKTS is not None
    for row in range(4):
        for k in range(found.ids_BKT.shape[1]):
            words, limit = found.words(row, k), 2 * int(batch.src_len_B[row])
            written = words if len(words) == limit else [*words, EOS]
            expected = log_prob(model, batch, row, written)
            assert found.log_probs_BK[row, k].item() == pytest.approx(expected)
            n = int(batch.src_len_B[row])
            attention = found.alignments_BKTS[row, k, : len(words)]
            torch.testing.assert_close(attention[:, :n].sum(dim=1), torch.ones(len(words)).double())
    alone = translate(model, batch.src_BS[3:, :4], batch.src_len_B[3:], hparams)
    assert alone.words(0) == found.words(3)
    empty = translate(model, torch.zeros(1, 0, dtype=torch.int64), torch.tensor([0]), hparams)
    assert empty.words(0) == []


def put(target: MultiHeadAttention, source: nn.MultiheadAttention) -> None:
    """Gives PyTorch's layer our weights."""
    with torch.no_grad():
        three: list[Linear] = [target.query, target.key, target.value]
        source.in_proj_weight.copy_(torch.cat([part.kernel_IO.t() for part in three]))
        source.in_proj_bias.copy_(torch.cat([part.bias_O for part in three]))
        source.out_proj.weight.copy_(target.output.kernel_IO.t())
        source.out_proj.bias.copy_(target.output.bias_O)


def test_a_layer_is_that_of_pytorch() -> None:
    generator = torch.Generator().manual_seed(0)
    ours = DecoderLayer(HParams(**SMALL, num_units=6)).double()  # type: ignore[arg-type]
    for weight in ours.parameters():
        nn.init.normal_(weight, std=0.7, generator=generator)
    theirs = nn.TransformerDecoderLayer(6, 3, 10, dropout=0.0, batch_first=True, norm_first=True).double()
    assert ours.cross is not None
    assert ours.cross_norm is not None
    put(ours.attention, theirs.self_attn)
    put(ours.cross, theirs.multihead_attn)
    for norm, other in zip(
        (ours.attention_norm, ours.cross_norm, ours.feed_forward_norm),
        (theirs.norm1, theirs.norm2, theirs.norm3),
        strict=True,
    ):
        other.load_state_dict(norm.state_dict())
    with torch.no_grad():
        for mine, linear in ((ours.feed_forward.inner, theirs.linear1), (ours.feed_forward.outer, theirs.linear2)):
            linear.weight.copy_(mine.kernel_IO.t())
            linear.bias.copy_(mine.bias_O)
    x, source = (torch.randn(2, n, 6, dtype=torch.float64, generator=generator) for n in (5, 4))
    real = steps(4, torch.tensor([4, 2])).t()
    keys, values = ours.cross.keys_values(source)
    nothing = x.new_empty(2, 0, 6)
    found, _, _ = ours(x, (nothing, nothing), Memory(values, keys, real), lambda y: y)
    expected = theirs(x, source, tgt_mask=torch.ones(5, 5).tril() == 0, memory_key_padding_mask=~real)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("settings", [*VARIANTS, {"tied_embeddings": True, "attention": "luong"}])
def test_gradients(make_batch: MakeBatch, make_model: MakeModel, settings: dict[str, object]) -> None:
    model, batch = make_model(**settings, label_smoothing=0.1).train(), known(make_batch([3, 5], [6, 4]))
    masks = model.draw_masks(batch, torch.Generator().manual_seed(0))
    loss = model.loss(batch, masks)
    loss.backward()  # type: ignore[no-untyped-call]
    step = 1e-6
    for name, weight in model.named_parameters():
        if name == "src_embedding_VU" and model.encoder is None and not model.hparams.share_vocab:
            continue
        assert weight.grad is not None, name
        gradient = weight.grad.to_dense()
        assert gradient.isfinite().all()
        at = int(gradient.abs().argmax())
        with torch.no_grad():
            flat = weight.view(-1)
            flat[at] += step
            more = model.loss(batch, masks)
            flat[at] -= 2 * step
            less = model.loss(batch, masks)
            flat[at] += step
        assert ((more - less) / (2 * step)).item() == pytest.approx(
            gradient.flatten()[at].item(), rel=1e-4, abs=1e-7
        ), name


def test_tied_embeddings_are_one_matrix() -> None:
    hparams = HParams(tied_embeddings=True, share_vocab=True, num_units=8)
    model = Seq2Seq(hparams, 12, 12)
    assert "projection_UV" not in model.state_dict()
    assert model.projection_UV.data_ptr() == model.tgt_embedding_VU.data_ptr() == model.src_embedding_VU.data_ptr()
    apart = Seq2Seq(hparams.replace(tied_embeddings=False), 12, 12)
    assert sum(p.numel() for p in apart.parameters()) - sum(p.numel() for p in model.parameters()) == 8 * 12
    with pytest.raises(AttributeError, match="no attribute 'projection'"):
        _ = model.projection
    with pytest.raises(ValueError, match="neither a Transformer nor tied_embeddings"):
        export_variables(model)


def test_learns_to_reverse(make_batch: MakeBatch) -> None:
    hparams = HParams(
        architecture="transformer",
        num_layers=1,
        dropout=0.0,
        init_op="glorot_uniform",
        optimizer="adam",
        learning_rate=0.003,
        decay_scheme="luong5",
        num_train_steps=400,
        tied_embeddings=True,
    )
    model = Seq2Seq(hparams, 13, 13, torch.Generator().manual_seed(0))
    optimizer = Optimizer(model.parameters(), hparams)

    def pairs(seed: int) -> Batch:
        batch = make_batch([5] * 64, [5] * 64, seed)
        batch.tgt_BT1[:, 1:6] = batch.src_BS.flip(1)
        return batch

    for step in range(hparams.num_train_steps):
        model.loss(pairs(step)).backward()  # type: ignore[no-untyped-call]
        optimizer.step(step)
    unseen = pairs(1000)
    found = translate(model.eval(), unseen.src_BS, unseen.src_len_B)
    right = sum(found.words(row) == unseen.tgt_BT1[row, 1:6].tolist() for row in range(64))
    assert right >= 62


def test_goes_on_bit_for_bit(toy: Toy, tmp_path: Path) -> None:
    settings: dict[str, object] = {
        **SMALL,
        "num_heads": 4,
        "attention": "",
        "tied_embeddings": True,
        "label_smoothing": 0.1,
        "dropout": 0.3,
        "decay_scheme": "inverse_sqrt",
        "warmup_steps": 3,
        "beam_width": 2,
    }
    whole, parts = (toy(**settings, num_train_steps=9, out_dir=str(tmp_path / name)) for name in ("whole", "parts"))
    train(whole, quiet=True)
    train(parts.replace(num_train_steps=5), quiet=True)
    train(parts, quiet=True)
    ends = [checkpoint.load(tmp_path / name / "translate.ckpt-9") for name in ("whole", "parts")]
    for name, weight in ends[0].weights.items():
        assert torch.equal(weight, ends[1].weights[name]), name
    translation = Translator.load(tmp_path / "parts").translate(["w1 w2 w3"], attention=True)[0]
    assert translation.attention is not None
    assert translation.attention.shape[1] == 3
    with pytest.raises(checkpoint.CheckpointError, match="was trained with num_heads=4, now num_heads=2"):
        train(parts.replace(num_heads=2), quiet=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"attention": "luong"},
            "attention=luong is of recurrent networks: leave it out with architecture",
        ),
        ({"unit_type": "gru"}, "unit_type=gru is of recurrent networks"),
        ({"num_units": 30}, "num_units that are even and that num_heads=4 divides, got 30"),
        ({"num_heads": 0}, "num_heads must be at least 1, got 0"),
        ({"tied_embeddings": True, "embed_prefix": "glove"}, "leave out tied_embeddings"),
        ({"language_model": True, "alignment_file": "a"}, "alignment_file goes by attention"),
    ],
)
def test_refuses(settings: dict[str, object], message: str) -> None:
    with pytest.raises(HParamError, match=message):
        HParams(architecture="transformer").replace(**settings)
