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
