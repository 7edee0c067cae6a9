"""The command line."""

from pathlib import Path

import pytest

from headrace.nmt.cli.flags import parse_flags
from headrace.nmt.hparams import FIELDS, HParamError, HParams


def test_the_tutorials_command_line() -> None:
    command = (
        "--attention=scaled_luong --src=vi --tgt=en --vocab_prefix=/tmp/nmt_data/vocab "
        "--train_prefix=/tmp/nmt_data/train --dev_prefix=/tmp/nmt_data/tst2012 "
        "--test_prefix=/tmp/nmt_data/tst2013 --out_dir=/tmp/nmt_attention_model "
        "--num_train_steps=12000 --steps_per_stats=100 --num_layers=2 --num_units=128 --dropout=0.2 --metrics=bleu"
    )
    hparams = HParams().replace(**parse_flags(command.split()))
    assert (hparams.attention, hparams.src, hparams.num_units) == ("scaled_luong", "vi", 128)


def test_a_file_of_settings_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"num_units": "many"}')
    with pytest.raises(HParamError, match=r"mine\.json: num_units must be of type int, got 'many'"):
        parse_flags([f"--hparams_path={path}"])
    with pytest.raises(HParamError, match="no such file, and the prepared settings are called iwslt15, "):
        parse_flags(["--hparams_path=iwslt51"])


def test_model_dir_is_out_dir() -> None:
    assert parse_flags(["--model_dir=/m"]) == {"out_dir": "/m"}


def test_booleans() -> None:
    assert parse_flags(["--residual", "--src=de"]) == {"residual": True, "src": "de"}
    assert parse_flags(["--residual=false", "--share_vocab", "True"]) == {"residual": False, "share_vocab": True}
    with pytest.raises(HParamError, match="residual: expected true or false, got 'yes'"):
        parse_flags(["--residual=yes"])


def test_values_in_two_forms() -> None:
    assert parse_flags(["--num_units", "8", "--dropout=0.5", "--src_max_len=none"]) == {
        "num_units": 8,
        "dropout": 0.5,
        "src_max_len": None,
    }


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--num_unit=3", "unknown flag --num_unit; did you mean --num_units"),
        ("--nums_gpu=3", "unknown flag --nums_gpu; did you mean --num_gpus"),
        ("--xyz=3", "unknown flag --xyz; --help lists all flags"),
        ("--num", "unknown flag --num; "),  # no abbreviations
        ("train.de", "expected flags such as --src=de, got 'train.de'"),
        ("--num_units=x", "num_units: expected a whole number, got 'x'"),
        ("--dropout=x", "dropout: expected a number, got 'x'"),
        ("--src", "src: expected one argument"),
    ],
)
def test_refuses(argument: str, message: str) -> None:
    with pytest.raises(HParamError, match=message):
        parse_flags([argument])


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_flags(["--help"])
    text = capsys.readouterr().out
    assert all(f"--{name}" in text for name in FIELDS)


def test_flags_beat_the_file(tmp_path: Path) -> None:
    (tmp_path / "h.json").write_text('{"num_units": 8, "num_layers": 4}')
    given = parse_flags([f"--hparams_path={tmp_path / 'h.json'}", "--num_layers=2"])
    assert given == {"num_units": 8, "num_layers": 2}


def test_a_stranger_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "h.json").write_text('{"num_unit": 8}')
    with pytest.raises(HParamError, match=r"h\.json: unknown flag --num_unit; did you mean --num_units"):
        parse_flags([f"--hparams_path={tmp_path / 'h.json'}"])
