"""Interrupts of the process that feeds workers: nothing is lost, nothing is wrong, nothing is left."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from headrace.clock import Clock
from headrace.engine import Crew, Feed, ProcessRun, Seat, StatsCollector
from headrace.engine.arena import Arena, make_segment
from headrace.engine.interrupts import is_pressed, undisturbed
from headrace.errors import StuckError
from tests.engine.strikes import MARKS, Strike, Striker, handler, struck

__all__ = ["handler"]

pytestmark = MARKS

PIECES = 9
PLACES = 40  # that are tried of some thousands, spread evenly; any number of them must do


class Job:
    """Results that go through slots, but for one that is too large for them."""

    def open(self, seat: Seat) -> Callable[[Any, Clock], Any]:
        return lambda piece, clock: np.full(2000 + 5000 * (piece == 5), piece)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_an_interrupted_run_goes_on_and_leaves_nothing(method: Any, handler: None) -> None:
    crew = Crew(2, method)
    job = Job()

    def start() -> ProcessRun[int]:
        return ProcessRun(crew, range(PIECES), job, StatsCollector(2, 4), prefetch=2, max_bytes=1 << 20)

    def value(result: Any) -> int:
        assert result.error is None
        assert (result.value == result.piece).all()
        return int(result.value[0])

    for _ in range(2):  # what is made once for all; the count of an ordinary run
        count = Striker()
        assert struck(count, start, value) == ([*range(PIECES)], 0)
    crew.close()
    gc.collect()
    before = descriptors()
    hits = 0
    for at in range(1, count.count, -(-count.count // PLACES)):
        found, strikes = struck(Striker(at), start, value)
        assert found == [*range(PIECES)], at
        hits += strikes
        if at % 3 == 0:
            crew.close()
    assert hits > PLACES // 2
    crew.close()
    gc.collect()
    assert descriptors() <= before
    assert crew.resting == []


@pytest.mark.parametrize("keep", [0, 1, 3])
def test_a_run_that_is_left_after_an_interrupt_leaves_nothing(keep: int, handler: None) -> None:
    crew = Crew(2, "forkserver")

    def begin(striker: Striker) -> None:
        sys.settrace(striker)
        try:
            run = ProcessRun(crew, range(PIECES), Job(), StatsCollector(2, 4), prefetch=2, max_bytes=1 << 20)
            for result in itertools.islice(run, keep):
                assert (result.value == result.piece).all()
            run.close()
        except Strike:
            pass
        finally:
            sys.settrace(None)

    begin(count := Striker())
    crew.close()
    gc.collect()
    before = descriptors()
    for at in range(1, count.count, -(-count.count // 20)):
        begin(Striker(at))
    crew.close()
    gc.collect()
    assert descriptors() <= before


def test_nothing_is_sent_anew_after_an_interrupt_of_waiting(handler: None) -> None:
    class Naps:
        def open(self, seat: Seat) -> Callable[[Any, Clock], Any]:
            def nap(piece: int, clock: Clock) -> int:
                time.sleep(0.5 if piece == 1 else 0)
                return os.getpid()

            return nap

    crew = Crew(1)
    run = ProcessRun(crew, range(3), Naps(), StatsCollector(1, 4), prefetch=2, max_bytes=1 << 20)
    first = next(run).value
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    with pytest.raises(Strike):
        next(run)
    assert [result.value for result in run] == [first, first]
    crew.close()


# feed ----------------------------------------------------------------------------------------------------------------


def test_a_feed_keeps_a_piece_until_somebody_has_it() -> None:
    feed = Feed(iter([1, 2]))
    assert feed.take()
    assert feed.take()
    assert feed.held == [1]
    del feed.held[:]
    assert feed.take()
    del feed.held[:]
    assert not feed.take()
    assert feed.error is None


def test_a_feed_notes_an_error_of_the_plan() -> None:
    def pieces() -> Iterator[int]:
        yield 1
        raise KeyError("plan")

    feed = Feed(pieces())
    assert feed.take()
    del feed.held[:]
    assert not feed.take()
    assert isinstance(feed.error, KeyError)


def test_a_feed_says_that_an_interrupt_has_ended_its_pieces() -> None:
    def pieces() -> Iterator[int]:
        yield 1
        raise KeyboardInterrupt
        yield 2

    feed = Feed(pieces())
    assert feed.take()
    del feed.held[:]
    with pytest.raises(KeyboardInterrupt):
        feed.take()
    with pytest.raises(StuckError, match="was interrupted while it asked for what comes next"):
        feed.take()


# slots and descriptors -----------------------------------------------------------------------------------------------


def test_a_slot_is_free_when_its_last_view_is_gone() -> None:
    arena = Arena(2, 4096)
    slot = arena.take()
    assert slot is not None
    view = arena.view(slot, 100)[10:20]
    number = slot.number
    del slot
    assert arena.free == 1
    del view
    assert arena.free == 2
    slots = [arena.take(), arena.take()]
    assert {slot.number for slot in slots if slot is not None} == {0, 1}
    assert number in {0, 1}
    assert arena.take() is None


def test_a_view_outlives_its_arena() -> None:
    arena = Arena(1, 4096)
    slot = arena.take()
    assert slot is not None
    view = arena.view(slot, 3)
    view[:] = b"abc"
    del arena, slot
    assert bytes(view) == b"abc"


def test_a_segment_that_gets_lost_closes_itself() -> None:
    before = descriptors()
    make_segment(4096)
    assert descriptors() == before


# handlers ------------------------------------------------------------------------------------------------------------


def test_handlers_are_put_off_to_the_end_of_a_block(handler: None) -> None:
    done = []
    with pytest.raises(Strike), undisturbed():
        signal.raise_signal(signal.SIGALRM)
        assert is_pressed()
        with undisturbed():
            signal.raise_signal(signal.SIGALRM)
        done.append(1)
    assert done == [1]
    assert not is_pressed()
    with pytest.raises(Strike):
        signal.raise_signal(signal.SIGALRM)


def test_every_handler_is_back_whatever_one_does(handler: None) -> None:
    came = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: came.append(number))
    try:
        with pytest.raises(Strike), undisturbed():
            signal.raise_signal(signal.SIGALRM)
            signal.raise_signal(signal.SIGUSR1)
        assert came == [signal.SIGUSR1]
        signal.raise_signal(signal.SIGUSR1)
        assert came == [signal.SIGUSR1] * 2
    finally:
        signal.signal(signal.SIGUSR1, before)


ALARMS = """
import os, random, signal, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from headrace.engine import Crew, ProcessRun, StatsCollector
class Strike(BaseException): pass
def strike(*_): raise Strike
class Job:
    def open(self, seat):
        return lambda piece, clock: np.full(2000, piece)
signal.signal(signal.SIGALRM, strike)
random.seed(int(sys.argv[1]))
crew = Crew(2, sys.argv[2])
strikes = 0
while strikes < int(sys.argv[3]):
    found, run = [], None
    while True:
        try:
            if random.random() < 0.2:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 1e-2))
            if run is None:
                run = ProcessRun(crew, range(30), Job(), StatsCollector(2, 4), prefetch=2, max_bytes=1 << 20)
            result = run.head()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Strike:
            strikes += 1
            continue
        except StopIteration:
            break
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if not found or result.piece != found[-1]:
            assert (result.value == result.piece).all()
            found.append(result.piece)
        del run.held[:]
    assert found == list(range(30)), found
print("done")
"""


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_alarms_at_any_time(method: str) -> None:
    command = [sys.executable, "-c", ALARMS, "1", method, "40"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "done\n", done.stderr[-2000:]
