"""What becomes of TFRecord files when writing them goes wrong, and of readers that find what is left."""

from __future__ import annotations

import errno
import gc
import logging
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import pytest

import headrace as hr
from headrace.formats.atomic import write_atomic
from headrace.formats.shards import check_shards

KINDS = ["", "GZIP", "ZLIB"]


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


LIMITED = """
import os, resource, sys
import headrace as hr

resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
path, kind, shard = sys.argv[1:]
writer = hr.TFRecordWriter(path, kind, shard_size=int(shard) or None)
record = os.urandom(700_000)
failed = 0
for action in (*[lambda: writer.write(record)] * 3, lambda: writer.write(b"small"), writer.close, writer.close):
    try:
        action()
    except OSError as error:
        failed += 1
        assert error.errno == 27, error
        if failed == 1:
            assert error.__notes__ == [f"headrace: in writing {path}"], error.__notes__
        if failed > 1:
            assert "no file was made, as a write failed before (File too large)" in str(error), error
            assert error.filename == path
print(failed)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of files' sizes")
@pytest.mark.parametrize("shard", [0, 100_000, 10_000_000])
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_write_that_fails_nothing_looks_whole(tmp_path: pathlib.Path, kind: str, shard: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "a.tfrecord"), kind, str(shard)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 4
    assert names(tmp_path) == []


UNPACKED = """
import resource, sys
import headrace as hr
from headrace.formats import packed

packed.IN_MEMORY = 1000
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    hr.read_tfrecord(sys.argv[1])
except OSError as error:
    print(error.__notes__[0])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of files' sizes")
def test_where_there_is_no_room_to_unpack(tmp_path: pathlib.Path) -> None:
    with hr.TFRecordWriter(tmp_path / "a", "GZIP") as writer:
        writer.write(bytes(3_000_000))
    done = subprocess.run([sys.executable, "-c", UNPACKED, str(tmp_path / "a")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"headrace: in unpacking {tmp_path / 'a'} into ")


KILLED = """
import os, sys
import headrace as hr

writer = hr.TFRecordWriter(sys.argv[1], shard_size=int(sys.argv[2]) or None)
for _ in range(30):
    writer.write(bytes(100_000))
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("shard", [0, 200_000])
def test_what_a_killed_writer_leaves_no_pattern_matches(tmp_path: pathlib.Path, shard: int) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "a.tfrecord"), str(shard)])
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(FileNotFoundError, match="the pattern matches nothing"):
        hr.read_tfrecord(tmp_path / "*")


@pytest.mark.parametrize("shard", [None, 10])
def test_a_writer_that_is_dropped_makes_no_file_and_says_so(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, shard: int | None
) -> None:
    writer = hr.TFRecordWriter(tmp_path / "a", shard_size=shard)
    writer.write_many([b"a" * 20, b"b" * 20])
    del writer
    gc.collect()
    assert names(tmp_path) == []
    assert "no file was made, as its writer was never closed" in caplog.text


def test_shards_that_can_not_all_be_put_in_their_place(tmp_path: pathlib.Path) -> None:
    (tmp_path / "r-00001-of-00003.tfrecord").mkdir()
    with (
        pytest.raises(IsADirectoryError, match="expected a file to write, found a directory"),
        hr.TFRecordWriter(tmp_path / "r.tfrecord", shard_size=20) as writer,
    ):
        writer.write_many([b"a" * 10] * 3)
    assert names(tmp_path) == ["r-00001-of-00003.tfrecord"]


def test_places_where_no_file_can_be(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="make it first") as missing:
        hr.TFRecordWriter(tmp_path / "no" / "a")
    assert missing.value.filename == str(tmp_path / "no" / "a")
    with pytest.raises(IsADirectoryError, match="found a directory") as folder:
        hr.TFRecordWriter(tmp_path)
    assert folder.value.filename == str(tmp_path)
    with pytest.raises(IsADirectoryError):
        write_atomic(tmp_path, [b""])
    with pytest.raises(FileNotFoundError) as missing:
        hr.TFRecordWriter(tmp_path / "no" / "a", shard_size=5)
    assert missing.value.filename == str(tmp_path / "no" / "a")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("size", "message"), [(1.5, "integer"), ("x", "integer"), (True, "integer"), (-1, "at least 1")]
)
def test_sizes_of_shards(tmp_path: pathlib.Path, size: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"shard_size is .*{message}"):
        hr.TFRecordWriter(tmp_path / "a", shard_size=size)


@pytest.mark.parametrize("records", [b"abc", "abc", 3, None])
def test_one_record_is_not_many(tmp_path: pathlib.Path, records: Any) -> None:
    with (
        pytest.raises(TypeError, match=r"write_many takes records one after another, got .*; write\(…\) takes one"),
        hr.TFRecordWriter(tmp_path / "a") as writer,
    ):
        writer.write_many(records)


def test_an_error_that_is_no_file_error_ends_the_writer_too(tmp_path: pathlib.Path) -> None:
    writer = hr.TFRecordWriter(tmp_path / "a")
    writer._sink = None
    with pytest.raises(AttributeError):
        writer.write(bytes(2_000_000))
    with pytest.raises(OSError, match="no file was made") as error:
        writer.close()
    assert error.value.errno == errno.EIO
    assert names(tmp_path) == []


def shards(folder: pathlib.Path, count: int, size: int) -> None:
    with hr.TFRecordWriter(folder / "s.tfrecord", shard_size=size) as writer:
        writer.write_many([b"%d" % i for i in range(count)])


def test_shards_of_an_earlier_run_are_told(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    shards(tmp_path, 5, 1)
    assert len(hr.read_tfrecord(tmp_path / "s-*.tfrecord")) == 5
    assert not caplog.records
    shards(tmp_path, 2, 1)
    assert len(hr.read_tfrecord(tmp_path / "s-*.tfrecord")) == 7
    assert "matches the parts of wholes of 2 and of 5 files, and the records of all are read" in caplog.text
    assert f"{tmp_path}/s-*-of-00005.tfrecord" in caplog.text
    caplog.clear()
    assert len(hr.read_tfrecord(tmp_path / "s-*-of-00002.tfrecord")) == 2
    assert not caplog.records


def test_missing_shards_are_told_but_not_those_left_out(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    shards(tmp_path, 4, 1)
    assert len(hr.read_tfrecord(tmp_path / "s-0000[0-1]-of-*.tfrecord")) == 2
    assert not caplog.records
    os.unlink(tmp_path / "s-00002-of-00004.tfrecord")
    assert len(hr.read_tfrecord(tmp_path / "s-*.tfrecord")) == 3
    assert f"expected all of 4 parts, found no {tmp_path}/s-00002-of-00004.tfrecord" in caplog.text


def test_names_that_are_none_of_shards(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        check_shards("*", ["a-1-of-3", "a-00000-of-00000", "a", "b-00001-of-x", "b-00000-of-00001/c"])
    assert not caplog.records
