from pathlib import Path

import numpy as np
import pytest
import torch

import headrace as hr
from headrace.nmt.hparams import HParamError, HParams
from headrace.nmt.infer import Translator, score_lines, translate_file
from headrace.nmt.model import Seq2Seq
from headrace.nmt.saved.checkpoint import CheckpointError
from headrace.nmt.text.files import read_lines
from headrace.nmt.train import train
from tests.nmt.conftest import Toy
from tests.nmt.servers import make_translator


@pytest.fixture
def translator(toy: Toy) -> Translator:
    return train(toy(num_train_steps=40, learning_rate=0.02, dev_prefix=None, test_prefix=None), quiet=True).translator


SENTENCES = ["w1 w2 w3 w4", "", "w5", " w6  nothing ", "w1 w2 w3 w4", "w7 w8"]


@pytest.mark.parametrize("settings", [{}, {"beam_width": 3}, {"beam_width": 3, "length_penalty_weight": 1.0}])
def test_the_order_of_sentences_changes_nothing(translator: Translator, settings: dict[str, float]) -> None:
    translator.hparams = translator.hparams.replace(infer_batch_size=2, **settings)
    found = translator.translate(SENTENCES)
    turned = translator.translate(SENTENCES[::-1])
    assert [t.text for t in found] == [t.text for t in turned][::-1]
    assert [t.score for t in found] == [t.score for t in turned][::-1]
    assert found[1].text == ""
    assert found[0].text == found[4].text
    for size in (1, 6):
        translator.hparams = translator.hparams.replace(infer_batch_size=size)
        assert [t.text for t in translator.translate(SENTENCES)] == [t.text for t in found]


@pytest.mark.parametrize("beam_width", [0, 2])
def test_attention_has_a_row_for_each_word_and_eos(translator: Translator, beam_width: int) -> None:
    translator.hparams = translator.hparams.replace(beam_width=beam_width, tgt_max_len_infer=20)
    for translation in translator.translate(["w1 w2 w3", "w4"], attention=True):
        assert translation.attention is not None
        assert translation.attention.shape == (len(translation.words) + 1, len(translation.source))
        np.testing.assert_allclose(translation.attention.sum(axis=1), 1.0, rtol=1e-5)
    assert translator.translate(["w4"])[0].attention is None


def test_nbest_are_in_order(translator: Translator) -> None:
    translator.hparams = translator.hparams.replace(beam_width=4)
    (found,) = translator.nbest(["w1 w2"], 3)
    assert len(found) == 3
    assert [t.score for t in found] == sorted((t.score for t in found), reverse=True)
    assert len({t.text for t in found}) == 3


def test_long_sources_are_cut_where_asked(translator: Translator) -> None:
    translator.hparams = translator.hparams.replace(src_max_len_infer=2)
    cut, short = translator.translate(["w1 w2 w3", "w1 w2"], attention=True)
    assert cut.source == ["w1", "w2"]
    assert cut.text == short.text


def test_subwords_are_joined() -> None:
    vocab = hr.Vocab(["<unk>", "<s>", "</s>", "be@@", "au"])
    hparams = HParams(num_units=4, subword_option="bpe", tgt_max_len_infer=3)
    from headrace.nmt.data import Vocabs

    found = Translator(Seq2Seq(hparams, 5, 5), Vocabs(vocab, vocab)).translate(["be@@ au"])[0]
    assert "@@" not in found.text
    assert found.source == ["be@@", "au"]


