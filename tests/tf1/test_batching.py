from __future__ import annotations

from typing import Any

import pytest

from headrace import tf1 as tf


def numbers(limit: int = 7) -> Any:
    return tf.train.range_input_producer(limit, num_epochs=1, shuffle=False).dequeue()


def drain(tensors: Any) -> list[Any]:
    found = []
    with tf.Session() as sess:
        tf.train.start_queue_runners(sess)
        while True:
            try:
                found.append(sess.run(tensors))
            except tf.errors.OutOfRangeError:
                return found


def rows(tensors: Any) -> list[Any]:
    return [batch.tolist() for batch in drain(tensors)]


def test_the_last_batch_is_dropped_or_smaller() -> None:
    n = numbers()
    assert rows(tf.train.batch([n], 3)) == [[0, 1, 2], [3, 4, 5]]


def test_a_smaller_last_batch() -> None:
    assert rows(tf.train.batch([numbers()], 3, capacity=2, allow_smaller_final_batch=True))[-1] == [6]


def test_dicts_stay_dicts() -> None:
    n = numbers(2)
    found = drain(tf.train.batch({"b": n, "a": n * 2}, 2))
    assert {key: value.tolist() for key, value in found[0].items()} == {"a": [0, 2], "b": [0, 1]}


def test_shapes_must_be_known_unless_padded() -> None:
    ragged = tf.range(numbers(4))
    with pytest.raises(ValueError, match="All shapes must be fully defined"):
        tf.train.batch([ragged], 2)
    assert rows(tf.train.batch([ragged], 2, dynamic_pad=True)) == [[[0], [0]], [[0, 1, 0], [0, 1, 2]]]


def test_shapes_that_are_told_are_checked_when_they_turn_out_wrong() -> None:
    batch = tf.train.batch([tf.range(numbers(4))], 2, shapes=[[0]])
    with tf.Session() as sess:
        tf.train.start_queue_runners(sess)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch in component 0"):
            sess.run(batch)


def test_rows_of_many() -> None:
    n = numbers(3)
    batch = tf.train.batch([tf.stack([n, n * 10])], 2, enqueue_many=True)
    assert rows(batch) == [[0, 0], [1, 10], [2, 20]]


def test_keep_input() -> None:
    n = numbers()
    assert rows(tf.train.maybe_batch([n], tf.equal(n % 2, 0), 2)) == [[0, 2], [4, 6]]


def test_keep_input_by_row() -> None:
    n = numbers(4)
    pair, keep = tf.stack([n, n + 100]), tf.stack([tf.equal(n % 2, 0), tf.constant(True)])
    batch = tf.train.maybe_batch([pair], keep, 6, enqueue_many=True)
    assert rows(batch) == [[0, 100, 101, 2, 102, 103]]


def test_sources_mix_and_each_keeps_its_order() -> None:
    batch = tf.train.batch_join([[numbers(50)], [numbers(50) + 100]], 10)
    found = [n for batch in rows(batch) for n in batch]
    assert [n for n in found if n < 100] == list(range(50))
    assert [n - 100 for n in found if n >= 100] == list(range(50))


def test_join_needs_one_form() -> None:
    with pytest.raises(TypeError, match="same types"):
        tf.train.batch_join([[numbers()], [tf.to_float(numbers())]], 2)
    with pytest.raises(ValueError, match="same components"):
        tf.train.batch_join([{"a": numbers()}, {"b": numbers()}], 2)


def test_shuffling_gives_everything_once() -> None:
    found = [
        n for b in rows(tf.train.shuffle_batch([numbers(100)], 7, 50, 20, allow_smaller_final_batch=True)) for n in b
    ]
    assert sorted(found) == list(range(100))
    assert found != sorted(found)
    with pytest.raises(ValueError, match="capacity 4 must be bigger than min_after_dequeue 4"):
        tf.train.shuffle_batch([numbers()], 2, 4, 4)


def test_sparse_tensors_become_one() -> None:
    words = tf.string_split(tf.stack([tf.constant("to be or"), tf.constant("not")]))
    n = numbers(2)
    with tf.control_dependencies([n]):
        indices = tf.identity(words.indices)
    batch = tf.train.batch([tf.SparseTensor(indices, words.values, words.dense_shape), n], 2)
    (found, _), *_ = drain(batch)
    assert found.dense_shape.tolist() == [2, 2, 3]
    assert found.indices[-1].tolist() == [1, 1, 0]
    assert found.values.tolist() == [b"to", b"be", b"or", b"not"] * 2


def test_prefetch_needs_shapes() -> None:
    batch = tf.train.batch([numbers()], 2, allow_smaller_final_batch=True)
    with pytest.raises(ValueError, match="All shapes must be fully defined"):
        tf.slim.prefetch_queue.prefetch_queue([batch])
    queue = tf.slim.prefetch_queue.prefetch_queue({"n": batch}, dynamic_pad=True)
    assert [found["n"].tolist() for found in drain(queue.dequeue())] == [[0, 1], [2, 3], [4, 5], [6]]
