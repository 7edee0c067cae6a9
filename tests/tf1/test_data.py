from __future__ import annotations

import gc
import os
import pathlib
from typing import Any

import numpy as np
import pytest

from headrace import tf1 as tf

Dataset = tf.data.Dataset
OPTIONS = tf.RunOptions(timeout_in_ms=20_000)


def steps(data: Any, passes: int = 1, most: int = 100) -> list[Any]:
    """Elements, as lists; errors by name."""
    iterator = data.make_initializable_iterator()
    step = iterator.get_next()
    found: list[Any] = []
    with tf.Session() as sess:
        sess.run(tf.tables_initializer())
        for _ in range(passes):
            sess.run(iterator.initializer)
            for _ in range(most):
                try:
                    found.append(_plain(sess.run(step)))
                except tf.errors.OutOfRangeError:
                    break
                except tf.OpError as error:
                    found.append(type(error).__name__)
    return found


def _plain(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(_plain(v) for v in x)
    if isinstance(x, dict):
        return {k: _plain(v) for k, v in x.items()}
    return x.tolist() if isinstance(x, np.ndarray | np.generic) else x


def ragged(sizes: list[int]) -> Any:
    return Dataset.from_tensor_slices(np.array(sizes)).map(lambda v: tf.range(tf.cast(v, tf.int32)))


def test_slices_of_structures() -> None:
    data = Dataset.from_tensor_slices({"n": [1, 2], "w": ["a", "b"]})
    assert steps(data) == [{"n": 1, "w": b"a"}, {"n": 2, "w": b"b"}]
    assert steps(Dataset.from_tensor_slices(([1, 2], [[3, 4], [5, 6]]))) == [(1, [3, 4]), (2, [5, 6])]
    with pytest.raises(ValueError, match="as many rows"):
        Dataset.from_tensor_slices(([1, 2], [1]))


def test_zip_ends_with_the_shortest() -> None:
    assert steps(Dataset.zip((Dataset.range(3), Dataset.range(5, 7)))) == [(0, 5), (1, 6)]


def test_skip_take_repeat_shard() -> None:
    data = Dataset.range(5)
    assert steps(data.skip(3)) == [3, 4]
    assert steps(data.skip(-1)) == steps(data.skip(9)) == steps(data.take(0)) == steps(data.repeat(0)) == []
    assert steps(data.take(-1)) == [0, 1, 2, 3, 4]
    assert steps(data.take(2).repeat(2)) == [0, 1, 0, 1]
    assert steps(data.repeat().take(7)) == [0, 1, 2, 3, 4, 0, 1]
    assert steps(Dataset.range(0).repeat()) == []
    assert steps(data.shard(2, 1)) == [1, 3]
    assert steps(data.concatenate(data.take(1))) == [0, 1, 2, 3, 4, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="index < num_shards"):
        steps(data.shard(2, 2))


def test_an_error_does_not_end_the_iteration() -> None:
    def check(v: Any) -> Any:
        with tf.control_dependencies([tf.assert_less(v, tf.constant(5, tf.int64))]):
            return tf.identity(v)

    data = Dataset.from_tensor_slices(np.array([1, 9, 2])).map(check, num_parallel_calls=4)
    assert steps(data) == [1, "InvalidArgumentError", 2]


def test_filters_and_batches() -> None:
    data = Dataset.range(9).filter(lambda v: tf.equal(v % 2, 0))
    assert steps(data.batch(2)) == [[0, 2], [4, 6], [8]]
    assert steps(data.batch(2, drop_remainder=True)) == [[0, 2], [4, 6]]
    assert steps(ragged([1, 2]).batch(2)) == ["InvalidArgumentError"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="greater than zero"):
        steps(data.batch(0))


def test_padding() -> None:
    assert steps(ragged([1, 3]).padded_batch(2, [None])) == [[[0, 0, 0], [0, 1, 2]]]
    assert steps(ragged([1, 2]).padded_batch(2, [3], padding_values=9)) == [[[0, 9, 9], [0, 1, 9]]]
    assert steps(ragged([1, 3, 1]).padded_batch(1, [2])) == [[[0, 0]], "DataLossError", [[0, 0]]]
    with pytest.raises(TypeError, match="padding_values"):
        ragged([1]).padded_batch(1, [None], padding_values=np.int64(1))
    with pytest.raises(ValueError, match="not compatible"):
        ragged([1]).padded_batch(1, [None, None])


def test_shuffling() -> None:
    data = Dataset.range(30)
    assert steps(data.shuffle(1, seed=3)) == list(range(30))
    found = steps(data.shuffle(5, seed=3))
    assert sorted(found) == list(range(30))
    assert all(position >= value - 4 for position, value in enumerate(found))
    twice = steps(data.shuffle(30, seed=3).repeat(2))
    assert sorted(twice[:30]) == sorted(twice[30:]) == list(range(30))
    assert twice[:30] != twice[30:]
    same = steps(data.shuffle(30, seed=3, reshuffle_each_iteration=False).repeat(2))
    assert same[:30] == same[30:]
    again = steps(data.shuffle(30, seed=3), passes=2)
    assert again[:30] == again[30:], "initialising again with a seed begins the same order"
    free = steps(data.shuffle(30), passes=2)
    assert free[:30] != free[30:]
    with pytest.raises(tf.errors.InvalidArgumentError, match="buffer_size"):
        steps(data.shuffle(0))


def test_windows() -> None:
    windows = tf.data.experimental.group_by_window(lambda v: v % 3, lambda key, window: window.batch(2), 2)
    assert steps(Dataset.range(8).apply(windows)) == [[0, 3], [1, 4], [2, 5], [6], [7]]
    keyed = tf.data.experimental.group_by_window(
        lambda v: v % 2, lambda key, window: window.map(lambda v: v * 10 + key), window_size_func=lambda key: key + 1
    )
    assert steps(Dataset.range(4).apply(keyed)) == [0, 20, 11, 31]
    with pytest.raises(ValueError, match="int64"):
        Dataset.range(3).apply(tf.data.experimental.group_by_window(lambda v: tf.to_float(v), lambda k, w: w, 2))


def test_buckets_by_length() -> None:
    data = ragged([1, 5, 2, 9, 3])
    kinds = tf.data.experimental.bucket_by_sequence_length(tf.size, [4, 8], [2, 2, 2])
    assert [np.shape(b) for b in steps(data.apply(kinds))] == [(2, 2), (1, 3), (1, 5), (1, 9)]
    edges = tf.data.experimental.bucket_by_sequence_length(tf.size, [4, 8], [2, 2, 2], pad_to_bucket_boundary=True)
    found = steps(data.apply(edges))
    assert [b if isinstance(b, str) else np.shape(b) for b in found] == [(2, 3), (1, 3), (1, 7), "InvalidArgumentError"]
    with pytest.raises(ValueError, match="must equal"):
        tf.data.experimental.bucket_by_sequence_length(tf.size, [4], [2])


def test_datasets_of_elements() -> None:
    data = Dataset.from_tensor_slices(np.array([3, 1, 2]))
    assert steps(data.flat_map(lambda v: Dataset.range(v))) == [0, 1, 2, 0, 0, 1]
    assert steps(data.interleave(lambda v: Dataset.range(v), 2, 1)) == [0, 0, 1, 2, 0, 1]


def test_files(tmp_path: pathlib.Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"1\r\n\n2")
    b.write_bytes(b"3\n")
    names = [str(a), str(tmp_path / "nope"), str(b)]
    assert steps(tf.data.TextLineDataset([str(a), str(b)])) == [b"1", b"", b"2", b"3"]
    assert steps(tf.data.TextLineDataset(names), most=5)[3:] == ["NotFoundError"] * 2
    assert steps(Dataset.from_tensor_slices([str(b), str(a)]).flat_map(tf.data.TextLineDataset))[0] == b"3"
    assert steps(tf.data.FixedLengthRecordDataset([str(a)], 2)) == [b"1\r", b"\n\n"] if a.stat().st_size == 4 else True
    assert steps(tf.data.FixedLengthRecordDataset([str(a)], 4), most=2) == ["InvalidArgumentError"] * 2


def test_iterators() -> None:
    iterator = Dataset.range(2).make_initializable_iterator()
    step = iterator.get_next()
    with tf.Session() as sess:
        with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
            sess.run(step)
        for _ in range(2):
            sess.run(iterator.initializer)
            assert [sess.run(step), sess.run(step)] == [0, 1]
            with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
                sess.run(step)
    one = Dataset.range(1).make_one_shot_iterator().get_next()
    switch = tf.data.Iterator.from_structure(tf.int64, [])
    first, second = (switch.make_initializer(Dataset.range(n, 9)) for n in (5, 7))
    element = switch.get_next()
    with tf.Session() as sess:
        assert sess.run(one) == 0
        sess.run(first)
        assert sess.run(element) == 5
        sess.run(second)
        assert sess.run(element) == 7


def test_parameters_may_be_fed(tmp_path: pathlib.Path) -> None:
    count = tf.placeholder(tf.int64, [])
    iterator = Dataset.range(10).map(lambda n: n + count).take(count).batch(count).make_initializable_iterator()
    step = iterator.get_next()
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="You must feed"):
            sess.run(iterator.initializer)
            sess.run(step)
        for number in (2, 3):
            sess.run(iterator.initializer, feed_dict={count: number})
            assert sess.run(step).tolist() == [n + number for n in range(number)]
            with pytest.raises(tf.errors.OutOfRangeError):
                sess.run(step)


