"""Vocabularies made of training text."""

import gzip
import re
from pathlib import Path

import pytest

import headrace as hr
from headrace.nmt.hparams import HParamError
from headrace.nmt.vocab import count_words, main


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "train.de").write_text("b a\nb c <s>\n\nb a\n")
    with gzip.open(tmp_path / "train.en.gz", "wt") as file:
        file.write("x b\nx\nx y\n\n")
    return tmp_path


def run(corpus: Path, *more: str) -> int:
    return main(["--src=de", "--tgt=en", f"--train_prefix={corpus}/train", f"--vocab_prefix={corpus}/v/vocab", *more])


def test_special_words_then_frequent_ones(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(corpus, "--counts") == 0
    assert (corpus / "v/vocab.de").read_text() == "<unk>\n<s>\n</s>\nb\na\nc\n"
    assert (corpus / "v/vocab.de.counts").read_text() == "<unk>\t0\n<s>\t1\n</s>\t0\nb\t3\na\t2\nc\t1\n"
    assert (corpus / "v/vocab.en").read_text() == "<unk>\n<s>\n</s>\nx\nb\ny\n"
    assert "vocab.de: 6 words, of 6; 100.00% of the 7 words" in capsys.readouterr().out


def test_rare_words_are_left_out(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(corpus, "--min_count=2", "--counts") == 0
    assert list(hr.Vocab.from_file(corpus / "v/vocab.de"))[3:] == ["b", "a"]
    assert (corpus / "v/vocab.en.counts").read_text() == "<unk>\t2\n<s>\t0\n</s>\t0\nx\t3\n"
    assert "vocab.en: 4 words, of 6; 60.00% of the 5 words" in capsys.readouterr().out
    assert run(corpus, "--max_size=4") == 0
    assert list(hr.Vocab.from_file(corpus / "v/vocab.de"))[3:] == ["b"]


def test_one_vocabulary_for_both(corpus: Path) -> None:
    assert run(corpus, "--share_vocab", "--sos=<go>") == 0
    assert (corpus / "v/vocab.de").read_text() == (corpus / "v/vocab.en").read_text()
    assert (corpus / "v/vocab.de").read_text().split() == ["<unk>", "<go>", "</s>", "b", "x", "a", "<s>", "c", "y"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--min_count=0"], "min_count must be at least 1, got 0"),
        (["--min_count=9"], "no word of the de text comes min_count=9 times: give a smaller one"),
        (["--min_count=x"], "min_count: expected a whole number, got 'x'"),
        (["--max_size=3"], "max_size must leave room for words beside the 3 special ones, got 3"),
        (["--min_cuont=2"], "unknown flag --min_cuont; did you mean --min_count?"),
        (["--train_prefix=nowhere/train"], r"expected this file \(or the same with .gz\), found none"),
    ],
)
def test_mistakes(corpus: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str) -> None:
    assert run(corpus, *flags) == 2
    err = capsys.readouterr().err
    assert err.startswith("headrace.nmt.vocab: ")
    assert re.search(message, err)


def test_no_words(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n \n")
    with pytest.raises(hr.DataError, match="empty: expected text, found no words"):
        count_words([str(tmp_path / "empty")])


def test_no_room() -> None:
    with pytest.raises(HParamError, match="got 2"):
        count_words([__file__]).cut(max_size=2)
