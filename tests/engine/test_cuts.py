"""Pieces that several workers are at: what comes of them is what one worker would have made."""

from __future__ import annotations

import contextlib
import gc
import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from headrace.clock import Clock
from headrace.engine import Crew, ProcessRun, Seat, StatsCollector
from headrace.engine.cuts import Cuts, check_plain, in_turn, piece_of
from headrace.errors import WorkerDiedError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process workers are looked at through /proc")

Piece = tuple[int, ...]


class Sums:
    """Of each piece, a tuple of numbers: them, doubled, with who doubled them and who put them together."""

    def __init__(self, folder: str = "", double: Callable[[Any, str], Any] | None = None) -> None:
        self.folder = folder
        self.double = double or twice

    def open(self, seat: Seat) -> Sums:
        self.seat = seat.id
        return self

    def __call__(self, piece: Any, clock: Clock) -> Any:
        if isinstance(piece, list):  # a part
            return [(self.double(n, self.folder), self.seat) for n in piece]
        return "whole", [self.double(n, self.folder) for n in piece], []

    def join(self, piece: Piece, parts: list[Any], clock: Clock) -> Any:
        data = [one for part in parts for one in part]
        return "joined", [n for n, _ in data], [seat for _, seat in data]


def twice(n: Any, folder: str) -> Any:
    return n * 2


def cut(piece: Piece) -> list[list[int]]:
    return [[n] for n in piece]


PIECES = [tuple(range(i * 10, i * 10 + 6)) for i in range(7)]


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew(2)
    yield made
    made.close()


def go(crew: Crew, job: Sums, pieces: Any = PIECES, **options: Any) -> list[Any]:
    options.setdefault("cut", cut)
    run = ProcessRun(crew, pieces, job, StatsCollector(2, 8), prefetch=2, max_bytes=1 << 28, **options)
    found = []
    for result in run:
        if result.error is not None:
            raise result.error
        found.append(result.value)
    return found


def numbers(results: list[Any]) -> list[Any]:
    return [data for _, data, _ in results]


DOUBLED = [[2 * n for n in piece] for piece in PIECES]


def test_as_many_pieces_as_there_are_workers_are_cut_while_a_run_begins(crew: Crew) -> None:
    found = go(crew, Sums())
    assert numbers(found) == DOUBLED
    assert [how for how, _, _ in found] == ["joined"] * 2 + ["whole"] * 5
    assert set(found[0][2]) == {0, 1}  # both have worked on the first one


def test_quick_pieces_are_left_whole(crew: Crew) -> None:
    go(crew, Sums())
    assert crew.pace is not None
    crew.pace = 0.001
    assert {how for how, _, _ in go(crew, Sums())} == {"whole"}
    crew.pace = 1.0
    assert [how for how, _, _ in go(crew, Sums())][:3] == ["joined", "joined", "whole"]


def test_fewer_pieces_than_workers_keep_all_of_them_busy() -> None:
    crew = Crew(3)
    try:
        found = go(crew, Sums(), PIECES[:1])
    finally:
        crew.close()
    assert set(found[0][2]) == {0, 1, 2}


def test_one_worker_cuts_nothing() -> None:
    crew = Crew(1)
    try:
        assert {how for how, _, _ in go(crew, Sums())} == {"whole"}
    finally:
        crew.close()


def test_pieces_that_are_pinned_arent_cut(crew: Crew) -> None:
    found = go(crew, Sums(), seat_of=lambda piece: 0)
    assert {how for how, _, _ in found} == {"whole"}


def arrays(n: Any, folder: str) -> Any:
    return {"large": np.full((200, 30), n), "small": np.float32(n), "name": f"n{n}", "more": [(n, None)]}


def test_arrays_come_whole_from_all_parts_and_no_descriptor_is_left(crew: Crew) -> None:
    go(crew, Sums(double=arrays))
    crew.pace = None
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        for piece, (_, data, _) in zip(PIECES, go(crew, Sums(double=arrays)), strict=True):
            for n, sample in zip(piece, data, strict=True):
                assert (sample["large"] == n).all()
                assert sample["name"] == f"n{n}"
                sample["large"][0, 0] = -1  # writeable
        crew.pace = None
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


# trouble -------------------------------------------------------------------------------------------------------------


class Odd:
    def __init__(self, n: int) -> None:
        self.n = n


def odd(n: Any, folder: str) -> Any:
    return Odd(n)


def test_what_may_not_survive_pickling_is_made_by_one_worker(crew: Crew) -> None:
    for _ in range(2):
        found = go(crew, Sums(double=odd))
        assert {how for how, _, _ in found} == {"whole"}
        assert [[one.n for one in data] for _, data, _ in found] == [list(piece) for piece in PIECES]
    assert not crew.cuts


def failing(n: Any, folder: str) -> Any:
    if n in (3, 14):
        raise ValueError(f"no {n}")
    return n * 2


def test_an_error_is_that_of_the_whole_piece(crew: Crew) -> None:
    options = {"prefetch": 2, "max_bytes": 1 << 28, "cut": cut}
    run = ProcessRun(crew, PIECES, Sums(double=failing), StatsCollector(2, 8), **options)  # type: ignore[arg-type]
    errors = [str(result.error) if result.error else None for result in run]
    assert "ValueError: no 3" in str(errors[0])
    assert "ValueError: no 14" in str(errors[1])
    assert errors[2:] == [None] * 5


