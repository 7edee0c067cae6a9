"""The command line: what it does, and that errors are one line and exit code 2."""

import json
import signal
from pathlib import Path

import pytest

from headrace.nmt.__main__ import main
from headrace.nmt.hparams import FIELDS, HParams
from headrace.nmt.model import Batch
from headrace.nmt.train import Run
from tests.nmt.conftest import Toy


def flags(hparams: HParams, *names: str) -> list[str]:
    """Writes settings as flags: those named, or all that differ from the defaults."""
    default = HParams()
    chosen = names or [name for name in FIELDS if getattr(hparams, name) != getattr(default, name)]
    return [f"--{name}={getattr(hparams, name)}" for name in chosen]


def test_train_translate_and_go_on(toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hparams = toy()
    assert main(flags(hparams)) == 0
    assert "  step 6 lr 0.01" in capsys.readouterr().out
    output = tmp_path / "translations"
    translating = [f"--model_dir={hparams.out_dir}", f"--inference_input_file={hparams.test_prefix}.de"]
    translating += [f"--inference_output_file={output}", f"--inference_ref_file={hparams.test_prefix}.en"]
    assert main(translating) == 0
    out = capsys.readouterr().out
    assert f"# 9 sentences translated to {output}\n  bleu: " in out
    assert "|tok:13a|" in out
    assert len(output.read_text().split("\n")) == 10
    assert main([*translating, f"--ckpt={hparams.out_dir}/translate.ckpt-6", "--beam_width=2"]) == 0
    # The settings of out_dir are taken up: more steps is all that needs to be said.
    capsys.readouterr()
    assert main([f"--out_dir={hparams.out_dir}", "--num_train_steps=8"]) == 0
    out = capsys.readouterr().out
    assert "translate.ckpt-6, step 6" in out
    assert "  step 8 lr 0.01" in out


def test_a_run_without_its_file_of_settings_goes_on(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    hparams = toy(num_train_steps=2)
    assert main(flags(hparams)) == 0
    file = Path(str(hparams.out_dir), "hparams")
    file.write_text(file.read_text()[:-20])
    assert main([f"--out_dir={hparams.out_dir}", "--num_train_steps=3"]) == 2
    assert f"cannot read settings from {file}" in capsys.readouterr().err
    file.unlink()
    assert main([f"--out_dir={hparams.out_dir}", "--num_train_steps=3"]) == 0
    assert HParams.load(file) == hparams.replace(num_train_steps=3)


def test_a_flag_beats_a_file_beats_what_was_saved(toy: Toy, tmp_path: Path) -> None:
    hparams = toy(num_train_steps=2)
    assert main(flags(hparams)) == 0
    (tmp_path / "more.json").write_text(json.dumps({"num_train_steps": 3, "learning_rate": 0.5}))
    assert main([f"--out_dir={hparams.out_dir}", f"--hparams_path={tmp_path}/more.json", "--learning_rate=0.25"]) == 0
    saved = HParams.load(tmp_path / "out" / "hparams")
    assert (saved.num_train_steps, saved.learning_rate, saved.num_units) == (3, 0.25, 16)


def test_translating_a_flag_beats_a_file_beats_the_checkpoint(toy: Toy, tmp_path: Path) -> None:
    hparams = toy(num_train_steps=1, dev_prefix=None, test_prefix=None)
    assert main([*flags(hparams), "--beam_width=2"]) == 0
    (tmp_path / "wide.json").write_text(json.dumps({"beam_width": 3}))
    files = [f"--inference_input_file={tmp_path / 'test.de'}", f"--inference_output_file={tmp_path / 'out.txt'}"]
    for extra, width in (([], 2), (["wide.json"], 3), (["wide.json", "--beam_width=4"], 4)):
        given = [f"--hparams_path={tmp_path / name}" if name.endswith("json") else name for name in extra]
        assert main([f"--out_dir={hparams.out_dir}", *files, *given, f"--nbest_file={tmp_path / 'nbest'}"]) == 0
        assert (tmp_path / "nbest").read_text().count("\n") == 9 * width


def test_settings_of_a_run_serve_another(toy: Toy, tmp_path: Path) -> None:
    hparams = toy(num_train_steps=1)
    assert main(flags(hparams)) == 0
    assert main([f"--hparams_path={hparams.out_dir}/hparams", f"--out_dir={tmp_path / 'other'}", "--num_units=8"]) == 0
    assert HParams.load(tmp_path / "other" / "hparams") == hparams.replace(out_dir=str(tmp_path / "other"), num_units=8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num_unit=3"], "unknown flag --num_unit; did you mean --num_units?"),
        (["--batch_size=0"], "batch_size must be at least 1, got 0"),
        (["--src=de"], "training needs --tgt"),
        (["--inference_input_file=x"], "translating needs --out_dir (its latest checkpoint) or --ckpt"),
        (["--inference_input_file=x", "--out_dir=y"], "translating needs --inference_output_file"),
        (
            ["--inference_input_file=x", "--inference_output_file=z", "--ckpt=no.such"],
            "cannot read the checkpoint no.such: No such file or directory",
        ),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"headrace.nmt: {message}")
    assert captured.err.count("\n") == 1


def test_a_missing_file_is_one_line_too(toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(flags(toy(train_prefix=str(tmp_path / "absent")))) == 2
    err = capsys.readouterr().err
    assert "expected this file (or the same with .gz), found none: check --train_prefix" in err
    assert "absent.de" in err


@pytest.mark.parametrize(
    ("signals", "code", "message"),
    [
        ([signal.SIGINT], 130, "headrace.nmt: stopped; the same command goes on from the checkpoint of step 3\n"),
        ([signal.SIGTERM], 143, "headrace.nmt: stopped; the same command goes on from the checkpoint of step 3\n"),
        (
            [signal.SIGTERM, signal.SIGINT],
            130,
            "headrace.nmt: stopped before there was a checkpoint; the same command begins anew\n",
        ),
    ],
)
def test_who_stops_it_is_told_how_to_go_on(
    toy: Toy,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    signals: list[signal.Signals],
    code: int,
    message: str,
) -> None:
    update = Run.update

    def interrupted(run: Run, batch: Batch) -> bool:
        if run.progress.step == 2:
            for number in signals:
                signal.raise_signal(number)
        return update(run, batch)

    monkeypatch.setattr(Run, "update", interrupted)
    assert main(flags(toy())) == code
    assert capsys.readouterr().err == message
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.undo()
    assert main(flags(toy())) == 0
    assert ("ckpt-3, step 3" in capsys.readouterr().out) == (len(signals) == 1)


def test_references_are_counted_before_translating(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hparams = toy(num_train_steps=1)
    assert main(flags(hparams)) == 0
    monkeypatch.setattr("headrace.nmt.infer.translate_file", pytest.fail)
    translating = [f"--out_dir={hparams.out_dir}", f"--inference_input_file={hparams.test_prefix}.de"]
    translating += [f"--inference_output_file={tmp_path}/t", f"--inference_ref_file={hparams.dev_prefix}.en"]
    assert main(translating) == 2
    message = f"expected a reference for each sentence, got 12 references for the 9 lines of {hparams.test_prefix}.de: "
    assert message in capsys.readouterr().err


def test_unequal_files_are_one_line_without_a_word_of_python(
    toy: Toy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dev.en").write_text("W1\n")
    assert main(flags(toy())) == 2
    err = capsys.readouterr().err
    assert "dev.de has 12 lines and" in err
    assert "shortest" not in err


def test_help_lists_all_flags(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert all(f"--{name}" in out for name in FIELDS)
