"""Minibatches against a model that walks the timeline one sequence at a time, as the words of the format say."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import PlanError
from headrace.plan import timeline as timeline_module
from headrace.plan.cntk_order import CntkOrder, CntkWindow
from headrace.plan.minibatches import Minibatches, Partition
from headrace.plan.timeline import Place, Timeline
from headrace.plan.truncated import Slots, Truncated


@dataclass
class Data:
    """Sequences with their sizes, in chunks."""

    sizes: list[int]
    chunks: list[int]
    window: CntkWindow | None
    seed: int = 0
    plain: bool = False

    def order(self) -> CntkOrder:
        samples = [sum(self.sizes[a:b]) for a, b in zip(self.chunks, self.chunks[1:], strict=False)]
        return CntkOrder(np.array(self.chunks), np.array(samples, np.uint64), self.window, self.seed)

    def timeline(self) -> Timeline:
        return Timeline(self.order(), None if self.plain else np.array(self.sizes, np.uint32))

    def sequences(self) -> Iterator[tuple[int, int, int, int]]:
        """(number, record, home, size) without end."""
        order, n, number = self.order(), len(self.sizes), 0
        while True:
            records, homes = order.stretch(number // n, 0, n)
            for record, home in zip(records.tolist(), homes.tolist(), strict=True):
                yield number, record, home, self.sizes[record]
                number += 1


@st.composite
def datas(draw: st.DrawFn) -> Data:
    plain = draw(st.booleans())
    sizes = draw(st.lists(st.just(1) if plain else st.integers(1, 6), min_size=1, max_size=30))
    cuts = draw(st.sets(st.integers(1, max(1, len(sizes) - 1)), max_size=8)) if len(sizes) > 1 else set()
    window = draw(st.none() | st.builds(CntkWindow, st.integers(0, 5), st.sampled_from(["chunks", "samples"])))
    return Data(sizes, [0, *sorted(cuts), len(sizes)], window, draw(st.integers(0, 9)), plain)


@dataclass
class Walker:
    """One worker, walking sequence by sequence."""

    data: Data
    workers: int
    rank: int
    end: int
    ahead: list[tuple[int, int, int, int]] = field(default_factory=list)
    position: int = 0

    def __post_init__(self) -> None:
        self.rest = self.data.sequences()

    def peek(self) -> tuple[int, int, int, int]:
        if not self.ahead:
            self.ahead.append(next(self.rest))
        return self.ahead[0]

    def batch(self, size: int) -> tuple[list[int], bool, int] | None:
        budget = max(1, size // self.workers + (size % self.workers > self.rank))
        taken: list[int] = []
        total, end_of_sweep = 0, False
        while self.position < self.end:
            number, record, home, samples = self.peek()
            own = (number if self.data.window is None else home) % self.workers == self.rank
            if own and taken and total + samples > budget:
                break
            self.ahead.clear()
            self.position += samples
            end_of_sweep |= (number + 1) % len(self.data.sizes) == 0
            if own:
                taken.append(record)
                total += samples
            if self.data.window is None and total >= budget:
                break
        return (taken, end_of_sweep, self.position) if taken else None


@given(datas(), st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(1, 4), st.data(), st.integers(0, 99))
def test_minibatches_are_those_of_a_walk(
    data: Data, sizes: list[int], workers: int, draw: st.DataObject, end: int
) -> None:
    rank = draw.draw(st.integers(0, workers - 1))
    model, ours = Walker(data, workers, rank, end), Minibatches(data.timeline(), end)
    place, partition = Place(), Partition(workers, rank)
    for size in sizes:
        expected = model.batch(size)
        batch = ours.cut(place, size, partition)
        if expected is None:
            assert batch is None
            break
        assert batch is not None
        assert (batch.records.tolist(), batch.end_of_sweep, batch.after.position) == expected
        place = batch.after
        fresh = data.timeline()
        assert fresh.at(place.position) == place
        assert fresh.records(batch.numbers).tolist() == batch.records.tolist()


@given(datas(), st.integers(1, 40), st.integers(1, 4), st.integers(1, 60))
def test_workers_together_read_everything_once(data: Data, size: int, workers: int, end: int) -> None:
    numbers: list[int] = []
    for rank in range(workers):
        minibatches, place = Minibatches(data.timeline(), end), Place()
        while (batch := minibatches.cut(place, size, Partition(workers, rank))) is not None:
            numbers += batch.numbers.tolist()
            place = batch.after
    assert sorted(numbers) == list(range(len(numbers)))
    assert data.timeline().at(end).number == len(numbers)


@given(datas(), st.integers(1, 40), st.integers(1, 3), st.integers(1, 90), st.integers(1, 200), st.data())
def test_a_run_is_its_minibatches_cut_one_by_one(
    data: Data, size: int, workers: int, most: int, end: int, draw: st.DataObject
) -> None:
    minibatches = Minibatches(data.timeline(), end)
    partition = Partition(workers, draw.draw(st.integers(0, workers - 1)))
    place = Place()
    for _ in range(3):
        taken = 0
        run = minibatches.cut_run(place, size, partition, most)
        for found in run:
            assert taken < most
            cut = minibatches.cut(place, size, partition)
            assert cut is not None
            assert found.records.tolist() == cut.records.tolist()
            assert found.numbers.tolist() == cut.numbers.tolist()
            assert (found.end_of_sweep, found.after) == (cut.end_of_sweep, cut.after)
            taken += len(cut.records)
            place = found.after
        if taken < most:
            assert minibatches.cut(place, size, partition) is None


def test_a_run_is_cut_within_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "BLOCK", 10)
    minibatches = Minibatches(Data([1, 2, 3] * 30, [0, 90], None).timeline(), end=400)
    assert [len(one.records) for one in minibatches.cut_run(Place(), 6, most=20)] == [3] * 7
    with pytest.raises(PlanError, match="its size is at least 1, got 0"):
        minibatches.cut_run(Place(), 0)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Data([1 + i % 5 for i in range(97)], [0, 20, 60, 97], CntkWindow(2), 3)

    def read() -> list[list[int]]:
        minibatches, place, found = Minibatches(data.timeline(), 900), Place(), []
        while (batch := minibatches.cut(place, 23)) is not None:
            found.append([*batch.records.tolist(), batch.after.position, batch.end_of_sweep])
            place = batch.after
        return found

    whole = read()
    monkeypatch.setattr(timeline_module, "BLOCK", 7)
    assert read() == whole
    for window in (CntkWindow(2), None):
        data.window = window
        bounds = np.concatenate([[0], np.cumsum([s for *_, s in itertools.islice(data.sequences(), 500)])])
        for position in range(0, 900, 11):
            number = int(np.searchsorted(bounds, position))
            assert data.timeline().at(position) == Place(number, int(bounds[number]))


def test_a_timeline_of_two_thousand_million_rows_is_not_written_down() -> None:
    n = 1 << 31
    order = CntkOrder(np.array([0, n]), np.array([n], np.uint64), None)
    batch = Minibatches(Timeline(order)).cut(Place(n - 2, n - 2), 5)
    assert batch is not None
    assert (batch.records.tolist(), batch.end_of_sweep) == ([n - 2, n - 1, 0, 1, 2], True)
    assert Timeline(order).at(3 * n + 7) == Place(3 * n + 7, 3 * n + 7)


def test_a_worker_beyond_the_chunks_of_a_shuffle_has_nothing_even_without_an_end() -> None:
    data = Data([1] * 8, [0, 4, 8], CntkWindow(2))
    assert Minibatches(data.timeline()).cut(Place(), 4, Partition(3, 2)) is None


def test_what_makes_no_sense_is_refused() -> None:
    data = Data([1, 2], [0, 2], None)
    with pytest.raises(PlanError, match="a minibatch: its size is at least 1, got 0"):
        Minibatches(data.timeline()).cut(Place(), 0)
    with pytest.raises(PlanError, match="a partition needs a rank below the number of workers, got 2 of 2"):
        Partition(2, 2)
    with pytest.raises(PlanError, match="sequences with samples, got sequence 1 without any; leave it out"):
        Timeline(data.order(), np.array([1, 0]))
    with pytest.raises(PlanError, match="a size for each of 2 sequences, got 1"):
        Timeline(data.order(), np.array([1]))
    with pytest.raises(PlanError, match="at least one sequence"):
        Timeline(CntkOrder(np.array([0]), np.empty(0, np.uint64), None))
    with pytest.raises(PlanError, match="has 1 slots of 4 steps, fewer than 2 workers"):
        Truncated(Minibatches(data.timeline()), 4).cut(Slots(), 7, Partition(2, 0))


# Truncated reading ----------------------------------------------------------------------------------------------------


def truncated_model(data: Data, size: int, steps: int, end: int) -> list[tuple[list[tuple[int, int, int, int]], bool]]:
    """Each minibatch's (slot, begin, end, record) and end of sweep, from lists of steps."""
    walk, position = data.sequences(), 0
    batches: list[tuple[list[tuple[int, int, int, int]], bool]] = []
    slots: list[list[tuple[int, int, int]]] = [[] for _ in range(max(1, size // steps))]  # (number, record, step)
    while True:
        for slot in slots:
            while len(slot) <= steps and position < end:
                number, record, _, samples = next(walk)
                slot += [(number, record, step) for step in range(samples)]
                position += samples
        pieces, end_of_sweep = [], False
        for i, slot in enumerate(slots):
            now, slot[:] = slot[:steps], slot[steps:]
            for at, (number, record, step) in enumerate(now):
                last = step == data.sizes[record] - 1
                end_of_sweep |= last and (number + 1) % len(data.sizes) == 0
                if at == 0 or now[at - 1][0] != number:
                    pieces.append((i, at - step, at - step + data.sizes[record], record))
        if not pieces:
            return batches
        batches.append((pieces, end_of_sweep))


@given(datas(), st.integers(1, 20), st.integers(1, 6), st.integers(0, 60))
def test_truncated_minibatches_are_those_of_lists_of_steps(data: Data, size: int, steps: int, end: int) -> None:
    truncated, state, found = Truncated(Minibatches(data.timeline(), end), steps), Slots(), []
    while (batch := truncated.cut(state, size)) is not None:
        assert all(piece.step + piece.count <= steps for piece in batch.pieces)
        found.append(([(p.slot, p.begin, p.end, p.held.record) for p in batch.pieces], batch.end_of_sweep))
        state = batch.after
        queues = [[(h.number, h.done, h.ends_sweep) for h in queue] for queue in state.queues]
        again = Truncated(Minibatches(data.timeline(), end), steps)
        assert again.restored(data.timeline().at(state.place.position), queues) == state
    assert found == truncated_model(data, size, steps, end)


def test_states_that_no_truncated_reading_comes_to_are_refused() -> None:
    truncated = Truncated(Minibatches(Data([3, 4, 5], [0, 3], None).timeline()), 2)
    place = Place(2, 7)
    assert truncated.restored(place, [[(0, 2, False), (1, 0, False)]]).queues[0][1].size == 4
    for queues in ([[(2, 0, False)]], [[(0, 1, False)], [(0, 1, False)]]):
        with pytest.raises(PlanError, match="not taken yet, or that another holds too"):
            truncated.restored(place, queues)
    with pytest.raises(PlanError, match="can't have read 3 of the 3 samples of sequence 0"):
        truncated.restored(place, [[(0, 3, False)]])
    with pytest.raises(PlanError, match="can't have read 1 of the 4 samples of sequence 1"):
        truncated.restored(place, [[(0, 1, False), (1, 1, False)]])
    with pytest.raises(PlanError, match="out of their order"):
        truncated.restored(place, [[(1, 1, False), (0, 0, False)]])
    state = truncated.restored(place, [[(0, 2, False)]])
    with pytest.raises(PlanError, match="goes on in 1 slots, a minibatch of 4 samples has 2"):
        truncated.cut(state, 4)
