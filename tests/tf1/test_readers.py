from __future__ import annotations

import gzip
import pathlib
from typing import Any

import pytest

from headrace import tf1 as tf


def read_all(reader: Any, names: list[str], count: int | None = None) -> tuple[list[Any], tf.OpError]:
    queue = tf.train.string_input_producer(names, num_epochs=1, shuffle=False)
    step = reader.read_up_to(queue, count) if count else reader.read(queue)
    found: list[Any] = []
    with tf.Session() as sess:
        tf.train.start_queue_runners(sess)
        while True:
            try:
                key, value = sess.run(step)
            except tf.OpError as error:
                assert sess.run(reader.num_records_produced()) == len(found) or count
                return found, error
            found.append((key, value) if count is None else (key.tolist(), value.tolist()))


@pytest.fixture(autouse=True)
def _here(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, data: bytes) -> str:
    pathlib.Path(name).write_bytes(data)
    return name


def test_lines_with_their_numbers() -> None:
    names = [write("a", b"h\nx\r\ny\r\r\n\n"), write("e", b""), write("b", b"h\nlast\r")]
    found, end = read_all(tf.TextLineReader(skip_header_lines=1), names)
    assert found == [(b"a:2", b"x"), (b"a:3", b"y\r"), (b"a:4", b""), (b"b:2", b"last\r")]
    assert isinstance(end, tf.errors.OutOfRangeError)


def test_read_up_to_stays_in_a_file() -> None:
    names = [write("a", b"1\n2\n3\n"), write("b", b"4\n")]
    found, _ = read_all(tf.TextLineReader(), names, 2)
    assert [values for _, values in found] == [[b"1", b"2"], [b"3"], [b"4"]]


def test_whole_files_and_names() -> None:
    names = [write("a", b"\x00\xff"), write("b", b"")]
    assert read_all(tf.WholeFileReader(), names)[0] == [(b"a", b"\x00\xff"), (b"b", b"")]
    assert read_all(tf.IdentityReader(), names)[0] == [(b"a", b"a"), (b"b", b"b")]


def test_fixed_length() -> None:
    name = write("f", b"HHabcdefghF")
    reader = tf.FixedLengthRecordReader(4, header_bytes=2, footer_bytes=1, hop_bytes=2)
    assert [v for _, v in read_all(reader, [name])[0]] == [b"abcd", b"cdef", b"efgh"]
    packed = write("z", gzip.compress(b"abcdefgh"))
    reader = tf.FixedLengthRecordReader(4, encoding="GZIP")
    assert read_all(reader, [packed])[0] == [(b"z:0", b"abcd"), (b"z:1", b"efgh")]


def test_a_rest_is_told_of() -> None:
    name = write("f", b"abcdefghij")
    with pytest.warns(UserWarning, match="the last 2 bytes are no whole record of 4 bytes"):
        assert len(read_all(tf.FixedLengthRecordReader(4), [name])[0]) == 2


def test_a_file_shorter_than_its_header_is_an_error() -> None:
    names = [write("short", b"ab"), write("good", b"HHHabcdFF")]
    reader = tf.FixedLengthRecordReader(4, header_bytes=3, footer_bytes=2)
    found, error = read_all(reader, names)
    assert found == []
    assert isinstance(error, tf.errors.InvalidArgumentError)
    assert "short: expected at least 3 bytes of header and 2 of footer, the file has 2" in str(error)


def test_records_of_no_bytes_are_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="record_bytes must be 1 or more, got 0"):
        tf.FixedLengthRecordReader(0)


def test_a_file_that_is_not_there_is_an_error_once() -> None:
    queue = tf.train.string_input_producer(["nope", write("a", b"x\n")], num_epochs=1, shuffle=False)
    value = tf.TextLineReader().read(queue)[1]
    with tf.Session() as sess:
        tf.train.start_queue_runners(sess)
        with pytest.raises(tf.errors.NotFoundError, match="nope; No such file") as caught:
            sess.run(value)
        assert isinstance(caught.value.__cause__, FileNotFoundError)
        assert sess.run(value) == b"x"


def test_a_directory() -> None:
    pathlib.Path("d").mkdir()
    assert isinstance(read_all(tf.WholeFileReader(), ["d"])[1], tf.errors.FailedPreconditionError)


def test_state_can_be_saved() -> None:
    queue = tf.train.string_input_producer(["a", "b"], shuffle=False)
    reader = tf.IdentityReader()
    key = reader.read(queue)[0]
    state, given = reader.serialize_state(), tf.placeholder(tf.string)
    restore = reader.restore_state(given)
    with tf.Session() as sess:
        tf.train.start_queue_runners(sess)
        assert sess.run(key) == b"a"
        saved = sess.run(state)
        sess.run(reader.reset())
        assert sess.run(reader.num_records_produced()) == 0
        sess.run(restore, {given: saved})
        assert sess.run(reader.num_records_produced()) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse state"):
            sess.run(restore, {given: b"junk"})
        with pytest.raises(tf.errors.UnimplementedError, match="TextLineReader can't save its state"):
            sess.run(tf.TextLineReader().serialize_state())


def test_readers_want_queues_of_names() -> None:
    with pytest.raises(TypeError, match="queue of strings"):
        tf.TextLineReader().read(tf.FIFOQueue(2, tf.int32, [[]]))
    with pytest.raises(TypeError, match="queue of file names"):
        tf.TextLineReader().read("a.txt")  # type: ignore[arg-type]


def test_several_threads_share_a_reader() -> None:
    name = write("n", b"".join(b"%d\n" % i for i in range(500)))
    queue = tf.train.string_input_producer([name], num_epochs=2, shuffle=False)
    key, line = tf.TextLineReader().read(queue)
    keys, lines = tf.train.batch([key, line], 10, num_threads=4)
    found = []
    with tf.Session() as sess:
        tf.train.start_queue_runners(sess)
        for _ in range(100):
            found += list(zip(*(part.tolist() for part in sess.run([keys, lines])), strict=True))
    expected = [(b"n:%d" % (i + 1), b"%d" % i) for i in range(500)]
    assert sorted(found) == sorted(expected * 2), "each record once an epoch, keys with their lines"
