"""Proves that a description can be stopped and resumed anywhere: a helper for users' own tests."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from headrace.batch.tree import Tree
from headrace.checks import whole_of, wholes_of
from headrace.dataset import Batches
from headrace.errors import PlanError
from headrace.loader import Loader
from headrace.proof.compare import same


def assert_resumable(
    data: Batches,
    *,
    epochs: int = 1,
    workers: Sequence[int] = (0, 2),
    positions: Sequence[int] | None = None,
    max_batches: int = 1000,
) -> None:
    """Checks that saved positions give exactly the rest of the run.

    The run is read once without interruption. Then it is stopped at each position, the state is written to JSON and
    read back, and a new loader, with another number of workers, must give what was left, bit for bit.

    Args:
        data: The description.
        epochs: Epochs of the run.
        workers: Numbers of workers, taken in turn.
        positions: Numbers of batches after which the run is stopped; by default every one (32 spread over the run
            where there are more).
        max_batches: The run is cut after so many batches.

    Raises:
        AssertionError: If a batch differs; the message names the position and the batch.
        PlanError: If an argument is out of range, or there is nothing to compare: no batch, or none after a position.

    Example:
        >>> import numpy as np
        >>> import headrace as hr
        >>> hr.assert_resumable(hr.from_arrays(np.arange(100)).shuffle(seed=1).batch(8), epochs=2)
    """
    epochs = whole_of("assert_resumable", "epochs", epochs, 1)
    max_batches = whole_of("assert_resumable", "max_batches", max_batches, 1)
    workers = wholes_of("assert_resumable", "workers", workers, 0, some=True)
    if positions is not None:
        positions = wholes_of("assert_resumable", "positions", positions, 0, some=True)
    whole, states = _read(data, None, workers[0], epochs, max_batches)
    if not whole:
        raise PlanError(f"assert_resumable: there is nothing to compare, for {data!r} has no batch in {epochs} epochs")
    if positions is None:
        count = min(len(states), 32)
        positions = np.linspace(0, len(states) - 1, count).astype(int).tolist()
    if max(positions) > len(whole) or min(positions) == len(whole):
        raise PlanError(
            f"assert_resumable: positions are within the {len(whole)} batches of the run, got {list(positions)!r:.80}; "
            "give it more epochs or raise max_batches"
        )
    for turn, position in enumerate(positions):
        count = workers[turn % len(workers)]
        rest, _ = _read(data, states[position], count, epochs, max_batches - position)
        expected = whole[position:]
        if len(rest) != len(expected):
            raise AssertionError(
                f"stopped after {position} batches and resumed with {count} workers: "
                f"{len(rest)} batches came, expected {len(expected)}"
            )
        for i, (got, wanted) in enumerate(zip(rest, expected, strict=True)):
            if not same(got, wanted):
                raise AssertionError(
                    f"stopped after {position} batches and resumed with {count} workers: batch {position + i} differs"
                )


def _read(
    data: Batches, state: str | None, workers: int, epochs: int, max_batches: int
) -> tuple[list[Tree], list[str]]:
    loader = Loader(data, workers=workers)
    if state is not None:
        loader.load_state_dict(json.loads(state))
    batches: list[Tree] = []
    states = [json.dumps(loader.state_dict())]
    while loader.epoch < epochs and len(batches) < max_batches:
        for batch in loader:
            batches.append(batch)
            states.append(json.dumps(loader.state_dict()))
            if len(batches) == max_batches:
                break
    loader.close()
    return batches, states
