from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.cntk import (
    FULL_DATA_SWEEP,
    MinibatchData,
    MinibatchSource,
    MinibatchSourceFromData,
    StreamInformation,
    UserDeserializer,
    UserMinibatchSource,
)
from tests.cntk.fakes import InMemory, rest, values

sparse = pytest.importorskip("scipy.sparse")


def test_arrays_and_matrices_are_read_row_by_row() -> None:
    data = {"x": np.arange(6).reshape(3, 2), "y": sparse.csr_matrix(np.eye(3)), "z": np.arange(3.0)}
    source = MinibatchSourceFromData(data, max_samples=FULL_DATA_SWEEP)
    infos = source.stream_infos()
    assert [(i.name, i.storage_format, i.shape, i.dtype) for i in infos] == [
        ("x", "dense", (2,), np.float32),
        ("y", "sparse", (3,), np.float64),
        ("z", "dense", (), np.float64),
    ]
    assert not source.is_infinite()
    first, second = source.next_minibatch(2), source.next_minibatch(2)
    assert source.next_minibatch(2) == {}
    assert first[source["x"]].asarray().tolist() == [[[0, 1]], [[2, 3]]]
    assert first[source["y"]].asarray().tolist() == [[[1, 0, 0]], [[0, 1, 0]]]
    assert not first[source["x"]].end_of_sweep
    assert second[source["z"]].asarray().tolist() == [[2]]
    assert second[source["z"]].end_of_sweep


def test_lists_are_sequences_and_the_end_of_the_data_is_an_end() -> None:
    data = {
        "x": ([np.ones((2, 1)), np.zeros((3, 1)), np.ones((1, 1))], float),
        "y": [sparse.eye(1, 4, format="csr")] * 3,
    }
    source = MinibatchSourceFromData(data)
    assert source.is_infinite()
    counts = []
    for _ in range(6):
        minibatch = source.next_minibatch(4)
        counts.append((minibatch[source["x"]].num_samples, minibatch[source["y"]].num_samples))
    assert counts == [(2, 1), (4, 2)] * 3
    limited = MinibatchSourceFromData(data, max_samples=7)
    assert [b[limited["x"]].num_samples for b in iter(lambda: limited.next_minibatch(4), {})] == [2, 4, 2]


def test_workers_read_everything_once() -> None:
    found = []
    for rank in range(3):
        source = MinibatchSourceFromData({"x": np.arange(10.0)}, max_samples=20)
        while minibatch := source.next_minibatch(6, 3, rank):
            found += minibatch[source["x"]].asarray().ravel().tolist()
    assert sorted(found) == sorted(2 * list(range(10)))


def test_a_worker_that_has_nothing_in_a_sweep_goes_on_with_the_next() -> None:
    source = MinibatchSourceFromData({"x": np.arange(3.0)}, max_samples=12)
    found = []
    while minibatch := source.next_minibatch(8, 4, 3):
        found += minibatch[source["x"]].asarray().ravel().tolist()
    assert found == [0, 1, 2]  # the sequences 3, 7 and 11 of the timeline
    with pytest.raises(hr.PlanError, match="max_samples is at least 1, got 0"):
        MinibatchSourceFromData({"x": np.arange(3.0)}, max_samples=0)


def test_columns_are_taken_as_they_are() -> None:
    column = hr.Ragged.from_rows([[[1.0], [2.0]], [[3.0]]])
    rows = hr.Sparse.from_rows([([1], [5.0]), ([0, 2], [6.0, 7.0])], width=3)
    source = MinibatchSourceFromData({"a": column, "b": MinibatchData(column, end_of_sweep=False), "c": rows})
    minibatch = source.next_minibatch(9)
    assert minibatch[source["a"]].asarray().tolist() == minibatch[source["b"]].asarray().tolist()
    assert minibatch[source["c"]].asarray()[:, 0].tolist() == [[0, 5, 0], [6, 0, 7]]
    assert minibatch[source["c"]]


