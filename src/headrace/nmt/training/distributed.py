"""Training by several processes at once, as torchrun starts them: each takes a share of every batch.

All ranks, as these processes are called, read the same batches and draw the same dropout. Of n ranks, rank r computes
the gradients of the sentences r, r + n, r + 2 n … of a batch, and their sum over all ranks is the gradient that one
process would have computed of the whole batch. So everything else, clipping and the update included, is what one
process does, and a run may go on with another number of ranks: nothing in a checkpoint depends on it.

Text is read quickly: reading all of it on every rank costs less than telling each other how large the shares are.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, _get_default_store
from torch.distributed.rendezvous import rendezvous

import headrace as hr
from headrace.nmt.model import Batch, Masks, Seq2Seq

__all__ = ["RankError", "Ranks"]

_NONE, _DENSE = -1.0, -2.0  # kinds of a gradient; from 0 on: that of some rows of an embedding, and how many
_LOOK = datetime.timedelta(seconds=2)  # how often someone who waits looks whether it should stop

_meetings: list[Any] = []  # where this process met the others: torchrun gives one place, for all runs in turn


class RankError(hr.HeadraceError, RuntimeError):
    """The processes that train together are no longer together, or were never of one mind."""


class Ranks:
    """This process among those that train together; alone, nothing here does anything.

    Args:
        rank: Its number.
        size: How many there are.
        store: Where they leave messages for each other.

    Example:
        >>> with Ranks.join() as ranks:
        ...     ranks.leads, ranks.size
        (True, 1)
    """

    def __init__(self, rank: int = 0, size: int = 1, store: Any = None) -> None:
        self.rank, self.size = rank, size
        self.leads = rank == 0  # evaluates, writes, and says what there is to say
        self._store, self._told = store, 0

    @classmethod
    @contextlib.contextmanager
    def join(cls) -> Iterator[Ranks]:
        """Meets the other processes that torchrun started; without it this one is alone.

        Those that have met already, in a group that the program made, stay together in it.

        Raises:
            RankError: They do not come.
        """
        if dist.is_initialized():
            _meetings.append(None)
            store = PrefixStore(f"headrace.nmt/{len(_meetings)}", _get_default_store())
            yield cls(dist.get_rank(), dist.get_world_size(), store)
            return
        if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys():
            yield cls()
            return
        with _together(int(os.environ["RANK"])):
            found = next((meeting for meeting in _meetings if meeting), None) or next(rendezvous("env://"))
            store, rank, size = found
            _meetings.append(found)
            store = PrefixStore(f"headrace.nmt/{len(_meetings)}", store)
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            dist.init_process_group(backend, store=store, rank=rank, world_size=size)
        try:
            yield cls(rank, size, store)
        finally:
            dist.destroy_process_group()

    # what one does and the others wait for ---------------------------------------------------------------------------

    def tell(self, value: Any = None) -> Any:
        """Returns what rank 0 says, which the others wait for, however long it takes; something that JSON can hold.

        Raises:
            RankError: Rank 0 ended instead.
        """
        if self.size == 1:
            return value
        self._told += 1
        key = f"told {self._told}"
        with _together(self.rank):
            if self.leads:
                self._store.set(key, json.dumps(value))
                return value
            while True:
                with contextlib.suppress(dist.DistStoreError):  # not yet
                    self._store.wait([key], _LOOK)
                    return json.loads(self._store.get(key))

    @contextlib.contextmanager
    def first_alone(self) -> Iterator[None]:
        """Lets rank 0 do what follows, and then the others: these find the files that it has written."""
        if not self.leads:
            self.tell()
        yield
        if self.leads:
            self.tell()

    def agree(self, what: str, value: Any) -> None:
        """Makes sure that all ranks have the same.

        Raises:
            RankError: One has something else.
        """
        if self.size == 1:
            return
        every: list[Any] = [None] * self.size
        with _together(self.rank):
            dist.all_gather_object(every, value)
        for rank, other in enumerate(every):
            if other == every[0]:
                continue
            first = every[0]
            if isinstance(first, dict):
                name = next(name for name in first if first[name] != other[name])
                what, first, other = f"{what}, {name}", first[name], other[name]
            raise RankError(
                f"{what}: rank 0 has {first}, rank {rank} has {other}: start all with the same flags, and with the "
                "same files in the folders that they name"
            )

    # every step ------------------------------------------------------------------------------------------------------

    def share(self, model: Seq2Seq, batch: Batch, masks: Masks) -> tuple[Batch, Masks]:
        """Returns this rank's sentences of a batch, with their dropout; none, where there are fewer than ranks."""
        if self.size == 1:
            return batch, masks
        rows = slice(self.rank, None, self.size)
        first = model.hparams.architecture == "transformer"  # where sentences come before steps

        def cut(mask: Tensor) -> Tensor:
            return mask[rows] if first else mask[:, rows]

        encoder = masks.encoder and [[cut(mask) for mask in stack] for stack in masks.encoder]
        decoder = masks.decoder and [cut(mask) for mask in masks.decoder]
        return Batch(*(part[rows] for part in batch)), Masks(encoder, decoder, masks.candidates)

    @torch.no_grad()
    def add_up(self, parameters: Iterable[Tensor], figures: Sequence[float]) -> list[float]:
        """Makes each gradient the sum of those of all ranks; returns the sums of some figures.

        The gradient of an embedding stays a list of occurrences, those of all ranks: its norm goes by that.

        Raises:
            RankError: Another rank has ended.
        """
        if self.size == 1:
            return list(figures)
        parameters = list(parameters)
        kinds = [_NONE if p.grad is None else float(p.grad._nnz()) if p.grad.is_sparse else _DENSE for p in parameters]
        with _together(self.rank):
            mine = torch.tensor([*figures, *kinds], dtype=torch.float64)
            every = [torch.empty_like(mine) for _ in range(self.size)]
            dist.all_gather(every, mine)
            table = torch.stack(every)
            dense: dict[torch.device, list[Tensor]] = {}
            for p, column in zip(parameters, table[:, len(figures) :].t().tolist(), strict=True):
                if _DENSE in column:
                    dense.setdefault(p.device, []).append(p)
                elif max(column) >= 0:
                    p.grad = _gather(p, [max(0, int(count)) for count in column])
            for group in dense.values():
                _sum(group)
        return [float(total) for total in table[:, : len(figures)].sum(dim=0)]


