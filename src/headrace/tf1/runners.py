"""Threads that fill queues."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from headrace.tf1 import errors
from headrace.tf1.coordinator import Coordinator
from headrace.tf1.graph import Operation, Tensor, get_default_graph
from headrace.tf1.queues import QueueBase
from headrace.tf1.session import Session, get_default_session

__all__ = ["QUEUE_RUNNERS", "QueueRunner", "add_queue_runner", "start_queue_runners"]

QUEUE_RUNNERS = "queue_runners"
logger = logging.getLogger(__name__)


class QueueRunner:
    """Fills a queue from threads, one for each operation that adds to it.

    When all of them have met the end of their input, the queue is closed: what it holds can still be taken. An error
    goes to the coordinator. Without one, whoever takes from the queue gets the error, once the queue is empty;
    TensorFlow would let them wait for ever.

    Args:
        queue: What is filled.
        enqueue_ops: What the threads run, each its own.
        close_op: What runs at the end of the input; `queue.close()` if not given.
        cancel_op: What runs when a coordinator stops; `queue.close(cancel_pending_enqueues=True)` if not given.
        queue_closed_exception_types: Errors that mean the end of the input; OutOfRangeError if not given.

    Raises:
        ValueError: Without a queue or operations.
    """

    def __init__(
        self,
        queue: QueueBase | None = None,
        enqueue_ops: Sequence[Operation | Tensor] | None = None,
        close_op: Operation | None = None,
        cancel_op: Operation | None = None,
        queue_closed_exception_types: tuple[type[BaseException], ...] | None = None,
    ):
        if queue is None or not enqueue_ops:
            raise ValueError("a QueueRunner needs a queue and at least one operation that adds to it")
        self._queue = queue
        self._enqueue_ops = list(enqueue_ops)
        self._close_op = queue.close() if close_op is None else close_op
        self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        self._ends = queue_closed_exception_types or (errors.OutOfRangeError,)
        self._lock = threading.Lock()
        self._running: weakref.WeakKeyDictionary[Session, int] = weakref.WeakKeyDictionary()
        self._raised: list[BaseException] = []

    @property
    def queue(self) -> QueueBase:
        """What is filled."""
        return self._queue

    @property
    def enqueue_ops(self) -> list[Operation | Tensor]:
        """What the threads run."""
        return list(self._enqueue_ops)

    @property
    def close_op(self) -> Operation:
        """What runs at the end of the input."""
        return self._close_op

    @property
    def cancel_op(self) -> Operation:
        """What runs when a coordinator stops."""
        return self._cancel_op

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._queue.name

    @property
    def queue_closed_exception_types(self) -> tuple[type[BaseException], ...]:
        """Errors that mean the end of the input."""
        return self._ends

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """Errors of threads without a coordinator."""
        with self._lock:
            return list(self._raised)

    def create_threads(
        self, sess: Session, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Makes the threads for a session: none if it has them already.

        Args:
            sess: Where the operations run. Closing it ends the threads.
            coord: Tells when to stop and takes errors; one more thread waits for it.
            daemon: Whether the program may end without these threads.
            start: Whether they run at once.
        """
        with self._lock:
            if self._running.get(sess, 0) > 0:
                return []
            self._running[sess] = len(self._enqueue_ops)
            self._raised = []
        name = f"QueueRunnerThread-{self.name}"
        threads = [
            threading.Thread(target=self._fill, args=(sess, op, coord), name=f"{name}-{i}", daemon=daemon)
            for i, op in enumerate(self._enqueue_ops)
        ]
        if coord is not None:
            sess.on_close(coord.wake)
            threads.append(
                threading.Thread(target=self._cancel, args=(sess, coord), name=f"{name}-cancel", daemon=daemon)
            )
            for thread in threads:
                coord.register_thread(thread)
        if start:
            for thread in threads:
                thread.start()
        return threads

    def _fill(self, sess: Session, op: Operation | Tensor, coord: Coordinator | None) -> None:
        error: BaseException | None = None
        try:
            while coord is None or not coord.should_stop():
                sess.run(op)
        except BaseException as raised:
            error = raised
        at_end = isinstance(error, self._ends)
        if error is not None and not at_end and not sess.closed:
            # Before this thread is counted out: the last one to come to the end would close the queue without a word.
            self._failed(sess, error, coord)
        with self._lock:
            self._running[sess] = left = self._running.get(sess, 1) - 1
        if at_end and not left:
            self._close(sess, error)

    def _failed(self, sess: Session, error: BaseException, coord: Coordinator | None) -> None:
        if coord is not None:
            self._note(sess, error)
            coord.request_stop(error)
            return
        try:
            state = self._queue.state(sess)
            if isinstance(error, errors.CancelledError) and state.closed:
                return
            logger.error("the thread that fills queue %s ends: %s", self.name, error)
            with self._lock:
                self._raised.append(error)
            state.fail(errors.translate(error))
        except errors.CancelledError:
            return  # the session has been closed meanwhile

    def _close(self, sess: Session, end: BaseException | None) -> None:
        try:
            if end is not None and end.__cause__ is not None:
                self._note(sess, end.__cause__)
            sess.run(self._close_op)
        except Exception as error:
            logger.debug("ignored while closing queue %s: %s", self.name, error)

    def _note(self, sess: Session, error: BaseException) -> None:
        """Keeps why the queue ends, as the cause of what its consumers will see."""
        try:
            state = self._queue.state(sess)
            state.cause = state.cause or error
        except errors.OpError:
            return

    def _cancel(self, sess: Session, coord: Coordinator) -> None:
        coord.wait_until(lambda: sess.closed)
        if coord.should_stop():
            if coord.error is not None:  # also where the error was in another queue's thread
                self._note(sess, coord.error)
            try:
                sess.run(self._cancel_op)
            except Exception as error:
                logger.debug("ignored while cancelling queue %s: %s", self.name, error)


def add_queue_runner(qr: QueueRunner, collection: str = QUEUE_RUNNERS) -> None:
    """Adds a runner to those that `start_queue_runners` starts."""
    get_default_graph().add_to_collection(collection, qr)


def start_queue_runners(
    sess: Session | None = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Starts the threads of all runners of the graph.

    Args:
        sess: Where they run; the default session if not given.
        coord: Stops them together and takes their errors.
        daemon: Whether the program may end without them.
        start: Whether they run at once.
        collection: Which list of runners.

    Raises:
        ValueError: Without a session.
    """
    sess = sess or get_default_session()
    if sess is None:
        raise ValueError("Cannot start queue runners: No default session is registered. Give one, or use `with`.")
    if not isinstance(sess, Session):
        raise TypeError(f"expected a session, got {sess!r}")
    threads: list[Any] = []
    for runner in sess.graph.get_collection(collection):
        threads.extend(runner.create_threads(sess, coord, daemon, start))
    return threads
