from __future__ import annotations

import gc
import logging
import pathlib
import threading
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import cntk
from headrace.cntk import FULL_DATA_SWEEP, MinibatchSource, StreamInformation
from tests.cntk.fakes import InMemory, keys_of, rest, values

pytest.importorskip("scipy")
LENGTHS = [1 + i % 4 for i in range(23)]


def in_order(lengths: list[int] = LENGTHS, **options: Any) -> MinibatchSource:
    own = {k: options.pop(k) for k in ("max_errors", "streams", "bad", "lost", "sizes", "defines") if k in options}
    return MinibatchSource(InMemory(lengths, **own), randomize=False, **options)


def test_a_minibatch_has_each_stream() -> None:
    with in_order([1, 2, 3], streams=("x", "s"), max_sweeps=1) as source:
        minibatch = source.next_minibatch(3)
        x, s = minibatch[source["x"]], minibatch[source.streams.s]
        assert (x.num_samples, x.num_sequences, len(x), x.end_of_sweep, x.is_sparse, s.is_sparse) == (
            3,
            2,
            2,
            False,
            False,
            True,
        )
        assert (x.shape, s.shape) == ((2, 2, 1), (2, 2, 7))
        assert x.mask.tolist() == s.mask.tolist() == [[2, 0], [2, 1]]
        assert x.data.tolist() == x.asarray().tolist() == [[[0], [0]], [[10], [11]]]
        assert [part.tolist() for part in x.as_sequences()] == [[[0]], [[10], [11]]]
        assert isinstance(s.data, hr.Ragged)
        assert s.asarray()[1].tolist() == [[0, 1010, 0, 0, 0, 0, 0], [0, 1011, 0, 0, 0, 0, 0]]
        assert [part.toarray().tolist() for part in s.as_sequences()] == [
            part.tolist() for part in ([s.asarray()[0][:1], s.asarray()[1]])
        ]
        assert repr(s) == "MinibatchData(2 sequences, 3 samples, sparse (7,))"
        last = source.next_minibatch(3)
        assert last[source["x"]].end_of_sweep
        assert source.next_minibatch(3) == source.next_minibatch(3) == {}


def test_streams_say_what_they_are() -> None:
    source = in_order([1], streams=("x", "s"), defines="x")
    x = StreamInformation("x", 0, "dense", np.float32, (1,), True)
    assert source.stream_infos() == [x, StreamInformation("s", 1, "sparse", np.float32, (7,))]
    assert source.stream_info("x") == source["x"] == source.streams.x == source.streams["x"] == x
    assert hash(x) == hash(source["x"])
    for ask in (source.stream_info, source.__getitem__):
        with pytest.raises(hr.PlanError, match="No stream found matching given name 'zz'; there are 'x', 's'"):
            ask("zz")
    with pytest.raises(AttributeError, match="there is no 'zz', only x, s"):
        _ = source.streams.zz


def test_a_map_keys_the_minibatch() -> None:
    source = in_order([1, 1], streams=("x", "s"))
    one, two = object(), object()
    minibatch = source.next_minibatch(2, input_map={one: source["s"], two: "x"})
    assert minibatch[one].is_sparse
    assert not minibatch[two].is_sparse
    with pytest.raises(hr.PlanError, match="No stream found matching given name 'y'"):
        source.next_minibatch(2, input_map={one: "y"})


@pytest.mark.parametrize("threads", [None, False, True])
@pytest.mark.parametrize(
    "shuffle", [{"randomize": False}, {"randomization_seed": 3, "randomization_window_in_chunks": 2}]
)
def test_threads_change_nothing(threads: bool | None, shuffle: dict[str, Any]) -> None:
    sizes = [5, 5, 5, 5, 3, 3, 7, 1, 1, 1, 9, 9, 40, 40]
    found = []
    source = MinibatchSource(InMemory(LENGTHS), max_sweeps=3, multithreaded_deserializer=threads, **shuffle)
    for size in sizes:
        found.append((values(source.next_minibatch(size)), source.current_position))
    source.close()
    plain = MinibatchSource(InMemory(LENGTHS), max_sweeps=3, multithreaded_deserializer=False, **shuffle)
    assert found == [(values(plain.next_minibatch(size)), plain.current_position) for size in sizes]


