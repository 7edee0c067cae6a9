"""Where a loader is in its data: a document that JSON can hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.torch.drawn import keep_torch
from headrace.torch.job import Place, Setup
from headrace.torch.order import Order

VERSION = 1


@dataclass(slots=True)
class Epoch:
    """One epoch of a loader, and how far it has come.

    Attributes:
        number: Counted from 0.
        base_seed: What random numbers in it are drawn from.
        resets: How often the iterator was used anew with the same base seed.
        order: Its order; None for a stream.
        units: What all ranks together have got: keys, or batches of a batch sampler.
        batches: Batches that this rank has got.
        ahead: Numbers of pieces that came before their turn.
        places: Of a stream: where each of its readers is.
        turn: Of a stream: whose batch is the next one.
        sharded: Of a stream: whether its author divides it among workers; None: not known yet.
        generator: State and seed of the loader's generator as it was in the beginning.
        alone: Of a stream: whether it goes on from a state of one reader, of several now.
        over: Whether the end was met.
    """

    number: int
    base_seed: int = 0
    resets: int = 0
    order: Order | None = None
    units: int = 0
    batches: int = 0
    ahead: list[int] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    turn: int = 0
    sharded: bool | None = None
    generator: Any = None
    alone: bool = False
    over: bool = False

    def setup(self, digests: list[int]) -> Setup:
        """What worker processes are told of it.

        Args:
            digests: What stands for the first states of generators that the dataset holds.
        """
        # Read by the workers alone: what the consumer notes in the places later isn't theirs.
        return Setup(self.base_seed, self.resets, self.number, list(digests), self.places or None)

    def dump(self, data: dict[str, Any]) -> dict[str, Any]:
        """The document of this place."""
        if self.over:
            return {"headrace.torch": VERSION, "epoch": self.number + 1, "units": 0, "batches": 0, "data": data}
        state: dict[str, Any] = {
            "headrace.torch": VERSION,
            "epoch": self.number,
            "units": self.units,
            "batches": self.batches,
            "base_seed": self.base_seed,
            "resets": self.resets,
            "data": data,
        }
        if self.order is not None:
            state["order"] = self.order.keep()
        if self.generator is not None and "generator" not in state.get("order", {}):
            state["generator"] = keep_torch(*self.generator)
        if self.ahead:
            state["ahead"] = sorted(self.ahead)
        if self.places:
            readers = [[place.batches, place.ended, place.state] for place in self.places]
            state["stream"] = {"readers": readers, "turn": self.turn, "sharded": self.sharded}
        return state


def data_of(loader: Any) -> dict[str, Any]:
    """What decides the meaning of a place: kind and length of the dataset, batch size, sampler."""
    stream = loader._dataset_kind == 1
    sampler = loader.batch_sampler if loader.batch_size is None and loader.batch_sampler is not None else loader.sampler
    kind = type(sampler).__name__
    data: dict[str, Any] = {"dataset": "iterable" if stream else "map", "batch_size": loader.batch_size}
    if not stream:
        try:
            data["length"] = len(loader.dataset)
        except (TypeError, NotImplementedError):
            data["length"] = None
        data["sampler"] = kind
    data["drop_last"] = loader.drop_last
    return data
