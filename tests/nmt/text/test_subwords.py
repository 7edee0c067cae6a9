"""Training from plain text to plain text."""

from pathlib import Path

import pytest
import torch

import headrace as hr
from headrace.nmt.hparams import HParamError, HParams
from headrace.nmt.infer import Translator, score_lines
from headrace.nmt.judging.metrics import undo_subwords
from headrace.nmt.saved import checkpoint
from headrace.nmt.saved.checkpoint import CheckpointError
from headrace.nmt.text.subwords import Subwords, prepare
from headrace.nmt.train import train
from tests.nmt.conftest import Toy

OPTIONS = ["bpe", "spm"]
TEXTS = ["der müller mahlt mehl", "das mühlrad dreht sich  im wasser", "der mühlbach treibt das mühlrad"] * 5


def need(option: str) -> None:
    if option == "spm":
        pytest.importorskip("sentencepiece")


@pytest.mark.parametrize("option", OPTIONS)
def test_what_is_cut_can_be_joined(option: str) -> None:
    need(option)
    subwords = Subwords.learn(option, iter(TEXTS), 40)
    again = Subwords(subwords.model)
    for text in [*TEXTS, "", "wörter ÿ 漢字"]:
        cut = subwords.cut(text)
        assert undo_subwords(cut, option) == " ".join(text.split())
        assert again.cut(text) == cut
    assert len(subwords.cut("mühlrad").split()) < len("mühlrad")


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("share_vocab", [False, True])
def test_train_from_plain_text(toy: Toy, option: str, share_vocab: bool) -> None:
    need(option)
    hparams = toy(
        subword_option=option, subword_size={"bpe": 5, "spm": 30}[option], vocab_prefix=None, share_vocab=share_vocab
    )
    result = train(hparams, quiet=True)
    folder = Path(str(hparams.out_dir), "subwords")
    assert (folder / "train.de").read_text() != Path(f"{hparams.train_prefix}.de").read_text()
    assert {path.name for path in folder.iterdir()} >= {"model", "vocab.de", "vocab.en", "dev.en", "test.de"}
    assert (hparams.share_vocab) == (result.translator.vocabs.src == result.translator.vocabs.tgt)
    # A checkpoint is all it takes to translate plain text.
    saved = checkpoint.load(Path(str(hparams.out_dir), "translate.ckpt-6"))
    assert saved.hparams.train_prefix == hparams.train_prefix
    for path in sorted(folder.iterdir()):
        path.unlink()
    translator = Translator.load(str(hparams.out_dir))
    plain = ["w1 w10", "w7"]
    assert [t.text for t in translator.translate(plain)] == [t.text for t in result.translator.translate(plain)]
    assert translator.translate(plain)[0].source == translator.cut(plain)[0].split()
    assert translator.score(plain, ["W1 W10", "W7"])[0] < 0.0


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_going_on_is_exact(toy: Toy, dropout: float) -> None:
    settings = {"subword_option": "bpe", "subword_size": 20, "vocab_prefix": None, "subword_dropout": dropout}
    whole = train(toy(**settings, num_train_steps=14), quiet=True)
    split = toy(**settings, num_train_steps=5, out_dir=str(Path(str(toy().out_dir) + "2")))
    train(split, quiet=True)
    (Path(str(split.out_dir)) / "subwords" / "train.de").unlink()
    (Path(str(split.out_dir)) / "subwords" / "made_from.json").unlink()  # and so is made anew
    again = train(split.replace(num_train_steps=14), quiet=True)
    for name, weight in whole.translator.model.state_dict().items():
        assert torch.equal(weight, again.translator.model.state_dict()[name]), name


def test_files_are_made_once(toy: Toy, tmp_path: Path) -> None:
    said: list[str] = []
    hparams = toy(subword_option="bpe", subword_size=20)
    files, first = prepare(hparams, tmp_path / "s", said.append)
    assert files.train_prefix == str(tmp_path / "s" / "train")
    assert len(said) == 2
    assert prepare(hparams, tmp_path / "s", said.append)[1].model == first.model
    assert len(said) == 2
    prepare(hparams.replace(subword_size=10), tmp_path / "s", said.append)
    assert len(said) == 4
    with Path(f"{hparams.train_prefix}.de").open("a") as file:
        file.write("one line more\n")
    with pytest.raises(hr.DataError, match=r"train\.de has 151 lines and .*train\.en has 150"):
        prepare(hparams, tmp_path / "s", said.append)


def test_dropout_knows_its_pieces(toy: Toy, tmp_path: Path) -> None:
    hparams = toy(subword_option="bpe", subword_size=60, subword_dropout=0.5)
    files, subwords = prepare(hparams, tmp_path / "s", lambda line: None)
    assert subwords.bpe is not None
    vocab = hr.Vocab.from_file(f"{files.vocab_prefix}.de")
    assert set(subwords.bpe.pieces()) <= set(vocab)


def test_other_sizes_are_refused(toy: Toy) -> None:
    hparams = toy(subword_option="bpe", subword_size=20, num_train_steps=2)
    train(hparams, quiet=True)
    with pytest.raises(CheckpointError, match="subword_size=20, now subword_size=10 is asked for"):
        train(hparams.replace(subword_size=10, num_train_steps=3), quiet=True)


def test_references_are_plain() -> None:
    pytest.importorskip("sacrebleu")
    hparams = HParams(subword_option="spm", subword_size=9)
    assert next(score_lines(["a b c d e"], ["a b c d e"], hparams)) == "bleu: 100.0"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"subword_size": 9}, "also say which, with subword_option=bpe or spm"),
        ({"subword_size": -1}, "subword_size must not be negative, got -1"),
        ({"subword_dropout": 0.1}, "subword_dropout .* needs subword_option=bpe and a subword_size"),
        ({"subword_dropout": 1.0}, "subword_dropout must be at least 0 and below 1, got 1.0"),
    ],
)
def test_mistakes(settings: dict[str, float], message: str) -> None:
    with pytest.raises(HParamError, match=message):
        HParams().replace(**settings)


def test_too_few_for_sentencepiece() -> None:
    need("spm")
    with pytest.raises(HParamError, match="sentencepiece cannot learn subword_size=5 subwords"):
        Subwords.learn("spm", iter(TEXTS), 5)
    with pytest.raises(hr.DataError, match="expected merges of BPE or a model of sentencepiece"):
        Subwords(b"nothing of the kind")