def test_threads_end_with_their_source() -> None:
    source = in_order()
    for _ in range(3):
        source.next_minibatch(4)
    assert any(t.name.startswith("headrace-worker") for t in threading.enumerate())
    del source
    gc.collect()  # the fixture of all tests sees that no thread is left


def test_max_samples_and_sweeps() -> None:
    assert [len(b["x"]) for b in rest(in_order([1] * 5, max_samples=FULL_DATA_SWEEP), 2)] == [2, 2, 1]
    assert [len(b["x"]) for b in rest(in_order([1] * 5, max_samples=7), 2)] == [2, 2, 2, 1]
    assert [len(b["x"]) for b in rest(in_order([1] * 5, max_sweeps=2), 20)] == [10]
    assert rest(in_order([1] * 5, max_sweeps=0), 20) == []
    assert in_order().is_infinite()
    assert not in_order(max_samples=FULL_DATA_SWEEP).is_infinite()
    with pytest.raises(hr.PlanError, match="max_samples is at least 1, got 0"):
        in_order(max_samples=0)


def test_workers_share_every_sweep() -> None:
    read = [rest(in_order(max_sweeps=2, sizes=False), 8, num_data_partitions=3, partition_index=r) for r in range(3)]
    keys = [int(s[0][0]) // 10 for batches in read for b in batches for s in b["x"]]
    assert sorted(keys) == sorted(2 * list(range(23)))


def test_without_a_window_nothing_is_shuffled() -> None:
    source = MinibatchSource(InMemory(LENGTHS), max_sweeps=1, randomization_window_in_chunks=0)
    assert rest(source, 7) == rest(in_order(max_sweeps=1), 7)
    shuffled = MinibatchSource(
        InMemory(LENGTHS), max_sweeps=1, randomization_window_in_chunks=0, randomization_window_in_samples=15
    )
    found = [s for b in rest(shuffled, 7) for s in b["x"]]
    in_their_order = [s for b in rest(source, 7) for s in b["x"]]
    assert sorted(map(str, found)) != list(map(str, found)) or found != in_their_order


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_samples": 5, "max_sweeps": 5}, "give max_samples or max_sweeps, not both; got 5 and 5"),
        (
            {"randomize": True, "randomization_window_in_samples": 5},
            "give one randomization window, got 128 chunks and 5 samples",
        ),
        ({"frame_mode": True, "truncation_length": 5}, "frame_mode and truncation_length exclude each other"),
        ({"randomize": True, "randomization_seed": -1}, "its seed is at least 0"),
        ({"truncation_length": -1}, "truncation_length is at least 0, got -1"),
    ],
)
def test_contradictions_are_refused(options: dict[str, Any], message: str) -> None:
    deserializer = InMemory(LENGTHS)
    with pytest.raises(hr.PlanError, match=message):
        MinibatchSource(deserializer, **{"randomize": False, **options})


def test_bad_arguments_of_minibatches_are_refused() -> None:
    source = in_order()
    with pytest.raises(hr.PlanError, match="minibatch_size_in_samples is at least 1, got 0"):
        source.next_minibatch(0)
    with pytest.raises(hr.PlanError, match="a rank below the number of workers, got 2 of 2"):
        source.next_minibatch(1, num_data_partitions=2, partition_index=2)
    with pytest.raises(hr.PlanError, match="needs deserializers, as CTFDeserializer, got"):
        MinibatchSource([])


def test_frame_mode_refuses_sequences() -> None:
    with pytest.raises(
        hr.DataError, match="memory, sequence 2: frame mode needs sequences of one sample, found one of 3"
    ):
        in_order([1, 1, 3], frame_mode=True)
    assert [len(b["x"]) for b in rest(in_order([1, 1, 1], frame_mode=True, max_sweeps=1), 2)] == [2, 1]
    source = in_order([1, 2, 1], frame_mode=True, sizes=False)
    with pytest.raises(
        hr.DataError, match=r"memory, sequence 1: frame mode needs one sample of each stream .* found 2 of 'x'"
    ):
        source.next_minibatch(3)


def test_a_mistake_counts_once_whatever_the_sweeps(caplog: pytest.LogCaptureFixture) -> None:
    source = in_order([1] * 6, bad=[1, 4], max_errors=2, max_sweeps=3)
    assert len(rest(source, 4)) == 5
    messages = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert messages == [
        "odd 0; others of this kind are not reported",
        "mistake 1 of 2 allowed: mistake in 1",
        "mistake 2 of 2 allowed: mistake in 4",
    ]


