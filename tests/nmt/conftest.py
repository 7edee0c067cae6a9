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


def shared_data(name: str) -> Path:
    """Returns a folder of recordings and corpora that are kept beside the repository, or skips the test."""
    root = Path(os.environ.get("HEADRACE_SHARED", Path(__file__).parents[3] / "shared"))
    folder = root / "data" / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here; HEADRACE_SHARED names the folder that has data/{name}")
    return folder
