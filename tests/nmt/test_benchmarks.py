"""The programs in `benchmarks` measure what they say: the searches and steps that are compared agree."""

import json
from pathlib import Path

import pytest
import torch
from benchmarks import bench_nmt_beam, gpu_nmt, nmt_scores

from headrace.nmt.translating.decode import beam_search
from tests.nmt.conftest import MakeBatch, MakeModel, Toy


def test_the_plain_beam_search_finds_the_same(make_batch: MakeBatch, make_model: MakeModel) -> None:
    for settings in ({"attention": "scaled_luong", "encoder_type": "bi"}, {}, {"architecture": "transformer"}):
        model = make_model(seed=2, **({"num_heads": 2} | settings)).float()
        batch = make_batch([5, 3, 5], [1, 1, 1])
        limits = torch.full((3,), 7)
        with torch.no_grad():
            expected = beam_search(model, batch.src_BS, batch.src_len_B, limits, 4, 0.6)
            found = bench_nmt_beam.plain_search(model, batch.src_BS, batch.src_len_B, 7, 4, 0.6)
        assert found == [expected.words(b) for b in range(3)]


def test_the_beam_benchmark_runs() -> None:
    threads = torch.get_num_threads()
    try:
        figures = bench_nmt_beam.compare(6)
    finally:
        torch.set_num_threads(threads)
    assert set(figures) == {"sentences/s", "plain batched", "plain alone", "times batched", "times alone"}
    assert all(value > 0 for value in figures.values())


def test_the_program_for_a_gpu_runs_dry(capsys: pytest.CaptureFixture[str]) -> None:
    gpu_nmt.main(["--dry-run"])
    speed, score = (json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{"))
    assert (speed["device"], speed["what"], score["what"]) == ("cpu", "speed", "score")
    assert speed["words/s"] > 0
    assert 0 <= speed["waiting"] < 1
    assert not speed["reached"]
    assert not score["reached"]
    assert score["dev_bleu"] >= 0


def test_scores_of_configurations_are_a_table(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toy()
    for language in ("de", "en"):
        (tmp_path / f"dev.{language}").rename(tmp_path / f"val.{language}")
    small = {"num_units": 8, "num_layers": 1, "num_train_steps": 2, "steps_per_stats": 1, "batch_size": 16}
    monkeypatch.setattr(nmt_scores, "CONFIGURATIONS", {"recipe": small})
    command = [str(tmp_path), "--seeds", "1", "2", "--threads=1", f"--out={tmp_path / 'runs'}"]
    nmt_scores.main(command)
    printed = capsys.readouterr().out
    head, _, *rows = [line.strip("|").split("|") for line in printed.splitlines() if line]
    assert [row[0].strip() for row in rows] == ["recipe, seed 1", "recipe, seed 2", "mean"]
    assert [name.strip() for name in head][:4] == ["configuration", "steps", "dev bleu", "test bleu"]
    nmt_scores.main(command)  # what is trained is only reported
    assert capsys.readouterr().out == printed
