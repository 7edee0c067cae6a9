"""The command lines of the original's text, with `headrace.nmt` in the place of `nmt.nmt`, shortened in steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shell import Shell, make_corpus

# Of the text of 2017, whose inference has --model_dir, and of its last version.
HANDS_ON = {
    "without attention": """
python -m headrace.nmt \\
    --src=vi --tgt=en \\
    --vocab_prefix=/tmp/nmt_data/vocab  \\
    --train_prefix=/tmp/nmt_data/train \\
    --dev_prefix=/tmp/nmt_data/tst2012  \\
    --test_prefix=/tmp/nmt_data/tst2013 \\
    --out_dir=/tmp/nmt_model \\
    --num_train_steps=12000 \\
    --steps_per_stats=100 \\
    --num_layers=2 \\
    --num_units=128 \\
    --dropout=0.2 \\
    --metrics=bleu
python -m headrace.nmt \\
    --model_dir=/tmp/nmt_model \\
    --inference_input_file=/tmp/my_infer_file.vi \\
    --inference_output_file=/tmp/nmt_model/output_infer
python -m headrace.nmt \\
    --out_dir=/tmp/nmt_model \\
    --inference_input_file=/tmp/my_infer_file.vi \\
    --inference_output_file=/tmp/nmt_model/output_infer
cat /tmp/nmt_model/output_infer
""",
    "with attention": """
python -m headrace.nmt \\
    --attention=scaled_luong \\
    --src=vi --tgt=en \\
    --vocab_prefix=/tmp/nmt_data/vocab  \\
    --train_prefix=/tmp/nmt_data/train \\
    --dev_prefix=/tmp/nmt_data/tst2012  \\
    --test_prefix=/tmp/nmt_data/tst2013 \\
    --out_dir=/tmp/nmt_attention_model \\
    --num_train_steps=12000 \\
    --steps_per_stats=100 \\
    --num_layers=2 \\
    --num_units=128 \\
    --dropout=0.2 \\
    --metrics=bleu
python -m headrace.nmt \\
    --model_dir=/tmp/nmt_attention_model \\
    --inference_input_file=/tmp/my_infer_file.vi \\
    --inference_output_file=/tmp/nmt_attention_model/output_infer
cat /tmp/nmt_attention_model/output_infer
""",
}
TRAINING_WITH_A_FILE = """
python -m headrace.nmt \\
    --src=de --tgt=en \\
    --hparams_path=nmt/standard_hparams/{name}.json \\
    --out_dir=/tmp/deen \\
    --vocab_prefix=/tmp/wmt16/vocab.bpe.32000 \\
    --train_prefix=/tmp/wmt16/train.tok.clean.bpe.32000 \\
    --dev_prefix=/tmp/wmt16/newstest2013.tok.bpe.32000 \\
    --test_prefix=/tmp/wmt16/newstest2015.tok.bpe.32000
"""
INFERENCE_WITH_A_FILE = """
python -m headrace.nmt \\
    --src=de --tgt=en \\
    --ckpt={checkpoint} \\
    --hparams_path=nmt/standard_hparams/{name}.json \\
    --out_dir=/tmp/deen_again \\
    --vocab_prefix=/tmp/wmt16/vocab.bpe.32000 \\
    --inference_input_file=/tmp/wmt16/newstest2015.tok.bpe.32000.de \\
    --inference_output_file=/tmp/deen_again/output_infer \\
    --inference_ref_file=/tmp/wmt16/newstest2015.tok.bpe.32000.en
"""


@pytest.mark.parametrize("name", HANDS_ON)
def test_hands_on(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(tmp_path)
    shell.run("python -m headrace.nmt.download iwslt15 /tmp/nmt_data")
    (tmp_path / "tmp" / "my_infer_file.vi").write_text("W1 W2\nW3\n")
    shell.run(HANDS_ON[name])
    out = capsys.readouterr().out
    assert "# Final, step 20 lr 1 " in out
    assert "# 2 sentences translated to " in out


@pytest.mark.parametrize("name", ["iwslt15", "wmt16", "wmt16_gnmt_4_layer", "wmt16_gnmt_8_layer"])
def test_files_of_settings(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "tmp" / "wmt16"
    for prefix in ("train.tok.clean", "newstest2013.tok", "newstest2015.tok"):
        make_corpus(folder / f"{prefix}.bpe.32000", ("de", "en"))
    words = {word for path in folder.glob("train*") for word in path.read_text().split()}
    for suffix in ("de", "en"):
        (folder / f"vocab.bpe.32000.{suffix}").write_text("\n".join(["<unk>", "<s>", "</s>", *sorted(words)]) + "\n")
    shell = Shell(tmp_path)
    shell.run(TRAINING_WITH_A_FILE.format(name=name))
    (tmp_path / "tmp" / "deen_again").mkdir()
    shell.run(INFERENCE_WITH_A_FILE.format(name=name, checkpoint="/tmp/deen/translate.ckpt-20"))
    out = capsys.readouterr().out
    assert "# Final, step 20 lr " in out
    assert "|tok:13a|" in out
