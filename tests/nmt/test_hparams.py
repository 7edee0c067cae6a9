"""Settings: defaults, derived values, and what is refused."""

from pathlib import Path

import pytest

from headrace.nmt.hparams import FIELDS, HParamError, HParams


def test_defaults_are_the_tutorials() -> None:
    hparams = HParams()
    assert (hparams.num_units, hparams.encoder_layers, hparams.decoder_layers) == (32, 2, 2)
    assert (hparams.optimizer, hparams.learning_rate, hparams.max_gradient_norm) == ("sgd", 1.0, 5.0)
    assert (hparams.dropout, hparams.forget_bias, hparams.init_weight) == (0.2, 1.0, 0.1)
    assert (hparams.batch_size, hparams.num_buckets, hparams.num_train_steps) == (128, 5, 12000)
    assert hparams.external_eval_steps == 5000
    assert hparams.search == "greedy"


def test_every_setting_is_explained() -> None:
    assert all(len(flag.metadata["help"]) > 10 for flag in FIELDS.values())


def test_beam_width_alone_turns_beam_search_on() -> None:
    assert HParams(beam_width=10).search == "beam_search"
    assert HParams(beam_width=10, infer_mode="greedy").search == "greedy"


def test_different_depths_do_not_pass_the_state() -> None:
    hparams = HParams(attention="luong", num_encoder_layers=4, num_decoder_layers=2)
    assert not hparams.passes_state
    assert HParams(attention="luong").passes_state


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encoder_type": "bi", "num_layers": 3}, "encoder_type=bi needs an even number of encoder layers.*got 3"),
        ({"infer_mode": "sample"}, "infer_mode=sample needs a sampling_temperature above 0"),
        ({"replace_unk": True}, "replace_unk goes by attention, which this model has not"),
        ({"patience": -1}, "patience must not be negative, got -1"),
        ({"patience_metric": "rouge"}, "patience_metric must be ppl or one of metrics=bleu, got 'rouge'"),
        (
            {"patience": 1, "metrics": ""},
            "patience waits for a metric: name one with metrics, or give patience_metric=ppl",
        ),
        ({"jobid": 2, "num_workers": 2}, "jobid must be below num_workers=2, got 2"),
        ({"use_char_encode": True, "share_vocab": True}, "use_char_encode has no vectors .* leave out share_vocab"),
        ({"sampling_top_p": 0.0}, "sampling_top_p must be above 0 and at most 1, got 0.0"),
        ({"sampling_top_k": -1}, "sampling_top_k must not be negative, got -1"),
        ({"unit_type": "rnn"}, "unit_type must be one of 'lstm', 'gru', .*, got 'rnn'"),
        ({"encoder_type": "gnmt", "num_layers": 1}, "encoder_type=gnmt needs at least 2 encoder layers, got 1"),
        (
            {"attention_architecture": "gnmt", "num_layers": 1, "attention": "luong"},
            "attention_architecture=gnmt needs at least 2 encoder layers, got 1",
        ),
        ({"attention_architecture": "gnmt_v2"}, "attention_architecture=gnmt_v2 .* needs attention, for example"),
        ({"language_model": True, "attention": "luong"}, "a language_model has no source.*leave out attention=luong"),
        ({"attention": "loung"}, "attention must be one of '', 'luong', 'scaled_luong', .*, got 'loung'"),
        ({"pass_hidden_state": False}, "without attention .* pass_hidden_state must be true"),
        ({"infer_mode": "beam_search"}, "infer_mode=beam_search needs a beam_width above 0"),
        ({"num_translations_per_input": 2}, "num_translations_per_input may be at most 1 with greedy"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"dropout": float("nan")}, "dropout must be a number of at most 1e\\+30, got nan"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
        ({"metrics": "bleu,blue"}, "metrics may name bleu, .*, got 'blue'"),
        ({"num_units": "128"}, "num_units must be of type int, got '128'"),
        ({"residual": 1}, "residual must be of type bool, got 1"),
        ({"warmup_steps": 9, "num_train_steps": 8}, "warmup_steps must not exceed num_train_steps=8, got 9"),
        ({"num_unit": 8}, "no setting is called num_unit"),
        ({"num_units": 2**31}, "num_units must be a number of at most 2,147,483,647, got 2147483648"),
        ({"learning_rate": 1e300}, "learning_rate must be a number of at most 1e\\+30, got 1e\\+300"),
        ({"accumulate": 10_001}, "accumulate keeps its batches .* at most 10,000, got 10,001"),
        ({"init_weight": float("inf")}, "init_weight must be a number of at most 1e\\+30, got inf"),
        ({"forget_bias": -float("inf")}, "forget_bias must be a number of at most 1e\\+30, got -inf"),
        ({"sos": "a b"}, "sos and eos must be two words, without blanks and not <unk>, got .'a b'"),
        ({"sos": "</s>"}, "sos and eos must be two words"),
        ({"eos": ""}, "sos and eos must be two words"),
    ],
)
def test_refuses(settings: dict[str, object], message: str) -> None:
    with pytest.raises(HParamError, match=message):
        HParams().replace(**settings)


def test_settings_too_deep_to_be_read(tmp_path: Path) -> None:
    (tmp_path / "deep").write_text("[" * 200_000)
    with pytest.raises(HParamError, match=r"cannot read settings from .*deep: "):
        HParams.load(tmp_path / "deep")


def test_saves_and_loads(tmp_path: Path) -> None:
    hparams = HParams(attention="luong", src="de", tgt_max_len=None, learning_rate=0.5)
    hparams.save(tmp_path / "hparams")
    assert HParams.load(tmp_path / "hparams") == hparams


def test_a_whole_number_will_do_for_a_float() -> None:
    assert repr(HParams().replace(learning_rate=1).learning_rate) == "1.0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot read settings from .*hparams"),
        ("[1]", "expected a JSON object of settings in .*hparams, got a list"),
        ('{"num_units": 0}', "hparams: num_units must be at least 1"),
        ('{"units": 3}', "hparams: no setting is called units"),
    ],
)
def test_refuses_a_bad_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "hparams").write_text(text)
    with pytest.raises(HParamError, match=message):
        HParams.load(tmp_path / "hparams")
