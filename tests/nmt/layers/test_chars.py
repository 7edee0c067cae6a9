"""Source words by their bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from headrace.nmt.hparams import HParams
from headrace.nmt.infer import Translator
from headrace.nmt.layers.chars import LONGEST, PAD, CharEncoder, word_bytes
from headrace.nmt.model import Seq2Seq
from headrace.nmt.saved.weights import export_gradients, export_variables, import_variables
from headrace.nmt.speed import fast
from headrace.nmt.train import train
from tests.nmt.conftest import MakeBatch, MakeModel, Toy

WORDS = ["a", "walk", "walked", "x" * 99]


def filled() -> CharEncoder:
    encoder = CharEncoder(4, 8).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.normal_(0.0, 0.5, generator=generator)
    encoder.set_words(WORDS)
    return encoder


def test_bytes_between_marks() -> None:
    found = word_bytes(WORDS)
    assert found.shape == (4, LONGEST)
    assert found[0].tolist() == [256, 97, 257] + [PAD] * 47
    assert found[3].tolist() == [256] + [120] * 48 + [257]


def test_a_vector_by_hand() -> None:
    encoder = filled()
    symbols = [None, None, 256, *b"walk", 257, None, None]
    rows = [torch.zeros(32).double() if s is None else encoder.embedding[s] for s in symbols]
    windows = [torch.stack(rows[i : i + 5]).t().flatten() for i in range(6)]  # by number, then by place
    expected = torch.tanh(torch.stack([w @ encoder.kernel + encoder.bias_U for w in windows]).amax(dim=0))
    torch.testing.assert_close(encoder(torch.tensor([[1]]))[0, 0], expected)


def test_any_shape_and_any_company() -> None:
    encoder = filled()
    words = torch.tensor([[3, 1, 1], [0, 2, 3]])
    found = encoder(words)
    assert found.shape == (2, 3, 8)
    assert torch.equal(found[0, 1], found[0, 2])
    torch.testing.assert_close(encoder(torch.tensor([2]))[0], found[1, 1])


def test_the_fast_way_gives_the_same(make_batch: MakeBatch, make_model: MakeModel) -> None:
    batch, results = make_batch([3, 7, 1], [6, 2, 9]), []
    for loss_of in (Seq2Seq.loss, fast.loss):
        model = make_model(attention="luong", use_char_encode=True)
        assert model.chars is not None
        model.chars.set_words([f"w{i}" for i in range(13)])
        loss_of(model, batch).backward()  # type: ignore[no-untyped-call]
        results.append(export_gradients(model))
    assert results[0]["embeddings/encoder/char/kernel"].any()
    for name, value in results[0].items():
        torch.testing.assert_close(results[1][name], value, rtol=1e-6, atol=1e-9, msg=name)
    other = make_model(seed=3, attention="luong", use_char_encode=True)
    import_variables(other, export_variables(model))


def test_training_and_translating(toy: Toy) -> None:
    hparams = toy(use_char_encode=True, num_train_steps=40, learning_rate=0.02)
    result = train(hparams, quiet=True)
    curve = [value for _, value in result.curves["train_ppl"]]
    assert curve[-1] < curve[0]
    loaded = Translator.load(Path(str(hparams.out_dir)))
    sentences = ["w1 w2", "w3"]
    assert [t.text for t in loaded.translate(sentences)] == [t.text for t in result.translator.translate(sentences)]


@pytest.mark.parametrize("encoder_type", ["uni", "gnmt"])
def test_first_weights(encoder_type: str) -> None:
    model = Seq2Seq(HParams(use_char_encode=True, encoder_type=encoder_type), 30, 20)
    assert model.src_embedding_VU.numel() == 0
    assert model.chars is not None
    assert not model.chars.bias_U.any()
    assert 0 < model.chars.kernel.abs().max() <= 0.1
