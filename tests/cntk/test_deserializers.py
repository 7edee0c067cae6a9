from __future__ import annotations

from typing import Any

import pytest

import headrace as hr
from headrace.cntk import CBFDeserializer, CTFDeserializer, StreamDef, StreamDefs, StreamInformation

X = StreamDefs(x=StreamDef(field="x", shape=3))


@pytest.mark.parametrize(
    ("name", "value", "attribute", "expected"),
    [
        ("skipSequenceIds", "true", "skip_sequence_ids", True),
        ("skip_sequence_ids", False, "skip_sequence_ids", False),
        ("maxErrors", "7", "max_errors", 7),
        ("maxErrors", -1, "max_errors", 2**32 - 1),
        ("max_errors", 7, "max_errors", 7),
        ("chunkSizeInBytes", 100, "chunk_size", 100),
        ("chunk_size", "-1", "chunk_size", 2**63 - 1),
        ("cacheIndex", "True", "cache_index", True),
        ("traceLevel", 2, "trace_level", 2),
        ("PRECISION", "Double", "precision", "double"),
        ("keepDataInMemory", 1, "keep_data_in_memory", True),
    ],
)
def test_options_are_items_too(name: str, value: Any, attribute: str, expected: Any) -> None:
    text = CTFDeserializer("a.ctf", X)
    text[name] = value
    assert getattr(text, attribute) == text[name] == expected
    if name == attribute:
        assert getattr(CTFDeserializer("a.ctf", X, **{name: value}), attribute) == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("skipSequenceIds", "yes", "skipSequenceIds is true or false, got 'yes'"),
        ("maxErrors", "many", "maxErrors is a whole number, got 'many'"),
        ("maxErrors", 1.5, "maxErrors is a whole number, got 1.5"),
        ("chunkSizeInBytes", 0, "chunkSizeInBytes is a number from 1 to"),
        ("precision", "half", "precision is 'float' or 'double', got 'half'"),
    ],
)
def test_options_without_sense_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CTFDeserializer("a.ctf", X)[name] = value


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(
        KeyError, match="CTFDeserializer has no option 'maxError'; it has skip_sequence_ids, max_errors"
    ):
        CTFDeserializer("a.ctf", X)["maxError"] = 1
    with pytest.raises(KeyError, match="CBFDeserializer has no option 'maxErrors'"):
        CBFDeserializer("a.cbf")["maxErrors"]


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ({"x": StreamDef(shape=3)}, "stream name for key 'x' must be specified"),
        ({"x": StreamDef(field="x")}, "stream 'x' needs its shape"),
        ({"x": StreamDef(field="x", shape=(2, 3))}, r"the shape of stream 'x' is an integer, got \(2, 3\)"),
        ({"x": StreamDef(field="x", shape=-2)}, "the shape of stream 'x' is at least 0, got -2"),
        ({"x": StreamDef(field="x", shape=3, scp="a")}, "stream 'x' has scp, which is for images or speech"),
        ({"x": 3}, "stream 'x' is a StreamDef"),
        (["x"], "takes streams by name"),
        ({}, "needs at least one stream"),
    ],
)
def test_streams_that_cannot_be_read_are_refused(streams: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CTFDeserializer("a.ctf", streams)


def test_definitions_answer_to_cntks_names() -> None:
    stream = StreamDef(field="x", shape=3, is_sparse=True)
    assert (stream.stream_alias, stream.dim, stream.max_sequence_length) == ("x", 3, 65535)
    assert X.x.field == "x"
    with pytest.raises(hr.PlanError):
        CBFDeserializer("a.cbf", {"x": StreamDef(field="x", mlf="a")})


def test_a_shape_of_one_number_is_that_number() -> None:
    assert CTFDeserializer("a.ctf", {"x": StreamDef(field="x", shape=(3,))}).streams["x"].shape == (3,)
    assert StreamInformation("x", 0, "dense", "float32", 3).shape == (3,)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="stream 'x': storage_format is 'dense' or 'sparse', got 'csc'"):
        StreamInformation("x", 0, "csc", "float32", (3,))  # type: ignore[arg-type]
