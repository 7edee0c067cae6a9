"""The helper for users' own tests: it fails where nothing was compared, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr

ANY: Any = hr  # seen as a program without types sees it
DATA = hr.from_arrays(np.arange(20)).shuffle(seed=1).batch(4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epochs": 0}, "epochs is at least 1, got 0"),
        ({"epochs": "1"}, "epochs is an integer, got '1'"),
        ({"max_batches": 0}, "max_batches is at least 1, got 0"),
        ({"workers": ()}, "workers has one number at least, got none"),
        ({"workers": 2}, "workers is a list of integers, got 2"),
        ({"positions": []}, "positions has one number at least, got none"),
        ({"positions": [-1]}, "positions is at least 0, got -1"),
        ({"positions": [1, 100]}, r"within the 5 batches of the run, got \[1, 100\]; .* raise max_batches"),
        ({"positions": [5]}, r"within the 5 batches of the run, got \[5\]"),  # after which nothing comes
        ({"positions": [3], "max_batches": 3}, "within the 3 batches"),
    ],
)
def test_what_would_prove_nothing_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(hr.PlanError, match=f"^assert_resumable: .*{message}"):
        ANY.assert_resumable(DATA, **arguments)


def test_data_without_a_batch_proves_nothing() -> None:
    with pytest.raises(hr.PlanError, match=r"nothing to compare, for .* has no batch in 2 epochs"):
        hr.assert_resumable(hr.from_arrays(np.arange(0)).batch(4), epochs=2)


def test_positions_may_be_any_of_the_run() -> None:
    hr.assert_resumable(DATA, positions=np.arange(6).tolist(), epochs=1)
    hr.assert_resumable(DATA, positions=[9], epochs=2)
