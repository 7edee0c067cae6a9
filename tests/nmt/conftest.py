"""Small batches and models for the tests of the translation system."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace.nmt.hparams import HParams
from headrace.nmt.model import Batch, Seq2Seq

SRC_WORDS, TGT_WORDS = 13, 11

torch.set_num_threads(1)  # the tensors here are small; threads would only wait for each other, and other processes

MakeBatch = Callable[..., Batch]
MakeModel = Callable[..., Seq2Seq]
Toy = Callable[..., HParams]


@pytest.fixture
def make_batch() -> MakeBatch:
    """Makes a seeded batch of ragged sentences."""

    def make(src_lengths: list[int], tgt_lengths: list[int], seed: int = 0, tgt_words: int = TGT_WORDS) -> Batch:
        rng = np.random.default_rng(seed)
        src = np.full((len(src_lengths), max(src_lengths)), 2)
        tgt = np.full((len(tgt_lengths), max(tgt_lengths) + 2), 2)
        tgt[:, 0] = 1
        for row, (s, t) in enumerate(zip(src_lengths, tgt_lengths, strict=True)):
            src[row, :s] = rng.integers(3, SRC_WORDS, s)
            tgt[row, 1 : t + 1] = rng.integers(3, tgt_words, t)
        lengths = torch.tensor(src_lengths), torch.tensor(tgt_lengths) + 1
        return Batch(torch.from_numpy(src), lengths[0], torch.from_numpy(tgt), lengths[1])

    return make


@pytest.fixture
def make_model() -> MakeModel:
    """Makes a seeded model in float64, whose weights are large enough to matter."""

    def make(seed: int = 0, **settings: object) -> Seq2Seq:
        hparams = HParams().replace(num_units=6, init_weight=0.5, **settings)
        src_words = TGT_WORDS if hparams.share_vocab else SRC_WORDS
        generator = torch.Generator().manual_seed(seed)
        return Seq2Seq(hparams, src_words, TGT_WORDS, generator).double().eval()

    return make


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    """Writes a corpus in which the target is the source in capitals; returns settings for it, changed as asked for."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(12)]
    for name, count in (("train", 150), ("dev", 12), ("test", 9)):
        lines = [" ".join(rng.choice(words, rng.integers(1, 7))) for _ in range(count)]
        (tmp_path / f"{name}.de").write_text("\n".join(lines) + "\n")
        (tmp_path / f"{name}.en").write_text("\n".join(lines).upper() + "\n")
    for suffix, vocab in (("de", words), ("en", [word.upper() for word in words])):
        (tmp_path / f"vocab.{suffix}").write_text("\n".join(["<unk>", "<s>", "</s>", *vocab]) + "\n")

    def make(**settings: object) -> HParams:
        prefixes = {f"{name}_prefix": str(tmp_path / name) for name in ("train", "dev", "test", "vocab")}
        small = {"num_units": 16, "num_layers": 1, "batch_size": 16, "attention": "scaled_luong", "optimizer": "adam"}
        run = {"learning_rate": 0.01, "num_train_steps": 6, "steps_per_stats": 2, "random_seed": 5}
        # One thread: these products are too small for two, which would wait for each other on a busy machine.
        place = {"src": "de", "tgt": "en", "out_dir": str(tmp_path / "out"), "num_intra_threads": 1}
        return HParams().replace(**{**prefixes, **small, **run, **place, **settings})

    return make


def shared_data(name: str) -> Path:
    """Returns a folder of recordings and corpora that are kept beside the repository, or skips the test."""
    root = Path(os.environ.get("HEADRACE_SHARED", Path(__file__).parents[3] / "shared"))
    folder = root / "data" / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here; HEADRACE_SHARED names the folder that has data/{name}")
    return folder