def test_files_may_be_fed(tmp_path: pathlib.Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    names = tf.placeholder(tf.string, [None])
    lines = names_of(names)
    step = lines.get_next()
    with tf.Session() as sess:
        for chosen in ("b", "ab"):
            sess.run(lines.initializer, {names: [str(tmp_path / name) for name in chosen]})
            assert sess.run(step).tolist() == [f"{name}{i}".encode() for name in chosen for i in (1, 2)] * 2


def names_of(names: tf.Tensor) -> tf.data.Iterator:
    made: tf.data.Iterator = tf.data.TextLineDataset(names).repeat(2).batch(100).make_initializable_iterator()
    return made


def test_files_are_listed(tmp_path: pathlib.Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02d}.txt").touch()
    wanted = [str(path).encode() for path in sorted(tmp_path.iterdir())]
    assert steps(Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False)) == wanted
    both = Dataset.list_files([str(tmp_path / "0*"), str(tmp_path / "00*")], shuffle=False)
    assert steps(both) == wanted[:10]
    mixed = steps(Dataset.list_files(str(tmp_path / "*.txt"), seed=3))
    assert mixed != wanted
    assert sorted(mixed) == wanted
    with pytest.raises(tf.errors.NotFoundError, match="no file matches"):
        steps(Dataset.list_files(str(tmp_path / "x*")))


