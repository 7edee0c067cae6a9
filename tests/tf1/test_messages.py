"""Messages that programs make themselves."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace import tf1 as tf

train = tf.train


def test_examples_are_written_as_by_headrace_itself() -> None:
    features = {
        "n": train.Feature(int64_list=train.Int64List(value=[1, -2])),
        "x": train.Feature(float_list=train.FloatList(value=[0.5])),
        "b": train.Feature(bytes_list=train.BytesList(value=[b"one", b""])),
        "none": train.Feature(),
        "empty": train.Feature(bytes_list=train.BytesList()),
    }
    made = train.Example(features=train.Features(feature=features)).SerializeToString()
    record = hr.from_dataset([made]).parse_example(
        {"n": hr.VarLen("int64"), "x": hr.VarLen("float32"), "b": hr.VarLen("bytes")}
    )[0]
    assert (record["n"].tolist(), record["x"].tolist(), record["b"].tolist()) == ([1, -2], [0.5], [b"one", b""])
    parsed = tf.parse_single_example(made, {"none": tf.VarLenFeature(tf.int64), "empty": tf.VarLenFeature(tf.string)})
    with tf.Session() as sess:
        assert [len(value.values) for value in sess.run(parsed).values()] == [0, 0]


def test_sequence_examples() -> None:
    def step(*values: int) -> tf.train.Feature:
        return train.Feature(int64_list=train.Int64List(value=values))

    made = train.SequenceExample(
        context=train.Features(feature={"id": step(7)}),
        feature_lists=train.FeatureLists(
            feature_list={"steps": train.FeatureList(feature=[step(1), step(), step(2, 3)])}
        ),
    ).SerializeToString()
    same = hr.encode_sequence_example({"id": 7}, {"steps": [[1], np.empty(0, np.int64), [2, 3]]})
    assert made == same


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(TypeError, match="has type str, but expected one of: bytes"):
        train.BytesList(value=["text"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="one list"):
        train.Feature(int64_list=train.Int64List(value=[1]), float_list=train.FloatList(value=[1]))


def test_messages_are_read_as_they_were_written() -> None:
    example = tf.train.Example()
    example.features.feature["label"].int64_list.value.append(-3)
    example.features.feature["x"].float_list.value.extend([0.5, 1.5])
    example.features.feature["name"].bytes_list.value[:] = [b"a", b"\xff"]
    example.features.feature["none"].int64_list.value.extend([])
    data = example.SerializeToString()
    read = tf.train.Example()
    assert read.ParseFromString(data) == len(data)
    feature = read.features.feature
    assert sorted(feature) == ["label", "name", "x"]
    assert feature["label"].int64_list.value == [-3]
    assert feature["x"].float_list.value == [0.5, 1.5]
    assert feature["name"].bytes_list.value == [b"a", b"\xff"]
    assert feature["name"].WhichOneof("kind") == "bytes_list"
    assert feature["name"].HasField("bytes_list")
    assert not feature["name"].HasField("int64_list")
    assert feature["name"].int64_list.value == []
    assert tf.train.Example.FromString(read.SerializeToString()).SerializeToString() == read.SerializeToString()
    with pytest.raises(hr.DataError, match="expected an Example"):
        tf.train.Example.FromString(b"no message")
    with pytest.raises(ValueError, match="'kind'"):
        feature["x"].WhichOneof("other")
    feature["x"].int64_list.value.append(1)
    with pytest.raises(ValueError, match="holds one list"):
        read.SerializeToString()


def test_what_messages_may_hold_besides() -> None:
    entry = b"\x0a\x01k\x12"
    first, second, empty = b"\x07\x1a\x05\x0a\x03\x01\x02\x03", b"\x05\x0a\x03\x0a\x01z", b"\x00"

    def message(*features: bytes) -> bytes:
        entries = b"".join(b"\x0a" + bytes([len(entry + one)]) + entry + one for one in features)
        return b"\x0a" + bytes([len(entries)]) + entries

    twice = tf.train.Example.FromString(message(first, second)).features.feature
    assert twice["k"].bytes_list.value == [b"z"]
    twice = tf.train.Example.FromString(message(second, first)).features.feature
    assert twice["k"].int64_list.value == [1, 2, 3]
    unset = tf.train.Example.FromString(message(empty)).features.feature
    assert "k" in unset
    assert unset["k"].WhichOneof("kind") is None


def test_sequences_are_read_as_they_were_written() -> None:
    made = tf.train.SequenceExample()
    made.context.feature["length"].int64_list.value.append(3)
    tokens = made.feature_lists.feature_list["tokens"]
    for token in (1, 2, 3):
        tokens.feature.add().int64_list.value.append(token)
    made.feature_lists.feature_list["words"].feature.add(bytes_list=tf.train.BytesList(value=[b"a", b"b"]))
    read = tf.train.SequenceExample.FromString(made.SerializeToString())
    assert read.context.feature["length"].int64_list.value == [3]
    lists = read.feature_lists.feature_list
    assert [step.int64_list.value for step in lists["tokens"].feature] == [[1], [2], [3]]
    assert [step.bytes_list.value for step in lists["words"].feature] == [[b"a", b"b"]]
    assert read.SerializeToString() == made.SerializeToString()


def test_messages_print_as_protocol_buffers_do() -> None:
    made = tf.train.Example()
    made.features.feature["b"].bytes_list.value.append(b'a"\n\xff')
    made.features.feature["a"].float_list.value.append(0.1)
    assert (
        str(made)
        == r"""features {
  feature {
    key: "a"
    value {
      float_list {
        value: 0.1
      }
    }
  }
  feature {
    key: "b"
    value {
      bytes_list {
        value: "a\"\n\377"
      }
    }
  }
}
"""
    )
    assert str(tf.train.Example()) == ""
    floats = tf.train.Example()
    floats.features.feature["f"].float_list.value.extend([1, 1e20, -0.0, 123456789, 1.2345678, float("inf")])
    values = [line.split(": ")[1] for line in str(floats).splitlines() if "value: " in line]
    assert values == ["1", "1e+20", "-0", "123456792", "1.23456776", "inf"]
    steps = tf.train.SequenceExample()
    steps.feature_lists.feature_list["t"].feature.add().int64_list.value.append(4)
    lines = [line.strip() for line in str(steps).splitlines()]
    assert lines[:3] == ["feature_lists {", "feature_list {", 'key: "t"']
    assert "value: 4" in lines
