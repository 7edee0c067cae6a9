from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.cntk import MinibatchSource
from tests.cntk.fakes import InMemory, values

pytest.importorskip("scipy")


def truncated(lengths: list[int], steps: int, **options: Any) -> MinibatchSource:
    own = {k: options.pop(k) for k in ("max_errors", "streams", "lost") if k in options}
    return MinibatchSource(InMemory(lengths, **own), truncation_length=steps, **{"randomize": False, **options})


def test_steps_of_slots() -> None:
    source = truncated([1, 4, 3], 2, streams=("x", "s"), max_sweeps=1)
    minibatch = source.next_minibatch(4)
    x, s = minibatch[source["x"]], minibatch[source["s"]]
    assert x.pieces is not None
    assert [(p.slot, p.begin, p.end) for p in x.pieces] == [(0, 0, 1), (0, 1, 5), (1, 0, 3)]
    assert (x.num_samples, x.num_sequences, x.shape, s.shape) == (4, 3, (2, 2, 1), (2, 2, 7))
    assert x.asarray()[:, :, 0].tolist() == [[0, 10], [20, 21]]
    assert x.mask.tolist() == [[2, 2], [2, 1]]
    assert not s.is_sparse  # as from CNTK
    assert s.data[0].tolist() == [[1000, 0, 0, 0, 0, 0, 0], [0, 1010, 0, 0, 0, 0, 0]]
    second = source.next_minibatch(4)[source["x"]]
    assert second.pieces is not None
    assert [(p.slot, p.begin, p.end) for p in second.pieces] == [(0, -1, 3), (1, -2, 1)]
    assert second.mask.tolist() == [[1, 1], [1, 0]]
    assert second.end_of_sweep
    third = source.next_minibatch(4)[source["x"]]
    assert third.asarray()[:, :, 0].tolist() == [[13, 0], [0, 0]]
    assert source.next_minibatch(4) == {}


@pytest.mark.parametrize("seed", [None, 0, 5])
@pytest.mark.parametrize("size", [3, 12, 25])
def test_every_sample_comes_once_and_in_order(seed: int | None, size: int) -> None:
    lengths = [1 + (7 * i) % 9 for i in range(31)]
    shuffle: dict[str, Any] = {} if seed is None else {"randomize": True, "randomization_seed": seed}
    source = truncated(lengths, 4, max_sweeps=2, **shuffle)
    slots: dict[int, list[float]] = {}
    while minibatch := source.next_minibatch(size):
        data = minibatch[source["x"]]
        assert data.pieces is not None
        for piece, samples in zip(data.pieces, data.as_sequences(), strict=True):
            slots.setdefault(piece.slot, []).extend(samples[:, 0].tolist())
    for found in slots.values():  # a step that isn't a sequence's first comes right after the one before it
        assert all(not value % 10 or found[i - 1] == value - 1 for i, value in enumerate(found))
    expected = [10 * i + k for i, n in enumerate(lengths) for k in range(n)]
    assert sorted(v for found in slots.values() for v in found) == sorted(2 * expected)


def test_streams_of_different_lengths_are_refused() -> None:
    source = MinibatchSource(
        [InMemory([2, 2]), InMemory([2, 1], streams=("y",), name="y")], truncation_length=2, randomize=False
    )
    with pytest.raises(
        hr.DataError, match=r"memory, sequence 1: .* as many samples of each stream, 2 here; found 2 of x, 1 of y"
    ):
        source.next_minibatch(4)


def test_what_is_lost_leaves_a_gap() -> None:
    source = truncated([2, 2, 2], 2, lost=[2], max_errors=1, max_sweeps=1, trace_level=0)
    data = source.next_minibatch(4)[source["x"]]
    assert data.mask.tolist() == [[2, 1], [0, 0]]
    assert data.num_sequences == 1
    lost = truncated([2, 2, 2], 2, lost=[0, 1], max_errors=2, max_sweeps=1, trace_level=0)
    assert values(lost.next_minibatch(2))["x"] == [[[20], [21]]]


def test_size_and_workers_stay() -> None:
    source = truncated([5] * 9, 2)
    source.next_minibatch(4)
    source.next_minibatch(5)  # as many slots
    with pytest.raises(hr.PlanError, match="goes on in 2 slots, a minibatch of 6 samples has 3"):
        source.next_minibatch(6)
    with pytest.raises(hr.PlanError, match="hold what partition 0 of 1 took, got partition 0 of 2; keep to it"):
        source.next_minibatch(8, num_data_partitions=2, partition_index=0)
    with pytest.raises(
        hr.PlanError, match="too many workers: a minibatch of 4 samples has 2 slots of 2 steps, fewer than 3"
    ):
        truncated([5] * 9, 2).next_minibatch(4, num_data_partitions=3, partition_index=0)


def test_workers_share() -> None:
    found = []
    for rank in range(2):
        source = truncated([1 + i % 5 for i in range(20)], 3, max_sweeps=1)
        while minibatch := source.next_minibatch(12, num_data_partitions=2, partition_index=rank):
            found += np.concatenate(minibatch[source["x"]].as_sequences())[:, 0].tolist()
    assert sorted(found) == [10 * i + k for i in range(20) for k in range(1 + i % 5)]
