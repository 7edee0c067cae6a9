"""Interrupts of iterating a DataLoader: the batches that follow are those that would have come, or it is said."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import pytest
import torch

import headrace as hr
import headrace.torch as ht
from tests.engine.strikes import MARKS, Strike, Striker, handler, struck
from tests.torch.data import Numbers, Stream, plain

__all__ = ["handler"]

pytestmark = MARKS


def batches_and_states(loader: Any, striker: Striker) -> tuple[list[Any], list[Any], str]:
    """What a struck loader gives, with the state after each batch; and what it says if it can't go on."""
    states: list[Any] = []

    def note(batch: Any) -> Any:
        states.append(loader.state_dict())
        return plain(batch)

    torch.manual_seed(1)
    loader._runtime.epochs = 0
    batches = iter(loader)  # takes what it takes from the process's generator
    found: list[Any] = []
    try:
        found, _ = struck(striker, lambda: batches, lambda batch: found.append(note(batch)) or found[-1])  # type: ignore[func-returns-value]
    except hr.StuckError as error:
        loader.load_state_dict(loader.state_dict())
        return found + [plain(batch) for batch in loader], states, str(error)
    return found, states, ""


@pytest.mark.parametrize(
    ("dataset", "arguments", "places"),
    [
        (Numbers(16), {}, 100),
        (Numbers(16), {"num_workers": 2}, 15),
        (Stream(16), {"num_workers": 2}, 15),
        (Stream(16), {}, 50),
        (ht.TensorDataset(torch.arange(16)), {"num_workers": 2}, 50),
    ],
)
def test_batches_that_follow_an_interrupt_are_the_right_ones(
    dataset: Any, arguments: Any, places: int, handler: None
) -> None:
    shuffle = not isinstance(dataset, Stream)
    with ht.DataLoader(dataset, batch_size=2, shuffle=shuffle, **arguments) as loader:
        for _ in range(2):
            count = Striker()
            usual, states, _ = batches_and_states(loader, count)
        hits = 0
        for at in range(1, count.count, max(1, count.count // places)):
            striker = Striker(at)
            expected = usual
            found, known, said = batches_and_states(loader, striker)
            hits += striker.at <= striker.count
            if said:
                assert "was interrupted" in said
                if len(known) == 8:  # it was over, but for the end
                    found = found[:8]
                if not known:  # perhaps the order wasn't drawn yet
                    found, expected = sorted(torch.tensor(found).flatten().tolist()), [*range(16)]
            assert found == expected, at
            assert known == states[: len(known)]
        assert hits > places // 2


def test_an_interrupt_leaves_no_descriptor(handler: None) -> None:
    loader = ht.DataLoader(Numbers(16), batch_size=2, num_workers=2)
    batches_and_states(loader, count := Striker())
    loader.close()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for at in range(1, count.count, count.count // 10):
        sys.settrace(Striker(at))
        try:
            for _ in loader:
                pass
        except Strike:
            pass
        finally:
            sys.settrace(None)
    loader.close()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before
