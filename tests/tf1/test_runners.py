from __future__ import annotations

import contextlib
import logging
import pathlib
import threading
import time
from typing import Any

import pytest

from headrace import tf1 as tf


def numbers(limit: int = 10, epochs: int | None = 1) -> Any:
    return tf.train.range_input_producer(limit, num_epochs=epochs, shuffle=False).dequeue()


def failing_at(bad: int, error: type[Exception] = ValueError) -> Any:
    def check(value: int) -> int:
        if value == bad:
            raise error(f"{value} is bad")
        return value

    made = tf.py_func(check, [numbers()], tf.int32)
    made.set_shape([])
    return made


def drain(sess: tf.Session, tensor: Any) -> tuple[list[Any], tf.OpError]:
    found: list[Any] = []
    while True:
        try:
            found.append(sess.run(tensor).tolist())
        except tf.OpError as error:
            return found, error


def test_the_end_travels_down_the_chain() -> None:
    batch = tf.train.batch([numbers(5)], 2, allow_smaller_final_batch=True)
    ready = tf.slim.prefetch_queue.prefetch_queue([batch], dynamic_pad=True).dequeue()
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess, coord)
        assert len(threads) == 6
        found, end = drain(sess, ready)
        assert found == [[0, 1], [2, 3], [4]]
        assert type(end) is tf.errors.OutOfRangeError
        coord.request_stop()
        coord.join(threads)


def test_calling_again_starts_no_second_set() -> None:
    tf.train.batch([numbers(epochs=None)], 2, num_threads=3)
    with tf.Session() as sess:
        assert len(tf.train.start_queue_runners(sess)) == 4
        assert tf.train.start_queue_runners(sess) == []


def test_an_error_reaches_the_consumer_without_a_coordinator(caplog: pytest.LogCaptureFixture) -> None:
    batch = tf.train.batch([failing_at(5)], 2)
    ready = tf.slim.prefetch_queue.prefetch_queue([batch]).dequeue()
    with tf.Session() as sess, caplog.at_level(logging.ERROR):
        tf.train.start_queue_runners(sess)
        found, end = drain(sess, ready)
    assert found == [[0, 1], [2, 3]]
    assert isinstance(end, tf.errors.InvalidArgumentError)
    assert "5 is bad" in str(end)
    cause: BaseException | None = end
    while cause is not None and not isinstance(cause, ValueError):
        cause = cause.__cause__
    assert str(cause) == "5 is bad"
    assert "the thread that fills queue batch ends" in caplog.text


def test_an_error_goes_to_the_coordinator_and_is_the_cause_of_the_end() -> None:
    batch = tf.train.batch([failing_at(3)], 1)
    with tf.Session() as sess:
        coord = tf.train.Coordinator()
        tf.train.start_queue_runners(sess, coord)
        found, end = drain(sess, batch)
        assert found == [[0], [1], [2]]
        assert type(end) is tf.errors.OutOfRangeError
        assert isinstance(end.__cause__, tf.errors.InvalidArgumentError)
        with pytest.raises(tf.errors.InvalidArgumentError, match="3 is bad"):
            coord.join()
        with pytest.raises(tf.errors.InvalidArgumentError, match="3 is bad"):
            coord.join()


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ValueError, tf.errors.InvalidArgumentError),
        (KeyError, tf.errors.InvalidArgumentError),
        (FileNotFoundError, tf.errors.NotFoundError),
        (IsADirectoryError, tf.errors.FailedPreconditionError),
        (ZeroDivisionError, tf.errors.UnknownError),
        (MemoryError, tf.errors.ResourceExhaustedError),
    ],
)
def test_errors_of_functions_get_names_of_tensorflow(raised: type[Exception], kind: type[tf.OpError]) -> None:
    value = failing_at(0, raised)
    with tf.Session() as sess:
        tf.train.start_queue_runners(sess)
        with pytest.raises(kind, match=r"is bad.*operation 'PyFunc'") as caught:
            sess.run(value)
    assert isinstance(caught.value.__cause__, raised)


def test_the_counter_of_epochs_survives() -> None:
    number = numbers(2)
    with tf.Session() as sess:
        for expected in ([0, 1], []):
            tf.train.start_queue_runners(sess)
            assert drain(sess, number)[0] == expected


def test_forever() -> None:
    number = numbers(2, epochs=None)
    with tf.Session() as sess:
        tf.train.start_queue_runners(sess)
        assert [sess.run(number) for _ in range(5)] == [0, 1, 0, 1, 0]


def test_without_runners_the_first_dequeue_waits() -> None:
    number = numbers()
    with tf.Session() as sess, pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(number, options=tf.RunOptions(timeout_in_ms=30))


def test_no_session() -> None:
    with pytest.raises(ValueError, match="No default session"):
        tf.train.start_queue_runners()


