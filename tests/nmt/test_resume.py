"""A run that is interrupted goes on as if nothing had been."""

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from headrace.nmt.saved import checkpoint
from tests.nmt.conftest import Toy

# What a line of the log says about the model, not about the speed.
LINE = re.compile(r"  step (\d+) lr (\S+) step-time \S+ wps \S+ ppl (\S+) gN (\S+) bleu (\S+), ")

RUNS: dict[str, tuple[int, dict[str, object]]] = {
    "fast": (20, {"dropout": 0.3, "optimizer": "sgd", "learning_rate": 1.0, "decay_scheme": "luong5"}),
    "adam": (8, {"accumulate": 2, "batch_tokens": 40, "unit_type": "gru", "label_smoothing": 0.1}),
    "transformer": (8, {"architecture": "transformer", "attention": "", "batch_tokens": 60, "warmup_steps": 5}),
}


def log(folder: Path) -> dict[int, set[tuple[str, ...]]]:
    """Collects what all logs of a run say about each step."""
    found: dict[int, set[tuple[str, ...]]] = {}
    for path in folder.glob("log_*"):
        for line in LINE.findall(path.read_text()):
            found.setdefault(int(line[0]), set()).add(line[1:])
    return found


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_many_lives_is_the_run_of_one(toy: Toy, tmp_path: Path, name: str) -> None:
    lives, settings = RUNS[name]
    hparams = toy(num_train_steps=60, steps_per_stats=1, steps_per_external_eval=20, batch_size=14, **settings)
    given = {"settings": dataclasses.asdict(hparams), "lives": lives, "seed": 11}
    program = Path(__file__).with_name("lives.py")
    done = subprocess.run(
        [sys.executable, str(program), json.dumps(given)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert len(found["lives"]) == lives
    assert {how for _, how in found["lives"]} == {"SIGINT", "SIGKILL", "write"}
    assert found["ends"] == [130 if how == "SIGINT" else -9 for _, how in found["lives"]]

    whole, parts = (Path(str(hparams.out_dir), part) for part in ("whole", "parts"))
    one, many = (checkpoint.load(folder / "translate.ckpt-60") for folder in (whole, parts))
    for weight, value in one.weights.items():
        assert torch.equal(value, many.weights[weight]), weight
    for ours, theirs in zip(one.optimizer["moments"], many.optimizer["moments"], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert one.progress["curves"] == many.progress["curves"]
    assert one.progress["best"] == many.progress["best"]
    assert one.loader == many.loader
    expected, said = log(whole), log(parts)
    assert sorted(expected) == list(range(1, 61))
    assert said == expected  # also of steps that were made several times
