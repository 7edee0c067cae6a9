"""Files in CNTK's text format that end anywhere: an error that names the file, or the same columns however opened."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DataError
from headrace.formats.ctf import CtfSource
from headrace.formats.ctf_schema import CtfStream

STREAMS = {"x": hr.dense(3), "y": hr.sparse(9)}
TEXTS = [
    b"|x 1 2 3 |y 0:1 8:2.5\n|y |x -1e3 +.5\n|x 1. 2 |# note |#| |y 3:1e-40\r\n",
    b"\xef\xbb\xbf 7 |x 1 2 3 |y 0:1\n7|x 4\n |y 1:1 |x\n\n18446744073709551615\t|other 1:2 |x 5e400\n8 |x 1|y 8:1 7:2",
]


def named(error: DataError, path: pathlib.Path) -> str:
    """The message of an error, which names the file."""
    assert path.name in str(error)
    return str(error)


def seen(path: pathlib.Path, streams: dict[str, CtfStream], **options: Any) -> Any:
    """All that is known of a file, or the error."""
    try:
        source = CtfSource(path, streams, **options)
        parsed = source.parse(np.arange(source.num_records))
        columns = {name: column.tolist() for name, column in parsed.columns.items()}
        problems = [parsed.explain(i) for i in range(len(parsed.error_rows))]
        sizes = None if source.sizes is None else source.sizes.tolist()
        return repr((columns, problems, source.keys().tolist(), sizes, source.chunks(20).tolist()))
    except DataError as error:
        return named(error, path)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("options", [{}, {"max_errors": 4}, {"require_all": True, "dtype": "float64"}])
@pytest.mark.parametrize("main", [False, True])
def test_a_file_may_end_anywhere(tmp_path: pathlib.Path, text: bytes, options: dict[str, Any], main: bool) -> None:
    streams = STREAMS | {"y": hr.sparse(9, defines_size=main)}
    for end in range(len(text) + 1):
        path = tmp_path / f"{end}.ctf"
        path.write_bytes(text[:end])
        first = seen(path, streams, **options)
        assert seen(path, streams, **options) == first  # from the index kept beside it
        assert seen(path, streams, **options, index="memory") == first


@pytest.mark.parametrize("text", TEXTS)
def test_streams_of_a_file_that_ends_anywhere_can_be_looked_for(tmp_path: pathlib.Path, text: bytes) -> None:
    path = tmp_path / "cut.ctf"
    for end in range(len(text) + 1):
        path.write_bytes(text[:end])
        try:
            found = hr.infer_ctf(path)
        except DataError as error:
            named(error, path)
        else:
            assert found.streams


_CUT_WHILE_READ = """
import os, sys, threading
import numpy as np
import headrace as hr
from headrace.formats.ctf import CtfSource

path = sys.argv[1]
source = CtfSource(path, {"x": hr.dense(3)}, index="memory")
records = np.arange(source.num_records)
source.parse(records)
threading.Timer(0.05, os.truncate, (path, 1000)).start()
try:
    while True:
        source.parse(records)
except hr.DataError as error:
    print(error)
"""


def test_a_file_that_is_cut_while_it_is_read_is_an_error_where_nothing_is_mapped(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.ctf"
    path.write_text("|x 1 2 3\n" * 200_000)
    done = subprocess.run(
        [sys.executable, "-c", _CUT_WHILE_READ, str(path)],
        env=os.environ | {"HEADRACE_MAPPED_MB": "0"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "changed while it was in use" in done.stdout
