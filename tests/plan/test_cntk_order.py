"""CNTK's order against the words of its specification, written out once more in plain Python."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from headrace import PlanError, _native
from headrace.plan.cntk_order import CntkOrder, CntkWindow


def mt19937_64(seed: int) -> Iterator[int]:
    mask = 2**64 - 1
    state = [seed & mask]
    for i in range(1, 312):
        state.append((6364136223846793005 * (state[-1] ^ state[-1] >> 62) + i) & mask)
    while True:
        for i in range(312):
            x = state[i] & 0xFFFFFFFF80000000 | state[(i + 1) % 312] & 0x7FFFFFFF
            state[i] = state[(i + 156) % 312] ^ x >> 1 ^ (0xB5026F5AA96619E9 if x & 1 else 0)
        for x in list(state):
            x ^= x >> 29 & 0x5555555555555555
            x ^= x << 17 & 0x71D67FFFEDA60000
            x ^= x << 37 & 0xFFF7EEE000000000
            yield (x ^ x >> 43) & mask


def windows(samples: list[int], window: CntkWindow) -> list[tuple[int, int]]:
    n, half, found = len(samples), window.size // 2, []
    before = [sum(samples[:i]) for i in range(n + 1)]
    begin, end = 0, 1
    for i in range(n):
        if window.unit == "chunks":
            width = max(window.size, 1)
            begin = max(i - half, 0)
            end = begin + width
            if end > n:
                begin, end = max(n - width, 0), n
        else:
            while before[i] - before[begin] > half:
                begin += 1
            begin, end = min(begin, i), max(end, i + 1)
            while end < n and before[end + 1] - before[i] < half:
                end += 1
        found.append((begin, end))
    return found


def reference(sizes: list[int], samples: list[int], window: CntkWindow, seed: int) -> tuple[list[int], list[int]]:
    n, first = len(sizes), np.concatenate([[0], np.cumsum(sizes)]).tolist()
    order, random = list(range(n)), mt19937_64(seed)
    for i in range(n):
        j = next(random) % n
        order[i], order[j] = order[j], order[i]
    window_of = windows([samples[c] for c in order], window)
    line = [(first[c] + i, home) for home, c in enumerate(order) for i in range(sizes[c])]
    chunk_of = [home for _, home in line]
    start = np.concatenate([[0], np.cumsum([sizes[c] for c in order])]).tolist()
    random = mt19937_64(seed)
    for t in range(len(line)):
        begin, end = window_of[chunk_of[t]]
        while True:
            j = start[begin] + next(random) % (start[end] - start[begin])
            other = window_of[chunk_of[j]]
            if begin <= line[j][1] < end and other[0] <= line[t][1] < other[1]:
                break
        line[t], line[j] = line[j], line[t]
    return [record for record, _ in line], [home for _, home in line]


def made(sizes: list[int], samples: list[int], window: CntkWindow | None, seed: int) -> CntkOrder:
    chunks = np.concatenate([[0], np.cumsum(sizes)])
    return CntkOrder(chunks.astype(np.int64), np.array(samples, np.uint64), window, seed)


CHUNKS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(CHUNKS, st.integers(0, 14), st.sampled_from(["chunks", "samples"]), st.integers(0, 2**64 - 1), st.data())
def test_orders_are_those_of_the_words(
    chunks: list[tuple[int, int]], size: int, unit: str, seed: int, data: st.DataObject
) -> None:
    sizes, samples = [s for s, _ in chunks], [s * k for s, k in chunks]
    window = CntkWindow(size * (5 if unit == "samples" else 1), "samples" if unit == "samples" else "chunks")
    order = made(sizes, samples, window, seed)
    sweep = data.draw(st.integers(0, 3))
    records, homes = reference(sizes, samples, window, (seed + sweep) % 2**64)
    start = data.draw(st.integers(0, len(records)))
    stop = data.draw(st.integers(start, len(records)))
    found = order.stretch(sweep, start, stop)
    assert found[0].tolist() == records[start:stop]
    assert found[1].tolist() == homes[start:stop]
    whole = order.stretch(sweep, 0, len(records))  # goes back
    assert whole[0].tolist() == records


def test_a_sweep_may_be_read_in_any_stretches() -> None:
    order = made([3] * 40, [3] * 40, CntkWindow(5), 7)
    whole = order.stretch(2, 0, 120)[0].tolist()
    parts: list[int] = []
    while len(parts) < 120:
        stop = min(len(parts) + len(parts) % 7 + 1, 120)
        parts += order.stretch(2, len(parts), stop)[0].tolist()
    assert parts == whole
    assert sorted(whole) == list(range(120))
    assert whole != order.stretch(3, 0, 120)[0].tolist()


def test_without_a_window_the_order_is_that_of_the_data() -> None:
    records, homes = made([2, 3], [2, 3], None, 5).stretch(9, 1, 4)
    assert records.tolist() == [1, 2, 3]
    assert homes.tolist() == [0, 1, 1]


def test_seeds_go_on_from_sweep_to_sweep() -> None:
    sizes = [4] * 9
    a, b = made(sizes, sizes, CntkWindow(3), 10), made(sizes, sizes, CntkWindow(3), 12)
    assert a.stretch(2, 0, 36)[0].tolist() == b.stretch(0, 0, 36)[0].tolist()
    last = made(sizes, sizes, CntkWindow(3), 2**64 - 1)
    assert last.stretch(1, 0, 36)[0].tolist() == made(sizes, sizes, CntkWindow(3), 0).stretch(0, 0, 36)[0].tolist()


def test_numbers_of_numpy_are_as_good_as_others() -> None:
    largest = (1 << 64) - 1
    plain = made([4, 4], [4, 4], CntkWindow(2), largest)
    size: Any = np.int64(2)
    seed: Any = np.uint64(largest)
    order = made([4, 4], [4, 4], CntkWindow(size), seed)
    assert type(order.seed) is int
    assert order.stretch(3, 0, 8)[0].tolist() == plain.stretch(3, 0, 8)[0].tolist()  # the seed goes round


@pytest.mark.parametrize("wrong", [1.5, "1", None, True])
def test_sizes_and_seeds_are_whole_numbers(wrong: Any) -> None:
    with pytest.raises(PlanError, match="its size is an integer"):
        CntkWindow(wrong)
    with pytest.raises(PlanError, match="its seed is an integer"):
        made([4], [4], CntkWindow(2), wrong)


def test_threads_may_share_an_order() -> None:
    order = made([5] * 20, [5] * 20, CntkWindow(4), 3)
    wanted = {
        sweep: made([5] * 20, [5] * 20, CntkWindow(4), 3).stretch(sweep, 10, 90)[0].tolist() for sweep in range(4)
    }
    wrong: list[int] = []

    def read(sweep: int) -> None:
        for _ in range(30):
            if order.stretch(sweep, 10, 90)[0].tolist() != wanted[sweep]:
                wrong.append(sweep)

    threads = [threading.Thread(target=read, args=(sweep,)) for sweep in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def chunked(sizes: list[int], limit: int) -> list[int]:
    ends = np.cumsum(sizes).astype(np.uint64)
    found: NDArray[np.int64] = _native.form_chunks(ends - np.array(sizes, np.uint64), ends, limit)
    return [int(i) for i in found]


def test_chunks_hold_as_much_as_fits() -> None:
    assert chunked([10, 10, 10, 10], 20) == [0, 2, 4]
    assert chunked([10, 50, 10, 10], 20) == [0, 1, 2, 4]
    assert chunked([10, 10, 10], 2**64 - 1) == [0, 3]
    assert chunked([10, 10, 10], 0) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="overlap"):
        _native.form_chunks(np.array([0, 5], np.uint64), np.array([10, 20], np.uint64), 5)


def test_gaps_before_a_sequence_count_once_they_are_inside() -> None:
    begins, ends = np.array([0, 15, 30], np.uint64), np.array([10, 20, 35], np.uint64)
    assert _native.form_chunks(begins, ends, 15).tolist() == [0, 2, 3]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(PlanError, match="chunks ascend from 0"):
        CntkOrder(np.array([0, 2, 2]), np.array([1, 1], np.uint64), None)
    with pytest.raises(PlanError, match="its seed is at least 0"):
        made([1], [1], CntkWindow(1), -1)
    with pytest.raises(PlanError, match="its size is at least 0"):
        CntkWindow(-1)
    with pytest.raises(PlanError, match="its size is at most 9223372036854775807, got"):
        CntkWindow(1 << 63)
    with pytest.raises(PlanError, match="its unit is one of 'chunks', 'samples', got 'rows'"):
        CntkWindow(1, "rows")  # type: ignore[arg-type]
    with pytest.raises(IndexError, match=r"positions \[0, 3\), got \[2, 4\)"):
        made([3], [3], CntkWindow(1), 0).stretch(0, 2, 4)
