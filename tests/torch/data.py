"""Small datasets, at module level so that any worker process finds them."""

import os
import random
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from headrace.torch import Dataset, IterableDataset, get_worker_info


class Numbers(Dataset[Any]):
    """0 … n−1, as Python numbers."""

    def __init__(self, n: int = 10) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        if not 0 <= i < self.n:
            raise IndexError(i)
        return i


class Noisy(Numbers):
    """Numbers with draws of all three of the process's generators."""

    def __getitem__(self, i: int) -> Any:
        return i, random.random(), float(np.random.rand()), float(torch.rand(()))


class Holding(Numbers):
    """Draws from generators of its own."""

    def __init__(self, n: int = 8) -> None:
        super().__init__(n)
        self.rng = np.random.default_rng(0)
        self.transforms = [random.Random(1)]

    def __getitem__(self, i: int) -> Any:
        return i, float(self.rng.random()), self.transforms[0].random()


class Seldom(Numbers):
    """Draws only for one number."""

    def __getitem__(self, i: int) -> Any:
        return i, random.random() if i == 37 else 0.0


class SeldomTorch(Numbers):
    """Draws only for two numbers, from torch."""

    def __getitem__(self, i: int) -> Any:
        return i, float(torch.rand(())) if i in (17, 37) else 0.0


class InitialSeeds(Numbers):
    """Looks at what torch was seeded with."""

    def __getitem__(self, i: int) -> Any:
        return i, torch.initial_seed()


class SeldomNormal(Numbers):
    """Draws one normal number of each kind, for one number only."""

    def __getitem__(self, i: int) -> Any:
        return (i, random.gauss(0, 1), float(np.random.randn())) if i == 37 else (i, 0.0, 0.0)


class Stream(IterableDataset[Any]):
    """0 … n−1; knows nothing of workers."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[Any]:
        return iter(range(self.n))


class Sharded(Stream):
    """0 … n−1, divided among workers."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        return iter(range(info.id, self.n, info.num_workers) if info else range(self.n))


class Remembering(Stream):
    """Says where it is, as torchdata's StatefulDataLoader asks."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.at = 0
        self.read = 0

    def __iter__(self) -> Iterator[Any]:
        while self.at < self.n:
            self.at += 1
            self.read += 1
            yield self.at - 1, self.read
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class PathError(Exception):
    """Can't be made of one string."""

    def __init__(self, code: int, path: str) -> None:
        super().__init__(code, path)
        self.code = code


class Failing(Numbers):
    """Fails for 3."""

    def __init__(self, error: BaseException, n: int = 8) -> None:
        super().__init__(n)
        self.error = error

    def __getitem__(self, i: int) -> Any:
        if i == 3:
            raise self.error
        return i


class DiesOnce(Numbers):
    """The first worker that reads 5 is killed."""

    def __init__(self, n: int, mark: str) -> None:
        super().__init__(n)
        self.mark = mark

    def __getitem__(self, i: int) -> Any:
        if i == 5 and not os.path.exists(self.mark):
            with open(self.mark, "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        return i, random.random()


def same(batch: Any) -> Any:
    return batch


def plain(batch: Any) -> Any:
    """Tensors and arrays as lists."""
    if hasattr(batch, "tolist"):
        return batch.tolist()
    if isinstance(batch, dict):
        return {key: plain(value) for key, value in batch.items()}
    return [plain(part) for part in batch] if isinstance(batch, (list, tuple)) else batch
