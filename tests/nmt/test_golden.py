"""The model against recordings of tensorflow/nmt, and against translations by one of its trained models."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace.nmt.hparams import HParams
from headrace.nmt.model import Seq2Seq
from headrace.nmt.saved.weights import import_variables
from headrace.nmt.translating.decode import beam_search, greedy_search, longest_translations
from tests.conformance import nmt_golden as golden
from tests.nmt.conftest import shared_data

BUILT = [
    *("bahdanau_uni", "enc3_dec2", "forget_bias_half_gl", "gnmt4_residual", "gnmt_enc_standard_att"),
    *("gnmt_v2_4_residual", "gnmt_v2_uni_enc", "gru_scaled_luong", "layer_norm_lstm_scaled_luong", "lm", "luong_uni"),
    *("nas_scaled_luong", "no_output_attention", "no_pass_hidden", "none_bi", "none_share_vocab", "none_uni"),
    *("none_uni_residual3", "normed_bahdanau_bi", "scaled_luong_bi", "scaled_luong_bi4_residual", "scaled_luong_uni"),
]


@pytest.mark.parametrize("implementation", ["reference", "fast"])
@pytest.mark.parametrize("name", BUILT)
def test_recording(name: str, implementation: str) -> None:
    with np.load(shared_data("nmt-golden") / f"{name}.npz", allow_pickle=False) as arrays:
        assert golden.check(dict(arrays), golden.losses()[implementation]) == []


def test_the_script_says_what_deviates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with np.load(shared_data("nmt-golden") / "none_uni.npz", allow_pickle=False) as arrays:
        recorded = dict(arrays)
    monkeypatch.setattr(sys, "argv", ["nmt_golden.py", str(tmp_path)])
    np.savez(tmp_path / "good.npz", **recorded)
    assert golden.main() == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"
    config = np.array('{"unknown_to_us": true, "src_vocab_size": 1, "tgt_vocab_size": 1}')
    np.savez(tmp_path / "new.npz", **{**recorded, "config": config})
    assert golden.main() == 2
    assert "new: unsupported: unknown_to_us=True" in capsys.readouterr().out
    np.savez(tmp_path / "bad.npz", **{**recorded, "train/loss": recorded["train/loss"] + 1e-3})
    assert golden.main() == 1
    output = capsys.readouterr().out
    assert "bad: reference: loss: off by" in output
    assert output.endswith("1 passed, 1 failed, 1 unsupported\n")


SENTENCES = 64  # of 1,014: enough to notice, few enough to be quick


def trained_model() -> tuple[Seq2Seq, list[list[int]], list[str]]:
    """Returns the trained model, the sources of its translations, and the target words."""
    folder, data = shared_data("nmt-trained-m30k"), shared_data("multi30k") / "tok"
    src_words, tgt_words = ((data / f"vocab.{s}").read_text(encoding="utf-8").split("\n")[:-1] for s in ("de", "en"))
    with gzip.open(data / "val.lc.norm.tok.de.gz", "rt", encoding="utf-8") as file:
        ids = {word: number for number, word in enumerate(src_words)}
        sources = [[ids.get(word, 0) for word in line.split()] for line in file]
    hparams = HParams(num_units=128, attention="scaled_luong")
    model = Seq2Seq(hparams, len(src_words), len(tgt_words)).eval()
    with np.load(folder / "weights.npz", allow_pickle=False) as variables:
        import_variables(model, dict(variables))
    return model, sources, tgt_words


@pytest.mark.parametrize(("name", "width"), [("greedy", 0), ("beam10.lp0", 10), ("beam10.lp1", 10)])
def test_translations_of_a_trained_model(name: str, width: int) -> None:
    model, sources, words = trained_model()
    theirs = (shared_data("nmt-trained-m30k") / f"val.{name}.en").read_text(encoding="utf-8").split("\n")[:-1]
    ours = []
    for start in range(0, SENTENCES, 32):  # the original's batches: with it, the longest source sets the limit of all
        part = sources[start : start + 32]
        lengths = torch.tensor([len(source) for source in part])
        ids = torch.full((len(part), int(lengths.max())), 2)
        for row, source in enumerate(part):
            ids[row, : len(source)] = torch.tensor(source)
        limits = longest_translations(lengths, whole_batch=True)
        if width == 0:
            found = greedy_search(model, ids, lengths, limits)
        else:
            found = beam_search(model, ids, lengths, limits, width, 1.0 if name.endswith("lp1") else 0.0)
        ours += [" ".join(words[word] for word in found.words(row)) for row in range(len(part))]
    assert ours == theirs[:SENTENCES]
