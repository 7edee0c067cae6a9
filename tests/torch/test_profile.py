"""Profiling a DataLoader leaves it, and what it draws from, as they were."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from headrace.engine.trace import watch  # noqa: E402
from headrace.torch import DataLoader  # noqa: E402


def loader_of(length: int, **settings: Any) -> DataLoader[Any]:
    return DataLoader(range(length), batch_size=4, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, 2])
def test_training_goes_on_as_if_nothing_had_been(workers: int) -> None:
    def batches(*, profiled: bool) -> list[list[int]]:
        torch.manual_seed(3)
        generator = torch.Generator().manual_seed(5)
        loader = loader_of(40, shuffle=True, generator=generator, num_workers=workers)
        first = [batch.tolist() for batch in loader]
        if profiled:
            found = loader.profile(batches=12, step=lambda batch: batch.sum())
            assert found.stats.batches == 12
            assert found.stats.records == 48
            assert found.cached is not None
        assert loader.stats().batches == 10
        return first + [batch.tolist() for batch in loader] + [torch.rand(1).tolist()]

    assert batches(profiled=True) == batches(profiled=False)


def test_the_page_of_a_loader(tmp_path: pathlib.Path) -> None:
    loader = loader_of(40, num_workers=2)
    loader.profile(batches=10).save(tmp_path / "it.html")
    assert "worker 1" in (tmp_path / "it.html").read_text()


def test_every_loader_is_watched() -> None:
    with watch() as seen:
        loader = loader_of(8)
    list(loader)
    ((place, collector),) = seen.found
    assert pathlib.Path(place.rpartition(":")[0]) == pathlib.Path(__file__)
    assert collector.report().records == 8
    assert collector.trace is not None
    assert [span.number for span in collector.trace.pieces.parts()[0]] == [0, 1]


def test_a_copy_has_a_runtime_of_its_own() -> None:
    loader = loader_of(8)
    assert copy.copy(loader)._runtime is not loader._runtime
