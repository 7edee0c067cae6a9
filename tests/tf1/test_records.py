from __future__ import annotations

import gzip
import pathlib
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import tf1 as tf


def write(path: pathlib.Path, records: list[bytes], packed: str = "") -> str:
    with tf.python_io.TFRecordWriter(str(path), tf.python_io.TFRecordOptions(packed)) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def run(fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as sess:
        return sess.run(fetches, feeds)


def test_records_have_offsets_as_keys(tmp_path: pathlib.Path) -> None:
    name = write(tmp_path / "a", [b"one", b"", b"three"], "GZIP")
    queue = tf.train.string_input_producer([name], num_epochs=1, shuffle=False)
    options = tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP)
    record = tf.TFRecordReader(options=options).read(queue)
    with tf.Session() as sess:
        tf.train.start_queue_runners(sess)
        found = [sess.run(record) for _ in range(3)]
    assert [key.decode().removeprefix(name) for key, _ in found] == [":0", ":19", ":35"]
    assert [value for _, value in found] == [b"one", b"", b"three"]


def test_a_corrupt_record_stays_in_the_way_of_a_reader(tmp_path: pathlib.Path) -> None:
    name = write(tmp_path / "a", [b"one", b"two"])
    data = bytearray(pathlib.Path(name).read_bytes())
    data[-6] ^= 1
    pathlib.Path(name).write_bytes(data)
    queue = tf.train.string_input_producer([name], num_epochs=1, shuffle=False)
    value = tf.TFRecordReader().read(queue)[1]
    iterator = tf.data.TFRecordDataset([name, write(tmp_path / "b", [b"good"])]).make_one_shot_iterator()
    step = iterator.get_next()
    with tf.Session() as sess:
        tf.train.start_queue_runners(sess)
        assert sess.run(value) == b"one"
        for _ in range(2):
            with pytest.raises(tf.errors.DataLossError, match="corrupted record at 31"):
                sess.run(value)
        assert sess.run(step) == b"one"
        with pytest.raises(tf.errors.DataLossError) as caught:
            sess.run(step)
        assert isinstance(caught.value.__cause__, hr.DataError)
        assert sess.run(step) == b"good", "a dataset goes on with the next file"


def test_what_tensorflow_passes_over_is_told_of(tmp_path: pathlib.Path) -> None:
    path = pathlib.Path(write(tmp_path / "a", [b"one"]))
    path.write_bytes(path.read_bytes() + b"xyz")
    with pytest.warns(UserWarning, match="taken for the end of the file"):
        assert list(tf.python_io.tf_record_iterator(path)) == [b"one"]
    packed = pathlib.Path(write(tmp_path / "b", [b"one", b"two"], "GZIP"))
    whole = packed.read_bytes()
    packed.write_bytes(whole[:-8])
    options = tf.python_io.TFRecordOptions("GZIP")
    with pytest.warns(UserWarning, match="cut short"):
        assert list(tf.python_io.tf_record_iterator(packed, options)) == [b"one", b"two"]
    packed.write_bytes(whole[:-12])
    with pytest.raises(tf.errors.DataLossError, match="cut short"):
        list(tf.python_io.tf_record_iterator(packed, options))
    packed.write_bytes(gzip.compress(gzip.decompress(whole)[:-5])[:-8])
    with pytest.raises(tf.errors.DataLossError):
        list(tf.python_io.tf_record_iterator(packed, options))


def test_writing_after_closing(tmp_path: pathlib.Path) -> None:
    writer = tf.python_io.TFRecordWriter(str(tmp_path / "a"))
    writer.close()
    with pytest.raises(tf.errors.FailedPreconditionError):
        writer.write(b"late")
    with pytest.raises(tf.errors.NotFoundError):
        list(tf.python_io.tf_record_iterator(str(tmp_path / "nope")))


EXAMPLE = hr.encode_example({"n": [1, 2], "x": 0.5, "w": [b"a", b"b\0"]})
FEATURES = {
    "n": tf.FixedLenFeature([2], tf.int64),
    "w": tf.VarLenFeature(tf.string),
    "d": tf.FixedLenFeature([], tf.string, "none"),
}


def test_one_example() -> None:
    found = run(tf.parse_single_example(EXAMPLE, FEATURES))
    assert (found["n"].tolist(), found["d"]) == ([1, 2], b"none")
    assert (found["w"].indices.tolist(), found["w"].values.tolist()) == ([[0], [1]], [b"a", b"b\0"])


def test_a_batch_of_examples() -> None:
    texts = np.array([EXAMPLE, hr.encode_example({"n": [3, 4]})], object)
    found = run(tf.parse_example(texts, FEATURES))
    assert found["n"].tolist() == [[1, 2], [3, 4]]
    assert found["w"].dense_shape.tolist() == [2, 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"example 0 of the batch.*'y'"):
        run(tf.parse_example(texts, {"y": tf.FixedLenFeature([], tf.int64)}))


def test_descriptions_that_can_not_be() -> None:
    with pytest.raises(ValueError, match="features was"):
        tf.parse_single_example(EXAMPLE, {})
    with pytest.raises(TypeError, match=r"expected tf\.int64, tf\.float32 or tf\.string"):
        tf.parse_single_example(EXAMPLE, {"n": tf.FixedLenFeature([], tf.int32)})
    with pytest.raises(ValueError, match="1 elements to shape"):
        tf.parse_single_example(EXAMPLE, {"n": tf.FixedLenFeature([3], tf.int64, 4)})
    with pytest.raises(ValueError, match="must be known"):
        tf.parse_single_example(EXAMPLE, {"n": tf.FixedLenFeature([None], tf.int64)})
    with pytest.raises(ValueError, match="allow_missing"):
        tf.parse_single_example(EXAMPLE, {"n": tf.FixedLenSequenceFeature([], tf.int64)})
    with pytest.raises(ValueError, match="a vector of serialized"):
        tf.parse_example(EXAMPLE, FEATURES)


def test_sequences_and_ragged_rows() -> None:
    text = hr.encode_sequence_example({"id": 7}, {"t": [[1, 2], [3, 4]], "v": [["a"], ["b", "c"]]})
    context, steps = tf.parse_single_sequence_example(
        text,
        {"id": tf.FixedLenFeature([], tf.int64)},
        {"t": tf.FixedLenSequenceFeature([2], tf.int64), "v": tf.VarLenFeature(tf.string)},
    )
    found = run([context, steps])
    assert found[0]["id"] == 7
    assert found[1]["t"].tolist() == [[1, 2], [3, 4]]
    assert found[1]["v"].indices.tolist() == [[0, 0], [1, 0], [1, 1]]
    rows = hr.encode_example({"v": [1, 2, 3], "l": [2, 0, 1]})
    ragged = tf.RaggedFeature(tf.int64, "v", [tf.RaggedFeature.RowLengths("l")])
    assert run(tf.parse_single_example(rows, {"r": ragged}))["r"].to_list() == [[1, 2], [], [3]]
