from __future__ import annotations

import pytest

import headrace as hr
from headrace.cli.streams import format_streams, parse_streams
from headrace.formats.ctf_schema import CtfStream


def test_streams_are_read_as_documented() -> None:
    streams = parse_streams("x=sparse:1_000_000,defines_size  label=dense:10,alias=y\n")
    assert streams == {"x": CtfStream(1_000_000, True, None, True), "label": CtfStream(10, False, "y")}
    assert list(streams) == ["x", "label"]


@pytest.mark.parametrize(
    "text", ["x=sparse:9", "x=dense:0", "ä=dense:1,alias=ü w=sparse:5,alias=v,defines_size", "a:b=dense:3"]
)
def test_streams_are_written_as_they_are_read(text: str) -> None:
    assert format_streams(parse_streams(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected at least one stream, got none; write for instance"),
        ("x", "'x': expected NAME=FORMAT:DIM, got 'x'"),
        ("=dense:1", "expected NAME=FORMAT:DIM"),
        ("x=sparce:10", "'x=sparce:10': expected dense or sparse as the format, got 'sparce'"),
        ("x=:10", "expected dense or sparse as the format, got ''"),
        ("x=dense", "expected a whole number from 0 to 2147483647 as the dimension, got ''"),
        ("x=dense:-1", "as the dimension, got '-1'"),
        ("x=dense:²", "as the dimension, got '²'"),
        ("x=dense:", "as the dimension, got ''"),
        pytest.param("x=dense:" + "9" * 5000, "as the dimension, got '999", id="thousands of digits"),
        ("x=dense:2147483648", "as the dimension, got '2147483648'"),
        ("x=dense:1,alias=", "expected alias=ALIAS or defines_size after the comma, got 'alias='"),
        ("x=dense:1,alias=a|b", "'x=dense:1,alias=a|b': alias 'a|b' holds '|'"),
        ("x=dense:1,", "after the comma, got ''"),
        ("x=dense:1,size", "after the comma, got 'size'"),
        ("x=dense:1 x=dense:2", "expected each stream once, got 'x' again"),
        ("x=dense:1 y=dense:2,alias=x", "streams 'x' and 'y' are both called 'x' in the file"),
        ("x=dense:1,defines_size y=dense:2,defines_size", "both define the size of sequences"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    with pytest.raises(hr.PlanError) as caught:
        parse_streams(text)
    assert message in str(caught.value)