def test_positions_are_restored() -> None:
    source = MinibatchSourceFromData({"x": np.arange(5.0)})
    source.next_minibatch(3)
    state = source.get_checkpoint_state()
    assert state == {"minibatchSourcePosition": 3}
    expected = values(source.next_minibatch(3))
    again = MinibatchSourceFromData({"x": np.arange(5.0)})
    again.restore_from_checkpoint(state)
    assert values(again.next_minibatch(3)) == expected
    again.current_position = 3
    assert again.current_position == 3
    for bad in ({}, {"minibatchSourcePosition": -1}, 3):
        with pytest.raises(hr.StateError, match=r"the state is damaged|expected the dict that get_checkpoint_state"):
            again.restore_from_checkpoint(bad)  # type: ignore[arg-type]
    with pytest.raises(hr.StateError, match="reading ends after 5"):
        MinibatchSourceFromData({"x": np.arange(5.0)}, FULL_DATA_SWEEP).current_position = 6


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "expected streams by name"),
        ({"x": np.ones(3), "y": np.ones(2)}, "as many sequences in each stream, got {'x': 3, 'y': 2}"),
        ({"x": 3}, "stream 'x': expected an array whose rows are samples, got 3"),
        ({"x": np.array(["a"])}, "stream 'x': expected numbers, got <U1"),
        ({"x": []}, "stream 'x': expected at least one sequence, got none"),
        ({"x": [np.ones((1, 2)), np.ones((1, 3))]}, "sequences differ in the shape of their samples"),
        ({"x": [np.ones((0, 2))]}, "the data needs sequences, each with a sample"),
        ({"x": np.ones((0, 2))}, "the data needs sequences, each with a sample"),
    ],
)
def test_data_that_is_none_is_refused(data: Any, message: str) -> None:
    with pytest.raises(hr.DataError, match=message):
        MinibatchSourceFromData(data)


def test_a_source_of_ones_own_needs_two_methods() -> None:
    class Twos(UserMinibatchSource):
        def stream_infos(self) -> list[StreamInformation]:
            return [StreamInformation("x", 0, "dense", np.float32, 1)]  # type: ignore[arg-type]

        def next_minibatch(self, num_samples: int, *_: Any, **__: Any) -> dict[StreamInformation, MinibatchData]:
            column = hr.Ragged.from_rows([np.full((1, 1), 2.0)] * num_samples)
            return {self["x"]: MinibatchData(column, end_of_sweep=True)}

    source = Twos()
    assert source.next_minibatch(2)[source.streams.x].asarray().tolist() == [[[2]], [[2]]]
    assert source.stream_info("x").shape == (1,)
    assert not source.is_infinite()
    with pytest.raises(hr.PlanError, match="No stream found matching given name 'y'; there are 'x'"):
        source.stream_info("y")
    with pytest.raises(NotImplementedError, match="Twos has no get_checkpoint_state"):
        source.get_checkpoint_state()
    with pytest.raises(NotImplementedError, match="Twos has no restore_from_checkpoint"):
        source.restore_from_checkpoint({})
    with pytest.raises(TypeError):
        UserMinibatchSource()  # type: ignore[abstract]


class Chunks(UserDeserializer):
    """Chunk c has c sequences, the k-th of k + 1 samples of value 10 c + k."""

    def __init__(self, count: int = 6) -> None:
        self.count = count
        self.calls: list[int] = []

    def stream_infos(self) -> list[StreamInformation]:
        return [
            StreamInformation("x", 0, "dense", np.float32, (2,)),
            StreamInformation("s", 1, "sparse", np.float64, (9,)),
        ]

    def num_chunks(self) -> int:
        return self.count

    def get_chunk(self, chunk_id: int) -> Mapping[str, Any]:
        self.calls.append(chunk_id)
        if not chunk_id:
            return {"x": np.empty((0, 2)), "s": sparse.csr_matrix((0, 9))}
        rows = [np.full((k + 1, 2), 10 * chunk_id + k) for k in range(chunk_id)]
        one = sparse.csr_matrix(([1.0], ([0], [chunk_id])), shape=(1, 9))
        return {"x": rows, "s": [one] * chunk_id}


