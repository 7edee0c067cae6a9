"""Where a loader is in its data: a document that JSON can hold, checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import StateError
from headrace.torch.drawn import keep_torch
from headrace.torch.job import Place
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


def check(state: Mapping[str, Any], data: dict[str, Any], readers: int) -> None:
    """Compares a document with what it is to be used for.

    Args:
        state: The document.
        data: What the loader reads.
        readers: Readers of a stream that it has.

    Raises:
        StateError: If it is damaged, or something differs that decides what comes next.
    """
    if not isinstance(state, Mapping):
        raise StateError(f"expected the dict that state_dict() gave, got {type(state).__name__} {state!r:.60}")
    if state.get("headrace.torch") != VERSION:
        what = (
            "of a StatefulDataLoader" if "_snapshot" in state or "_index_sampler_state" in state else "of another kind"
        )
        raise StateError(
            f"expected a state of headrace.torch.DataLoader, version {VERSION}; this one is {what}: "
            f"its keys are {sorted(map(str, state))[:6]}"
        )
    numbers = [state.get(name) for name in ("epoch", "units", "batches")]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise StateError(f"the loader's state is damaged: epoch, units, batches are {numbers}")
    saved = state.get("data")
    if not isinstance(saved, Mapping):
        raise StateError(f"the loader's state is damaged: data is {saved!r:.60}")
    for name, now in data.items():
        if saved.get(name) != now:
            raise StateError(
                f"the state was saved with another {name}: {saved.get(name)!r:.60} then, {now!r:.60} now; "
                "go on with the same one, or begin anew"
            )
    stream = state.get("stream")
    if stream is not None and stream.get("sharded") and len(stream["readers"]) != readers:
        raise StateError(
            f"the state was saved with {len(stream['readers'])} readers of a stream that its author divides among "
            f"workers, this loader has {readers}: what each of them gives isn't known to the loader; go on with as many"
        )


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
