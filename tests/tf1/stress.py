"""Programs of queues, drawn at random, started and stopped thousands of times.

    python -m tests.tf1.stress [COUNT [SEED]]

A cycle builds a program (a producer with or without an end, a stage that may fail at any call, batches of several
threads, sometimes a queue in front), runs it in a session, with or without a coordinator, and ends it in one of many
ways: by its own end, by a consumer that leaves, by closing the session or a queue while all are at work or wait. Some
run again in a second session. Then it looks whether what came is right, whether errors reached those who should see
them, and whether a thread is left. Nothing may wait for longer than a limit; a cycle that does prints where all threads
are. Every fourth cycle is a contest of threads for one queue (`stress_queues.py`).
"""

from __future__ import annotations

import collections
import contextlib
import faulthandler
import itertools
import logging
import random
import sys
import threading
import time
from typing import Any

import numpy as np

from headrace import tf1 as tf
from tests.tf1.stress_queues import Contest

LIMIT = 20.0  # seconds that anything may take
ERRORS: list[type[Exception]] = [ValueError, OSError, RuntimeError, MemoryError, KeyError]
ENDINGS = ["drain", "drain", "drain", "stop", "leave", "close", "close queue"]


class Injected:
    """Fails at one call, or from one call on."""

    def __init__(self, rng: random.Random):
        self.at = rng.choice([None, None, rng.randrange(3), rng.randrange(40)])
        self.kind = rng.choice(ERRORS)
        self.is_end = rng.random() < 0.15  # an OutOfRangeError: an ordinary end, of one thread after the other
        self.for_ever = self.is_end or rng.random() < 0.5
        self.reset()

    def reset(self) -> None:
        """Counts calls from 0 again."""
        self.raised: list[Exception] = []
        self._calls = itertools.count()

    def __call__(self, value: Any) -> Any:
        """The value, or the error."""
        call = next(self._calls)
        if self.at is not None and (call >= self.at if self.for_ever else call == self.at):
            error = tf.errors.OutOfRangeError(None, None, "injected") if self.is_end else self.kind("injected")
            self.raised.append(error)
            raise error
        return value