def test_one_mistake_more_than_allowed_stops(caplog: pytest.LogCaptureFixture) -> None:
    source = in_order([1] * 6, bad=[1, 4], max_errors=1, trace_level=0)
    assert keys_of(source.next_minibatch(3)) == [0, 1, 2]
    for _ in range(2):
        text = r"Reached the maximum number of allowed errors \(max_errors=1\) while reading memory; .*:"
        with pytest.raises(hr.DataError, match=text + r"\n  mistake in 1\n  mistake in 4$"):
            source.next_minibatch(3)
        assert source.current_position == 3
    assert not caplog.records


def test_sequences_that_are_lost_are_left_out() -> None:
    source = in_order([1, 2, 1, 2, 1], lost=[0, 1, 3], max_errors=3, max_sweeps=1)
    # The first minibatch is lost as a whole; the next one stands for it.
    assert keys_of(source.next_minibatch(3)) == [2]
    assert source.current_position == 6
    minibatch = source.next_minibatch(3)
    assert keys_of(minibatch) == [4]
    assert source.next_minibatch(3) == {}


@pytest.mark.parametrize("options", [{}, {"truncation_length": 2}, {"randomize": True}])
def test_losing_everything_is_an_error_even_without_an_end(options: dict[str, Any]) -> None:
    lengths = [1 + i % 3 for i in range(8)]
    source = MinibatchSource(
        InMemory(lengths, lost=range(8), max_errors=8), **{"randomize": False, "trace_level": 0, **options}
    )
    with pytest.raises(hr.DataError, match="all sequences of memory are lost to mistakes"):
        source.next_minibatch(4)
    ending = MinibatchSource(InMemory(lengths, lost=range(8), max_errors=8), max_sweeps=1, trace_level=0, **options)
    assert ending.next_minibatch(4) == {}
    source = in_order([2, 1, 2], frame_mode=True, sizes=False, lost=[0], max_errors=1, trace_level=0)
    with pytest.raises(hr.DataError, match="memory, sequence 2: frame mode needs"):
        source.next_minibatch(3)


