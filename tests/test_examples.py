"""The examples run as they stand, and learn what they say."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

import headrace

EXAMPLES = pathlib.Path(headrace.__file__).parents[2] / "examples"


def test_digits_in_the_text_format_train_a_network(tmp_path: pathlib.Path) -> None:
    for module in ("torch", "sklearn", "scipy"):
        pytest.importorskip(module)
    command = [sys.executable, str(EXAMPLES / "digits.py"), str(tmp_path / "digits")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    accuracies = [float(number) for number in re.findall(r"unseen digits ([0-9.]+)", done.stdout)]
    assert len(accuracies) == 11
    assert accuracies[-1] > 0.93
    assert "two more sweeps, 45 minibatches" in done.stdout
