"""A job is known again without being packed, and whatever changes in it is seen."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from headrace.clock import Clock
from headrace.engine import Crew, ProcessRun, Seat, StatsCollector, crew, freight
from headrace.engine.glance import Glance

pytestmark = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="other threads may change what is looked through"
)


class Job:
    """Gives what it holds for each piece."""

    def __init__(self, rows: Any, epoch: int = 0) -> None:
        self.rows = rows
        self.epoch = epoch

    def open(self, seat: Seat) -> Callable[[Any, Clock], Any]:
        return lambda piece, clock: (self.rows[piece], self.epoch)


def plain() -> Job:
    rows: list[Any] = [{"name": f"n{i}", "x": i * 1.5, "tags": [i, (i, [i])], "none": None} for i in range(400)]
    rows[3]["array"] = np.arange(100.0).reshape(10, 10)
    rows[4]["raw"] = bytearray(b"raw")
    rows[5]["number"] = np.float32(3)
    return Job(rows)


def put(job: Job, at: int, key: Any, value: Any) -> None:
    job.rows[at][key] = value


CHANGES: dict[str, Callable[[Job], Any]] = {
    "a row replaced": lambda job: job.rows.__setitem__(7, dict(job.rows[7])),
    "a row more": lambda job: job.rows.append({}),
    "a row less": lambda job: job.rows.pop(),
    "rows swapped": lambda job: job.rows.insert(0, job.rows.pop()),
    "a value of another type that is equal": lambda job: put(job, 1, "x", 1 if job.rows[1]["x"] == 1 else 1.5 + 0j),
    "a key more": lambda job: put(job, 1, "new", 1),
    "keys in another order": lambda job: put(job, 1, "name", job.rows[1].pop("name")),
    "deep inside": lambda job: job.rows[9]["tags"][1][1].append(1),
    "an array in place": lambda job: job.rows[3]["array"].__setitem__((2, 3), 7),
    "an array's shape": lambda job: job.rows[3]["array"].__setattr__("shape", (5, 20)),
    "an array's type": lambda job: job.rows[3]["array"].__setattr__("dtype", np.int64),
    "bytes in place": lambda job: job.rows[4]["raw"].__setitem__(0, 0),
    "another list with the same rows": lambda job: setattr(job, "rows", list(job.rows)),
    "an attribute beside it": lambda job: setattr(job, "epoch", 1),
}


@pytest.mark.parametrize("by_value", [False, True])
def test_what_is_unchanged_is_known_again(by_value: bool) -> None:
    job = plain()
    glance = Glance.at(job, by_value)
    assert glance is not None
    assert glance.holds(job)
    assert glance.holds(job)


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_seen(change: str) -> None:
    job = plain()
    glance = Glance.at(job, False)
    assert glance is not None
    CHANGES[change](job)
    assert not glance.holds(job)


class Custom:
    pass


class Text(str):
    pass


@pytest.mark.parametrize(
    "thing",
    [Custom(), {1}, Text("x"), np.array([[]], object), np.ma.masked_array([1]), range(3), np.zeros(1, "i4,f8")[0]],
)
def test_nothing_is_said_of_what_may_change_unseen(thing: Any) -> None:
    assert Glance.at(Job([thing] * 400), False) is None


def test_objects_that_are_let_go_of_arent_mistaken_for_others() -> None:
    job = Job([[float(i)] for i in range(1000)])
    glance = Glance.at(job, False)
    assert glance is not None
    for row in job.rows:
        row[0] += 1.0  # the new number may get the old one's place, if nobody keeps that
    assert not glance.holds(job)


def test_cycles_have_an_end() -> None:
    rows: list[Any] = [1] * 400
    rows.append(rows)
    glance = Glance.at(Job(rows), False)
    assert glance is not None
    assert glance.holds(Job(rows))
    rows[0] = 2
    assert not glance.holds(Job(rows))


# in runs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def two() -> Iterator[Crew]:
    made = Crew(2)
    yield made
    made.close()


@pytest.fixture
def packings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    seen: list[Any] = []

    class Counted(freight.Packed):
        def __init__(self, job: Any, *, by_value: bool) -> None:
            super().__init__(job, by_value=by_value)
            seen.append(job)

    monkeypatch.setattr(crew, "Packed", Counted)
    return seen


def read(crew: Crew, job: Job, pieces: Any = (3, 5)) -> list[Any]:
    run = ProcessRun(crew, pieces, job, StatsCollector(2, 8), prefetch=2, max_bytes=1 << 28)
    return [result.value for result in run]


linux = pytest.mark.skipif(sys.platform != "linux", reason="as the tests of process workers")


def strings() -> Job:
    return Job([f"a longer text, number {i}" for i in range(5000)])


@linux
def test_a_large_job_is_packed_once(two: Crew, packings: list[Any]) -> None:
    job = strings()
    first = read(two, job)
    count = len(packings)
    assert read(two, job) == first
    assert len(packings) == count
    other = Crew(2)
    try:
        assert read(other, job) == first
    finally:
        other.close()
    assert len(packings) == count


@linux
def test_what_changes_between_runs_reaches_the_workers(two: Crew, packings: list[Any]) -> None:
    job = strings()
    read(two, job)
    job.rows[3] = "new"
    assert read(two, job)[0] == ("new", 0)
    job.epoch = 4
    assert read(two, job)[0] == ("new", 4)
    del job.rows[:3]
    assert read(two, job, [0]) == [("new", 4)]
    count = len(packings)
    assert read(two, job, [0]) == [("new", 4)]
    assert len(packings) == count


class Changing(Job):
    """Changes while it is packed."""

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if self.epoch == 0:
            self.rows[3] = "new"
        return state


@linux
def test_what_changes_while_it_is_packed_is_seen(two: Crew) -> None:
    job = Changing(strings().rows)
    read(two, job)
    assert read(two, job)[0][0] == "new"


def test_results_are_pickled_by_pickle_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> None:
        raise AssertionError("cloudpickle is slow, and not needed")

    monkeypatch.setattr(freight, "_cloud_pickler", never)
    stream, buffers = freight.pack({"job": Job([1]), "array": np.arange(1000)})
    assert freight.unpack(stream, buffers)["job"].rows == [1]
