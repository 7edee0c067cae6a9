"""The document that says where a minibatch source is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.errors import PlanError, StateError
from headrace.plan.minibatches import Minibatches, Partition
from headrace.plan.timeline import Place, Timeline
from headrace.plan.truncated import Slots, Truncated

POSITION = "minibatchSourcePosition"
"""What CNTK calls the position."""
VERSION = 1
_LARGEST = 1 << 62


class Checkpoints:
    """Writes and reads the states of a minibatch source.

    Args:
        minibatches: The plan.
        truncated: The plan of truncated sequences, if they are.
        about: What must be the same where a state is restored: data and order, JSON-able.
    """

    def __init__(self, minibatches: Minibatches, truncated: Truncated | None, about: dict[str, Any]) -> None:
        self._minibatches = minibatches
        self._truncated = truncated
        self._about = about

    def dump(self, state: Place | Slots, partition: Partition | None) -> dict[str, Any]:
        """The document of a state; `partition` is whose the slots are."""
        place = state.place if isinstance(state, Slots) else state
        document: dict[str, Any] = {POSITION: place.position, "headrace": VERSION, **self._about}
        if isinstance(state, Slots):
            document["slots"] = [[[h.number, h.done, int(h.ends_sweep)] for h in queue] for queue in state.queues]
            document["partition"] = None if partition is None else [partition.workers, partition.rank]
        return document

    def load(self, document: Any) -> tuple[Place | Slots, Partition | None]:
        """The state that a document tells of: one of `dump`, or CNTK's, which has the position alone.

        Raises:
            StateError: If it is damaged, or of other data or another order.
        """
        position = _position(document)
        own = "headrace" in document
        if own:
            self._check(document)
        place = place_of(document, self._minibatches.timeline, self._minibatches.end)
        if own and place.position != position:
            raise StateError(f"the state is damaged: no sequence begins {position} samples from the beginning")
        if self._truncated is None:
            return place, None
        return self._slots(document, place) if own else (Slots(place), None)

    def _check(self, document: Mapping[str, Any]) -> None:
        version = document["headrace"]
        if not isinstance(version, int) or version != VERSION:
            raise StateError(f"expected a state of version {VERSION}, got version {version!r:.60}")
        for name, value in self._about.items():
            if name not in document:
                raise StateError(f"the state has no {name!r}: it is cut short or of another kind")
            if not isinstance(document[name], type(value)) or document[name] != value:
                saved, now = document[name], value
                if isinstance(saved, Mapping) and isinstance(now, Mapping):
                    keys = [key for key in now if saved.get(key) != now[key]]
                    saved, now = {key: saved.get(key) for key in keys}, {key: now[key] for key in keys}
                raise StateError(
                    f"the state was saved with another {name}: {saved} then, {now} now; restore with the same, or "
                    "begin anew"
                )

    def _slots(self, document: Mapping[str, Any], place: Place) -> tuple[Slots, Partition | None]:
        slots, partition = document.get("slots"), document.get("partition")
        try:
            queues = [
                [(_count(n), _count(done), bool(_count(ends))) for n, done, ends in queue] for queue in slots or []
            ]
            whose = None if partition is None else Partition(*map(_count, partition))
            if slots is None or (queues and whose is None):
                raise ValueError("there is nothing about its slots")
            assert self._truncated is not None
            return self._truncated.restored(place, queues), whose
        except (TypeError, ValueError, PlanError) as error:
            raise StateError(f"the state is damaged: {error}; begin anew, or restore its position alone") from None


def place_of(document: Any, timeline: Timeline, end: int | None) -> Place:
    """The place that a document's position leads to: inside a sequence, the place after it.

    Args:
        document: A state; of it the position alone is looked at.
        timeline: Where the position is counted.
        end: Samples after which no further sequence begins.

    Raises:
        StateError: If there is no such position, or reading ends before it.
    """
    position = _position(document)
    last = None if end is None else timeline.at(end)
    if last is not None and position > last.position:
        raise StateError(
            f"the state is {position} samples from the beginning, but reading ends after {last.position}; restore with "
            "the same max_samples or max_sweeps, or begin anew"
        )
    return timeline.at(position)


def _position(document: Any) -> int:
    if not isinstance(document, Mapping):
        raise StateError(
            f"expected the dict that get_checkpoint_state() gave, got {type(document).__name__} {document!r:.60}"
        )
    try:
        return _count(document.get(POSITION))
    except ValueError as error:
        raise StateError(f"the state is damaged: {POSITION}: {error}; expected samples, from 0 on") from None


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST:
        raise ValueError(f"{value!r:.60} is no number of something")
    return value
