import errno
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import headrace as hr
from headrace.nmt.hparams import HParamError
from headrace.nmt.infer import Translator
from headrace.nmt.judging.evaluate import EvalSet
from headrace.nmt.saved import checkpoint
from headrace.nmt.saved.checkpoint import CheckpointError
from headrace.nmt.speed import fast
from headrace.nmt.text.files import locked
from headrace.nmt.train import DivergedError, Result, train
from headrace.nmt.training import optim
from headrace.nmt.training.interrupt import Terminated
from tests.nmt.conftest import Toy

LINE = re.compile(
    r"  step (\d+) lr [\d.e-]+ step-time \d+\.\d\ds wps \d+\.\d\dK ppl \d+\.\d\d gN \d+\.\d\d bleu (?:\d+\.\d\d|-), "
    r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}"
)


def weights(result: Result) -> dict[str, torch.Tensor]:
    return result.translator.model.state_dict()


def test_a_toy_language_is_learnt(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    hparams = toy(num_train_steps=300, steps_per_stats=20, learning_rate=0.02, num_units=32, dropout=0.0)
    result = train(hparams)
    assert result.step == 300
    assert result.scores["dev_bleu"] > 60  # 77 to 92 by seed and processor, whose float sums differ
    assert result.scores["test_ppl"] < 1.5
    assert result.scores["best_bleu"] == max(value for _, value in result.curves["dev_bleu"])
    assert [step for step, _ in result.curves["train_ppl"]] == list(range(20, 301, 20))
    assert result.data.batches == 300
    assert result.translator.translate(["w1 w2 w3"])[0].text == "W1 W2 W3"
    assert Translator.load(result.best["bleu"]).translate(["w4"])[0].text == "W4"
    out = capsys.readouterr().out
    assert [int(m[1]) for m in map(LINE.fullmatch, out.split("\n")) if m] == list(range(20, 301, 20))
    assert "# Final, step 300 lr 0.02 step-time" in out
    assert "# Best bleu, step " in out
    logs = list(Path(str(hparams.out_dir)).glob("log_*"))
    assert [log.read_text() for log in logs] == [out]


def test_the_last_steps_are_logged_and_the_final_line_is_of_them(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    result = train(toy(num_train_steps=5))
    lines = capsys.readouterr().out.split("\n")
    assert [int(m[1]) for m in map(LINE.fullmatch, lines) if m] == [2, 4, 5]
    assert all(" bleu -, " in line for line in lines if LINE.fullmatch(line))  # nothing is translated before the end
    final = next(line for line in lines if line.startswith("# Final"))
    assert final.startswith("# Final, step 5 lr 0.01 ")
    assert f" bleu {result.scores['best_bleu']:.2f}, dev bleu {result.scores['dev_bleu']:.2f}, dev ppl " in final


def test_the_best_checkpoint_is_there_even_if_nothing_is_right(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "dev.en").write_text("none\n" * 12)
    result = train(toy(num_train_steps=4, steps_per_external_eval=2), quiet=True)
    assert result.scores["best_bleu"] == 0.0
    assert [path.name for path in result.best["bleu"].glob("translate*")] == ["translate.ckpt-2"]


def test_the_same_seed_gives_the_same_run(toy: Toy, tmp_path: Path) -> None:
    runs = [train(toy(out_dir=str(tmp_path / name)), quiet=True) for name in "ab"]
    assert runs[0].curves == runs[1].curves
    assert all(torch.equal(weight, weights(runs[1])[name]) for name, weight in weights(runs[0]).items())
    other = train(toy(out_dir=str(tmp_path / "c"), random_seed=6), quiet=True)
    assert other.curves != runs[0].curves


def test_a_run_in_two_parts_is_the_run_in_one(toy: Toy, tmp_path: Path) -> None:
    whole = train(toy(out_dir=str(tmp_path / "whole"), num_train_steps=13), quiet=True)
    out_dir = str(tmp_path / "parts")
    for steps in (5, 12, 13):  # within the first epoch, within the second, and none left of a window
        parts = train(toy(out_dir=out_dir, num_train_steps=steps), quiet=True)
    assert all(torch.equal(weight, weights(parts)[name]) for name, weight in weights(whole).items())
    assert parts.curves["train_ppl"] == whole.curves["train_ppl"]


def test_without_a_seed_one_is_drawn_and_kept(toy: Toy) -> None:
    first = train(toy(random_seed=None, num_train_steps=2), quiet=True)
    second = train(toy(random_seed=None, num_train_steps=4), quiet=True)
    assert second.step == 4
    seeds = {result.translator.hparams.random_seed for result in (first, second)}
    assert len(seeds) == 1
    assert None not in seeds


def test_nothing_left_to_train_is_said(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    train(toy(), quiet=True)
    assert train(toy()).step == 6
    assert "# nothing left to train: raise --num_train_steps above 6 to go on" in capsys.readouterr().out


def test_checkpoints_are_kept_as_asked(toy: Toy) -> None:
    hparams = toy(num_train_steps=8, steps_per_stats=1, steps_per_external_eval=2, num_keep_ckpts=2)
    train(hparams, quiet=True)
    out = Path(str(hparams.out_dir))
    assert sorted(p.name for p in out.glob("translate*")) == ["translate.ckpt-6", "translate.ckpt-8"]
    assert (out / "output_dev").read_text().count("\n") == 12
    assert (out / "output_test").read_text().count("\n") == 9


def test_only_training_data_is_needed(toy: Toy) -> None:
    result = train(toy(dev_prefix=None, test_prefix=None), quiet=True)
    assert set(result.curves) == {"train_ppl"}
    assert result.best == {}


def test_other_data_begins_a_new_epoch_and_says_so(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(toy(num_train_steps=3), quiet=True)
    for suffix in ("de", "en"):
        (tmp_path / f"more.{suffix}").write_text((tmp_path / f"dev.{suffix}").read_text() * 3)
    result = train(toy(num_train_steps=5, train_prefix=str(tmp_path / "more"), optimizer="sgd", learning_rate=0.1))
    out = capsys.readouterr().out
    assert result.step == 5
    assert f"# train_prefix: {tmp_path}/train -> {tmp_path}/more" in out
    assert "# other data or batches than before: a new epoch begins" in out
    assert "# optimizer: adam -> sgd" in out
    assert "# learning_rate: 0.01 -> 0.1" in out
    assert "# another optimizer than before: it starts anew" in out


def test_data_that_changed_under_the_run_is_refused(toy: Toy, tmp_path: Path) -> None:
    train(toy(num_train_steps=3), quiet=True)
    for suffix in ("de", "en"):
        path = tmp_path / f"train.{suffix}"
        path.write_text(path.read_text() * 2)
    with pytest.raises(CheckpointError, match=r"ckpt-3 cannot go on, as the training data is not what it was.*other"):
        train(toy(), quiet=True)


def test_another_model_in_the_same_folder_is_refused(toy: Toy) -> None:
    train(toy(num_train_steps=2), quiet=True)
    with pytest.raises(CheckpointError, match="trained with num_units=16, now num_units=8 is asked for"):
        train(toy(num_units=8), quiet=True)


def test_an_optimiser_that_does_not_fit_is_refused(toy: Toy) -> None:
    train(toy(num_train_steps=2), quiet=True)
    folder = Path(str(toy().out_dir))
    saved = checkpoint.load(folder / "translate.ckpt-2")
    saved.optimizer = {"moments": []}
    checkpoint.save(folder, saved)
    with pytest.raises(CheckpointError, match=r"ckpt-2 cannot go on: the saved optimiser does not fit optimizer=adam"):
        train(toy(), quiet=True)


def test_other_words_in_the_same_folder_are_refused(toy: Toy, tmp_path: Path) -> None:
    train(toy(num_train_steps=2), quiet=True)
    path = tmp_path / "vocab.de"
    path.write_text(path.read_text().replace("w7", "w77"))
    message = r"another source vocabulary \(15 words, now 15; word 10 was w7, is w77\): give the same --vocab_prefix"
    with pytest.raises(CheckpointError, match=message):
        train(toy(), quiet=True)


def test_a_damaged_checkpoint_is_passed_over(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    for steps in (2, 4):
        train(toy(num_train_steps=steps), quiet=True)
    path = Path(str(toy().out_dir), "translate.ckpt-4")
    path.write_bytes(path.read_bytes()[:1000])
    assert train(toy()).step == 6
    out = capsys.readouterr().out
    assert "translate.ckpt-4 is no checkpoint, cut short or damaged (1,000 bytes)" in out
    assert "translate.ckpt-2, step 2" in out


# 16 bits -------------------------------------------------------------------------------------------------------------


def test_a_scale_that_is_too_large_comes_down_and_goes_on(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(optim, "FIRST_SCALE", 2.0**24)
    monkeypatch.setattr(optim, "GOOD_STEPS", 3)
    settings: dict[str, Any] = {"compute_dtype": "float16", "unit_type": "gru"}
    whole = train(toy(out_dir=str(tmp_path / "whole"), num_train_steps=20, **settings))
    out = capsys.readouterr().out
    assert "# step 1: a gradient too large for float16 was left out; loss scale 1.67772e+07 -> 8.38861e+06" in out
    losses = [value for _, value in whole.curves["train_ppl"]]
    assert losses[0] > losses[-1]
    assert all(weight.dtype == torch.float32 for weight in weights(whole).values())
    for steps in (11, 20):
        parts = train(toy(out_dir=str(tmp_path / "parts"), num_train_steps=steps, **settings), quiet=True)
    assert all(torch.equal(weight, weights(parts)[name]) for name, weight in weights(whole).items())


# Early stopping ------------------------------------------------------------------------------------------------------


def scores(monkeypatch: pytest.MonkeyPatch, values: list[float]) -> None:
    """Has dev score these values in turn, and test nothing of interest."""
    left = iter(values)

    def score(self: EvalSet, *args: Any) -> dict[str, float]:
        return {"bleu": next(left) if self.name == "dev" else 0.0}

    monkeypatch.setattr(EvalSet, "scores", score)


def test_a_run_that_gets_no_better_stops(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scores(monkeypatch, [1.0, 3.0, 2.0, 3.0, 4.0, 1.0, 1.0, 4.0, 9.0])
    result = train(toy(num_train_steps=40, steps_per_external_eval=2, patience=3))
    assert result.step == 16
    assert [value for _, value in result.curves["dev_bleu"]] == [1.0, 3.0, 2.0, 3.0, 4.0, 1.0, 1.0, 4.0]
    out = capsys.readouterr().out
    assert out.count("# dev bleu was no better 3 times: stopping at step 16\n") == 1
    assert "# Final, step 16 " in out
    # What it waited for is in the checkpoint.
    assert train(toy(num_train_steps=40, steps_per_external_eval=2, patience=3)).step == 16
    assert "# nothing left to train: raise --patience above 3 to go on" in capsys.readouterr().out
    scores(monkeypatch, [2.0, 9.0])
    assert train(toy(num_train_steps=20, steps_per_external_eval=2, patience=5), quiet=True).scores["best_bleu"] == 9.0


def test_patience_may_be_for_perplexities_and_be_interrupted(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([16.0, 9.0, 8.0, 8.5, 8.0, 7.0])
    monkeypatch.setattr(EvalSet, "perplexity", lambda self, model: next(left) if self.name == "dev" else 1.0)
    wanted = {"steps_per_stats": 1, "patience": 2, "patience_metric": "ppl"}
    assert train(toy(num_train_steps=30, **wanted), quiet=True).step == 30
    result = train(toy(num_train_steps=90, **wanted), quiet=True)
    assert result.step == 40
    assert result.curves["dev_ppl"][-1] == (40, 8.0)


# Bad input -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["src", "tgt", "train_prefix", "vocab_prefix", "out_dir"])
def test_what_is_needed_is_named(toy: Toy, name: str) -> None:
    with pytest.raises(HParamError, match=f"training needs --{name}"):
        train(toy(**{name: None}), quiet=True)


@pytest.mark.parametrize(("src", "tgt"), [("", ""), ("w1\n\n", "\nW1\n"), (" \n", "W1\n")])
def test_no_pair_to_train_on_is_an_error(toy: Toy, tmp_path: Path, src: str, tgt: str) -> None:
    (tmp_path / "train.de").write_text(src)
    (tmp_path / "train.en").write_text(tgt)
    with pytest.raises(hr.DataError, match=r"--train_prefix=.* has no sentence pair with words on both sides"):
        train(toy(), quiet=True)


def test_no_pair_to_evaluate_with_is_an_error(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "dev.de").write_text("")
    (tmp_path / "dev.en").write_text("")
    with pytest.raises(hr.DataError, match=r"--dev_prefix=.* has no sentence pair with words on both sides"):
        train(toy(), quiet=True)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_loss_that_is_no_number_stops_the_run(toy: Toy, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    true_loss, calls = fast.loss, []

    def loss(*args: Any) -> torch.Tensor:
        calls.append(1)
        return true_loss(*args) * (float("nan") if len(calls) >= steps else 1.0)

    monkeypatch.setattr(fast, "loss", loss)
    with pytest.raises(DivergedError, match=rf"step {steps} overflow \(loss nan.*\), stop early: lower --learn"):
        train(toy(dev_prefix=None, test_prefix=None), quiet=True)
    assert list(Path(str(toy().out_dir)).glob("translate*")) == []


def test_a_full_disk_stops_the_run_and_leaves_the_last_checkpoint(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    train(toy(num_train_steps=2), quiet=True)
    folder = Path(str(toy().out_dir))

    def full(self: Path, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(CheckpointError, match="No space left on device; older checkpoints are as they were"):
            train(toy(num_train_steps=4, dev_prefix=None), quiet=True)
    saved = checkpoint.latest(folder, pytest.fail)
    assert saved is not None
    assert saved.step == 2
    assert train(toy(num_train_steps=4), quiet=True).step == 4


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)], ids=["SIGINT", "SIGTERM"]
)
def test_a_run_that_is_asked_to_stop_is_the_run_in_one(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, error: type[KeyboardInterrupt]
) -> None:
    whole = train(toy(out_dir=str(tmp_path / "whole"), num_train_steps=13), quiet=True)
    true_loss, calls = fast.loss, []

    def loss(*args: Any) -> torch.Tensor:
        calls.append(1)
        if len(calls) in (8, 13):
            signal.raise_signal(number)  # in the middle of a step
        return true_loss(*args)

    hparams = toy(num_train_steps=13, dev_prefix=None, test_prefix=None)
    with monkeypatch.context() as patch:
        patch.setattr(fast, "loss", loss)
        for step in (8, 13):
            with pytest.raises(KeyboardInterrupt, match=rf"^stopped; .* from the checkpoint of step {step}$") as stop:
                train(hparams.replace(num_train_steps=14), quiet=True)
            assert stop.type is error
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    parts = train(hparams, quiet=True)
    assert all(torch.equal(weight, weights(parts)[name]) for name, weight in weights(whole).items())
    assert parts.curves["train_ppl"] == whole.curves["train_ppl"]


def test_one_training_in_a_folder(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with locked(tmp_path / "out"), pytest.raises(BlockingIOError, match="another training is at work"):
        train(toy(), quiet=True)
    assert list((tmp_path / "out").iterdir()) == []
    assert train(toy(), quiet=True).step == 6


def test_nothing_to_do_is_not_judged(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    train(toy())
    assert "waited" in capsys.readouterr().out  # whichever the verdict on the data is
    train(toy())
    assert "waited" not in capsys.readouterr().out


def test_what_makes_the_decoder_start_from_zeros(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    train(toy(num_encoder_layers=2, num_decoder_layers=1, num_train_steps=1))
    assert "# encoder and decoder are not equally deep: the decoder starts from zeros" in capsys.readouterr().out


@pytest.mark.parametrize("part", ["optimizer", "progress"])
def test_a_checkpoint_with_a_damaged_part(toy: Toy, tmp_path: Path, part: str) -> None:
    train(toy(), quiet=True)
    path = tmp_path / "out/translate.ckpt-6"
    document = torch.load(path)
    document[part] = {"moments": 3}
    torch.save(document, path)
    with pytest.raises(CheckpointError, match=r"ckpt-6 cannot go on: .* damaged \(.*delete it, and training goes on"):
        train(toy(num_train_steps=8), quiet=True)


def test_more_sampled_words_than_there_are(toy: Toy) -> None:
    with pytest.raises(HParamError, match="num_sampled_softmax"):
        train(toy(num_sampled_softmax=100), quiet=True)
