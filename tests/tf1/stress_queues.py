"""Queues of all kinds with many threads that add, take and close at random: every element comes out once or stays.

Used by `stress.py`. Elements are numbered, so that none can come twice or get lost unseen. Calls may run out of time,
be cancelled by a close, or meet the end of the session; what a dequeue had taken by then has to be in the queue again.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from typing import Any

import numpy as np

from headrace import tf1 as tf

LIMIT = 20.0


class Contest:
    """One queue and its threads, drawn from a seed."""

    def __init__(self, seed: int):
        rng = self.rng = random.Random(seed)
        self.kind = rng.choice(["fifo", "shuffle", "padding", "priority"])
        self.capacity = rng.choice([-1, 1, 2, 5, 20])
        self.queue = self._make()
        self.one, self.many = tf.placeholder(tf.int64, []), tf.placeholder(tf.int64, [None])
        self.put = self._enqueue(self.queue.enqueue, self.one)
        self.put_many = self._enqueue(self.queue.enqueue_many, self.many)
        self.takes = [self.queue.dequeue()]
        for count in (1, 2, 7):
            self.takes += [self.queue.dequeue_many(count), self.queue.dequeue_up_to(count)]
        self.closes = [self.queue.close(), self.queue.close(cancel_pending_enqueues=True)]
        self.size = self.queue.size()
        self.numbers = itertools.count()
        self.tried: set[int] = set()
        self.added: set[int] = set()
        self.taken: list[int] = []
        self.unexpected: list[BaseException] = []
        self._lock = threading.Lock()

    def _make(self) -> Any:
        if self.kind == "shuffle":
            capacity = 20 if self.capacity < 0 else self.capacity
            return tf.RandomShuffleQueue(capacity, self.rng.randrange(capacity), tf.int64, [[]])
        if self.kind == "padding":
            return tf.PaddingFIFOQueue(self.capacity, tf.int64, [[None]])
        if self.kind == "priority":
            return tf.PriorityQueue(self.capacity, tf.int64, [[]])
        return tf.FIFOQueue(self.capacity, tf.int64, [[]])

    def _enqueue(self, enqueue: Any, value: Any) -> Any:
        if self.kind == "padding":
            return enqueue([tf.expand_dims(value, -1)])
        return enqueue([value, value] if self.kind == "priority" else [value])

    def _values(self, found: Any) -> list[int]:
        column = found[-1] if isinstance(found, list | tuple) else found
        values: list[int] = np.asarray(column).ravel().tolist()
        return values

    def _attempts(self, rng: random.Random, attempt: Any) -> None:
        """Calls until the queue or the session is closed, or often enough."""
        for _ in range(rng.randint(1, 30)):
            limit = rng.choice([1, 5, int(LIMIT * 1000)])
            try:
                attempt(rng, tf.RunOptions(timeout_in_ms=limit))
            except tf.errors.DeadlineExceededError as error:
                if limit > 5:
                    self.unexpected.append(error)
            except (tf.errors.OutOfRangeError, tf.errors.CancelledError):
                return
            except RuntimeError as error:
                if "closed Session" not in str(error):
                    self.unexpected.append(error)
                return
            except BaseException as error:
                self.unexpected.append(error)
                return

    def _add(self, rng: random.Random, options: Any) -> None:
        numbers = [next(self.numbers) for _ in range(rng.choice([1, 1, 3, 9]))]
        with self._lock:
            self.tried.update(numbers)
        if len(numbers) == 1:
            self.sess.run(self.put, {self.one: numbers[0]}, options)
        else:
            self.sess.run(self.put_many, {self.many: numbers}, options)
        with self._lock:
            self.added.update(numbers)

    def _take(self, rng: random.Random, options: Any) -> None:
        found = self._values(self.sess.run(rng.choice(self.takes), options=options))
        with self._lock:
            self.taken += found

    def run(self) -> None:
        """All threads at once, a close in between; then what is left is taken and all is counted."""
        rng, self.sess = self.rng, tf.Session()
        threads = []
        for attempt in (self._add, self._take):
            for _ in range(rng.randint(1, 4)):
                own = random.Random(rng.random())
                threads.append(threading.Thread(target=self._attempts, args=(own, attempt)))
        for thread in threads:
            thread.start()
        time.sleep(rng.random() * 0.004)
        ends_session = rng.random() < 0.2
        if ends_session:
            self.sess.close()
        else:
            self._close(rng.choice(self.closes))
        for thread in threads:
            thread.join(LIMIT)
            assert not thread.is_alive(), "a thread waits for ever"
        assert not self.unexpected, self.unexpected
        if not ends_session:
            self._drain()
            assert self.added <= set(self.taken), f"lost: {self.added - set(self.taken)}"
        assert len(self.taken) == len(set(self.taken)), "something came twice"
        assert set(self.taken) <= self.tried, "what was never put in"
        self.sess.close()

    def _close(self, close: Any) -> None:
        try:  # behind those that wait for room, which takers may have left
            self.sess.run(close, options=tf.RunOptions(timeout_in_ms=50))
        except tf.errors.DeadlineExceededError:
            self.sess.run(self.closes[1])

    def _drain(self) -> None:
        options = tf.RunOptions(timeout_in_ms=int(LIMIT * 1000))
        try:
            while True:
                self.taken += self._values(self.sess.run(self.takes[0], options=options))
        except tf.errors.OutOfRangeError:
            assert self.sess.run(self.size) == 0
