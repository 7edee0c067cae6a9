"""A run that is killed goes on as if nothing had been."""

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import torch

from headrace.nmt import checkpoint
from headrace.nmt.hparams import HParams
from headrace.nmt.train import train
from tests.nmt.conftest import Toy
from tests.nmt.test_main import flags

# What a line of the log says about the model, not about the speed.
LINE = re.compile(r"  step (\d+) lr (\S+) step-time \S+ wps \S+ ppl (\S+) gN (\S+) bleu (\S+), ")


def losses(hparams: HParams) -> dict[int, set[tuple[str, ...]]]:
    """Collects what all logs of a run say about each step."""
    found: dict[int, set[tuple[str, ...]]] = {}
    for path in Path(str(hparams.out_dir)).glob("log_*"):
        for line in LINE.findall(path.read_text()):
            found.setdefault(int(line[0]), set()).add(line[1:])
    return found


def test_killed_and_continued_is_the_same_as_never_stopped(toy: Toy, tmp_path: Path) -> None:
    settings: dict[str, object] = {
        "num_train_steps": 90,
        "steps_per_stats": 3,
        "steps_per_external_eval": 20,
        "batch_size": 14,
    }
    settings |= {"decay_scheme": "luong5"}
    whole = toy(out_dir=str(tmp_path / "whole"), **settings)
    train(whole, quiet=True)
    killed = toy(out_dir=str(tmp_path / "killed"), **settings)
    stop = random.SystemRandom().randrange(31, 85)
    command = [sys.executable, "-u", "-m", "headrace.nmt", *flags(killed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if (found := LINE.match(line)) and int(found[1]) >= stop:
                os.kill(process.pid, signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL, f"stopped at {stop}"
    saved = checkpoint.latest(Path(str(killed.out_dir)), lambda _: None)
    assert saved is not None
    assert saved.step < 90
    assert saved.loader["batch"] > 0  # in mid-epoch: one has 11 batches
    subprocess.run(command, check=True, capture_output=True)

    expected, ours = losses(whole), losses(killed)
    assert sorted(expected) == list(range(3, 91, 3))
    assert ours == expected, f"stopped at {stop}"
    ends = [checkpoint.load(Path(str(h.out_dir), "translate.ckpt-90")) for h in (whole, killed)]
    for name, weight in ends[0].weights.items():
        assert torch.equal(weight, ends[1].weights[name]), f"{name}, stopped at {stop}"
    assert ends[0].progress["curves"] == ends[1].progress["curves"]
