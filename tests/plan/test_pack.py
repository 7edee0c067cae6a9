"""Packed rows, against a naive model that fills lists."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PlanError
from headrace.plan import Leaf, PackBatches, PackedRows, Rows, Shuffle

Piece = tuple[int, int, int]  # record, first item, items
STRATEGIES = ["first-fit", "best-fit", "concat"]


class Table:
    """Lengths by record."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = np.array(lengths, np.int64)

    def __call__(self, rows: Rows) -> Any:
        return self.lengths[rows.ids[0]]


def model(records: list[tuple[int, int]], row: int, strategy: str, overlong: str) -> list[list[Piece]]:
    """The rows of one window of (record, length)."""
    pieces: list[Piece] = []
    for record, length in records:
        if overlong == "drop" and length > row:
            continue
        count = min(length, row) if overlong == "cut" else length
        begins = [0] if strategy == "concat" else (range(0, count, row) or [0])
        pieces += [(record, b, count if strategy == "concat" else min(row, count - b)) for b in begins]
    rows: list[list[Piece]] = []
    last: list[Piece] | None = None
    for record, begin, count in pieces:
        if count == 0:
            if last is None:
                rows.append([])
                last = rows[0]
            last.append((record, begin, 0))
            continue
        if strategy == "concat":
            while count:
                if last is None or sum(p[2] for p in last) == row or (last and not rows):
                    rows.append([])
                    last = rows[-1]
                part = min(count, row - sum(p[2] for p in last))
                last.append((record, begin, part))
                begin, count = begin + part, count - part
            continue
        rooms = [(row - sum(p[2] for p in r), number) for number, r in enumerate(rows)]
        fitting = [(room, number) for room, number in rooms if room >= count]
        if not fitting:
            rows.append([])
            last = rows[-1]
        else:
            chosen = min(fitting) if strategy == "best-fit" else min(fitting, key=lambda pair: pair[1])
            last = rows[chosen[1]]
        last.append((record, begin, count))
    return rows


def pieces_of(rows: Rows) -> list[list[Piece]]:
    assert isinstance(rows, PackedRows)
    out: list[list[Piece]] = [[] for _ in range(rows.num_rows)]
    for record, row, begin, count in zip(rows.ids[0], rows.rows, rows.begins, rows.counts, strict=True):
        out[row].append((int(record), int(begin), int(count)))
    return out


@given(
    lengths=st.lists(st.integers(0, 25), max_size=60),
    row=st.integers(1, 24),
    size=st.integers(1, 5),
    strategy=st.sampled_from(STRATEGIES),
    overlong=st.sampled_from(["split", "cut", "drop"]),
    window=st.none() | st.integers(1, 30),
    drop=st.booleans(),
)
def test_rows_are_those_of_a_model(
    lengths: list[int], row: int, size: int, strategy: Any, overlong: Any, window: int | None, drop: bool
) -> None:
    plan = Shuffle(Leaf(0, len(lengths)), seed=3)
    packed = PackBatches(
        plan,
        Table(lengths),
        length=row,
        batch_size=size,
        strategy=strategy,
        overlong=overlong,
        window=window,
        drop_remainder=drop,
    )
    order = plan.locate(1, np.arange(len(lengths))).ids[0].tolist()
    per_window = window or max(len(order), 1)
    total = 0
    for index in range(packed.num_windows(1) or 0):
        records = [(r, lengths[r]) for r in order[index * per_window : (index + 1) * per_window]]
        expected = model(records, row, strategy, overlong)
        batches = [expected[i : i + size] for i in range(0, len(expected), size)]
        if drop:
            batches = [batch for batch in batches if len(batch) == size]
        got = [pieces_of(rows) for rows in packed.window(1, index)]
        assert got == batches
        items = sum(piece[2] for batch in batches for one in batch for piece in one)
        assert packed.places(1, index) == (items, row * sum(map(len, batches)))
        total += len(batches)
    assert packed.num_batches(1) == total
    again = pickle.loads(pickle.dumps(packed))
    assert again.num_batches(1) == total


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 6), st.integers(1, 9))
def test_ranks_divide_the_rows(lengths: list[int], size: int, world_size: int) -> None:
    packed = PackBatches(Leaf(0, len(lengths)), Table(lengths), length=9, batch_size=size, window=None)
    for rows in packed.window(0, 0):
        whole = pieces_of(rows)
        shares = [pieces_of(rows.share(rank, world_size)) for rank in range(world_size)]
        assert [len(share) for share in shares] == [len(whole[rank::world_size]) for rank in range(world_size)]
        assert [shares[i % world_size][i // world_size] for i in range(len(whole))] == whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 0}, "length is at least 1"),
        ({"length": 1 << 31}, "pack: length is at most 2147483647, got 2147483648"),
        ({"batch_size": 0}, "batch_size is at least 1"),
        ({"strategy": "worst-fit"}, "strategy is one of 'first-fit', 'best-fit', 'concat'"),
        ({"overlong": "ignore"}, "overlong is one of 'raise', 'split', 'cut', 'drop'"),
        ({"window": 0}, "window is at least 1"),
    ],
)
def test_mistakes_are_refused(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"length": 4, "batch_size": 2, "window": None, **arguments}
    with pytest.raises(PlanError, match=message):
        PackBatches(Leaf(0, 5), Table([1] * 5), **given)


def test_a_record_that_is_too_long_is_refused() -> None:
    with pytest.raises(PlanError, match="a record has 5 items, a row 4"):
        PackBatches(Leaf(0, 2), Table([1, 5]), length=4, batch_size=2, window=None).window(0, 0)


@pytest.mark.parametrize("strategy", ["first-fit", "best-fit"])
def test_rows_are_as_full_as_theory_promises(strategy: Any) -> None:
    """First and best fit open no more than 1.7 times the fewest rows; on lengths as texts have them hardly one more."""
    rng = np.random.default_rng(4)
    lengths = np.clip(rng.lognormal(5, 1, 20_000).astype(int), 1, 1024)
    packed = PackBatches(
        Leaf(0, 20_000), Table(lengths.tolist()), length=1024, batch_size=8, strategy=strategy, window=None
    )
    items, places = packed.places(0, 0)
    assert items == lengths.sum()
    assert items / places > 0.99
    uniform = rng.integers(1, 1025, 20_000)
    packed = PackBatches(
        Leaf(0, 20_000), Table(uniform.tolist()), length=1024, batch_size=8, strategy=strategy, window=None
    )
    items, places = packed.places(0, 0)
    assert items / places > 0.97
