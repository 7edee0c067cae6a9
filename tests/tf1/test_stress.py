"""Random programs of queues, started and stopped; `stress.py` runs thousands of them."""

from __future__ import annotations

import logging

import pytest

from tests.tf1.stress import cycle


@pytest.mark.parametrize("part", range(8))
def test_programs_that_start_and_stop_hang_nowhere_and_lose_nothing(part: int) -> None:
    logging.disable(logging.CRITICAL)  # each injected error is logged
    try:
        for seed in range(part * 75, part * 75 + 75):
            cycle(seed)
    finally:
        logging.disable(logging.NOTSET)
