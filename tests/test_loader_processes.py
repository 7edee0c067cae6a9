"""Loaders whose workers are processes: the same batches, errors as themselves, nothing left behind."""

from __future__ import annotations

import os
import pathlib
import pickle
import signal
import time
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.engine import Choice, ProcessRun
from headrace.errors import PlanError
from tests.plain import plain


def texts(folder: pathlib.Path) -> str:
    path = folder / "text.txt"
    path.write_text("".join(f"{'w ' * (i % 7)}n{i}\n" for i in range(500)))
    return str(path)


def describe(kind: str, folder: pathlib.Path) -> Any:
    if kind == "arrays":
        return hr.from_arrays({"x": np.arange(1000).reshape(100, 10), "y": np.arange(100)}).shuffle(seed=3).batch(7)
    if kind == "text":
        return hr.read_text(texts(folder)).shuffle(seed=1).batch(16)
    if kind == "mapped":
        return hr.from_dataset(range(200)).shuffle(seed=5, window=50).map(lambda n: {"n": n, "sq": n * n}).batch(8)
    if kind == "filtered":
        return hr.from_dataset(range(300)).shuffle(seed=2).filter(lambda n: n % 3 == 0).batch(10)
    if kind == "zipped":
        return hr.zip(hr.from_dataset(range(50)), hr.read_text(texts(folder)).take(50)).batch(6)
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", ["arrays", "text", "mapped", "filtered", "zipped"])
def test_batches_and_positions_are_the_same(kind: str, tmp_path: pathlib.Path) -> None:
    data = describe(kind, tmp_path)
    alone = hr.Loader(data)
    with hr.Loader(data, workers=2, mode="processes") as loader:
        for _ in range(2):
            for one, other in zip(alone, loader, strict=True):
                assert plain(one) == plain(other)
                assert loader.state_dict() == alone.state_dict()
        assert loader.stats().mode == "processes"


def test_a_state_fits_other_workers(tmp_path: pathlib.Path) -> None:
    data = describe("arrays", tmp_path)
    with hr.Loader(data, workers=2, mode="processes") as loader:
        running = iter(loader)
        for _ in range(5):
            next(running)
        state = loader.state_dict()
        rest = [plain(batch) for batch in running]
    other = hr.Loader(data, workers=1)
    other.load_state_dict(state)
    assert [plain(batch) for batch in other] == rest


def test_ranks_share_batches(tmp_path: pathlib.Path) -> None:
    data = describe("arrays", tmp_path)
    whole = [batch["y"].tolist() for batch in hr.Loader(data)]
    ranks = []
    for rank in range(2):
        with hr.Loader(data, workers=1, mode="processes", rank=rank, world_size=2) as loader:
            ranks.append([batch["y"].tolist() for batch in loader])
    assert [sorted(a + b) for a, b in zip(*ranks, strict=True)] == [sorted(batch) for batch in whole]


def test_a_users_error_comes_as_itself_with_the_record() -> None:
    def fails(n: int) -> int:
        if n == 13:
            raise LookupError("no such thing")
        return n

    data = hr.from_dataset(range(20)).map(fails).batch(4)
    with hr.Loader(data, workers=2, mode="processes") as loader:
        running = iter(loader)
        assert [next(running).tolist() for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
        with pytest.raises(LookupError, match="no such thing") as caught:
            next(running)
    notes = "\n".join(caught.value.__notes__)
    assert "record 13" in notes
    assert "in worker process" in notes
    assert "in fails" in notes


def test_a_killed_worker_changes_nothing(tmp_path: pathlib.Path) -> None:
    def suicidal(n: int) -> int:
        if n in (5, 40) and not (tmp_path / str(n)).exists():
            (tmp_path / str(n)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    data = hr.from_dataset(range(60)).map(suicidal).batch(4)
    with hr.Loader(data, workers=2, mode="processes") as loader:
        assert [n for batch in loader for n in batch.tolist()] == list(range(60))


def test_it_delivers_tensors() -> None:
    torch = pytest.importorskip("torch")
    data = hr.from_arrays(np.arange(100, dtype=np.float32)).batch(10)
    with hr.Loader(data, workers=1, mode="processes", to="torch") as loader:
        batches = list(loader)
    assert torch.equal(torch.cat(batches), torch.arange(100, dtype=torch.float32))


def test_a_loader_can_be_pickled(tmp_path: pathlib.Path) -> None:
    with hr.Loader(describe("arrays", tmp_path), workers=1, mode="processes") as loader:
        next(iter(loader))
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert plain(next(iter(copy))) == plain(next(iter(loader)))


@pytest.mark.parametrize(("mode", "workers"), [("inline", 1), ("threads", 0), ("processes", 0), ("fibres", 1)])
def test_modes_must_fit_the_number_of_workers(mode: Any, workers: int) -> None:
    with pytest.raises(PlanError, match="mode"):
        hr.Loader(hr.from_dataset(range(3)).batch(1), workers=workers, mode=mode)


def test_the_number_can_be_found_out() -> None:
    data = hr.from_dataset(range(400)).map(lambda n: n * 2).batch(4)
    with hr.Loader(data, workers="auto", mode="processes") as loader:
        for _ in range(2):
            assert [n for batch in loader for n in batch.tolist()] == [2 * n for n in range(400)]
        assert "workers='auto'" in loader.stats().choice


def test_waiting_for_processes_to_start_in_mid_epoch_is_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*arguments: Any, **more: Any) -> Any:
        time.sleep(0.3)
        return ProcessRun(*arguments, **more)

    monkeypatch.setattr("headrace.engine.ProcessRun", late)
    with hr.Loader(hr.from_dataset(range(8)).batch(4), workers="auto", mode="processes") as loader:
        auto = loader._workers._auto
        assert auto is not None
        auto.current, auto.decided = Choice("processes", 1), True
        assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert loader.stats().waited >= 0.3
