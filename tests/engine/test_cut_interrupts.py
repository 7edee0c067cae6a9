"""Interrupts while several workers are at a part each of one piece: the next result is the one that would have come."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headrace.clock import Clock
from headrace.engine import Crew, ProcessRun, Seat, StatsCollector
from tests.engine.strikes import MARKS, Striker, handler, struck

__all__ = ["handler"]

pytestmark = MARKS

PIECES = [tuple(range(i * 10, i * 10 + 4)) for i in range(5)]
PLACES = 24  # of those where an interrupt may strike


class Rows:
    """Of each number a row that travels beside the pickle."""

    def open(self, seat: Seat) -> Rows:
        """Gives itself."""
        return self

    def __call__(self, piece: Any, clock: Clock) -> Any:
        return [np.full(300, number) for number in piece]

    def join(self, piece: Any, parts: list[Any], clock: Clock) -> Any:
        return np.stack([row for part in parts for row in part])


def cut(piece: tuple[int, ...]) -> list[list[int]]:
    return [[*piece[:2]], [*piece[2:]]]


def first_column(result: Any) -> list[int]:
    assert result.error is None
    rows = np.stack(result.value) if isinstance(result.value, list) else result.value
    assert (rows == rows[:, :1]).all()
    return [int(number) for number in rows[:, 0]]


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_an_interrupt_among_parts_costs_no_result(method: Any, handler: None) -> None:
    crew = Crew(2, method)

    def start() -> Iterator[Any]:
        crew.pace = None  # not known: as an epoch begins, pieces are cut
        return ProcessRun(crew, PIECES, Rows(), StatsCollector(2, 4), prefetch=2, max_bytes=1 << 20, cut=cut)

    wanted = [[*piece] for piece in PIECES]
    for _ in range(2):
        count = Striker()
        assert struck(count, start, first_column) == (wanted, 0)
    crew.close()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    hits = 0
    for at in range(1, count.count, -(-count.count // PLACES)):
        found, strikes = struck(Striker(at), start, first_column)
        assert found == wanted, at
        hits += strikes
    assert hits > PLACES // 2
    assert crew.cuts  # no part has failed
    crew.close()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before