def test_slices() -> None:
    x = tf.constant(np.arange(12).reshape(3, 4))
    with tf.Session() as sess:
        assert sess.run(tf.strided_slice(x, [0, 1], [2, 3])).tolist() == [[1, 2], [5, 6]]
        assert sess.run(tf.strided_slice(x, [0], [3], [2])).tolist() == [[0, 1, 2, 3], [8, 9, 10, 11]]
        assert sess.run(tf.slice(x, [1, 2], [-1, 1])).tolist() == [[6], [10]]
    with pytest.raises(ValueError, match="one length"):
        tf.slice(x, [1, 2], [1])
    with pytest.raises(ValueError, match="known when the graph is built"):
        tf.strided_slice(x, tf.placeholder(tf.int32, [1]), [1])


def test_captured_tables_and_generators() -> None:
    table = tf.contrib.lookup.index_table_from_tensor(["a", "b"])
    words = Dataset.from_generator(lambda: iter(["b a", "x"]), tf.string, [])
    data = words.map(lambda line: table.lookup(tf.string_split([line]).values))
    assert steps(data.padded_batch(2, [None], padding_values=np.int64(7))) == [[[1, 0], [-1, 7]]]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs a list of open files")
def test_files_are_closed_when_an_iterator_is_given_up(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("a\nb\nc\n")
    before = set(os.listdir("/proc/self/fd"))
    with tf.Graph().as_default():
        assert steps(Dataset.zip((tf.data.TextLineDataset(str(path)), Dataset.range(1)))) == [(b"a", 0)]
    gc.collect()  # where a file is left open, this warns
    assert set(os.listdir("/proc/self/fd")) <= before
