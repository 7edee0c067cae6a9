"""What a verification has proven."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Verified:
    """What `verify` has proven; whatever it couldn't is an error instead.

    Attributes:
        events: Events that the run went through.
        restores: How many of them were restores into new loaders.
        breaks: Loops left and begun again.
        rewinds: Returns to a position that was saved before.
        kills: Worker processes killed.
        batches: Different batches that were compared with the plan.
        records: Records in those.
        repeated: Batches that were read again, after a rewind, and compared again.
        epochs: Epochs that were read completely.
        counted: Of those, epochs whose records were counted against the order that batches are cut from.
        positions: Positions that were saved.
        largest_state: Bytes of the largest of them as JSON.
        workers: Numbers of workers that were used.
        ranks: Numbers of ranks that were used.
        split: How batches were divided among the ranks.
        seed: Of the chain; None if it was given.
        description: The dataset, in words.
        against: What the run was compared with.

    Example:
        >>> import headrace as hr
        >>> proven = hr.verify(hr.from_dataset(range(100)).batch(8), events=5, seed=1)
        >>> proven.events, str(proven).partition(":")[0]
        (5, 'Verified')
    """

    events: int
    restores: int
    breaks: int
    rewinds: int
    kills: int
    batches: int
    records: int
    repeated: int
    epochs: int
    counted: int
    positions: int
    largest_state: int
    workers: tuple[int, ...]
    ranks: tuple[int, ...]
    split: str
    seed: int | None
    description: str
    against: str = "the plan"

    def __repr__(self) -> str:
        """What was proven, in words."""
        kinds = [("restore", self.restores), ("break", self.breaks), ("rewind", self.rewinds), ("kill", self.kills)]
        happened = ", ".join(_count(number, kind) for kind, number in kinds if number) or "none"
        lines = [
            f"Verified: {_count(self.records, 'record')} in {_count(self.batches, 'batch', 'batches')} are those of "
            f"{self.against}, each where it belongs,",
            f"  through {_count(self.events, 'event')} ({happened}) with workers {_list(self.workers)} and ranks "
            f"{_list(self.ranks)} (split={self.split!r}" + (")" if self.seed is None else f", seed {self.seed})"),
            f"  {_count(self.epochs, 'epoch')} complete; in {self.counted} of them every record of the order comes as "
            f"often as it should; {_count(self.repeated, 'batch', 'batches')} read again after rewinds",
            f"  {_count(self.positions, 'position')} saved, of {self.largest_state:,} bytes at most",
            f"  {self.description}",
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """As a document that `json` can write."""
        return {**asdict(self), "workers": list(self.workers), "ranks": list(self.ranks)}


def _count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
