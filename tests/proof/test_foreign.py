"""`verify` of loaders that aren't headrace's own."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as hr


class Shuffled:
    """A loader with a state; `mistake` makes it wrong after it was restored."""

    def __init__(self, num_workers: int = 0, mistake: str = "", n: int = 40) -> None:
        self.n, self.mistake, self.workers = n, mistake, num_workers
        self.seed, self.at, self.resumed = random.randrange(1 << 30), 0, False

    def __iter__(self) -> Iterator[Any]:
        order = random.Random(self.seed).sample(range(self.n), self.n)
        batches = [order[i : i + 3] for i in range(0, self.n, 3)]
        if self.resumed and self.mistake == "lose" and self.at > 5:
            del batches[self.at]
        if self.resumed and self.mistake == "more":
            batches.append([0])
        if self.workers and self.mistake == "workers":
            batches.reverse()
        while self.at < len(batches):
            self.at += 1
            yield {"n": batches[self.at - 1]}

    def state_dict(self) -> dict[str, int]:
        return {"seed": self.seed, "at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.seed, self.at, self.resumed = state["seed"], state["at"], True


@pytest.mark.parametrize("seed", range(10))
def test_a_loader_that_keeps_its_promise_is_proven(seed: int) -> None:
    proven = hr.verify(lambda num_workers: Shuffled(num_workers), events=40, seed=seed)
    assert proven.against == "an undisturbed run"
    assert proven.events == proven.restores + proven.breaks + proven.rewinds == 40
    assert (proven.batches, proven.epochs, proven.ranks) == (13, 1, (1,))
    assert "are those of an undisturbed run" in repr(proven)
    assert "Shuffled" in repr(proven)
    cut = hr.verify(lambda workers: Shuffled(workers), events=20, seed=seed, max_batches=5)
    assert (cut.batches, cut.epochs) == (4, 0)
    assert hr.verify(lambda workers: Shuffled(n=0), events=5).batches == 0


@pytest.mark.parametrize(
    ("mistake", "got"), [("lose", "expected"), ("more", "got another batch"), ("workers", "expected")]
)
def test_one_that_does_not_is_found(mistake: str, got: str) -> None:
    with pytest.raises(hr.VerificationError, match=f"differs from an undisturbed one in batch .*{got}"):
        hr.verify(lambda num_workers: Shuffled(num_workers, mistake), events=60)


def test_mistakes_in_the_call_are_told() -> None:
    with pytest.raises(hr.PlanError, match="takes loaders with state_dict and load_state_dict, got list"):
        hr.verify(lambda num_workers: [1, 2])
    with pytest.raises(hr.PlanError, match="a function of num_workers that makes one"):
        hr.verify(lambda: Shuffled())
    with pytest.raises(hr.PlanError, match="leave 'kill' out"):
        hr.verify(lambda num_workers: Shuffled(), events=[hr.Stop(1, "kill")])


def test_loaders_of_torch_are_proven() -> None:
    pytest.importorskip("torch")
    from headrace.torch import DataLoader

    numbers: Any = list(range(50))
    for shuffle, drop in itertools.product((False, True), (False, True)):
        proven = hr.verify(
            lambda num_workers, s=shuffle, d=drop: DataLoader(
                numbers, batch_size=4, shuffle=s, drop_last=d, num_workers=num_workers
            ),
            events=12,
        )
        assert proven.epochs == 1