def _sum(parameters: list[Tensor]) -> None:
    """Adds up the gradients of all ranks in one message."""
    grads = [torch.zeros_like(p) if p.grad is None else p.grad.to_dense() for p in parameters]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    for p, part in zip(parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True):
        p.grad = part.view_as(p)


def _gather(p: Tensor, counts: list[int]) -> Tensor:
    """Puts the rows of all ranks one after another."""
    rows_N = torch.zeros(max(counts), dtype=torch.int64, device=p.device)
    values_NU = torch.zeros(max(counts), p.shape[1], dtype=p.dtype, device=p.device)
    if p.grad is not None:
        own = p.grad._nnz()
        rows_N[:own] = p.grad._indices()[0]
        values_NU[:own] = p.grad._values()
    gathered = []
    for part in (rows_N, values_NU):
        every = [torch.empty_like(part) for _ in counts]
        dist.all_gather(every, part)
        gathered.append(torch.cat([each[:count] for each, count in zip(every, counts, strict=True)]))
    return torch.sparse_coo_tensor(gathered[0][None], gathered[1], p.shape, check_invariants=False)


@contextlib.contextmanager
def _together(rank: int) -> Iterator[None]:
    """Turns what the messages' library says about a rank that is gone into an error that says what to do."""
    try:
        yield
    except (dist.DistError, RuntimeError) as error:
        if isinstance(error, RankError):
            raise
        reason = str(error).strip().split("\n")[0]
        raise RankError(
            f"rank {rank} has lost the other processes ({reason}): look at the message of the one that ended first; "
            "the same command goes on from the latest checkpoint"
        ) from error
