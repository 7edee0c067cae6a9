"""Which pieces of work come one after another: the last of an epoch, the ranks' turns, errors in looking ahead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.plan import Rows
from headrace.schedule import Piece, deal, mark_last
from headrace.state import Position


def pieces(count: int, broken: bool = False) -> Iterator[Piece]:
    for number in range(count):
        rows = Rows(np.array([[number]]), np.zeros(1, np.int64))
        yield Piece(rows, Position(3, 0, number + 1, number + 1))
    if broken:
        raise LookupError("no further")


def numbers(of: Iterator[Piece]) -> list[tuple[int, int, int]]:
    return [(int(piece.rows.ids[0, 0]), piece.after.epoch, piece.after.done) for piece in of]


def test_after_the_last_batch_the_next_epoch_begins() -> None:
    assert numbers(mark_last(pieces(3), 3)) == [(0, 3, 1), (1, 3, 2), (2, 4, 0)]
    assert numbers(mark_last(pieces(1), 3)) == [(0, 4, 0)]
    assert numbers(mark_last(pieces(0), 3)) == []


def test_an_error_in_looking_for_the_next_batch_comes_after_the_one_before() -> None:
    marked = mark_last(pieces(2, broken=True), 3)
    assert [next(marked).after.done for _ in range(2)] == [1, 2]
    with pytest.raises(LookupError, match="no further"):
        next(marked)


@pytest.mark.parametrize(("uneven", "last"), [("short", [(4, 3, 5)]), ("drop", [])])
def test_ranks_take_turns_and_stand_where_their_step_ends(uneven: Any, last: list[tuple[int, int, int]]) -> None:
    assert numbers(deal(pieces(5), 0, 2, uneven)) == [(0, 3, 2), (2, 3, 4), *last]
    assert numbers(deal(pieces(5), 1, 2, uneven)) == [(1, 3, 2), (3, 3, 4)]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_before_one_that_cannot_be_planned_are_given(workers: int) -> None:
    def lengths(records: Any) -> Any:
        if (records >= 8).any():
            raise LookupError("no lengths from 8 on")
        return np.ones(len(records), np.int64)

    seen = []
    data = hr.from_dataset(range(16), lengths=lengths).bucket(batch_size=4, window=8)
    with hr.Loader(data, workers=workers) as loader:
        running = iter(loader)
        with pytest.raises(LookupError, match="no lengths from 8 on"):
            while True:
                seen.append(next(running).tolist())
        assert seen == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert loader.state_dict()["batch"] == 2
