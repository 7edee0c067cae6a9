"""From a configuration to minibatches."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.cntk import CTFDeserializer, DeserializerConfig, ReaderConfig, StreamConfig, StreamDef, read_config
from headrace.plan.cntk_order import CntkWindow

X = {"x": StreamConfig("x", "X", "sparse", 9, True)}


def test_a_text_file_is_described_with_all_options() -> None:
    one = DeserializerConfig("ctf", "a.ctf", X, True, 3, 2, 1000, True, True, "double").deserializer()
    assert isinstance(one, CTFDeserializer)
    assert one.filename == "a.ctf"
    assert one.streams == {"x": StreamDef(field="X", shape=9, is_sparse=True, defines_mb_size=True)}
    assert (one.skip_sequence_ids, one.max_errors, one.trace_level, one.chunk_size) == (True, 3, 2, 1000)
    assert (one.cache_index, one.keep_data_in_memory, one.precision) == (True, True, "double")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {"randomization_window_in_chunks": 128, "randomization_window_in_samples": 0, "randomize": True}),
        (
            {"window": CntkWindow(7, "samples")},
            {"randomization_window_in_chunks": 0, "randomization_window_in_samples": 7},
        ),
        ({"window": None, "randomize": False}, {"randomize": False, "randomization_window_in_chunks": 0}),
        (
            {"seed": 5, "trace_level": 2, "multithreaded": True, "max_errors": 3},
            {"randomization_seed": 5, "trace_level": 2, "multithreaded_deserializer": True, "max_errors": 3},
        ),
        ({"truncated": True, "truncation_length": 4}, {"truncation_length": 4, "frame_mode": False}),
        ({"frame_mode": True}, {"frame_mode": True, "truncation_length": 0}),
    ],
)
def test_the_source_has_what_the_configuration_says(
    config: dict[str, Any], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr("headrace.cntk.minibatch.MinibatchSource", lambda files, **options: seen.update(options))
    ReaderConfig((DeserializerConfig("ctf", "a.ctf", X),), **config).minibatch_source(max_sweeps=2)
    assert seen["max_sweeps"] == 2
    assert {name: seen[name] for name in expected} == expected


@pytest.mark.parametrize("window", ["", "sampleBasedRandomizationWindow = true", "randomizationWindow = 9"])
def test_binary_files_give_minibatches(tmp_path: pathlib.Path, window: str) -> None:
    values = np.arange(60, dtype=np.float32).reshape(20, 3)
    hr.write_cbf(tmp_path / "a.cbf", {"features": values})
    (tmp_path / "r.cntk").write_text(
        "reader = { randomizationSeed = 3; " + window + "\ndeserializers = ( { type = CNTKBinaryFormatDeserializer\n"
        "file = a.cbf; input = { x = { alias = features } } } ) }"
    )
    config = read_config(tmp_path / "r.cntk", base_dir=tmp_path)
    source = config.minibatch_source(max_sweeps=1)
    found = []
    while batch := source.next_minibatch(8):
        found += [np.asarray(one)[0, 0] for one in batch[source.streams.x].as_sequences()]
    assert sorted(found) == values[:, 0].tolist()
    assert found != values[:, 0].tolist()


TEXT = "1 |X 4:1 |y 1 2\n1 |X 5:2\n2 |X 0:3 |y 3 4\n3 |X 1:1 |y 5 6\n"
READER = """reader = [ readerType = CNTKTextFormatReader; file = a.ctf; %s
input = [ x = [ alias = X; dim = 9; format = sparse ]; y = [ dim = 2; format = dense ] ] ]"""


def config_of(folder: pathlib.Path, more: str = "", text: str = TEXT) -> ReaderConfig:
    (folder / "a.ctf").write_text(text)
    (folder / "r.cntk").write_text(READER % more)
    return read_config(folder / "r.cntk", base_dir=folder)


def test_text_gives_minibatches(tmp_path: pathlib.Path) -> None:
    source = config_of(tmp_path, "randomize = false").minibatch_source(max_samples=8)
    sizes = []
    while batch := source.next_minibatch(2):
        sizes.append((batch[source.streams.x].num_samples, batch[source.streams.y].num_samples))
    assert sizes == [(2, 1), (2, 2), (2, 1), (2, 2)]


def test_the_order_is_that_of_the_seed(tmp_path: pathlib.Path) -> None:
    text = "".join(f"{n} |y {n} 0 |X 0:1\n" for n in range(50))
    orders = []
    for seed in (1, 2):
        source = config_of(tmp_path, f"randomizationSeed = {seed}", text).minibatch_source(max_sweeps=1)
        batch = source.next_minibatch(50)[source.streams.y]
        orders.append([float(np.asarray(one)[0, 0]) for one in batch.as_sequences()])
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(50))
    assert orders[0] != orders[1]


def batch_of(config: ReaderConfig) -> Any:
    return next(iter(hr.Loader(config.read().batch(4))))


def test_a_single_file_is_a_dataset(tmp_path: pathlib.Path) -> None:
    batch = batch_of(config_of(tmp_path, "precision = double"))
    assert [row.tolist() for row in batch["y"]] == [[[1, 2]], [[3, 4]], [[5, 6]]]
    assert batch["y"][0].dtype == np.float64
    assert [row.ids().tolist() for row in batch["x"]] == [[4, 5], [0], [1]]
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.ctf", "r.cntk"]
    batch_of(config_of(tmp_path, "cacheIndex = true"))
    assert len(list(tmp_path.iterdir())) == 3
    text = TEXT.replace("1 |X 5:2", "|X 5:2 |y 7 7")
    batch = batch_of(config_of(tmp_path, "skipSequenceIds = true; maxErrors = 4", text))
    assert batch["y"].tolist() == [[1, 2], [7, 7], [3, 4], [5, 6]]


def test_a_single_binary_file_is_a_dataset(tmp_path: pathlib.Path) -> None:
    hr.write_cbf(tmp_path / "a.cbf", {"X": np.eye(2, dtype=np.float32)})
    one = DeserializerConfig("cbf", str(tmp_path / "a.cbf"), {"x": StreamConfig("x", "X", None, None)})
    assert batch_of(ReaderConfig((one,)))["x"].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(hr.PlanError, match=r"a configuration of one file, found 2; minibatch_source\(\) joins them"):
        ReaderConfig((one, one)).read()


def test_mistakes_within_the_budget_are_left_out(tmp_path: pathlib.Path) -> None:
    broken = TEXT.replace("3 4", "3 four")
    with pytest.raises(hr.DataError, match="line 3"):
        config_of(tmp_path, "randomize = false", broken).minibatch_source(max_sweeps=1).next_minibatch(10)
    source = config_of(tmp_path, "randomize = false; maxErrors = 1", broken).minibatch_source(max_sweeps=1)
    assert source.next_minibatch(10)[source.streams.y].num_sequences == 2


def test_several_files_are_joined_by_their_ids(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.ctf").write_text("1 |x 1\n2 |x 2\n3 |x 3\n")
    (tmp_path / "b.ctf").write_text("3 |y 30\n1 |y 10\n2 |y 20\n")
    one = "{ type = CNTKTextFormatDeserializer; file = %s.ctf; input = { %s = { dim = 1; format = dense } } }"
    text = f"reader = {{ randomize = 0; deserializers = ( {one % ('a', 'x')} : {one % ('b', 'y')} ) }}"
    (tmp_path / "r.cntk").write_text(text)
    source = read_config(tmp_path / "r.cntk", base_dir=tmp_path).minibatch_source(max_sweeps=1)
    batch = source.next_minibatch(10)
    found = {n: [float(np.asarray(s)[0, 0]) for s in batch[source.streams[n]].as_sequences()] for n in ("x", "y")}
    assert found == {"x": [1, 2, 3], "y": [10, 20, 30]}
