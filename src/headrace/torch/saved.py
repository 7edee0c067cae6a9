"""A place that was saved, read from its document: everything in it has its type, or it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from headrace.errors import StateError
from headrace.torch.drawn import torch_state
from headrace.torch.job import Place
from headrace.torch.position import VERSION

_SEEDS = 1 << 64
_MOST_RANKS = 1 << 16


@dataclass(frozen=True, slots=True)
class SavedStream:
    """Where the readers of a stream were: their places, whose turn it was, whether the stream is divided among them."""

    readers: list[Place]
    turn: int
    sharded: bool | None


@dataclass(frozen=True, slots=True)
class Saved:
    """A place, as `Epoch` has it.

    Attributes:
        document: What it was read from.
        epoch: The epoch's number.
        units: Units that all ranks together had got.
        batches: Batches that the rank had got.
        base_seed: What the epoch's random numbers are drawn from; None: it hadn't begun.
        resets: How often the iterator was used anew.
        ahead: Numbers of pieces that had come before their turn.
        order: What the order was drawn from.
        stream: Of a stream: where its readers were; None: at its beginning.
        generator: The state of the loader's generator as it was when the epoch began, if there was one.
    """

    document: dict[str, Any]
    epoch: int
    units: int
    batches: int
    base_seed: int | None = None
    resets: int = 0
    ahead: list[int] = field(default_factory=list)
    order: dict[str, Any] = field(default_factory=dict)
    stream: SavedStream | None = None
    generator: torch.Tensor | None = None

    @property
    def is_at_the_beginning(self) -> bool:
        """Whether nothing had been given, so that an order may not have been drawn yet."""
        return not self.units and not self.ahead


def parse(state: Mapping[str, Any], data: dict[str, Any], readers: int, keys: int | None) -> Saved:
    """Reads a document, and compares it with what it is to be used for.

    Args:
        state: The document.
        data: What the loader reads.
        readers: Readers of a stream that it has.
        keys: Keys of an epoch, where that is known.

    Raises:
        StateError: If it is damaged, or something differs that decides what comes next.
    """
    _check_kind(state)
    epoch, units, batches = (_whole(name, state.get(name)) for name in ("epoch", "units", "batches"))
    saved = state.get("data")
    if not isinstance(saved, Mapping):
        _damaged("data", saved, "a dict")
    for name, now in data.items():
        if saved.get(name) != now:
            raise StateError(
                f"the state was saved with another {name}: {saved.get(name)!r:.60} then, {now!r:.60} now; "
                "go on with the same one, or begin anew"
            )
    most = None if keys is None else keys + (data["batch_size"] or 1) * _MOST_RANKS
    if most is not None and units > most:
        _damaged("units", units, f"no more than the {keys:,} keys of an epoch")
    if "base_seed" not in state:
        if units or batches or "order" in state or "stream" in state:
            raise StateError("the loader's state is damaged: base_seed is missing, though the epoch had begun")
        return Saved(dict(state), epoch, 0, 0)
    by_keys = data["dataset"] == "map"
    order = state.get("order") if by_keys else {}
    if not isinstance(order, dict):
        _damaged("order", order, "a dict")
    ahead = state.get("ahead", [])
    if not isinstance(ahead, (list, tuple)):
        _damaged("ahead", ahead, "a list")
    for number in ahead:
        if _whole("a number in ahead", number) < units or (most is not None and number > most):
            _damaged("a number in ahead", number, f"one of a batch behind unit {units}")
    return Saved(
        dict(state),
        epoch,
        units,
        batches,
        _whole("base_seed", state["base_seed"], _SEEDS),
        _whole("resets", state.get("resets", 0)),
        list(ahead),
        dict(order),
        None if by_keys else _stream(state.get("stream"), batches, readers),
        torch_state(state["generator"]) if "generator" in state else None,
    )


def _check_kind(state: Any) -> None:
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


def _stream(stream: Any, batches: int, readers: int) -> SavedStream | None:
    if stream is None and not batches:
        return None
    if not isinstance(stream, Mapping):
        _damaged("stream", stream, "a dict")
    listed, sharded = stream.get("readers"), stream.get("sharded")
    if not isinstance(listed, (list, tuple)) or not listed:
        _damaged("the stream's readers", listed, "a list of them")
    if sharded is not None and type(sharded) is not bool:
        _damaged("the stream's sharded", sharded, "True, False or None")
    if sharded and len(listed) != readers:
        raise StateError(
            f"the state was saved with {len(listed)} readers of a stream that its author divides among "
            f"workers, this loader has {readers}: what each of them gives isn't known to the loader; go on with as many"
        )
    turn = _whole("the stream's turn", stream.get("turn"), len(listed))
    return SavedStream([_place(reader) for reader in listed], turn, sharded)


def _place(reader: Any) -> Place:
    if not isinstance(reader, (list, tuple)) or len(reader) != 3 or type(reader[1]) is not bool:
        _damaged("a reader of the stream", reader, "[batches, whether it has ended, its state]")
    count, ended, state = reader
    if state is not None:
        pair = isinstance(state, (list, tuple)) and len(state) == 2
        if not pair or state[0] not in ("dataset", "iterator"):
            _damaged("the state of a reader", state, "a pair of 'dataset' or 'iterator' and what that has saved")
    return Place(_whole("a reader's batches", count), state, ended)


def _whole(what: str, value: Any, limit: int | None = None) -> int:
    if type(value) is not int or value < 0 or (limit is not None and value >= limit):
        _damaged(what, value, "a whole number, from 0" + ("" if limit is None else f" to {limit - 1}"))
    return value


def _damaged(what: str, value: Any, expected: str) -> NoReturn:
    raise StateError(f"the loader's state is damaged: {what} is {value!r:.60}, expected {expected}")