def deadly(n: Any, folder: str) -> Any:
    mark = pathlib.Path(folder, "mark")
    if n == 4 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return n * 2


def test_a_worker_that_dies_in_a_part_costs_nothing(crew: Crew, tmp_path: pathlib.Path) -> None:
    assert numbers(go(crew, Sums(str(tmp_path), deadly))) == DOUBLED


def always_deadly(n: Any, folder: str) -> Any:
    if n == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return n * 2


def test_a_part_that_kills_each_worker_is_given_up(crew: Crew) -> None:
    options = {"prefetch": 2, "max_bytes": 1 << 28, "cut": cut}
    run = ProcessRun(crew, PIECES, Sums(double=always_deadly), StatsCollector(2, 8), **options)  # type: ignore[arg-type]
    results = list(run)
    assert isinstance(results[0].error, WorkerDiedError)
    assert "in piece 0" in str(results[0].error)
    assert [result.value[1] for result in results[1:]] == DOUBLED[1:]


class DiesJoining(Sums):
    def join(self, piece: Piece, parts: list[Any], clock: Clock) -> Any:
        deadly(4, self.folder)
        return super().join(piece, parts, clock)


def test_a_worker_that_dies_in_putting_together_costs_nothing(crew: Crew, tmp_path: pathlib.Path) -> None:
    assert numbers(go(crew, DiesJoining(str(tmp_path)))) == DOUBLED


def slow(n: Any, folder: str) -> Any:
    if n == 0:
        time.sleep(1.0)
    return n * 2


def test_parts_behind_a_slow_one_are_done_by_others(crew: Crew) -> None:
    found = go(crew, Sums(double=slow), PIECES[:2])
    assert numbers(found) == DOUBLED[:2]
    assert found[0][2][1:] == [1 - found[0][2][0]] * 5  # the other one has done all the rest meanwhile


def test_a_run_can_end_while_parts_are_under_way(crew: Crew) -> None:
    open_before = 0
    for _ in range(3):
        for _ in range(3):
            run = ProcessRun(crew, PIECES, Sums(double=arrays), StatsCollector(2, 8), prefetch=2, max_bytes=1, cut=cut)
            run.close()
            crew.pace = None
        assert numbers(go(crew, Sums())) == DOUBLED
        gc.collect()
        open_now = len(os.listdir("/proc/self/fd"))
        open_before = open_before or open_now
    assert open_now == open_before


@pytest.mark.parametrize("where", ["begin", "keep", "carried"])
def test_an_interrupt_among_parts_loses_nothing(crew: Crew, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go(crew, Sums(), PIECES[:1])
    crew.pace = None
    run = ProcessRun(crew, PIECES, Sums(), StatsCollector(2, 8), prefetch=1, max_bytes=1, cut=cut)
    whole, left = getattr(Cuts, where), [True]

    def interrupted(self: Cuts, *args: Any) -> Any:
        found = whole(self, *args)
        if left:
            left.clear()
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(Cuts, where, interrupted)
    found: list[Any] = []
    while len(found) < len(PIECES):
        with contextlib.suppress(KeyboardInterrupt):
            found.append(next(run).value)
    assert not left
    assert numbers(found) == DOUBLED


def test_a_job_that_cant_be_sent_is_inherited_and_cut_all_the_same() -> None:
    job = Sums()
    job.lock = threading.Lock()  # type: ignore[attr-defined]
    crew = Crew(2, "fork")
    try:
        assert numbers(go(crew, job)) == DOUBLED
    finally:
        crew.close()


# what is plain -------------------------------------------------------------------------------------------------------


def test_numbers_of_parts_follow_their_piece() -> None:
    cuts = Cuts()
    found = {number: (piece, i) for piece in (1, 0) for i, number in enumerate(cuts.begin(piece, 2))}
    in_order = sorted(found, key=in_turn)
    assert [found[number] for number in in_order] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [piece_of(number) for number in in_order] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "value",
    [
        (1, [2.5, {"a": "b", b"c": None}], True, 1j),
        np.zeros((2, 2)),
        np.asfortranarray(np.zeros((2, 2))),
        np.int16(3),
        np.bool_(0),
    ],
)
def test_what_is_plain(value: Any) -> None:
    check_plain([value])


class List(list[Any]):
    pass


@pytest.mark.parametrize(
    "value", [Odd(1), List(), {1}, np.array([None]), np.zeros((4, 4))[:, ::2], np.ma.masked_array([1]), slice(3), len]
)
def test_what_isnt(value: Any) -> None:
    with pytest.raises(TypeError, match="sent in parts"):
        check_plain([{"x": (value,)}])


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    check_plain([torch.ones(2, 3), torch.tensor(1), torch.ones(2, dtype=torch.bfloat16)])
    tagged = torch.ones(2)
    tagged.tag = 1
    for value in (
        torch.ones(2, requires_grad=True),
        torch.ones(2, 3).t(),
        torch.eye(2).to_sparse(),
        torch.nn.Parameter(torch.ones(1)),
        tagged,
    ):
        with pytest.raises(TypeError, match="sent in parts"):
            check_plain([value])
