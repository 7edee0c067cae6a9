from __future__ import annotations

import pathlib
import tempfile
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import PlanError
from headrace.cntk import StreamConfig, format_config, read_config
from headrace.formats.ctf_schema import check_alias

X = {"x": StreamConfig("x", "x", "dense", 3)}
FORMATS: tuple[Literal["dense", "sparse"], ...] = ("dense", "sparse")


@pytest.mark.parametrize("file", ["a.ctf", "/d e/ü;[x] #1.ctf", pathlib.Path("b c.ctf"), "50$.ctf", "true"])
def test_paths_survive(tmp_path: pathlib.Path, file: str | pathlib.Path) -> None:
    path = tmp_path / "r.cntk"
    path.write_text(format_config(X, file))
    assert read_config(path, must_exist=False).deserializers[0].file == str(file)


def test_parameters_are_written(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r.cntk"
    text = format_config(
        X,
        "a",
        section="train",
        precision="double",
        skipsequenceids=True,
        maxErrors=4,
        randomize="none",
        cacheIndex=False,
    )
    path.write_text(text)
    config = read_config(path, "train", must_exist=False)
    assert "    skipSequenceIds = true\n    maxErrors = 4\n" in text
    assert (config.precision, config.randomize, config.warnings) == ("double", False, ())
    assert (config.deserializers[0].skip_sequence_ids, config.deserializers[0].max_errors) == (True, 4)


def test_streams_of_read_ctf_are_written(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r.cntk"
    path.write_text(format_config({"x": hr.dense(3), "y": hr.sparse(9, alias="l", defines_size=True)}, "a"))
    assert read_config(path, must_exist=False).streams == {
        "x": StreamConfig("x", "x", "dense", 3),
        "y": StreamConfig("y", "l", "sparse", 9, True),
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"streams": {}}, "at least one stream"),
        ({"file": "$root$/a"}, "can't hold '\\$root\\$/a'"),
        ({"file": 'a"b'}, "can't hold"),
        ({"file": "default"}, "other than the word default"),
        ({"file": ""}, "can't hold ''"),
        ({"section": "a=b"}, "can't have the name 'a=b'"),
        ({"section": "a #b"}, "can't have the name"),
        ({"precision": "half"}, "precision: expected 'float' or 'double', found 'half'"),
        ({"maxError": 5}, "expected parameters of CNTK's text reader .*, found 'maxError'"),
        ({"streams": {"x": StreamConfig("x", "x", None, None)}}, "stream 'x': expected dim and format"),
        ({"streams": {"x": StreamConfig("x", "a\nb", "dense", 1)}}, "alias: a configuration can't hold"),
        ({"streams": {"x": X["x"], "X": X["x"]}}, "expected names that differ in more than case, found 'X' again"),
    ],
)
def test_what_cannot_be_written_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        format_config(**{"streams": X, "file": "a.ctf", **given})


def can_stand_in_a_file(alias: str) -> bool:
    try:
        check_alias(alias, "alias")
    except ValueError:
        return False
    return True


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.text(min_size=1, max_size=5), st.text(min_size=1, max_size=5), min_size=1, max_size=3),
    st.text(max_size=6),
    st.text(st.sampled_from('ab$_;#= "[](){}'), min_size=1, max_size=8),
)
def test_what_is_written_reads_back_or_is_refused(names: dict[str, str], section: str, file: str) -> None:
    streams = {
        name: StreamConfig(name, alias, FORMATS[number % 2], number, number == 1)
        for number, (name, alias) in enumerate(names.items())
    }
    try:
        text = format_config(streams, file, section=section)
    except PlanError:
        return
    if len(set(names.values())) < len(names) or not all(map(can_stand_in_a_file, names.values())):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "r.cntk")
        path.write_bytes(text.encode())
        (one,) = read_config(path, section, must_exist=False).deserializers
    assert one.streams == streams
    assert one.file == file
