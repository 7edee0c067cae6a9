"""Programs by name, from both commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.nmt import __main__ as nmt
from headrace.nmt.cli.programs import PROGRAMS, run_program


def test_programs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program([]) == 2
    assert run_program(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program_explains_itself(name: str) -> None:
    command = [sys.executable, "-m", "headrace.nmt", name, "--help"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    flags = {"train": "", "translate": ""}.get(name, f" {name}")
    assert out.startswith(f"usage: python -m headrace.nmt{flags} ")


def test_a_program_is_called_as_it_was_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/headrace", "nmt", "clean", "--help"])
    with pytest.raises(SystemExit):
        nmt.main(["clean", "--help"])
    assert capsys.readouterr().out.startswith("usage: headrace nmt clean ")


def test_a_program_gets_its_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix in ("de", "en"):
        (tmp_path / f"train.{suffix}").write_text("a b\n")
    arguments = ["vocab", "--src=de", "--tgt=en", f"--train_prefix={tmp_path}/train", f"--vocab_prefix={tmp_path}/v"]
    assert nmt.main(arguments) == 0
    assert (tmp_path / "v.de").read_text().split() == ["<unk>", "<s>", "</s>", "a", "b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sreve", "model"], "unknown program 'sreve'; did you mean serve?"),
        (["train", "extra"], "expected flags such as --src=de, got 'extra'"),
        (["export", "--kindd=onnx"], "unknown flag --kindd; did you mean --kind?"),
        (
            ["download", "multi30k", "folder", "--mirror=nix"],
            "mirror must be a URL, such as https://example.org/folder, got nix",
        ),
        (["quux"], "unknown program 'quux'; there are train, translate, serve"),
        (["translate", "--out_dir=x"], "translating needs --inference_input_file"),
        (["translate", "--inference_input_file=x"], "translating needs --out_dir"),
        (["train", "--src=de"], "training needs --tgt"),
        (["--src=de"], "training needs --tgt"),
    ],
)
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(arguments) == 2
    assert nmt.main(arguments) == 2
    assert capsys.readouterr().err.count(message) == 2


def test_the_headrace_command_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("typer")
    from headrace.cli import main

    assert main(["nmt"]) == 2
    assert "  serve " in capsys.readouterr().out
    assert main(["nmt", "serve", "--help"]) == 0
    assert "--max_beam_width" in capsys.readouterr().out
    assert main(["nmt", "serve", "nowhere"]) == 2
    assert main(["nmt", "--num_unit=3"]) == 2
    err = capsys.readouterr().err
    assert "cannot read the checkpoint nowhere" in err
    assert "did you mean --num_units?" in err
    assert main(["--help"]) == 0
    assert "nmt" in capsys.readouterr().out
