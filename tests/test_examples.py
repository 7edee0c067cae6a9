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


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("tf1_pictures.py", "15 pictures, then OutOfRangeError\n"),
        ("tf1_slim.py", "30 batches, 300 of 300 pictures with their labels\n"),
    ],
)
def test_programs_of_tensorflow_run_with_another_import_line(program: str, said: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("PIL")
    text = (EXAMPLES / program).read_text()
    code = text.split('"""', 2)[2]
    assert [line for line in code.splitlines() if "headrace" in line] == ["import headrace.tf1 as tf"]
    for _ in range(2):  # files that are there already are read again
        command = [sys.executable, str(EXAMPLES / program)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
    if program == "tf1_pictures.py":
        names = [tmp_path / "read" / f"test_{number}.jpg" for number in range(1, 16)]
        pictures = [(tmp_path / f"{name}.jpg").read_bytes() for name in "ABC"]
        assert [name.read_bytes() for name in names] == pictures * 5
