"""Beside the original: every flag that it ever had is taken, and each fault that docs/nmt.md lists has a test."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import sys
from pathlib import Path

import pytest
import torch

import headrace
from headrace.nmt.__main__ import main
from headrace.nmt.cli.flags import _ALIASES, _WITHOUT_EFFECT, _shown, parse_flags
from headrace.nmt.hparams import FIELDS, HParamError, HParams
from headrace.nmt.infer import Translator
from headrace.nmt.text.special import EOS
from headrace.nmt.train import train
from headrace.nmt.training.optim import learning_rate
from tests.nmt.conftest import MakeModel, Toy
from tests.nmt.test_main import flags

PAGE = Path(headrace.__file__).parents[2] / "docs" / "nmt.md"

# The flags of tensorflow/nmt with their defaults: all 75 of its last commit, and those that earlier ones had.
ORIGINAL: dict[str, object] = {
    # network
    **{"num_units": 32, "num_layers": 2, "num_encoder_layers": None, "num_decoder_layers": None},
    **{"encoder_type": "uni", "residual": False, "time_major": True, "num_embeddings_partitions": 0},
    # attention
    **{"attention": "", "attention_architecture": "standard", "output_attention": True, "pass_hidden_state": True},
    # optimiser
    **{"optimizer": "sgd", "learning_rate": 1.0, "warmup_steps": 0, "warmup_scheme": "t2t", "decay_scheme": ""},
    **{"num_train_steps": 12000, "colocate_gradients_with_ops": True},
    # first weights
    **{"init_op": "uniform", "init_weight": 0.1},
    # data
    **{"src": None, "tgt": None, "train_prefix": None, "dev_prefix": None, "test_prefix": None, "out_dir": None},
    **{"vocab_prefix": None, "embed_prefix": None, "sos": "<s>", "eos": "</s>", "share_vocab": False},
    **{"check_special_token": True, "src_max_len": 50, "tgt_max_len": 50},
    **{"src_max_len_infer": None, "tgt_max_len_infer": None},
    # seldom changed
    **{"unit_type": "lstm", "forget_bias": 1.0, "dropout": 0.2, "max_gradient_norm": 5.0, "batch_size": 128},
    **{"steps_per_stats": 100, "max_train": 0, "num_buckets": 5, "num_sampled_softmax": 0, "subword_option": ""},
    "use_char_encode": False,
    # the run
    **{"num_gpus": 1, "log_device_placement": False, "metrics": "bleu", "steps_per_external_eval": None},
    **{"scope": None, "hparams_path": None, "random_seed": None, "override_loaded_hparams": False},
    **{"num_keep_ckpts": 5, "avg_ckpts": False, "language_model": False},
    # translation
    **{"ckpt": "", "inference_input_file": None, "inference_list": None, "infer_batch_size": 32},
    **{"inference_output_file": None, "inference_ref_file": None, "infer_mode": "greedy", "beam_width": 0},
    **{"length_penalty_weight": 0.0, "coverage_penalty_weight": 0.0, "sampling_temperature": 0.0},
    "num_translations_per_input": 1,
    # programs beside each other
    **{"jobid": 0, "num_workers": 1, "num_inter_threads": 0, "num_intra_threads": 0},
}
OLDER: dict[str, object] = {
    **{"source_reverse": False, "start_decay_step": 0, "decay_steps": 10000, "decay_factor": 0.98},
    **{"bpe_delimiter": None, "learning_rate_warmup_steps": 0, "learning_rate_warmup_factor": 1.0},
    **{"learning_rate_decay_scheme": "", "model_dir": None},
}


# Flags ---------------------------------------------------------------------------------------------------------------


def test_the_list_is_whole() -> None:
    assert len(ORIGINAL) == 75
    assert set(_WITHOUT_EFFECT) < set(ORIGINAL)


@pytest.mark.parametrize("name", [*ORIGINAL, *OLDER])
def test_every_flag_is_taken_with_its_default(name: str, caplog: pytest.LogCaptureFixture) -> None:
    default = ({**ORIGINAL, **OLDER})[name]
    if name == "hparams_path":
        return  # tests/nmt/cli/test_standard.py
    with caplog.at_level(logging.WARNING, "headrace"):
        given = parse_flags([f"--{name}=" if default == "" else f"--{name}={_shown(default)}"])
    HParams().replace(**given)
    if name in _WITHOUT_EFFECT:
        assert given == {}
        assert caplog.messages == [f"--{name} has no effect: {_WITHOUT_EFFECT[name]}"]
    elif name != "bpe_delimiter":
        assert given == {_ALIASES.get(name, name): default or None if name == "ckpt" else default}


def test_defaults_are_those_of_the_original_but_for_two() -> None:
    ours = {name: FIELDS[name].default for name in ORIGINAL if name in FIELDS}
    differ = {name for name, default in ours.items() if default != ORIGINAL[name]}
    assert differ == {
        "infer_mode",
        "ckpt",
        "jobid",
    }  # none: as beam_width says; none and "" are the same; none: all of them


def column(name: str) -> str:
    """Says what a flag is in the original."""
    older = {_ALIASES.get(alias, alias) for alias in OLDER}
    if name not in ORIGINAL:
        return "older" if name in older else "new"
    default = ORIGINAL[name]
    return "the same" if FIELDS[name].default == default or name == "ckpt" else f"`{_shown(default)}`"


def table() -> str:
    """Returns the table of flags as it should be."""
    rows = ["| flag | default | in the original | meaning |", "| --- | --- | --- | --- |"]
    for name, flag in FIELDS.items():
        choices = [f"`{choice}`" for choice in flag.metadata["choices"] if choice]
        meaning = flag.metadata["help"] + (f" ({', '.join(choices)})" if choices else "")
        rows.append(f"| `--{name}` | `{_shown(flag.default)}` | {column(name)} | {meaning} |")
    return "\n".join(rows)


def table_of_others() -> str:
    """Returns the table of flags that are taken beside these."""
    rows = ["| flag of the original | here |", "| --- | --- |"]
    rows += [f"| `--{alias}` | older name of `--{name}` |" for alias, name in sorted(_ALIASES.items())]
    rows += ["| `--bpe_delimiter=@@` | older form of `--subword_option=bpe` |"]
    rows += ["| `--learning_rate_decay_scheme=luong` | older name of `--decay_scheme=luong5` |"]
    rows += ["| `--hparams_path` | a JSON file of settings, or the name of a prepared configuration |"]
    rows += [f"| `--{name}` | no effect: {why} |" for name, why in sorted(_WITHOUT_EFFECT.items())]
    return "\n".join(rows)


@pytest.mark.parametrize("made", [table, table_of_others])
def test_the_tables_of_flags_are_up_to_date(made: object) -> None:
    text = made()  # type: ignore[operator]
    assert text in PAGE.read_text(), f"docs/nmt.md should have this table:\n{text}"


@pytest.mark.parametrize("name", [*ORIGINAL, *OLDER])
def test_a_letter_too_many_is_refused_with_the_right_name(name: str) -> None:
    with pytest.raises(HParamError, match=f"unknown flag --{name}s; did you mean --{name}[?]"):
        parse_flags([f"--{name}s=1"])


def test_the_older_warmup() -> None:
    hparams = HParams(warmup_steps=4, warmup_factor=0.5)
    assert [learning_rate(hparams, step) for step in range(6)] == [0.0625, 0.125, 0.25, 0.5, 1.0, 1.0]
    with pytest.raises(HParamError, match=r"warmup_factor must be above 0 and at most 1, got 2\.0"):
        HParams(warmup_factor=2.0)
    assert parse_flags(["--learning_rate_decay_scheme=luong"]) == {"decay_scheme": "luong5"}


def test_a_file_of_settings_that_the_original_wrote(tmp_path: Path) -> None:
    derived = {"src_vocab_size": 9, "tgt_vocab_file": "x", "best_bleu": 3.5, "best_bleu_dir": "y", "epoch_step": 7}
    derived |= {"num_encoder_residual_layers": 1, "num_enc_emb_partitions": 1, "avg_best_bleu": 0, "src_embed_file": ""}
    written = {"num_units": 8, "metrics": ["bleu", "rouge"], "time_major": True, "bpe_delimiter": None, "max_train": 0}
    (tmp_path / "hparams").write_text(json.dumps(written | derived))
    given = parse_flags([f"--hparams_path={tmp_path / 'hparams'}"])
    assert given == {"num_units": 8, "metrics": "bleu,rouge"}
    assert HParams().replace(**given).metric_names == ("bleu", "rouge")


# Faults --------------------------------------------------------------------------------------------------------------

# For each line of the table in docs/nmt.md, by its beginning, the tests that show it.
SHOWN = {
    "a flag that it does not know": ["test_flags.py::test_refuses"],
    "a file of settings beats": [
        "test_main.py::test_a_flag_beats_a_file_beats_what_was_saved",
        "test_train.py::test_nothing_left_to_train_is_said",
    ],
    "`--beam_width` does nothing": ["test_hparams.py::test_beam_width_alone_turns_beam_search_on"],
    "`--max_train`, `--scope`": ["test_standard.py::test_flags_without_effect_are_told"],
    "the text's `--model_dir`": ["test_flags.py::test_model_dir_is_out_dir"],
    "the figures it publishes": ["test_standard.py::test_every_configuration_is_valid"],
    "the number of threads": ["test_original.py::test_threads_are_as_asked"],
    "a run that goes on": [
        "test_train.py::test_a_run_in_two_parts_is_the_run_in_one",
        "test_resume.py::test_a_run_of_many_lives_is_the_run_of_one",
    ],
    "files of a pattern": [
        "test_data.py::test_globs_must_match_file_by_file",
        "test_data.py::test_sides_of_unequal_length_are_refused_with_both_counts",
    ],
    "shuffles within": ["test_data.py::test_training_shuffles_and_holds_every_pair_once"],
    "special words that a vocabulary": ["test_data.py::test_special_words_come_first_in_a_copy"],
    "a word that comes twice": ["test_data.py::test_a_malformed_vocabulary_is_refused"],
    "a vocabulary of other files": [
        "test_evaluate.py::test_unknown_words_are_counted_and_said",
        "test_vocab.py::test_special_words_then_frequent_ones",
    ],
    "words are cut into subwords": ["test_subwords.py::test_train_from_plain_text"],
    "pretrained vectors": [
        "test_pretrained.py::test_training_with_them",
        "test_pretrained.py::test_files_of_another_language",
    ],
    "`--use_char_encode`": ["test_chars.py::test_training_and_translating"],
    "three graphs": ["test_original.py::test_scores_at_the_end_of_an_epoch_are_of_the_present_weights"],
    "with a seed": ["test_original.py::test_matrices_of_one_shape_begin_differently"],
    "a seed that was not given": ["test_train.py::test_without_a_seed_one_is_drawn_and_kept"],
    "scores after every epoch": ["test_original.py::test_short_epochs_are_not_scored"],
    "sampled softmax": ["test_sampled.py::test_only_training_is_sampled"],
    "layers are put": ["test_distributed.py::test_two_ranks_train_as_one_process"],
    "nothing says": ["test_original.py::test_the_log_ends_with_what_the_model_waited_for"],
    "checkpoints hold": [
        "test_checkpoint.py::test_what_is_saved_is_what_is_loaded",
        "test_weights.py::test_there_and_back",
    ],
    "a translation may be twice": ["test_original.py::test_the_rule_of_the_longest_translation"],
    "several samples": ["test_helpers.py::test_samples_of_sentences"],
    "samples depend": ["test_helpers.py::test_a_row_has_its_own_random_numbers"],
    "beam search shows": [
        "test_infer.py::test_alignments_in_a_file",
        "test_infer.py::test_some_lines_with_pictures_of_their_attention",
        "test_infer.py::test_unknown_words_come_from_the_source",
    ],
    "there is no way to serve": [
        "test_server.py::test_a_translation",
        "test_export.py::test_translations_are_the_same",
    ],
    "letters beyond ASCII": ["test_original.py::test_any_letters_in_any_locale"],
    "an empty file": ["test_metrics.py::test_nothing_is_no_reason_to_fail"],
}


def test_every_fault_is_shown_by_a_test() -> None:
    section = PAGE.read_text().split("## What the original got wrong\n")[1].split("\n## ")[0]
    rows = [
        row for row in re.findall(r"^\| (.*?) \|", section, re.MULTILINE) if not row.startswith(("the original", "-"))
    ]
    assert len(rows) == len(SHOWN)
    for row, (beginning, names) in zip(rows, SHOWN.items(), strict=True):
        assert row.startswith(beginning)
        for file, name in (name.split("::") for name in names):
            (path,) = Path(__file__).parent.rglob(file)
            tree = ast.parse(path.read_text())
            assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_threads_are_as_asked(toy: Toy) -> None:
    before = torch.get_num_threads()
    try:
        train(toy(num_intra_threads=before + 1, num_train_steps=1, dev_prefix=None, test_prefix=None), quiet=True)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_scores_at_the_end_of_an_epoch_are_of_the_present_weights(toy: Toy, tmp_path: Path) -> None:
    settings = {"steps_per_stats": 1, "learning_rate": 0.05, "batch_size": 12}
    run = train(toy(num_train_steps=25, **settings), quiet=True)
    at, score = run.curves["dev_bleu"][0]  # of the epoch's end, which is no step at which something is saved
    assert 10 < at < 20
    again = train(toy(num_train_steps=at, out_dir=str(tmp_path / "again"), **settings), quiet=True)
    assert again.scores["dev_bleu"] == score
    assert again.scores["dev_ppl"] == dict(run.curves["dev_ppl"])[at]


def test_short_epochs_are_not_scored(toy: Toy) -> None:
    run = train(toy(num_train_steps=25, steps_per_stats=5), quiet=True)  # epochs have fewer than 50 steps
    assert [step for step, _ in run.curves["dev_bleu"]] == [25]


def test_matrices_of_one_shape_begin_differently(make_model: MakeModel) -> None:
    model = make_model(seed=3, encoder_type="bi", share_vocab=False)
    weights = model.state_dict()
    kernels = [weights[f"encoder.stacks.{direction}.cells.0.kernel_IG"] for direction in (0, 1)]
    assert kernels[0].shape == kernels[1].shape
    assert not torch.equal(kernels[0], kernels[1])


def test_the_log_ends_with_what_the_model_waited_for(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    result = train(toy())
    assert capsys.readouterr().out.splitlines()[-1] == f"# {result.data.verdict()}"


def test_the_rule_of_the_longest_translation(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(toy(num_train_steps=1, dev_prefix=None, test_prefix=None), quiet=True)
    logits = run.translator.model.logits
    unending = torch.zeros(len(run.translator.vocabs.tgt)).index_fill(0, torch.tensor([EOS]), -1e9)
    monkeypatch.setattr(run.translator.model, "logits", lambda output_RU: logits(output_RU) + unending)

    def lengths(**settings: object) -> list[int]:
        hparams = run.translator.hparams.replace(infer_batch_size=2, **settings)
        found = Translator(run.translator.model, run.translator.vocabs, hparams)
        return [len(each.words) for each in found.translate(["w1", "w1 w2 w3 w4", "w1 w2", "w3"])]

    assert lengths() == [2, 8, 4, 2]
    assert lengths(whole_batch_limit=True) == [8, 8, 4, 4]  # pairs of neighbours
    assert lengths(whole_batch_limit=True, tgt_max_len_infer=3) == [3, 3, 3, 3]


def test_any_letters_in_any_locale(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hparams = toy(num_train_steps=60, steps_per_stats=5, learning_rate=0.03)
    for name in ("train", "dev", "test", "vocab"):
        path = tmp_path / f"{name}.en"
        path.write_text(path.read_text(encoding="utf-8").replace("W", "Ế"), encoding="utf-8")
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="ascii"))
    assert main(flags(hparams)) == 0
    sys.stdout.flush()
    assert rb"ref: \u1ebe" in out.getvalue()  # on a terminal that knows no more than ASCII
    (log,) = (tmp_path / "out").glob("log_*")
    assert "ref: Ế" in log.read_text(encoding="utf-8")
    assert "Ế" in (tmp_path / "out" / "output_dev").read_text(encoding="utf-8")
