from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace import tf1 as tf


def run(fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as sess:
        return sess.run(fetches, feeds)


def test_structures_of_fetches() -> None:
    a, b = tf.constant(1), tf.constant("x")
    with tf.Session() as sess:
        assert sess.run({"p": [a, (b, a)], "none": tf.no_op()}) == {"p": [1, (b"x", 1)], "none": None}
        assert sess.run("Const:0") == 1
        assert a.eval() == 1
        assert isinstance(sess.run(a), np.int32)
        with pytest.raises(TypeError, match="to fetch"):
            sess.run(3)


def test_each_operation_runs_once_a_call() -> None:
    calls = []
    x = tf.py_func(lambda: calls.append(1) or 7, [], tf.int32)  # type: ignore[func-returns-value]
    assert run([x, x + 1, x * 2]) == [7, 8, 14]
    assert len(calls) == 1


def test_feeding() -> None:
    x = tf.placeholder(tf.int32, [2])
    y = x * 2
    assert run(y, {x: [1, 2]}).tolist() == [2, 4]
    assert run(y + 1, {y: [5, 6]}).tolist() == [6, 7], "any tensor can be fed"
    with pytest.raises(ValueError, match="Cannot feed value of shape \\(3,\\)"):
        run(y, {x: [1, 2, 3]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="You must feed a value"):
        run(y)


def test_graphs_do_not_mix() -> None:
    x = tf.constant(1)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="another graph"):
            tf.identity(x)
        with tf.Session() as sess, pytest.raises(ValueError, match="this session's graph"):
            sess.run(x)


def test_errors_name_the_operation() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="could not correctly convert string: x") as caught:
        run(tf.string_to_number("x", tf.int32, name="parse"))
    assert caught.value.op is not None
    assert "operation 'parse'" in str(caught.value)
    assert caught.value.error_code == 3


def test_control_dependencies() -> None:
    order: list[str] = []
    first = tf.py_func(lambda: order.append("first") or 0, [], tf.int32)  # type: ignore[func-returns-value]
    with tf.control_dependencies([first]):
        second = tf.py_func(lambda: order.append("second") or 0, [], tf.int32)  # type: ignore[func-returns-value]
    run(second)
    assert order == ["first", "second"]


def test_arithmetic_keeps_types() -> None:
    x = tf.constant([7, -7], tf.int64)
    assert run([x // 2, x % 2, -x, x > 0]) [0].dtype == np.int64  # fmt: skip
    assert run(tf.cast(tf.constant(1.7), tf.int32)) == 1
    assert run(tf.reshape(tf.range(6), [2, -1])).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert run(tf.range(0, 1, 0.25)).tolist() == [0, 0.25, 0.5, 0.75]
    assert tf.range(0.5, 3).dtype == tf.float32
    assert tf.range(0, np.float64(3)).dtype == tf.float64
    assert tf.range(np.int64(0), 3).dtype == tf.int64
    assert tf.range(np.int64(0), 3, 0.5).dtype == tf.float32
    with pytest.raises(tf.errors.InvalidArgumentError, match="4 values, but the requested shape is"):
        run(tf.reshape(tf.range(4), [3]))
    assert run(tf.concat([[1], tf.constant([2, 3])], 0)).tolist() == [1, 2, 3]
    assert tf.concat([[1], tf.constant([2, 3])], 0).shape == [3]
    assert run(tf.one_hot([1, 3], 3)).tolist() == [[0, 1, 0], [0, 0, 0]]
    words = tf.constant(["a", "b"])
    assert run(words[1]) == b"b"
    assert run(tf.equal(words, "a")).tolist() == [True, False]


def test_a_tensor_has_no_value_while_building() -> None:
    with pytest.raises(TypeError, match="has no value"):
        bool(tf.constant(1) > 0)


def test_decoding_raw_bytes() -> None:
    data = np.arange(4, dtype="<i2").tobytes()
    assert run(tf.decode_raw(data, tf.int16)).tolist() == [0, 1, 2, 3]
    assert run(tf.decode_raw(data, tf.int16, little_endian=False)).tolist() == [0, 256, 512, 768]
    assert run(tf.decode_raw([data, data], tf.uint8)).shape == (2, 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match="length 3, no multiple of 2"):
        run(tf.decode_raw(b"abc", tf.int16))


def test_csv() -> None:
    columns = tf.decode_csv(["1,a,2.5", '7,"x, ""y""",'], [[0], [""], [-1.0]])
    n, word, x = run(columns)
    assert (n.tolist(), word.tolist(), x.tolist()) == ([1, 7], [b"a", b'x, "y"'], [2.5, -1.0])
    assert run(tf.decode_csv("5;", [[1], ["d"]], field_delim=";")) == [5, b"d"]
    assert run(tf.decode_csv("x" * 200_000 + ",1", [[""], [0]])) == [b"x" * 200_000, 1]
    for line, message in [("1", "Expect 2 fields but have 1"), ("x,1", "not a valid int32"), ("1,", "required but")]:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            run(tf.decode_csv(line, [[0], tf.constant([], tf.int32)]))


def test_splitting() -> None:
    found = run(tf.string_split(["a  b", "", "c\td"]))
    assert found.values.tolist() == [b"a", b"b", b"c\td"]
    assert found.indices.tolist() == [[0, 0], [0, 1], [2, 0]]
    assert found.dense_shape.tolist() == [3, 2]
    assert run(tf.string_split(["a,b;;c"], ",;")).values.tolist() == [b"a", b"b", b"c"]
    assert run(tf.string_split(["a,,b"], ",", skip_empty=False)).values.tolist() == [b"a", b"", b"b"]
