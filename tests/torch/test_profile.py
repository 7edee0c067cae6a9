"""Profiling a DataLoader leaves it, and what it draws from, as they were."""

from __future__ import annotations

import copy
import pathlib
import random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from headrace.engine.trace import watch  # noqa: E402
from headrace.torch import DataLoader  # noqa: E402
from tests.torch.data import Holding, same  # noqa: E402


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


def draws() -> list[float]:
    normals = random.gauss(0, 1), float(np.random.randn())
    return [random.random(), float(np.random.rand()), float(torch.rand(1)), *normals]


def test_no_generator_has_moved() -> None:
    def seed() -> None:
        random.seed(3)
        np.random.seed(4)
        torch.manual_seed(5)

    seed()
    before = draws()
    seed()
    loader_of(8).profile(batches=2, step=lambda batch: draws())
    assert draws() == before


def test_the_first_epoch_is_that_of_a_loader_that_wasnt_profiled() -> None:
    def batches(*, profiled: bool) -> list[Any]:
        generator = torch.Generator().manual_seed(1)
        loader = DataLoader(Holding(8), batch_size=4, generator=generator, collate_fn=same)
        if profiled:
            loader.profile(batches=2)
        return list(loader)

    assert batches(profiled=True) == batches(profiled=False)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_cudas_generators_havent_moved() -> None:
    torch.cuda.manual_seed(3)
    before = torch.cuda.get_rng_state()
    loader_of(8).profile(batches=2, step=lambda batch: torch.rand(2, device="cuda"))
    assert torch.equal(torch.cuda.get_rng_state(), before)


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