class Program:
    """One program, drawn from a seed."""

    def __init__(self, seed: int):
        rng = self.rng = random.Random(seed)
        self.limit, self.epochs = rng.randint(1, 12), rng.choice([None, 1, 1, 2, 3])
        self.size, self.smaller = rng.randint(1, 5), rng.random() < 0.5
        self.injected = Injected(rng)
        self.ending = rng.choice(ENDINGS)
        if self.ending == "drain" and self.epochs is None and self.injected.at is None:
            self.ending = "close"  # it has no end
        number = tf.train.range_input_producer(
            self.limit, self.epochs, shuffle=rng.random() < 0.5, capacity=rng.randint(1, 9)
        ).dequeue()
        self.direct = False  # whether consumers run the stage that fails themselves
        self.late = rng.random() < 0.25  # whether it is whole batches that fail
        self.fetch, self.queue = self._ahead(self._batches(number))
        if self.direct:
            self.injected.for_ever = True  # else other consumers would go on
        self.coordinated = rng.random() < 0.6
        self.sessions = rng.choice([1, 1, 1, 2])

    def _checked(self, number: Any) -> Any:
        if self.late:
            return number
        made = tf.py_func(self.injected, [number], tf.int32)
        made.set_shape([])
        return made

    def _checked_batch(self, batch: Any) -> Any:
        made = tf.py_func(self.injected, [batch], tf.int32)
        made.set_shape([None])
        return made

    def _batches(self, number: Any) -> Any:
        rng, threads = self.rng, self.rng.randint(1, 4)
        options: dict[str, Any] = {"allow_smaller_final_batch": self.smaller, "capacity": rng.randint(1, 12)}
        kind = rng.choice(["none", "batch", "batch", "shuffle", "join"])
        if kind == "none":
            self.size, self.direct = 1, True
            return tf.reshape(self._checked(number), [1])
        if kind == "shuffle":
            options |= {"min_after_dequeue": options["capacity"], "capacity": options["capacity"] + rng.randint(1, 5)}
            return tf.train.shuffle_batch([self._checked(number)], self.size, num_threads=threads, **options)
        if kind == "join":
            return tf.train.batch_join([[self._checked(number)] for _ in range(threads)], self.size, **options)
        return tf.train.batch([self._checked(number)], self.size, num_threads=threads, **options)

    def _ahead(self, batch: Any) -> tuple[Any, Any]:
        if self.rng.random() < 0.6:
            self.direct = self.direct or self.late
            return self._checked_batch(batch) if self.late else batch, None
        self.direct = False
        if self.late:
            batch = self._checked_batch(batch)
        queue = tf.slim.prefetch_queue.prefetch_queue([batch], capacity=self.rng.randint(1, 4), dynamic_pad=True)
        return queue.dequeue(), queue

    def consume(self, sess: tf.Session, most: int | None) -> None:
        """Takes batches until there are no more, or so many."""
        options = tf.RunOptions(timeout_in_ms=int(LIMIT * 1000))
        try:
            while most is None or most > 0:
                self.found += np.atleast_1d(sess.run(self.fetch, options=options)).tolist()
                most = None if most is None else most - 1
        except (tf.OpError, RuntimeError) as error:
            self.errors.append(error)

    def run(self) -> None:
        """Starts it, ends it, and looks at what came."""
        rng, sess = self.rng, tf.Session()
        self.coord = tf.train.Coordinator() if self.coordinated else None
        self.found: list[int] = []
        self.errors: list[Exception] = []
        self.injected.reset()
        most = rng.randrange(6) if self.ending in ("leave", "stop") else None
        consumers = [threading.Thread(target=self.consume, args=(sess, most)) for _ in range(rng.randint(1, 3))]
        threads = tf.train.start_queue_runners(sess, self.coord, daemon=rng.random() < 0.5)
        for consumer in consumers:
            consumer.start()
        if self.ending in ("close", "close queue"):
            time.sleep(rng.random() * 0.004)
        if self.ending == "close queue" and self.queue is not None:
            with contextlib.suppress(tf.errors.CancelledError):  # closed already
                sess.run(self.queue.close(cancel_pending_enqueues=rng.random() < 0.7))
        if self.ending == "stop" and self.coord is not None:
            self.coord.request_stop()
        if self.ending == "close" or (self.ending == "close queue" and self.queue is None):
            sess.close()
        for consumer in consumers:
            consumer.join(LIMIT)
            assert not consumer.is_alive(), "a consumer waits for ever"
        raised = self._stop(threads)
        sess.close()
        for thread in threads:
            thread.join(LIMIT)
            assert not thread.is_alive(), f"{thread.name} goes on"
        self._check(raised)

    def _stop(self, threads: list[threading.Thread]) -> BaseException | None:
        if self.coord is None:
            return None
        self.coord.request_stop()
        try:
            self.coord.join(threads, stop_grace_period_secs=LIMIT)
        except tf.OpError as error:
            return error
        return None

    def _check(self, raised: BaseException | None) -> None:
        assert not any(isinstance(error, tf.errors.DeadlineExceededError) for error in self.errors), "a call waited"
        counts = collections.Counter(self.found)
        assert set(counts) <= set(range(self.limit)), f"what was never put in: {counts}"
        if self.epochs is not None:
            assert max(counts.values(), default=0) <= self.epochs, f"something came twice: {counts}"
        if self.ending != "drain":
            return
        failed = bool(self.injected.raised) and not self.injected.is_end
        if not self.injected.raised:
            assert self.epochs is not None
            total = self.limit * self.epochs
            assert len(self.found) == (total if self.smaller else total - total % self.size), "something is lost"
        if not failed:
            assert all(type(error) is tf.errors.OutOfRangeError for error in self.errors), self.errors
            assert raised is None, raised
            return
        seen = [error for error in self.errors if self._is_injected(error)]
        if self.coord is None:
            assert seen, f"the error reached no consumer: {self.errors}"
        else:
            assert seen, f"the end of no consumer tells of the error: {self.errors}"
            assert self.direct or self._is_injected(raised), f"join raised {raised!r}"

    def _is_injected(self, error: BaseException | None) -> bool:
        return any(cause is raised for cause in causes(error) for raised in self.injected.raised)


def causes(error: BaseException | None) -> list[BaseException]:
    """An error and what it came from."""
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__
    return found


def cycle(seed: int) -> str:
    """Runs one program, and says of which kind it was.

    Raises AssertionError, or prints where all threads are and ends, if something is wrong.
    """
    before = set(threading.enumerate())
    with tf.Graph().as_default():
        if seed % 4 == 3:
            contest = Contest(seed)
            contest.run()
            kind = f"contest for a queue, {contest.kind}"
        else:
            program = Program(seed)
            for _ in range(program.sessions):
                program.run()
            failed = ", an error" if program.injected.raised else ""
            kind = f"{program.ending}{failed}{'' if program.coordinated else ', no coordinator'}"
    deadline = time.monotonic() + LIMIT
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not left, f"threads are left: {sorted(thread.name for thread in left)}"
    return kind


def main(count: int = 2000, first: int = 0) -> None:
    """Runs cycles, and says how many of which kind and how long they took."""
    logging.disable(logging.CRITICAL)  # runners log each injected error
    began, longest = time.perf_counter(), 0.0
    kinds: collections.Counter[str] = collections.Counter()
    for seed in range(first, first + count):
        faulthandler.dump_traceback_later(4 * LIMIT, exit=True)
        start = time.perf_counter()
        try:
            kinds[cycle(seed)] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        longest = max(longest, time.perf_counter() - start)
    faulthandler.cancel_dump_traceback_later()
    took = time.perf_counter() - began
    for kind, number in sorted(kinds.items()):
        sys.stdout.write(f"{number:6,} {kind}\n")
    left = threading.active_count() - 1
    sys.stdout.write(f"{count:,} cycles in {took:.1f} s, the longest {longest * 1000:.0f} ms; {left} threads left\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
