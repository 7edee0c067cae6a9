"""What a worker process and the one that feeds it share beside their channel."""

from __future__ import annotations

import subprocess
import sys

from headrace.engine.seat import Page

LISTENS = """
import sys
from headrace.engine.seat import Page

page = Page(int(sys.argv[1]))
page.dump_stacks_here()
print("listens", flush=True)
sys.stdin.read()
"""


def test_a_worker_that_is_still_starting_is_left_alone() -> None:
    page = Page()
    starting = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert page.stacks(starting.pid) == "(it is starting)"
    starting.communicate(b"on\n", timeout=60)
    assert starting.returncode == 0  # no signal has ended it


def test_a_worker_that_listens_tells_what_it_does() -> None:
    page = Page()
    command = [sys.executable, "-c", LISTENS, str(page.fd)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[page.fd]) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"listens\n"
        told = [page.stacks(worker.pid)]
        while "line 8 in <module>" not in told[-1] and len(told) < 60:  # a machine that is busy takes its time
            told.append(page.stacks(worker.pid))
        worker.communicate(timeout=60)
    assert "line 8 in <module>" in told[-1]
    assert page.stacks(worker.pid) == "(it has ended)"


def test_a_piece_that_was_taken_away_can_be_given_back() -> None:
    page = Page()
    page.take_away(3)
    page.give_back(259)  # noted at the same place
    assert not page.is_wanted(1, 3)
    page.give_back(3)
    assert page.is_wanted(1, 3)
