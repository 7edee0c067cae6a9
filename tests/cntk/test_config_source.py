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
