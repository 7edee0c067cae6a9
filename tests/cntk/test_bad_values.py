"""What no source can work with is refused at once, by a message that says what was expected."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.cntk import (
    CTFDeserializer,
    MinibatchSource,
    MinibatchSourceFromData,
    StreamDef,
    StreamInformation,
    UserDeserializer,
    sequence_to_cntk_text_format,
)
from tests.cntk.fakes import InMemory, rest

X = StreamInformation("x", 0, "dense", np.float32, (2,))
ROWS = {"x": np.ones((2, 2), np.float32)}


@pytest.mark.parametrize(
    "name",
    [
        "max_samples",
        "max_sweeps",
        "randomization_window_in_chunks",
        "randomization_window_in_samples",
        "randomization_seed",
        "trace_level",
        "truncation_length",
        "max_errors",
    ],
)
@pytest.mark.parametrize("value", [2.0, math.nan, math.inf, "3", True, None, [1], np.array([1, 2]), b"1", -1])
def test_numbers_of_a_source_are_whole(name: str, value: Any) -> None:
    options = {"randomization_window_in_chunks": 0, name: value}
    with pytest.raises(hr.PlanError, match=r"is an integer|is at least [01], got -1"):
        MinibatchSource(InMemory([1, 2]), **options)


@pytest.mark.parametrize("name", ["randomize", "frame_mode", "multithreaded_deserializer"])
@pytest.mark.parametrize("value", [2, 1.0, "no", [1], (), {}, np.array([1, 2]), b"1"])
def test_flags_of_a_source_are_true_or_false(name: str, value: Any) -> None:
    with pytest.raises(hr.PlanError, match="is true or false, got"):
        MinibatchSource(InMemory([1, 2]), **{name: value})


def test_words_are_flags_as_in_configurations() -> None:
    source = MinibatchSource(InMemory([1, 2, 3]), randomize="false", max_sweeps=1)  # type: ignore[arg-type]
    assert len(rest(source, 1)) == 3


@pytest.mark.parametrize("value", [None, 3, "train.ctf", [], [CTFDeserializer], CTFDeserializer])
def test_a_source_needs_deserializers(value: Any) -> None:
    with pytest.raises(hr.PlanError, match="a minibatch source needs deserializers, as CTFDeserializer, got"):
        MinibatchSource(value)


def test_minibatches_that_would_repeat_the_data_without_end_are_refused() -> None:
    with MinibatchSource(InMemory([1, 2])) as source:
        with pytest.raises(hr.PlanError, match=r"at most 134217728 here, got \d+: reading has no end; max_sweeps=1"):
            source.next_minibatch(1 << 40)
        assert len(source.next_minibatch(2)) > 0
    with MinibatchSource(InMemory([1, 2]), max_sweeps=1) as source:
        assert next(iter(source.next_minibatch(1 << 70).values())).num_samples == 3
    with (
        MinibatchSource(InMemory([2, 2]), max_sweeps=1, truncation_length=1) as source,
        pytest.raises(hr.PlanError, match=r"at most 134217728 here, got \d+: what slots hold stays in memory"),
    ):
        source.next_minibatch(1 << 63)
    with pytest.raises(hr.PlanError, match=r"truncation_length is \d+ steps, more than the data has samples \(4\)"):
        MinibatchSource(InMemory([2, 2]), truncation_length=1 << 63)


@pytest.mark.parametrize("value", [3, "x", [1], ()])
def test_what_a_minibatch_is_keyed_by_is_a_map(value: Any) -> None:
    with MinibatchSource(InMemory([1, 2])) as source:
        with pytest.raises(hr.PlanError, match="input_map says which stream each key of the minibatch stands for"):
            source.next_minibatch(1, value)
        with pytest.raises(hr.PlanError, match="No stream found matching given name"):
            source.next_minibatch(1, {"a": [value]})
        with pytest.raises(hr.PlanError, match="No stream found matching given name"):
            source.stream_info([value])  # type: ignore[arg-type]


def test_parts_of_the_data_are_whole_numbers() -> None:
    with MinibatchSource(InMemory([1, 2])) as source:
        with pytest.raises(hr.PlanError, match="the number of workers is at most 2147483647, got"):
            source.next_minibatch(1, num_data_partitions=1 << 63)
        with pytest.raises(hr.PlanError, match=r"the rank is an integer, got \(\)"):
            source.next_minibatch(1, partition_index=())  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["headrace", "order", "data"])
def test_states_with_arrays_in_them_are_refused(key: str) -> None:
    with MinibatchSource(InMemory([1, 2])) as source:
        state = {**source.get_checkpoint_state(), key: np.array([1, 2])}
        with pytest.raises(hr.StateError, match=r"version|another"):
            source.restore_from_checkpoint(state)


@pytest.mark.parametrize("value", [5, None, b"a.ctf", "a\0b", ["a.ctf"]])
def test_a_file_is_a_path(value: Any) -> None:
    with pytest.raises(hr.PlanError, match="CTFDeserializer takes the path of a file"):
        CTFDeserializer(value, {"x": StreamDef(field="x", shape=2)})


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (StreamDef(field=5, shape=2), "the field of stream 'x' is a str"),  # type: ignore[arg-type]
        (StreamDef(field="x", shape=2, is_sparse="maybe"), "is_sparse of stream 'x' is true or false"),  # type: ignore[arg-type]
        (StreamDef(field="x", shape=-1), "the shape of stream 'x' is at least 0, got -1"),
        (StreamDef(field="x", shape=np.array([1, 2])), "the shape of stream 'x' is an integer"),
    ],
)
def test_streams_of_files_are_checked(stream: StreamDef, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CTFDeserializer("a.ctf", {"x": stream})


def test_the_word_false_makes_no_stream_sparse(tmp_path: Path) -> None:
    path = tmp_path / "a.ctf"
    path.write_text("|x 1 2\n")
    stream = StreamDef(field="x", shape=2, is_sparse="false")  # type: ignore[arg-type]
    with MinibatchSource(CTFDeserializer(path, {"x": stream}), max_sweeps=1) as source:
        assert source["x"].storage_format == "dense"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": 5}, "a stream is named by a str, got 5"),
        ({"shape": (-1, 2)}, "each dimension of stream 'x' is at least 0, got -1"),
        ({"shape": 2.5}, "each dimension of stream 'x' is an integer, got 2.5"),
        ({"dtype": "number"}, "stream 'x': dtype is a type of NumPy's, got 'number'"),
    ],
)
def test_information_of_streams_is_checked(values: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"name": "x", "stream_id": 0, "storage_format": "dense", "dtype": "f4", "shape": (2,)}
    with pytest.raises(ValueError, match=message):
        StreamInformation(**options | values)


class Chunks(UserDeserializer):
    """Three chunks, by a function of the number and of how often chunks were asked for."""

    chunks_in_memory = 1

    def __init__(self, chunk: Callable[[int, int], Any], infos: Any = (X,), count: Any = 3) -> None:
        self.chunk, self.infos, self.count, self.calls = chunk, infos, count, 0

    def stream_infos(self) -> Any:
        return self.infos

    def num_chunks(self) -> Any:
        return self.count

    def get_chunk(self, chunk_id: int) -> Mapping[str, Any]:
        self.calls += 1
        found: Mapping[str, Any] = self.chunk(chunk_id, self.calls)
        return found


def read(chunks: Chunks) -> int:
    with MinibatchSource(chunks, randomize=False, max_sweeps=2) as source:
        return len(rest(source, 3))


@pytest.mark.parametrize("count", [2.0, None, "3", [1], -1, 1 << 31, True])
def test_a_number_of_chunks_is_checked(count: Any) -> None:
    with pytest.raises(hr.PlanError, match=r"Chunks: num_chunks\(\) is (an integer|at least 0|at most 2147483647)"):
        read(Chunks(lambda i, n: ROWS, count=count))


@pytest.mark.parametrize("infos", [None, 3, "x", [None], ["x"], {"x": X}, []])
def test_streams_of_chunks_are_said_by_a_list(infos: Any) -> None:
    with pytest.raises(hr.DataError, match=r"Chunks\.stream_infos\(\): expected a"):
        read(Chunks(lambda i, n: ROWS, infos=infos))


def test_streams_of_chunks_have_names_and_shapes_that_make_sense() -> None:
    with pytest.raises(hr.DataError, match="expected a name of its own for each stream, got 'x', 'x'"):
        read(Chunks(lambda i, n: ROWS, infos=[X, X]))
    matrix = StreamInformation("y", 0, "sparse", np.float32, (2, 3))
    with pytest.raises(hr.DataError, match=r"sparse samples have one dimension, got the shape \(2, 3\) of 'y'"):
        read(Chunks(lambda i, n: ROWS, infos=[matrix]))


def test_chunks_that_change_are_refused() -> None:
    one = {"x": [np.ones((1, 2)), np.ones((1, 2))]}
    with pytest.raises(hr.DataError, match="chunk 0, sequence 1 has 3 samples, had 1 when it was measured"):
        read(Chunks(lambda i, n: one if n <= 3 else {"x": [np.ones((1, 2)), np.ones((3, 2))]}))
    with pytest.raises(hr.DataError, match="chunk 0 has 1 sequences, had 2 when it was measured"):
        read(Chunks(lambda i, n: one if n <= 3 else {"x": np.ones((1, 2))}))
    with pytest.raises(hr.DataError, match="expected streams by name"):
        read(Chunks(lambda i, n: one if n <= 3 else None))


def test_errors_of_users_code_come_out_with_the_chunk() -> None:
    def later(chunk: int, calls: int) -> Any:
        if calls > 4:
            raise ZeroDivisionError("mine")
        return ROWS

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        read(Chunks(later))
    assert caught.value.__notes__ == ["headrace: raised by get_chunk(1) of Chunks"]

    def stop(chunk: int, calls: int) -> Any:
        raise StopIteration

    with pytest.raises(hr.DataError, match="chunk 0: get_chunk raised StopIteration; num_chunks says how many"):
        read(Chunks(stop))


def test_matrices_that_contradict_themselves_are_refused() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix(np.ones((2, 5)))
    matrix.indices[0] = 77
    with pytest.raises(hr.DataError, match=r"the data, stream 'y': Sparse needs indices in \[0, 5\), got 77"):
        MinibatchSourceFromData({"y": matrix})


def test_names_in_data_are_text() -> None:
    with pytest.raises(hr.DataError, match="expected streams named by str, got 1"):
        MinibatchSourceFromData({1: np.ones(3)})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="expected streams by alias"):
        sequence_to_cntk_text_format(0, [1, 2])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="an alias is a name without blanks"):
        sequence_to_cntk_text_format(0, {1: [[1]]})  # type: ignore[dict-item]
