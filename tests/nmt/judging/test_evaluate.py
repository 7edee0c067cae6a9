import math
from pathlib import Path

import pytest
import torch

import headrace as hr
from headrace.nmt.data import load_vocabs
from headrace.nmt.judging.evaluate import EvalSet, exp
from headrace.nmt.model import Seq2Seq
from headrace.nmt.saved import checkpoint
from headrace.nmt.train import train
from tests.nmt.conftest import Toy


def read(toy: Toy, **settings: object) -> tuple[EvalSet, Seq2Seq]:
    hparams = toy(**settings)
    vocabs = load_vocabs(hparams)
    data = EvalSet.read("dev", vocabs, hparams)
    assert data is not None
    return data, Seq2Seq(hparams, len(vocabs.src), len(vocabs.tgt), torch.Generator().manual_seed(1)).eval()


def test_perplexity_is_that_of_all_words_together(toy: Toy) -> None:
    data, model = read(toy)
    whole = data.perplexity(model)
    assert whole == pytest.approx(15, rel=0.05)  # as many as there are words
    for settings in ({"batch_size": 1}, {"batch_size": 5, "num_buckets": 1}):
        assert read(toy, **settings)[0].perplexity(model) == pytest.approx(whole, rel=1e-5)


def test_pairs_with_an_empty_side_are_translated_but_not_measured(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "dev.de").write_text("w1\n\nw2 w3\n")
    (tmp_path / "dev.en").write_text("W1\nW5\n\n")
    data, _ = read(toy)
    assert len(data.sources) == len(data.references) == 3
    assert sum(len(batch["src"]) for batch in data.loader) == 1


def test_unknown_words_are_counted_and_said(toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dev.de").write_text("w1 never\nw2 w3\n")
    (tmp_path / "dev.en").write_text("W1\nnot this\n")
    assert read(toy)[0].unknown() == (1 / 4, 2 / 3)
    train(toy(num_train_steps=1))
    out = capsys.readouterr().out
    assert "# dev: 25.0% of source and 66.7% of target words are unknown; is --vocab_prefix that of these files?" in out
    assert "# test: 0.0% of source and 0.0% of target words are unknown\n" in out


def test_sides_of_unequal_length_are_refused(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "dev.en").write_text("W1\n")
    with pytest.raises(hr.DataError, match=r"dev\.de has 12 lines and .*dev\.en has 1, "):
        read(toy)


def test_a_set_that_is_not_given_is_none(toy: Toy) -> None:
    hparams = toy(test_prefix=None)
    assert EvalSet.read("test", load_vocabs(hparams), hparams) is None


def test_a_huge_loss_has_infinite_perplexity() -> None:
    assert exp(1000.0) == math.inf
    assert exp(0.0) == 1.0


def test_several_metrics_keep_a_best_checkpoint_each(toy: Toy) -> None:
    result = train(toy(num_train_steps=40, learning_rate=0.02, metrics="rouge,word_accuracy"), quiet=True)
    assert set(result.best) == {"rouge", "word_accuracy"}
    for name, folder in result.best.items():
        assert checkpoint.latest(folder, pytest.fail) is not None
        assert 0 < result.scores[f"best_{name}"] <= 100