def test_a_file_is_translated_line_by_line(translator: Translator, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("w1 w2\n\nw3\n")
    lines = translate_file(translator, source, target)
    assert read_lines(target) == lines == [t.text for t in translator.translate(["w1 w2", "", "w3"])]
    translator.hparams = translator.hparams.replace(beam_width=3, num_translations_per_input=2)
    assert len(translate_file(translator, source, target)) == 6
    source.write_text("")
    assert translate_file(translator, source, target) == []
    assert target.read_text() == ""


def test_missing_files_and_folders_are_named(translator: Translator, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
        translate_file(translator, tmp_path / "nowhere.txt", tmp_path / "out.txt")
    (tmp_path / "in.txt").write_text("w1\n")
    with pytest.raises(FileNotFoundError, match=r"the folder of this file is not there.*no/out\.txt"):
        translate_file(translator, tmp_path / "in.txt", tmp_path / "no" / "out.txt")


def test_a_folder_without_checkpoints_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no checkpoint \(translate\.ckpt-…\): train into it first"):
        Translator.load(tmp_path)


def test_translating_does_not_pass_over_a_damaged_checkpoint(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "out" / "translate.ckpt-99").write_bytes(b"half")
    with pytest.raises(CheckpointError, match=r"^\S*translate\.ckpt-99 is no checkpoint, cut short.*--ckpt$"):
        Translator.load(tmp_path / "out")
    assert Translator.load(tmp_path / "out" / "translate.ckpt-40").hparams.num_units == 16


def test_settings_of_another_model_are_refused(translator: Translator, tmp_path: Path) -> None:
    assert Translator.load(tmp_path / "out", beam_width=5).hparams.search == "beam_search"
    with pytest.raises(CheckpointError, match="trained with num_units=16, now num_units=32"):
        Translator.load(tmp_path / "out", num_units=32)


def test_scores_are_given_with_their_signature() -> None:
    lines = list(score_lines(["a b c d", "e@@ f g h i"], ["a b c d", "ef g h i"], HParams(subword_option="bpe")))
    assert lines[0] == "bleu: 100.0"
    assert lines[1].startswith("sacrebleu: 100.0 (nrefs:1|case:mixed|")
    with pytest.raises(hr.DataError, match="got 1 references and 2 translations"):
        list(score_lines(["a"], ["a", "b"], HParams()))


def test_some_lines_with_pictures_of_their_attention(translator: Translator, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("\n".join(SENTENCES) + "\n")
    translator.hparams = translator.hparams.replace(inference_list="4,0,1", beam_width=2)
    lines = translate_file(translator, source, target)
    assert lines == [t.text for t in translator.translate([SENTENCES[4], SENTENCES[0], SENTENCES[1]])]
    assert target.read_text().splitlines() == lines
    assert sorted(path.name for path in tmp_path.glob("out.txt?*")) == ["out.txt0.png", "out.txt4.png"]  # 1 is empty
    translator.hparams = translator.hparams.replace(inference_list="6")
    with pytest.raises(HParamError, match=r"inference_list names line 6, but .*in\.txt has the lines 0 to 5"):
        translate_file(translator, source, target)


@pytest.mark.parametrize("beam_width", [0, 3])
def test_alignments_in_a_file(translator: Translator, tmp_path: Path, beam_width: int) -> None:
    source, aligned = tmp_path / "in.txt", tmp_path / "aligned.txt"
    source.write_text("\n".join(SENTENCES) + "\n")
    translator.hparams = translator.hparams.replace(alignment_file=str(aligned), beam_width=beam_width)
    translate_file(translator, source, tmp_path / "out.txt")
    lines = aligned.read_text().splitlines()
    expected = translator.translate(SENTENCES)
    assert [len(line.split()) for line in lines] == [len(t.words) for t in expected]
    for line, translation in zip(lines, expected, strict=True):
        pairs = [tuple(map(int, pair.split("-"))) for pair in line.split()]
        assert [target for _, target in pairs] == list(range(len(translation.words)))
        assert all(0 <= place < len(translation.source) for place, _ in pairs)


def test_unknown_words_come_from_the_source(translator: Translator) -> None:
    translator.vocabs = translator.vocabs._replace(
        tgt=hr.Vocab(["<unk>", "<s>", "</s>", *(f"x{i}" for i in range(len(translator.vocabs.tgt) - 3))])
    )
    with torch.no_grad():  # a model that says <unk>
        translator.model.projection_UV[:, 1:] = 0
        translator.model.projection_UV[:, 0] *= 100
    plain = translator.translate(["w1 w2 w3"])[0]
    translator.hparams = translator.hparams.replace(replace_unk=True)
    (found,) = translator.translate(["w1 w2 w3"])
    assert found.attention is None
    assert [a if a != "<unk>" else b for a, b in zip(plain.words, found.words, strict=True)] == found.words
    assert set(found.words) <= {"w1", "w2", "w3", *plain.words} - {"<unk>"}


def test_what_a_translation_scores(translator: Translator) -> None:
    translator.hparams = translator.hparams.replace(infer_batch_size=2)
    found = translator.translate(SENTENCES)
    scores = translator.score(SENTENCES, [t.text for t in found])
    ended = [i for i, t in enumerate(found) if t.source and len(t.words) < 2 * len(t.source)]  # others have no eos
    assert ended
    for i in ended:
        assert scores[i] == pytest.approx(found[i].score, abs=1e-4)
    assert translator.score(SENTENCES[::-1], [t.text for t in found[::-1]]) == scores[::-1]
    assert scores[1] < 0
    with pytest.raises(hr.DataError, match="a target for each source, got 1 and 2"):
        translator.score(["a"], ["b", "c"])


def test_attention_has_no_row_for_an_end_that_was_cut_off() -> None:
    """Neither alone nor beside a longer sentence, where there would be room for one."""
    untrained = make_translator()
    for sentences in (["die mühle"], ["die mühle", "die mühle mahlt das korn ."]):
        found = untrained.translate(sentences, attention=True)[0]
        assert len(found.words) == 4  # twice the source
        assert found.attention is not None
        assert found.attention.shape == (4, 2)
