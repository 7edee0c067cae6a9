"""`headrace infer` of TFRecord files."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import headrace as hr
from headrace.cli import main
from headrace.formats.tfrecord import is_tfrecord


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_what_is_printed_reads_the_file(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], compression: str
) -> None:
    path = tmp_path / "a.tfrecord"
    with hr.TFRecordWriter(path, compression) as writer:
        writer.write(hr.encode_example({"x": [1.5, 2.5], "ids": [1], "name": "a"}))
        writer.write(hr.encode_example({"x": [3.5, 4.5], "ids": [2, 3], "name": "b"}))
    assert main(["infer", str(path)]) == 0
    out = capsys.readouterr().out
    assert "# by the first 1000 records at most" in out
    assert "    'x': hr.FixedLen((2,), 'float32'),\n" in out
    namespace: dict[str, hr.Dataset] = {}
    exec(out, namespace)
    assert namespace["data"][1]["ids"].tolist() == [2, 3]
    assert main(["infer", str(path), "--all", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["features"]["name"] == {"kind": "FixedLen", "dtype": "bytes", "shape": []}
    assert told["features"]["ids"] == {"kind": "VarLen", "dtype": "int64"}


def test_sequence_examples(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a"
    with hr.TFRecordWriter(path) as writer:
        writer.write(hr.encode_sequence_example({}, {"steps": np.ones((2, 3))}))
        writer.write(hr.encode_sequence_example({"id": 1}, {}))
    assert main(["infer", str(path), "--all"]) == 0
    out = capsys.readouterr().out
    assert "    'steps': hr.FixedLenSequence((3,), 'float32', allow_missing=True),\n" in out
    namespace: dict[str, hr.Dataset] = {}
    exec(out, namespace)
    assert namespace["data"][0]["steps"].tolist() == [[1, 1, 1], [1, 1, 1]]
    assert main(["infer", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lists"]["steps"]["shape"] == [3]


def test_which_files_are_of_records(tmp_path: pathlib.Path) -> None:
    for name, content in {"text": b"|x 1 2 3\n", "empty": b"", "cut.gz": b"\x1f\x8b\x08"}.items():
        (tmp_path / name).write_bytes(content)
        assert not is_tfrecord(str(tmp_path / name))
