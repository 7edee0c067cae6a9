"""Exported models give the translations of the models that they are of, without any of their code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from headrace.nmt.export import KINDS, ExportError, export, main
from headrace.nmt.exporting.exported import Exported
from headrace.nmt.infer import Translator
from headrace.nmt.text.subwords import Subwords
from tests.nmt.servers import SENTENCES, make_translator, save_model

MODELS = {
    "lstm": {"encoder_type": "bi", "num_layers": 2},
    "transformer": {"architecture": "transformer", "attention": "", "num_heads": 2, "num_layers": 2},
}
TEXTS = [*SENTENCES, "", "die katze", "korn . . . . . . . . das"]


@pytest.fixture(scope="module", params=[(name, kind) for name in MODELS for kind in KINDS], ids="-".join)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Translator, Path]:
    name, kind = request.param
    if kind == "onnx":
        for module in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(module)
    translator, folder = make_translator(**MODELS[name]), tmp_path_factory.mktemp(name) / kind
    export(translator, folder, kind)
    return translator, folder


def test_translations_are_the_same(exported: tuple[Translator, Path]) -> None:
    """Of batches, and of sentences alone: batch and length are free."""
    translator, model = exported[0], Exported(exported[1])
    expected = translator.translate(TEXTS, attention=True)
    assert model.translate(TEXTS) == [found.text for found in expected]
    assert [model.translate([text])[0] for text in TEXTS] == [found.text for found in expected]
    assert model.translate([]) == []
    for found, wanted in zip(model.greedy([text.split() for text in TEXTS]), expected, strict=True):
        assert found.words == wanted.words
        assert found.log_prob == pytest.approx(wanted.log_prob, abs=2e-5)
        if found.attention is not None:
            assert wanted.attention is not None
            np.testing.assert_allclose(found.attention, wanted.attention, atol=1e-5)
    assert (
        sum(found.attention is None for found in model.greedy([text.split() for text in TEXTS])) == 1
    )  # the empty one


def test_settings_say_how_the_programs_go_together(exported: tuple[Translator, Path]) -> None:
    _, folder = exported
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["memory"] == ["memory_values", "memory_keys", "memory_real"]
    assert (settings["source"], settings["target"], settings["sos"], settings["eos"]) == ("de", "en", 1, 2)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["settings.json", "vocab.src", "vocab.tgt", settings["encoder"], settings["step"]]
    )
    if settings["kind"] == "onnx":
        import onnxruntime

        step = onnxruntime.InferenceSession(str(folder / settings["step"]), providers=["CPUExecutionProvider"])
        assert [part.name for part in step.get_inputs()] == ["words", *settings["memory"], *settings["state"]]
        assert [part.name for part in step.get_outputs()] == [
            *("logits", "attention"),
            *(f"next_{name}" for name in settings["state"]),
        ]


def test_the_programs_run_without_headrace(exported: tuple[Translator, Path]) -> None:
    _, folder = exported
    if not (folder / "step.pt2").is_file():
        return  # onnxruntime knows nothing of headrace
    code = (
        "import json, sys, torch, torch._higher_order_ops\n"
        "encoder, step = (torch.export.load(f'{name}.pt2').module() for name in ('encoder', 'step'))\n"
        "parts = encoder(torch.tensor([[3, 4, 5], [8, 2, 2], [6, 7, 2]]), torch.tensor([3, 1, 2]))\n"
        "logits, attention, *state = step(torch.tensor([1, 1, 1]), parts[:3], parts[3:])\n"
        "print(tuple(logits.shape), tuple(attention.shape), 'headrace' in sys.modules)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert out.stdout == "(3, 11) (3, 3) False\n", out.stderr


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without attention and with a state of one tensor; subwords go along."""
    translator = make_translator(attention="", unit_type="gru", subword_option="bpe", tgt_max_len_infer=4)
    translator.subwords = Subwords(b"#version: 0.2\nb a\nc h</w>\nba ch</w>\n")
    save_model(translator, tmp_path / "model")
    assert main([str(tmp_path / "model"), str(tmp_path / "exported")]) == 0
    assert f"exported to {tmp_path}/exported (torch, " in capsys.readouterr().out
    model = Exported(tmp_path / "exported")
    assert model.settings["memory"] == []
    assert model.settings["state"] == ["state_0"]
    assert model.translate(["bach", "die"]) == [found.text for found in translator.translate(["bach", "die"])]
    assert model.translate(["bach"]) != model.translate(["korn"])


def test_what_cannot_be_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExportError, match="expected one of the kinds torch, onnx, got 'tf'"):
        export(make_translator(), tmp_path, "tf")
    with pytest.raises(ExportError, match="a language model reads no source sentences"):
        export(make_translator(language_model=True, attention="", share_vocab=True), tmp_path)
    several = make_translator()
    several.others = (several.model,)
    with pytest.raises(ExportError, match="several models translate as one in headrace alone: export each"):
        export(several, tmp_path)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ExportError, match=r"writing ONNX needs (onnx|onnxscript): pip install 'headrace\[onnx\]'"):
        export(make_translator(), tmp_path, "onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_exported_model(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"has no exported model: its settings\.json cannot be read"):
        Exported(tmp_path)
    (tmp_path / "settings.json").write_text('{"format": "headrace.nmt.export", "version": 9}')
    with pytest.raises(ExportError, match=r"is of format headrace\.nmt\.export 9, this reads .* 1: export again"):
        Exported(tmp_path)
