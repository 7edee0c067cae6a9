"""Threads of a graph's runners, for the time of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from headrace.tf1.coordinator import Coordinator
from headrace.tf1.runners import start_queue_runners
from headrace.tf1.session import Session

__all__ = ["QueueRunners"]


@contextlib.contextmanager
def QueueRunners(session: Session) -> Iterator[None]:
    """Starts the threads of all runners, and ends them behind the block.

    >>> from headrace import tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as sess:
    ...     number = tf.train.range_input_producer(3, shuffle=False).dequeue()
    ...     with tf.slim.queues.QueueRunners(sess):
    ...         print(sess.run(number))
    0
    """
    coord = Coordinator()
    start_queue_runners(session, coord)
    try:
        yield
    finally:
        coord.request_stop()
        try:
            coord.join()
        except RuntimeError:
            session.close()
