"""Scores of given translations, lists of n best, and words from a dictionary: what translating writes beside text."""

import copy
import math
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace.nmt.__main__ import main
from headrace.nmt.hparams import HParamError, HParams
from headrace.nmt.infer import Translator
from headrace.nmt.judging.scoring import PairScore, score_pairs, total
from headrace.nmt.train import train
from headrace.nmt.translating.align import read_dictionary, replace_unknown
from tests.nmt.conftest import Toy


@pytest.fixture
def translator(toy: Toy) -> Translator:
    return train(toy(num_train_steps=20, learning_rate=0.02, dev_prefix=None, test_prefix=None), quiet=True).translator


def test_pairs(translator: Translator) -> None:
    pairs = score_pairs(translator, ["w1 w2", "", "w3"], ["W1  W2 ", "", "W3"])
    assert [pair.words for pair in pairs] == [3, 1, 2]
    assert all(pair.log_prob < 0 for pair in pairs)
    assert pairs[0].perplexity == pytest.approx(math.exp(-pairs[0].log_prob / 3))
    everything = total(pairs)
    assert everything == PairScore(math.fsum(pair.log_prob for pair in pairs), 6)
    assert (total([]).per_word, total([]).perplexity) == (0.0, 1.0)
    assert PairScore(-1e9, 1).perplexity == math.inf


def test_words_are_those_that_the_model_reads(toy: Toy) -> None:
    settings = {"subword_option": "bpe", "subword_size": 5, "vocab_prefix": None}
    hparams = toy(num_train_steps=5, dev_prefix=None, test_prefix=None, **settings)
    translator = train(hparams, quiet=True).translator
    (pair,) = score_pairs(translator, ["w1 w2"], ["W1 W11"])
    assert pair.words == len(translator.cut(["W1 W11"])[0].split()) + 1
    assert pair.words > 3


def test_the_command(translator: Translator, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.de").write_text("w1 w2\nw3\n")
    (tmp_path / "in.en").write_text("W1 W2\nW4 nothing\n")
    flags = [f"--out_dir={translator.hparams.out_dir}", f"--inference_input_file={tmp_path}/in.de"]
    flags += [f"--inference_output_file={tmp_path}/scores"]
    assert main([*flags, f"--score_file={tmp_path}/in.en"]) == 0
    out = capsys.readouterr().out
    rows = [[float(cell) for cell in line.split("\t")] for line in (tmp_path / "scores").read_text().splitlines()]
    expected = translator.score(["w1 w2", "w3"], ["W1 W2", "W4 nothing"])
    assert [row[0] for row in rows] == pytest.approx(expected, abs=1e-5)
    assert [row[0] / row[1] for row in rows] == pytest.approx([3, 3], rel=1e-4)
    assert f"# 2 pairs scored, to {tmp_path}/scores\n  log-probability {sum(expected):.2f}, of a word" in out
    # Twice the same checkpoint: the same scores.
    before = (tmp_path / "scores").read_text()
    ckpt = f"{translator.hparams.out_dir}/translate.ckpt-20"
    assert main([*flags, f"--score_file={tmp_path}/in.en", f"--ckpt={ckpt}, {ckpt}"]) == 0
    after = (tmp_path / "scores").read_text()
    assert [float(line.split()[0]) for line in after.splitlines()] == pytest.approx(
        [float(line.split()[0]) for line in before.splitlines()], abs=1e-4
    )
    (tmp_path / "in.en").write_text("W1 W2\n")
    assert main([*flags, f"--score_file={tmp_path}/in.en"]) == 2
    assert "a target for each source, got 2 and 1" in capsys.readouterr().err


def test_lists_of_n_best(translator: Translator, tmp_path: Path) -> None:
    from headrace.nmt.infer import translate_file

    (tmp_path / "in.de").write_text("w1 w2\n\nw3\n")
    nbest = tmp_path / "nbest"
    translator.hparams = translator.hparams.replace(beam_width=3, length_penalty_weight=1.0, nbest_file=str(nbest))
    lines = translate_file(translator, tmp_path / "in.de", tmp_path / "translations")
    rows = [line.split(" ||| ") for line in nbest.read_text().splitlines()]
    assert [row[0] for row in rows] == ["0"] * 3 + ["1"] * 3 + ["2"] * 3
    assert [row[1] for row in rows[::3]] == lines
    for number in (0, 6):
        scores = [float(row[3]) for row in rows[number : number + 3]]
        assert scores == sorted(scores, reverse=True)
    (log_prob,) = translator.score(["w3"], [rows[6][1]])
    if len(rows[6][1].split()) < 2:  # else it was cut before eos
        assert float(rows[6][2]) == pytest.approx(log_prob, abs=1e-4)
    translator.hparams = translator.hparams.replace(inference_list="2")
    assert translate_file(translator, tmp_path / "in.de", tmp_path / "translations") == lines[2:]
    assert {line.split(" ||| ")[0] for line in nbest.read_text().splitlines()} == {"2"}


def test_dictionary(translator: Translator, tmp_path: Path) -> None:
    path = tmp_path / "words"
    path.write_text("Mühle\tmill\n\nRad  big wheel \nMühle other\n")
    words = read_dictionary(path)
    assert words == {"Mühle": "mill", "Rad": "big wheel"}
    matrix = np.array([[0.9, 0.1, 0], [0, 1, 0], [0, 0, 1]])
    found = replace_unknown(["<unk>", "<unk>", "x"], ["Mühle", "Bach", "Rad"], matrix, words)
    assert found == ["mill", "Bach", "x"]
    path.write_text("a b\nalone\n")
    with pytest.raises(hr.DataError, match=r"words, line 2: expected a source word and its translation, got 'alone'"):
        read_dictionary(path)
    path.write_text("w1 wheel\n")
    translator.hparams = translator.hparams.replace(replace_unk=True, unk_dictionary=str(path))
    before = translator.translate(["w1"])[0].text
    path.unlink()  # it was read, once
    assert copy.copy(translator).translate(["w1"])[0].text == before
    translator.hparams = translator.hparams.replace(replace_unk=True, unk_dictionary=str(tmp_path / "no.such"))
    with pytest.raises(FileNotFoundError, match=r"no\.such"):
        translator.translate(["w1"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unk_dictionary": "x"}, "add --replace_unk"),
        ({"score_file": "x", "nbest_file": "y"}, "with score_file nothing is translated: leave out nbest_file"),
        (
            {"nbest_file": "y", "num_workers": 2, "jobid": 1},
            "several programs write translations only: leave out nbest_file",
        ),
    ],
)
def test_refuses(settings: dict[str, object], message: str) -> None:
    with pytest.raises(HParamError, match=message):
        HParams().replace(**settings)
