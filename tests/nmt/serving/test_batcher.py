"""What waits together is done together; nobody loses anything by others."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Iterator

import pytest

from headrace.nmt.serving.batcher import Batcher, Full


class Slow:
    """Work that waits to be let go, and remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[tuple[list[str], object]] = []
        self.began, self.go_on = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, items: list[str], how: object) -> list[str]:
        self.batches.append((items, how))
        self.began.release()
        assert self.go_on.acquire(timeout=10)
        if "bad" in items:
            raise ValueError("bad")
        return [item.upper() for item in items]


@pytest.fixture
def slow() -> Iterator[Slow]:
    work = Slow()
    yield work
    for _ in range(20):
        work.go_on.release()


def test_what_waits_is_one_batch(slow: Slow) -> None:
    batcher = Batcher(slow, most=4, waiting=100)
    first = batcher.submit(["a"], "x")
    assert slow.began.acquire(timeout=10)
    others = [batcher.submit(items, how) for items, how in ((["b", "c"], "x"), (["d"], "y"), (["e", "f"], "x"))]
    last = batcher.submit(["g"], "x")
    assert batcher.counts.waiting == 6
    for _ in range(10):
        slow.go_on.release()
    assert [first.result(10), *(other.result(10) for other in others), last.result(10)] == [
        ["A"], ["B", "C"], ["D"], ["E", "F"], ["G"],
    ]  # fmt: skip
    assert slow.batches == [(["a"], "x"), (["b", "c", "e", "f"], "x"), (["d"], "y"), (["g"], "x")]
    batcher.close()
    assert (batcher.counts.batches, batcher.counts.items, batcher.counts.largest) == (4, 7, 4)


def test_a_job_that_is_larger_than_a_batch_is_one_alone(slow: Slow) -> None:
    batcher = Batcher(slow, most=2, waiting=9)
    slow.go_on.release()
    assert batcher.submit(["a", "b", "c"], None).result(10) == ["A", "B", "C"]


def test_more_than_may_wait_is_refused(slow: Slow) -> None:
    batcher = Batcher(slow, most=2, waiting=3)
    batcher.submit(["a"], None)
    assert slow.began.acquire(timeout=10)
    taken_back = batcher.submit(["b", "c"], None)
    with pytest.raises(Full, match="2 wait already, at most 3 may"):
        batcher.submit(["d", "e"], None)
    batcher.submit(["d"], None)
    assert taken_back.cancel()
    kept = batcher.submit(["e", "f"], None)
    for _ in range(3):
        slow.go_on.release()
    assert kept.result(10) == ["E", "F"]
    assert [items for items, _ in slow.batches] == [["a"], ["d"], ["e", "f"]]  # nobody waits for b and c any more


def test_an_error_is_its_own_jobs(slow: Slow) -> None:
    batcher = Batcher(slow, most=9, waiting=9)
    batcher.submit(["a"], None)
    assert slow.began.acquire(timeout=10)
    good, bad = batcher.submit(["b"], None), batcher.submit(["bad"], None)
    for _ in range(9):
        slow.go_on.release()
    assert good.result(10) == ["B"]
    with pytest.raises(ValueError, match="bad"):
        bad.result(10)
    assert batcher.submit(["c"], None).result(10) == ["C"]


def test_closing_does_what_waits(slow: Slow) -> None:
    batcher = Batcher(slow, most=9, waiting=9)
    jobs = [batcher.submit([letter], letter) for letter in "abc"]
    closing = threading.Thread(target=batcher.close)
    closing.start()
    for _ in range(3):
        slow.go_on.release()
    assert [job.result(10) for job in jobs] == [["A"], ["B"], ["C"]]
    closing.join(10)
    assert not closing.is_alive()
    with pytest.raises(Full, match="closed"):
        batcher.submit(["d"], None)


def test_many_callers_at_once() -> None:
    def repeat(items: list[str], how: int) -> list[str]:
        return [item * how for item in items]

    batcher = Batcher(repeat, most=8, waiting=10_000)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        wanted = [([str(n), str(n + 1)], n % 3) for n in range(500)]
        found = pool.map(lambda job: batcher.submit(*job).result(10), wanted)
        assert list(found) == [[item * how for item in items] for items, how in wanted]
    assert batcher.counts.items == 1000
    assert batcher.counts.waiting == 0
    batcher.close()
