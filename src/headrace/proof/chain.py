"""Chains of events that a run goes through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.checks import one_of, whole_of

How = Literal["restore", "break", "rewind", "kill"]


@dataclass(frozen=True, slots=True)
class Stop:
    """One event of a chain: the run goes on for some steps, and then something happens to it.

    Attributes:
        after: Steps that each rank makes before; they may go over the ends of epochs.
        how: `"restore"`: the position is saved as JSON and new loaders go on from it. `"break"`: the loops are left and
            the same loaders iterated again. `"rewind"`: the same loaders load a position that was saved before.
            `"kill"`: a worker process is killed while its run goes on (with `mode="processes"`).
        workers: Workers of the loaders after a restore.
        world_size: Ranks after a restore.
        back: With `"rewind"`: how many saved positions to go back.

    Example:
        >>> import headrace as hr
        >>> chain = [hr.Stop(3, "restore", workers=2), hr.Stop(1, world_size=3), hr.Stop(2, "rewind", back=2)]
        >>> hr.verify(hr.from_dataset(range(100)).shuffle(seed=1).batch(4), events=chain).events
        3
    """

    after: int
    how: How = "restore"
    workers: int = 0
    world_size: int = 1
    back: int = 1

    def __post_init__(self) -> None:
        """Refuses what can't be."""
        one_of("Stop", "how", self.how, How)
        for name, least in (("after", 0), ("workers", 0), ("world_size", 1), ("back", 1)):
            object.__setattr__(self, name, whole_of("Stop", name, getattr(self, name), least))


def random_chain(events: int, seed: int, workers: Sequence[int], ranks: Sequence[int], processes: bool) -> list[Stop]:
    """A chain that depends on the seed alone; every kind of event comes, restores most often."""
    import random  # here, because importing headrace would wait for it

    draw = random.Random(seed)
    kinds: list[How] = ["restore", "restore", "restore", "break", "rewind"]
    if processes:
        kinds.append("kill")
    chain = []
    for _ in range(events):
        how = draw.choice(kinds)
        after = draw.choice([0, 1, 1, 2, 3, 5, 8])
        chain.append(Stop(after, how, draw.choice(workers), draw.choice(ranks), draw.randint(1, 4)))
    return chain
