from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headrace import tf1 as tf

SOON = tf.RunOptions(timeout_in_ms=50)


class Background:
    """A call in another thread."""

    def __init__(self, work: Callable[[], Any]):
        self.result: Any = None
        self._work = work
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._work()
        except Exception as error:
            self.result = error

    def waits(self) -> bool:
        self._thread.join(0.05)
        return self._thread.is_alive()

    def wait(self) -> Any:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.result


def fifo(capacity: int = 10, **more: Any) -> tf.FIFOQueue:
    return tf.FIFOQueue(capacity, tf.int32, [[]], **more)


def test_fifo_keeps_the_order() -> None:
    queue = fifo()
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([[1, 2, 3]]))
        assert sess.run(queue.dequeue()) == 1
        assert sess.run(queue.dequeue_many(2)).tolist() == [2, 3]
        assert sess.run(queue.size()) == 0


def test_a_full_queue_blocks_and_the_first_who_waits_is_served_first() -> None:
    queue = fifo(1)
    with tf.Session() as sess:
        first, second, third = (queue.enqueue([i]) for i in (1, 2, 3))
        take = queue.dequeue()
        sess.run(first)
        a = Background(lambda: sess.run(second))
        assert a.waits()
        b = Background(lambda: sess.run(third))
        assert b.waits()
        assert [sess.run(take) for _ in range(3)] == [1, 2, 3]
        assert (a.wait(), b.wait()) == (None, None)


def test_those_who_take_are_served_in_order_too() -> None:
    queue = fifo()
    with tf.Session() as sess:
        many, one, put = queue.dequeue_many(3), queue.dequeue(), queue.enqueue_many([[1, 2]])
        first = Background(lambda: sess.run(many))
        assert first.waits()
        second = Background(lambda: sess.run(one))
        assert second.waits()
        sess.run(put)
        assert sess.run(queue.size()) == 0, "who waits for many holds what there is"
        assert second.waits(), "and is not passed over"
        sess.run(queue.enqueue_many([[3, 4]]))
        assert first.wait().tolist() == [1, 2, 3]
        assert second.wait() == 4


def test_a_time_limit_gives_back_what_was_held() -> None:
    queue = fifo()
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([[1, 2]]))
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(queue.dequeue_many(3), options=SOON)
        assert sess.run(queue.dequeue_many(2)).tolist() == [1, 2]


def test_close_waits_its_turn() -> None:
    queue = fifo(1)
    with tf.Session() as sess:
        sess.run(queue.enqueue([1]))
        late, close = queue.enqueue([2]), queue.close()
        a = Background(lambda: sess.run(late))
        assert a.waits()
        b = Background(lambda: sess.run(close))
        assert b.waits()
        assert not sess.run(queue.is_closed())
        assert sess.run(queue.dequeue_many(2)).tolist() == [1, 2]
        assert (a.wait(), b.wait()) == (None, None)
        assert sess.run(queue.is_closed())
        with pytest.raises(tf.errors.CancelledError, match="is closed"):
            sess.run(queue.enqueue([3]))
        with pytest.raises(tf.errors.CancelledError, match="already closed"):
            sess.run(close)
        sess.run(queue.close(cancel_pending_enqueues=True))


def test_close_with_cancel_fails_those_who_wait_to_add() -> None:
    queue = fifo(1)
    with tf.Session() as sess:
        sess.run(queue.enqueue([1]))
        late = queue.enqueue([2])
        waiting = Background(lambda: sess.run(late))
        assert waiting.waits()
        sess.run(queue.close(cancel_pending_enqueues=True))
        assert isinstance(waiting.wait(), tf.errors.CancelledError)
        assert sess.run(queue.dequeue()) == 1


def test_a_closed_queue_gives_the_rest() -> None:
    queue = fifo()
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([[1, 2]]))
        many, close = queue.dequeue_many(3), queue.close()
        waiting = Background(lambda: sess.run(many))
        assert waiting.waits()
        sess.run(close)
        assert isinstance(waiting.wait(), tf.errors.OutOfRangeError)
        assert sess.run(queue.dequeue_up_to(5)).tolist() == [1, 2], "they were given back"
        with pytest.raises(
            tf.errors.OutOfRangeError, match=r"is closed and has insufficient elements \(requested 1, current size 0\)"
        ):
            sess.run(queue.dequeue())
        assert sess.run(queue.dequeue_many(0)).shape == (0,)


def test_closing_the_session_ends_those_who_wait() -> None:
    queue = fifo()
    sess = tf.Session()
    take = queue.dequeue()
    waiting = Background(lambda: sess.run(take))
    assert waiting.waits()
    sess.close()
    assert isinstance(waiting.wait(), tf.errors.CancelledError)
    with pytest.raises(RuntimeError, match="closed Session"):
        sess.run(take)


