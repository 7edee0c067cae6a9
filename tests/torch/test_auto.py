"""`mode="auto"`: what its arguments mean where workers are chosen, and what the time goes to."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import headrace.torch as ht  # noqa: E402
from headrace.engine import Auto, Choice, ProcessRun  # noqa: E402
from tests.torch.data import Numbers, Stream, same  # noqa: E402


def auto_on(choice: Choice, dataset: Any, **arguments: Any) -> ht.DataLoader[Any]:
    """A loader that has chosen."""
    loader = ht.DataLoader(dataset, batch_size=2, mode="auto", collate_fn=same, **arguments)
    auto = loader._runtime.auto = Auto(["inline", choice.mode])
    auto.current, auto.decided = choice, True
    return loader


class Hangs(Numbers):
    """Doesn't come back from 5."""

    def __getitem__(self, i: int) -> Any:
        time.sleep(600.0 if i == 5 else 0.0)
        return i


@pytest.mark.parametrize("workers", [0, 1])
def test_who_waits_too_long_is_told(workers: int) -> None:
    loader = auto_on(Choice("processes", 1), Hangs(), num_workers=workers, timeout=5)
    batches = iter(loader)
    assert [next(batches), next(batches)] == [[0, 1], [2, 3]]
    for _ in range(2):  # it doesn't seem to be over
        with pytest.raises(RuntimeError, match="DataLoader timed out after 5 seconds"):
            next(batches)
    state = loader.state_dict()
    assert (state["epoch"], state["batches"]) == (0, 2)
    loader.close()


class Counting(Numbers):
    """Says who reads, and how often that one has read."""

    count = 0

    def __getitem__(self, i: int) -> Any:
        self.count += 1
        return os.getpid(), self.count


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_keep_their_dataset_if_they_persist(persistent: bool) -> None:
    loader = auto_on(Choice("processes", 1), Counting(4), num_workers=1, persistent_workers=persistent)
    first, second = [[sample for batch in loader for sample in batch] for _ in range(2)]
    assert [count for _, count in first] == [1, 2, 3, 4]
    assert [count for _, count in second] == ([5, 6, 7, 8] if persistent else [1, 2, 3, 4])
    loader.close()


def test_the_context_is_heeded() -> None:
    loader = auto_on(Choice("processes", 1), Numbers(4), num_workers=1, multiprocessing_context="fork")
    assert list(loader) == [[0, 1], [2, 3]]
    assert loader._runtime._crew is not None
    assert loader._runtime._crew[0] == (1, "fork")
    loader.close()


@pytest.mark.parametrize("arguments", [{}, {"num_workers": 1}, {"num_workers": 1, "on_error": "skip"}], ids=str)
@pytest.mark.parametrize("kind", [Numbers, Stream])
def test_code_of_the_users_isnt_reading(kind: Any, arguments: dict[str, Any]) -> None:
    loader = ht.DataLoader(kind(20), batch_size=4, **arguments)
    list(loader)
    stages = loader.stats().stages
    assert "fetch" in stages
    assert "read" not in stages


def test_gathering_is_reading() -> None:
    loader = ht.DataLoader(ht.TensorDataset(torch.arange(20)), batch_size=4)
    list(loader)
    assert "read" in loader.stats().stages
    assert "fetch" not in loader.stats().stages


def test_waiting_for_workers_to_start_in_mid_epoch_is_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a loop that waits for nothing but that is said to be bound by its consumer."""

    def late(*arguments: Any, **more: Any) -> Any:
        time.sleep(0.3)
        return ProcessRun(*arguments, **more)

    monkeypatch.setattr("headrace.torch.auto.ProcessRun", late)
    loader = auto_on(Choice("processes", 1), Numbers(4))
    assert list(loader) == [[0, 1], [2, 3]]
    assert loader.stats().waited >= 0.3
    loader.close()


@pytest.mark.parametrize("workers", [0, 3])
def test_the_number_of_workers_bounds_the_choice(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Asked(Auto):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            asked.append(more["most"])
            super().__init__(*arguments, **more)

    monkeypatch.setattr("headrace.torch.auto.Auto", Asked)
    loader = ht.DataLoader(Numbers(4), batch_size=2, mode="auto", num_workers=workers)
    assert len(list(loader)) == 2
    assert asked == [workers or None]


def test_workers_that_were_tried_in_vain_go() -> None:
    loader = auto_on(Choice("processes", 1), Numbers(40))
    auto = loader._runtime.auto
    assert auto is not None
    auto.decided, auto._tried = False, [(Choice("inline", 0), 0.0)]
    batches = iter(loader)
    next(batches)
    assert loader._runtime._crew is not None
    auto.give_up("nothing is as fast as nothing")
    assert len(list(batches)) == 19
    assert auto.current.mode == "inline"
    assert loader._runtime._crew is None