def test_every_epoch_is_a_permutation_and_a_seed_repeats_it() -> None:
    number = tf.train.range_input_producer(20, num_epochs=3, seed=7).dequeue()
    runs = []
    for _ in range(2):
        with tf.Session() as sess:
            tf.train.start_queue_runners(sess)
            runs.append(drain(sess, number)[0])
    assert runs[0] == runs[1]
    epochs = [runs[0][i : i + 20] for i in range(0, 60, 20)]
    assert all(sorted(epoch) == list(range(20)) for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_producers_refuse_what_can_not_be() -> None:
    with pytest.raises(ValueError, match="num_epochs must be > 0 not 0"):
        tf.train.string_input_producer(["a"], num_epochs=0)
    with pytest.raises(ValueError, match="non-null input"):
        tf.train.string_input_producer([])
    with pytest.raises(ValueError, match="at least one tensor"):
        tf.train.slice_input_producer([])


def test_slices_of_a_shorter_tensor_fail_at_their_index() -> None:
    row = tf.train.slice_input_producer([[1, 2, 3], ["a", "b"]], num_epochs=1, shuffle=False)
    with tf.Session() as sess:
        tf.train.start_queue_runners(sess)
        assert [sess.run(row) for _ in range(2)] == [[1, b"a"], [2, b"b"]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="2 is not in \\[0, 2\\)"):
            sess.run(row)


class TestCoordinator:
    def test_the_first_error_wins(self) -> None:
        coord = tf.train.Coordinator()
        coord.request_stop(KeyError("first"))
        coord.request_stop(ValueError("second"))
        with pytest.raises(KeyError, match="first"):
            coord.join()
        with pytest.raises(ValueError, match="late"):
            coord.request_stop(ValueError("late"))

    def test_clean_types_are_replaced(self) -> None:
        coord = tf.train.Coordinator([StopIteration])
        with coord.stop_on_exception():
            raise tf.errors.OutOfRangeError(None, None, "the end")
        with pytest.raises(tf.errors.OutOfRangeError, match="the end"):
            coord.raise_requested_exception()

    def test_threads_that_do_not_end_are_named(self) -> None:
        coord, go = tf.train.Coordinator(), threading.Event()
        thread = threading.Thread(target=go.wait, name="stubborn")
        thread.start()
        coord.request_stop()
        with pytest.raises(RuntimeError, match="still running: stubborn"):
            coord.join([thread], stop_grace_period_secs=0.05)
        coord.join([thread], stop_grace_period_secs=0.05, ignore_live_threads=True)
        go.set()
        thread.join()

    def test_waiting_for_a_stop(self) -> None:
        coord = tf.train.Coordinator()
        assert not coord.wait_for_stop(0.01)
        threading.Timer(0.02, coord.request_stop).start()
        assert coord.wait_for_stop(20)
        coord.clear_stop()
        assert not coord.should_stop()


def test_the_three_pictures_program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands in articles on reading data, with its import line changed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "read").mkdir()
    contents = {"A.jpg": b"first", "B.jpg": b"", "C.jpg": bytes(range(256))}
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    i = 0
    with tf.Session() as sess:
        filename = ["A.jpg", "B.jpg", "C.jpg"]
        filename_queue = tf.train.string_input_producer(filename, shuffle=False, num_epochs=5)
        reader = tf.WholeFileReader()
        _key, value = reader.read(filename_queue)
        tf.local_variables_initializer().run()
        tf.train.start_queue_runners(sess=sess)
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                i += 1
                image_data = sess.run(value)
                with open(f"read/test_{i}.jpg", "wb") as f:
                    f.write(image_data)
    assert i == 16
    assert [p.read_bytes() for p in (tmp_path / f"read/test_{n}.jpg" for n in range(1, 16))] == [*contents.values()] * 5


def test_many_starts_and_stops() -> None:
    """Consumers that leave early, errors in each stage, with a coordinator and without: no thread stays, none hangs."""
    before = threading.active_count()
    logging.getLogger("headrace.tf1.runners").setLevel(logging.CRITICAL)
    for cycle in range(300):
        with tf.Graph().as_default():
            source = failing_at(cycle % 8) if cycle % 3 else numbers(8, None if cycle % 2 else 1)
            batch = tf.train.shuffle_batch([source], 2, 6, 2, num_threads=1 + cycle % 4)
            ready = tf.slim.prefetch_queue.prefetch_queue([batch], 2, num_threads=1 + cycle % 2).dequeue()
            coord = tf.train.Coordinator() if cycle % 5 else None
            with tf.Session() as sess:
                threads = tf.train.start_queue_runners(sess, coord)
                for _ in range(cycle % 7):
                    try:
                        sess.run(ready)
                    except tf.OpError:
                        break
                if coord is not None and cycle % 4:
                    coord.request_stop()
                    with contextlib.suppress(tf.errors.InvalidArgumentError):
                        coord.join(threads)
            for thread in threads:
                thread.join(20)
                assert not thread.is_alive(), f"cycle {cycle}: {thread.name}"
    logging.getLogger("headrace.tf1.runners").setLevel(logging.NOTSET)
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before