def test_without_shapes_elements_may_differ_but_come_one_by_one() -> None:
    queue = tf.FIFOQueue(5, [tf.int32])
    with tf.Session() as sess:
        sess.run(queue.enqueue([[1, 2]]))
        sess.run(queue.enqueue([7]))
        assert sess.run(queue.dequeue()).tolist() == [1, 2]
        with pytest.raises(tf.errors.InvalidArgumentError, match="specified shapes"):
            sess.run(queue.dequeue_many(1))


def test_shapes_and_types_are_checked() -> None:
    queue = tf.FIFOQueue(5, [tf.int32, tf.string], [[2], []])
    with pytest.raises(ValueError, match="not compatible"):
        queue.enqueue([[1, 2, 3], "a"])
    with pytest.raises(TypeError, match="int32"):
        queue.enqueue([[1.5, 2.5], "a"])
    with pytest.raises(ValueError, match="expected 2 components, got 1"):
        queue.enqueue([[1, 2]])
    fed = tf.placeholder(tf.int32)
    put, rows = queue.enqueue([fed, "a"]), queue.enqueue_many([fed, ["a", "b"]])
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected \\(2\\), got \\[3\\]"):
            sess.run(put, {fed: [1, 2, 3]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="same size in the 0th dimension"):
            sess.run(rows, {fed: [[1, 2]]})


def test_names_make_elements_dicts() -> None:
    queue = tf.FIFOQueue(5, [tf.int32, tf.string], [[], []], names=["n", "word"])
    with tf.Session() as sess:
        sess.run(queue.enqueue({"n": 1, "word": "mill"}))
        assert sess.run(queue.dequeue()) == {"n": 1, "word": b"mill"}
    with pytest.raises(ValueError, match="enqueue a dict"):
        queue.enqueue([1, "mill"])


def test_an_unbounded_queue() -> None:
    queue = fifo(-1)
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([list(range(5000))]))
        assert sess.run(queue.size()) == 5000


def test_shuffle_keeps_a_minimum_until_it_is_closed() -> None:
    queue = tf.RandomShuffleQueue(100, 10, tf.int32, [[]], seed=1)
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([list(range(30))]))
        head = sess.run(queue.dequeue_many(20)).tolist()
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(queue.dequeue(), options=SOON)
        sess.run(queue.close())
        tail = sess.run(queue.dequeue_many(10)).tolist()
        assert sorted(head + tail) == list(range(30))
        assert head != sorted(head)


def test_a_minimum_that_does_not_fit_is_refused() -> None:
    queue = tf.RandomShuffleQueue(3, 3, tf.int32, [[]])
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="min_after_dequeue 3"):
        sess.run(queue.size())


def test_shuffling_is_uniform() -> None:
    queue = tf.RandomShuffleQueue(10, 0, tf.int32, [[]], seed=5)
    put, take = queue.enqueue_many([[0, 1, 2, 3]]), queue.dequeue_many(4)
    seen = np.zeros((4, 4), int)
    with tf.Session() as sess:
        for _ in range(2000):
            sess.run(put)
            seen[np.arange(4), sess.run(take)] += 1
    assert (np.abs(seen - 500) < 100).all()


def test_padding_to_the_longest_of_the_batch() -> None:
    queue = tf.PaddingFIFOQueue(10, [tf.int32, tf.string], [[None], [None]])
    with tf.Session() as sess:
        for row in ([1], [2, 3, 4], [5, 6]):
            sess.run(queue.enqueue([row, ["x"] * len(row)]))
        numbers, words = sess.run(queue.dequeue_many(2))
        assert numbers.tolist() == [[1, 0, 0], [2, 3, 4]]
        assert words.tolist() == [[b"x", b"", b""], [b"x", b"x", b"x"]]
        assert sess.run(queue.dequeue())[0].tolist() == [5, 6]
    with pytest.raises(ValueError, match="known rank"):
        tf.PaddingFIFOQueue(10, [tf.int32], [tf.TensorShape(None)])


def test_priorities_with_the_oldest_first_among_equals() -> None:
    queue = tf.PriorityQueue(10, [tf.string], [[]])
    with tf.Session() as sess:
        sess.run(queue.enqueue_many([np.array([5, 1, 5, 3]), ["a", "b", "c", "d"]]))
        sess.run(queue.close())
        assert sess.run(queue.dequeue()) == [1, b"b"]
        numbers, words = sess.run(queue.dequeue_up_to(9))
        assert (numbers.tolist(), words.tolist()) == ([3, 5, 5], [b"d", b"a", b"c"])


def test_one_shared_name_is_one_queue_in_a_session() -> None:
    a, b = fifo(shared_name="one"), fifo(shared_name="one")
    other = fifo(5, shared_name="one")
    put = a.enqueue([1])
    with tf.Session() as sess:
        sess.run(put)
        assert sess.run(b.size()) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="other properties"):
            sess.run(other.size())
    with tf.Session() as sess:
        assert sess.run(b.size()) == 0
