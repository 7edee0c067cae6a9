"""Programs end, whatever their threads wait for."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import headrace.tf1 as tf
number = tf.train.range_input_producer(4, shuffle=False).dequeue()
batch = tf.train.batch([number], 2)
sess = tf.Session()
coord = tf.train.Coordinator() if {coord} else None
tf.train.start_queue_runners(sess, coord, daemon={daemon})
{last}
"""


@pytest.mark.parametrize("coord", [False, True])
@pytest.mark.parametrize("daemon", [False, True])
def test_nothing_hangs_at_exit(coord: bool, daemon: bool) -> None:
    code = PROGRAM.format(coord=coord, daemon=daemon, last="print(sess.run(batch).tolist())")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[0, 1]\n"
    assert "Traceback" not in done.stderr


def test_an_error_of_the_program_ends_it() -> None:
    code = PROGRAM.format(coord=False, daemon=True, last="raise SystemExit(3)")
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 3
