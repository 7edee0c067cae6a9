"""Prepared configurations, older flags, and flags without effect."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.nmt.cli.flags import parse_flags
from headrace.nmt.cli.standard import STANDARD
from headrace.nmt.hparams import HParamError, HParams
from headrace.nmt.infer import Translator
from headrace.nmt.train import train
from headrace.nmt.training.optim import learning_rate
from tests.nmt.conftest import Toy


@pytest.mark.parametrize("name", STANDARD)
def test_every_configuration_is_valid(name: str) -> None:
    by_name = parse_flags([f"--hparams_path={name}"])
    assert by_name == parse_flags([f"--hparams_path=nmt/standard_hparams/{name}.json"]) == STANDARD[name]
    hparams = HParams().replace(**by_name)
    assert hparams.search == "beam_search"
    assert hparams.batch_size == 128


def test_what_the_tutorial_says_of_them() -> None:
    small = HParams().replace(**STANDARD["iwslt15"])
    assert (small.attention, small.encoder_type, small.num_units, small.num_layers) == ("scaled_luong", "bi", 512, 2)
    assert (small.decay_scheme, small.num_train_steps, small.length_penalty_weight) == ("luong234", 12000, 0.0)
    large = HParams().replace(**STANDARD["wmt16_gnmt_8_layer"])
    assert (large.attention_architecture, large.encoder_type, large.num_layers) == ("gnmt_v2", "gnmt", 8)
    assert (large.encoder_residuals, large.decoder_residuals, large.length_penalty_weight) == (6, 6, 1.0)


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("iwslt15").write_text('{"num_units": 7, "learning_rate_decay_scheme": "luong5"}')
    assert parse_flags(["--hparams_path=iwslt15"]) == {"num_units": 7, "decay_scheme": "luong5"}
    with pytest.raises(HParamError, match="cannot read settings from elsewhere/iwslt15"):
        parse_flags(["--hparams_path=elsewhere/iwslt15"])


def test_flags_without_effect_are_told(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    (tmp_path / "h.json").write_text('{"num_units": 8, "time_major": true}')
    with caplog.at_level(logging.WARNING, "headrace"):
        given = parse_flags([f"--hparams_path={tmp_path / 'h.json'}", "--num_gpus=1", "--colocate_gradients_with_ops"])
    assert given == {"num_units": 8, "num_gpus": 1}
    assert sorted(caplog.messages) == [
        "--colocate_gradients_with_ops has no effect: gradients are computed where their operations are",
        "--time_major has no effect: tensors have time first",
    ]


def test_older_names() -> None:
    assert parse_flags(["--learning_rate_warmup_steps=3", "--learning_rate_decay_scheme=luong10"]) == {
        "warmup_steps": 3,
        "decay_scheme": "luong10",
    }
    assert parse_flags(["--bpe_delimiter=@@"]) == {"subword_option": "bpe"}
    assert parse_flags(["--bpe_delimiter=none"]) == {}
    with pytest.raises(HParamError, match=r"bpe_delimiter may be @@, .* got '##'"):
        parse_flags(["--bpe_delimiter=##"])


@pytest.mark.parametrize(
    ("settings", "steps", "expected"),
    [
        ({"start_decay_step": 8, "decay_steps": 4, "decay_factor": 0.5}, (7, 8, 11, 12, 16), (1, 1, 1, 0.5, 0.25)),
        ({"decay_factor": 0.5}, (9_999, 10_000), (1, 0.5)),
        ({"start_decay_step": 100}, (10_099, 10_100), (1, 0.98)),
        ({}, (0, 99_999), (1, 1)),
    ],
)
def test_explicit_decay(settings: dict[str, float], steps: tuple[int, ...], expected: tuple[float, ...]) -> None:
    hparams = HParams().replace(num_train_steps=100_000, **settings)
    assert tuple(learning_rate(hparams, step) for step in steps) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decay_scheme": "luong5", "decay_steps": 4}, "give either decay_scheme=luong5 or decay_steps, not both"),
        ({"decay_factor": 1.5}, "decay_factor must be above 0 and at most 1, got 1.5"),
        ({"decay_steps": 0}, "decay_steps must be at least 1, got 0"),
        ({"inference_list": "1,x"}, "inference_list must be a comma list of line numbers, got '1,x'"),
    ],
)
def test_refuses(settings: dict[str, object], message: str) -> None:
    with pytest.raises(HParamError, match=message):
        HParams().replace(**settings)


@pytest.mark.parametrize("name", STANDARD)
def test_every_configuration_trains_and_translates(toy: Toy, name: str) -> None:
    small = {"num_units": 8, "num_train_steps": 2, "batch_size": 16, "infer_batch_size": 4, "subword_option": ""}
    small |= {"warmup_steps": min(STANDARD[name].get("warmup_steps", 0), 2)}
    if "subword_size" in STANDARD[name]:
        small |= {"subword_size": 40, "subword_option": "bpe", "vocab_prefix": None}
    result = train(toy(**{**STANDARD[name], **small}), quiet=True)
    assert result.step == 2
    loaded = Translator.load(Path(str(result.translator.hparams.out_dir)))
    assert loaded.hparams.beam_width == STANDARD[name]["beam_width"]
    assert len(loaded.nbest(["w1 w2", "w3"], 3)[0]) == 3