def test_text_is_read_through_its_deserializer(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.ctf"
    path.write_text("1 |a 1 2 |w 3:1\n1 |a 3 4\n2 |a 5 |w 0:2 1:1\n3 |a x |w 1:1\n")
    streams = cntk.StreamDefs(
        A=cntk.StreamDef(field="a", shape=2), W=cntk.StreamDef(field="w", shape=4, is_sparse=True)
    )
    for keep in (False, True):
        text = cntk.CTFDeserializer(path, streams, max_errors=1, precision="double", keep_data_in_memory=keep)
        with MinibatchSource(text, randomize=False, max_sweeps=2, trace_level=0) as source:
            found = rest(source, 9)
        assert [b["A"] for b in found] == [2 * [[[1, 2], [3, 4]], [[5, 0]]]]
        assert [b["W"] for b in found] == [2 * [[[0, 0, 0, 1]], [[2, 1, 0, 0]]]]
        assert source["A"].dtype == np.float64
    text = cntk.CTFDeserializer(path, streams)
    text["skipSequenceIds"] = "true"
    with (
        MinibatchSource(text, randomize=False) as source,
        pytest.raises(hr.DataError, match=r"maximum number of allowed errors \(max_errors=0\) while reading .*a\.ctf"),
    ):
        source.next_minibatch(9)


def test_text_is_as_strict_as_it_is_asked_to_be(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.ctf"
    path.write_text("1 |a 1\n2 |b 2\n1 |a 3 |b 4\n")
    streams = {name: cntk.StreamDef(field=name, shape=1) for name in "ab"}
    for level, messages in ((0, 0), (1, 1)):
        caplog.clear()
        with MinibatchSource(
            cntk.CTFDeserializer(path, streams), randomize=False, max_sweeps=1, trace_level=level
        ) as source:
            assert len(caplog.records) == messages
            assert rest(source, 9) == [{"a": [[[1]], [], [[3]]], "b": [[], [[2]], [[4]]], "end": True}]
    assert "lines 1 and 3" in caplog.text
    with pytest.raises(hr.DataError, match="1 on lines 1 and 3"):
        MinibatchSource(cntk.CTFDeserializer(path, streams, strict=True))
    text = cntk.CTFDeserializer(path, streams, require_all=True)
    with (
        MinibatchSource(text, trace_level=0, randomize=False) as source,
        pytest.raises(hr.DataError, match=r"allowed errors \(max_errors=0\).*sequence 1.*stream 'b'"),
    ):
        source.next_minibatch(9)


def test_a_configuration_makes_a_source(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.ctf").write_text("|a 1\n|a 2\n|a 3\n")
    config = tmp_path / "reader.cntk"
    config.write_text(
        f'reader = [\n readerType = "CNTKTextFormatReader"\n file = "{tmp_path}/a.ctf"\n randomize = false\n'
        ' input = [\n  A = [ alias = "a" ; dim = 1 ; format = "dense" ]\n ]\n]\n'
    )
    with cntk.read_config(config).minibatch_source(max_sweeps=1) as source:
        assert rest(source, 2) == [{"A": [[[1]], [[2]]], "end": False}, {"A": [[[3]]], "end": True}]


def test_torch_gets_tensors() -> None:
    torch = pytest.importorskip("torch")
    source = in_order([1, 2], streams=("x", "s"))
    minibatch = source.next_minibatch(3, device=torch.device("cpu"))
    x, s = minibatch[source["x"]].to_torch(), minibatch[source["s"]].to_torch()
    assert torch.equal(x, torch.tensor([[[0.0], [0.0]], [[10.0], [11.0]]]))
    assert s.offsets.tolist() == [0, 1, 3]
    assert s.values.to_dense()[:, 1].tolist() == [0, 1010, 1011]


class Breaking(InMemory):
    """Fails at sequence 9, as a file that vanishes would."""

    def __init__(self, lengths: list[int]) -> None:
        super().__init__(lengths)
        parse = self.source.parse

        def breaks(records: Any) -> Any:
            if 9 in records:
                raise OSError("gone")
            return parse(records)

        self.source.parse = breaks  # type: ignore[method-assign]


@pytest.mark.parametrize("threads", [None, False, True])
def test_an_error_comes_in_its_turn_and_again(threads: bool | None) -> None:
    source = MinibatchSource(Breaking([1] * 20), randomize=False, multithreaded_deserializer=threads)
    assert [keys_of(source.next_minibatch(2)) for _ in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            source.next_minibatch(2)
        assert source.current_position == 8
    source.current_position = 10
    assert [keys_of(source.next_minibatch(2)) for _ in range(2)] == [[10, 11], [12, 13]]
    source.close()


def test_the_second_level_of_tracing_tells_what_was_found(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headrace"):
        in_order([1, 2], trace_level=2)
    assert [r.message for r in caplog.records] == ["2 sequences with 3 samples, 1 chunks"]


def test_what_a_run_costs_is_told() -> None:
    source = in_order(max_sweeps=1)
    assert source.stats().batches == 0
    found = rest(source, 5)
    stats = source.stats()
    assert stats.batches == len(found)
    assert stats.bytes > 4 * sum(LENGTHS)
    assert set(stats.stages) == {"plan", "read", "other"}
    source.close()


def test_a_forked_process_goes_on_by_itself() -> None:
    source = in_order(max_sweeps=1)
    first = [keys_of(source.next_minibatch(5)) for _ in range(3)]
    expected = [keys_of(source.next_minibatch(5)) for _ in range(3)]
    again = in_order(max_sweeps=1)
    assert [keys_of(again.next_minibatch(5)) for _ in range(3)] == first
    again._ahead._process = -1  # as if the threads had stayed in another process
    assert [keys_of(again.next_minibatch(5)) for _ in range(3)] == expected
    source.close()
    again.close()


def test_small_minibatches_are_parsed_together_and_cut_out_when_looked_at() -> None:
    calls: list[int] = []
    source = in_order([1, 2, 3, 4] * 50, multithreaded_deserializer=False)
    parse = source._ahead._parse
    source._ahead._parse = lambda records: calls.append(len(records)) or parse(records)  # type: ignore[func-returns-value]
    kept = [next(iter(source.next_minibatch(4).values())) for _ in range(40)]
    assert calls[0] == 2, "the first comes soon"
    assert len(calls) < 10
    assert sum(calls) >= sum(data.num_sequences for data in kept)
    for data in kept:
        counts = data.num_sequences, data.num_samples
        assert (len(data.column), len(data.column.values)) == counts
        assert (data.num_sequences, data.num_samples) == counts
        assert data.column.offsets[0] == 0
