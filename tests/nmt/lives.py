"""What `test_resume.py` runs: a training run in one life, and one in many, each of which a signal ends.

Every life is a process of its own, forked from this one, which has PyTorch loaded already and has done nothing with it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from headrace.nmt.hparams import HParams
from headrace.nmt.model import Batch
from headrace.nmt.train import Run, train


def live(hparams: HParams, step: int | None, how: str) -> int:
    """Trains in a process until a step, in the middle of which a signal comes; returns how the process ended.

    Args:
        hparams: The settings.
        step: Which step; None: lives to the end.
        how: `SIGINT` and `SIGKILL` come before the weights change, `write` is a SIGKILL in the midst of the next
            checkpoint.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    try:
        if step is not None:
            lay_trap(step, how)
        train(hparams, quiet=True)
        code = 0
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def lay_trap(step: int, how: str) -> None:
    """Has a signal sent."""
    backward, fsync = Run.backward, os.fsync

    def trapped(run: Run, batch: Batch) -> None:
        first = not run.held
        backward(run, batch)
        if run.progress.step != step or (first and run.hparams.accumulate > 1):
            return
        if how == "write":
            os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)
        else:
            os.kill(os.getpid(), getattr(signal, how))

    Run.backward = trapped  # type: ignore[method-assign, assignment]
    assert os.fsync is fsync


def main() -> None:
    """Reads settings and a number of lives; prints how each of these began and ended."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    hparams = HParams().replace(**given["settings"])
    folder = Path(str(hparams.out_dir))
    assert live(hparams.replace(out_dir=str(folder / "whole")), None, "") == 0
    parts = hparams.replace(out_dir=str(folder / "parts"))
    rng = random.Random(given["seed"])
    steps = sorted(rng.sample(range(hparams.num_train_steps - 10), given["lives"]))
    lives = [(step, rng.choice(["SIGINT", "SIGKILL", "write"])) for step in steps]
    ends = [live(parts, step, how) for step, how in lives]
    assert live(parts, None, "") == 0
    sys.stdout.write(json.dumps({"lives": lives, "ends": ends}))


if __name__ == "__main__":
    main()
