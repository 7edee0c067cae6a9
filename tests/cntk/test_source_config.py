"""A source's configuration, put together field by field, reads as the source with those arguments does."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import headrace as hr
from headrace.cntk import MinibatchSource, MinibatchSourceConfig, TraceLevel
from tests.cntk.fakes import InMemory, keys_of


def read(source: MinibatchSource) -> list[list[int]]:
    found = []
    with source:
        while minibatch := source.next_minibatch(4):
            found.append(keys_of(minibatch))
    return found


@pytest.mark.parametrize(
    ("fields", "arguments"),
    [
        ({}, {}),
        ({"randomization_seed": 7, "trace_level": TraceLevel.Error}, {"randomization_seed": 7}),
        ({"randomize": False}, {"randomize": False}),
        ({"randomization_window_in_chunks": 2}, {"randomization_window_in_chunks": 2}),
        (
            {"randomization_window_in_chunks": 0, "randomization_window_in_samples": 5},
            {"randomization_window_in_chunks": 0, "randomization_window_in_samples": 5},
        ),
        ({"is_multithreaded": False, "truncation_length": 2}, {"truncation_length": 2}),
        ({"max_sweeps": (1 << 64) - 1, "max_samples": 9}, {"max_sweeps": (1 << 64) - 1, "max_samples": 9}),
    ],
)
def test_fields_are_the_arguments_of_a_source(fields: dict[str, Any], arguments: dict[str, Any]) -> None:
    lengths = [1 + k % 3 for k in range(20)]
    config = MinibatchSourceConfig([InMemory(lengths)], randomize=fields.pop("randomize", True))
    for name, value in {"max_sweeps": 2, **fields}.items():
        assert name in {field.name for field in dataclasses.fields(config)}
        setattr(config, name, value)
    expected = MinibatchSource(InMemory(lengths), **{"max_sweeps": 2, **arguments})
    assert read(config.minibatch_source()) == read(expected)


def test_fields_are_checked_when_the_source_is_made() -> None:
    config = MinibatchSourceConfig(InMemory([2, 1]), is_frame_mode_enabled=True, max_errors=3)
    with pytest.raises(hr.DataError, match="frame mode needs sequences of one sample"):
        config.minibatch_source()
    assert [int(level) for level in TraceLevel] == [0, 1, 2]