def test_chunks_of_ones_own_are_read() -> None:
    found = rest(MinibatchSource(Chunks(), randomize=False, max_sweeps=1), 6)
    sequences = [s for b in found for s in b["x"]]
    assert sequences == [[[10 * c + k] * 2] * (k + 1) for c in range(6) for k in range(c)]
    assert [np.flatnonzero(s[0]).tolist() for b in found for s in b["s"]] == [[c] for c in range(6) for _ in range(c)]


def test_chunks_of_ones_own_are_shuffled_and_resumed() -> None:
    source = MinibatchSource(Chunks(), max_sweeps=2, randomization_window_in_chunks=2)
    first = values(source.next_minibatch(9))
    state = source.get_checkpoint_state()
    others = rest(source, 9)
    again = MinibatchSource(Chunks(), max_sweeps=2, randomization_window_in_chunks=2)
    again.restore_from_checkpoint(state)
    assert rest(again, 9) == others
    everything = sorted(str(s) for b in [first, *others] for s in b["x"])
    assert everything == sorted(2 * [str([[10.0 * c + k] * 2] * (k + 1)) for c in range(6) for k in range(c)])
    with pytest.raises(hr.StateError, match="saved with another order"):
        MinibatchSource(Chunks(5), max_sweeps=2, randomization_window_in_chunks=2).restore_from_checkpoint(state)


def test_chunks_are_kept_as_long_as_there_is_room() -> None:
    class Few(Chunks):
        chunks_in_memory = 1

    few, all_kept = Few(), Chunks()
    assert rest(MinibatchSource(few, max_sweeps=1), 9) == rest(MinibatchSource(all_kept, max_sweeps=1), 9)
    assert all_kept.calls == list(range(6))
    assert len(few.calls) > 6


def test_chunks_are_truncated_and_joined() -> None:
    class Dense(Chunks):
        def stream_infos(self) -> list[StreamInformation]:
            return super().stream_infos()[:1]

    source = MinibatchSource(Dense(), truncation_length=2, randomize=False, max_sweeps=1)
    count = 0
    while minibatch := source.next_minibatch(6):
        count += minibatch[source["x"]].num_samples
    assert count == sum(k + 1 for c in range(6) for k in range(c))
    joined = MinibatchSource([InMemory([1] * 4, streams=("y",)), Dense()], randomize=False, max_sweeps=1)
    assert joined.next_minibatch(99)[joined["x"]].column.lengths.tolist() == [1, 1, 2, 1]
    with pytest.raises(hr.DataError, match="Dense, chunk 2, sequence 1: frame mode needs sequences of one sample"):
        MinibatchSource(Dense(), frame_mode=True)


def test_chunks_that_are_not_what_streams_say_are_refused() -> None:
    class Wrong(Chunks):
        def __init__(self, chunk: Any) -> None:
            super().__init__(1)
            self.chunk = chunk

        def get_chunk(self, chunk_id: int) -> Mapping[str, Any]:
            found: Mapping[str, Any] = self.chunk
            return found

    one = sparse.csr_matrix((1, 9))
    for chunk, message in [
        ({"x": np.ones((1, 2))}, "Wrong, chunk 0 lacks the stream 's'; it has x"),
        (
            {"x": np.ones((1, 3)), "s": one},
            "stream 'x': expected dense samples of shape .2,., got dense samples of shape .3,.",
        ),
        ({"x": one, "s": one}, "stream 'x': expected dense samples of shape .2,., got sparse samples of shape .9,."),
        ({"x": np.ones((0, 2)), "s": sparse.csr_matrix((0, 9))}, "Wrong has no sequences"),
        ([], "expected streams by name"),
    ]:
        with pytest.raises(hr.DataError, match=message):
            MinibatchSource(Wrong(chunk))

    class Changing(Chunks):
        chunks_in_memory = 1

        def get_chunk(self, chunk_id: int) -> Mapping[str, Any]:
            self.calls.append(chunk_id)
            count = 3 if len(self.calls) < 3 else 2
            return {"x": np.ones((count, 2)), "s": sparse.csr_matrix((count, 9))}

    source = MinibatchSource(Changing(2), randomize=False)
    with pytest.raises(hr.DataError, match="Changing, chunk 0 has 2 sequences, had 3 when it was measured"):
        source.next_minibatch(3)
