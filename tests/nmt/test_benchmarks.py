"""The programs in `benchmarks` measure what they say: the searches and steps that are compared agree."""

import json

import pytest
import torch
from benchmarks import bench_nmt_beam, gpu_nmt

from headrace.nmt.decode import beam_search
from tests.nmt.conftest import MakeBatch, MakeModel


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
