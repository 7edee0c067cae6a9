"""Two processes that train together with PyTorch's DistributedDataParallel: as one, and to the same end."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

PROGRAM = """
import os, sys, warnings
import numpy as np, torch, torch.distributed as dist
import headrace as hr

rank, world, split, uneven, workers, rendezvous, out = sys.argv[1:]
rank, world, workers = int(rank), int(world), int(workers)
torch.set_num_threads(1)
rng = np.random.default_rng(0)
features = rng.normal(size=(203, 5)).astype(np.float32)
data = hr.from_arrays({"x": features, "y": features.sum(1, keepdims=True)}).shuffle(seed=3).batch(16)
torch.manual_seed(1)
net = torch.nn.Linear(5, 1)
model = net
if world > 1:
    dist.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank, world_size=world)
    model = torch.nn.parallel.DistributedDataParallel(net)
loader = hr.Loader(data, rank=rank, world_size=world, split=split, uneven=uneven, workers=workers, to="torch")
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
steps = 0
for epoch in range(3):
    for batch in loader:
        count = torch.tensor(float(len(batch["x"])))
        if world > 1:
            dist.all_reduce(count)
        # The mean over the whole batch, however it is divided: DDP divides the sum of gradients by the ranks.
        loss = ((model(batch["x"]) - batch["y"]) ** 2).sum() * world / count
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
torch.save({"weight": net.weight.detach(), "bias": net.bias.detach(), "steps": steps}, out + str(rank))
if world > 1:
    dist.destroy_process_group()
"""


def train(folder: pathlib.Path, world: int, split: str, uneven: str, workers: int) -> list[dict[str, Any]]:
    folder.mkdir()
    paths = str(folder / "rendezvous"), str(folder / "result")
    programs = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROGRAM, *map(str, (rank, world, split, uneven, workers)), *paths],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    for program in programs:
        _, said = program.communicate(timeout=120)
        assert program.returncode == 0, said
    return [torch.load(folder / f"result{rank}") for rank in range(world)]


@pytest.mark.parametrize("workers", [0, 2])
def test_two_ranks_train_to_the_weights_of_one(tmp_path: pathlib.Path, workers: int) -> None:
    (alone,) = train(tmp_path / "one", 1, "records", "short", 0)
    first, second = train(tmp_path / "two", 2, "records", "short", workers)
    assert first["steps"] == second["steps"] == alone["steps"] == 3 * 13
    for name in ("weight", "bias"):
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], alone[name], rtol=1e-5, atol=1e-6)


def test_an_uneven_end_comes_on_all_ranks_together(tmp_path: pathlib.Path) -> None:
    """Thirteen batches for two ranks: the last step has one for the first rank only, and is left out."""
    first, second = train(tmp_path / "two", 2, "batches", "drop", 1)
    assert first["steps"] == second["steps"] == 3 * 6
    assert torch.equal(first["weight"], second["weight"])
