"""Means of checkpoints: what they are, and that they are scored and kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from headrace.nmt.infer import Translator
from headrace.nmt.saved import checkpoint
from headrace.nmt.saved.average import average, last_weights
from headrace.nmt.train import train
from tests.nmt.conftest import Toy


def test_the_mean() -> None:
    frozen = torch.tensor([True, False])
    first = {"w": torch.tensor([1.0, 2.0]), "frozen": ~frozen}
    second = {"w": torch.tensor([2.0, 4.0]), "frozen": frozen}
    found = average([first, first, second])
    torch.testing.assert_close(found["w"], torch.tensor([4 / 3, 8 / 3]))
    assert found["frozen"] is frozen


def test_a_run_scores_and_keeps_them(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    hparams = toy(avg_ckpts=True, num_keep_ckpts=3, num_train_steps=24, steps_per_stats=6, steps_per_external_eval=6)
    result = train(hparams)
    out_dir = Path(str(hparams.out_dir))
    assert [step for step, _ in result.curves["dev_avg_bleu"]] == [18, 24]  # before that there were too few
    assert "# no average yet: it takes 3 checkpoints" in capsys.readouterr().out
    assert result.scores["best_avg_bleu"] == max(value for _, value in result.curves["dev_avg_bleu"])
    assert result.best["avg_bleu"] == out_dir / "avg_best_bleu"
    assert list(checkpoint.steps_of(out_dir / "avg_best_bleu")) == [
        next(step for step, value in result.curves["dev_avg_bleu"] if value == result.scores["best_avg_bleu"])
    ]
    (path,) = checkpoint.steps_of(out_dir / "avg_checkpoints").values()
    saved = checkpoint.load(path)
    kept = [checkpoint.load(path).weights for path in checkpoint.steps_of(out_dir).values()]
    assert len(kept) == 3
    for name, weight in average(kept).items():
        assert torch.equal(saved.weights[name], weight)
    assert Translator.load(out_dir / "avg_best_bleu").translate(["w1 w2"])


def test_too_few(tmp_path: Path) -> None:
    assert last_weights(tmp_path, 10, 1) is None
    assert last_weights(tmp_path, 10, 0) == []
