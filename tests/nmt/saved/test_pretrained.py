"""Word vectors from files: which are taken, and that they stay."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

import headrace as hr
from headrace.nmt.hparams import HParamError
from headrace.nmt.saved import checkpoint
from headrace.nmt.saved.pretrained import read_vectors
from headrace.nmt.speed import fast
from headrace.nmt.train import train
from tests.nmt.conftest import MakeBatch, MakeModel, Toy

VOCAB = hr.Vocab(["<unk>", "<s>", "</s>", "a", "b", "York"])


def vectors(words: list[str], width: int = 2) -> str:
    return "".join(f"{word} {' '.join(str(len(word) + i / 2) for i in range(width))}\n" for word in words)


@pytest.mark.parametrize("header", ["", "4 2\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_words_that_the_file_has(tmp_path: Path, header: str, packed: bool) -> None:
    path = tmp_path / ("vectors.de.gz" if packed else "vectors.de")
    text = header + vectors(["x", "b", "New York", "</s>", "York"]) + "b 9 9\n"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    ids, found = read_vectors(str(path), VOCAB, 2)
    assert ids.tolist() == [4, 5]  # special words are learned, a word's first vector counts, several words are none
    assert found.tolist() == [[1.0, 1.5], [4.0, 4.5]]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (vectors(["a"], 3), HParamError, "has vectors of 3 numbers, but num_units=2"),
        ("7 3\n" + vectors(["a"], 3), HParamError, "has vectors of 3 numbers, but num_units=2"),
        (vectors(["x"]) + "a 1 no\n", hr.DataError, r"line 2: expected a word and 2 numbers, got \['1', 'no'\]"),
    ],
)
def test_damaged_files(tmp_path: Path, text: str, error: type[Exception], message: str) -> None:
    path = tmp_path / "vectors.de"
    path.write_text(text)
    with pytest.raises(error, match=message):
        read_vectors(str(path), VOCAB, 2)


@pytest.mark.parametrize("shared", [False, True])
def test_frozen_vectors_get_no_gradient(make_batch: MakeBatch, make_model: MakeModel, shared: bool) -> None:
    batch = make_batch([3, 5], [4, 2])
    batch = batch._replace(src_BS=batch.src_BS % 11)
    for loss_of in (lambda m, b: m.loss(b), fast.loss):
        model = make_model(embed_prefix="x", share_vocab=shared)
        assert model.src_frozen_V is not None
        model.src_frozen_V[3:7] = True
        loss_of(model, batch).backward()
        gradient = model.src_embedding_VU.grad
        assert gradient is not None
        moved = gradient.to_dense().abs().sum(dim=1) > 0
        assert not moved[3:7].any()
        assert moved[7:].any()


def test_training_with_them(toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix in ("de", "en"):
        words = [f"w{i}" if suffix == "de" else f"W{i}" for i in range(8)]
        (tmp_path / f"emb.{suffix}").write_text(vectors(words, 16))
    hparams = toy(embed_prefix=str(tmp_path / "emb"))
    train(hparams)
    assert "vectors for 8 of 15 source words, which stay; the others are learned" in capsys.readouterr().out
    saved = checkpoint.latest(Path(str(hparams.out_dir)), lambda message: None)
    assert saved is not None
    model = saved.model()
    weight = model.tgt_embedding_VU.detach().numpy()
    np.testing.assert_array_equal(weight[3], np.arange(16, dtype=np.float32) / 2 + 2)
    assert model.tgt_frozen_V is not None
    assert model.tgt_frozen_V.sum() == 8
    train(hparams.replace(num_train_steps=8))  # goes on without reading them again
    with pytest.raises(checkpoint.CheckpointError, match="was trained with embed_prefix="):
        train(hparams.replace(num_train_steps=10, embed_prefix=None))


def test_files_of_another_language(toy: Toy, tmp_path: Path) -> None:
    for suffix in ("de", "en"):
        (tmp_path / f"emb.{suffix}").write_text(vectors(["mot"], 16))
    with pytest.raises(hr.DataError, match="has a vector for none of the 15 source words"):
        train(toy(embed_prefix=str(tmp_path / "emb")))


def test_models_without_them_have_nothing_to_keep(make_model: MakeModel) -> None:
    assert not [name for name in make_model().state_dict() if "frozen" in name]
    assert torch.equal(*[make_model(seed=1, **s).projection_UV for s in ({}, {"embed_prefix": "x"})])
