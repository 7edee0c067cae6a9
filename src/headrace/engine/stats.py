"""What a run cost and what bounds it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from headrace.clock import Clock

_TOO_SHORT = 0.05  # seconds


@dataclass(frozen=True, slots=True)
class Stage:
    """The cost of one stage, over all workers: seconds that passed in it, and CPU seconds among them."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Stats:
    """A report of a loader's work since it was made or reset.

    Attributes:
        batches: Batches given to the consumer.
        bytes: Bytes of those batches.
        wall: Seconds that the consumer waited for batches and worked on them; time between epochs doesn't count.
        waited: Seconds that the consumer waited for batches.
        workers: Worker threads; 0 means that the consumer does the work itself.
        stages: Cost by stage (`"read"`, `"map"`, `"collate"`, `"pad"` …); `"plan"` and `"other"` included.
        queue_fill: How full the queue of finished batches was when one was asked for, from 0 to 1.
    """

    batches: int
    bytes: int
    wall: float
    waited: float
    workers: int
    stages: dict[str, Stage]
    queue_fill: float

    @property
    def wait_share(self) -> float:
        """The share of the time that the consumer waited, from 0 to 1."""
        return min(1.0, self.waited / self.wall) if self.wall > 0 else 0.0

    def verdict(self) -> str:
        """One sentence that says what bounds the run."""
        if not self.batches:
            return "Nothing has been read yet."
        share = f"{self.wait_share:.0%}"
        if self.wall < _TOO_SHORT:
            return f"Too short a run to judge ({self.wall:.3f} s): the consumer waited {share} of it."
        if self.wait_share < 0.05:
            return f"The consumer bounds the run: it waited for data {share} of the time."
        busiest = max(self.stages, key=lambda name: self.stages[name].wall, default=None)
        if busiest is None:
            return f"The data bounds the run: the consumer waited {share} of the time."
        stage = self.stages[busiest]
        part = stage.wall / max(sum(s.wall for s in self.stages.values()), 1e-12)
        where = f"{part:.0%} of the workers' time goes to {busiest!r}"
        if busiest == "read" and stage.cpu < 0.5 * stage.wall and stage.wall > 0.05:
            where += ", most of it waiting for the disk"
        remedy = " More workers may help." if self.workers == 0 or self._busy() > 0.8 else ""
        return f"The data bounds the run: the consumer waited {share} of the time, and {where}.{remedy}"

    def _busy(self) -> float:
        total = sum(stage.wall for stage in self.stages.values())
        return total / (self.wall * max(self.workers, 1)) if self.wall else 0.0

    def __str__(self) -> str:
        lines = [
            f"{self.batches:,} batches, {self.bytes / 1e6:,.1f} MB in {self.wall:.2f} s; "
            f"waited {self.waited:.2f} s ({self.wait_share:.1%}); queue {self.queue_fill:.0%} full",
        ]
        for name, stage in sorted(self.stages.items(), key=lambda item: -item[1].wall):
            lines.append(f"  {name:<12} {stage.wall:8.3f} s  ({stage.cpu:.3f} s CPU)")
        return "\n".join([*lines, self.verdict()])


class StatsCollector:
    """Adds up what the engine reports. Called from the consumer's thread, but for `planned`."""

    def __init__(self, workers: int, capacity: int) -> None:
        self._workers = workers
        self._capacity = capacity
        self.reset()

    def reset(self) -> None:
        """Starts anew."""
        self._batches = 0
        self._bytes = 0
        self._waited = 0.0
        self._asked = 0
        self._fill = 0.0
        self._wall = 0.0
        self._given: float | None = None  # when the consumer got its last batch
        self._in_order: dict[str, float] = {"plan": 0.0}
        self._seconds: dict[str, tuple[float, float]] = {}

    def began(self) -> None:
        """The consumer begins to iterate; what it did since the last time (evaluation, checkpoints) doesn't count."""
        self._given = None

    def waited(self, seconds: float, *, ready: int) -> None:
        """The consumer has waited for a result; so many were ready when it asked."""
        now = time.perf_counter()
        self._wall += seconds if self._given is None else now - self._given
        self._given = now
        self._waited += seconds
        self._asked += 1
        self._fill += min(1.0, ready / self._capacity) if self._capacity else 0.0

    def finished(self, clock: Clock, nbytes: int, *, delivered: bool = True) -> None:
        """A result has come to the consumer: a batch, or the error in its place."""
        self._batches += delivered
        self._bytes += nbytes
        for name, (wall, cpu) in clock.seconds.items():
            before = self._seconds.get(name, (0.0, 0.0))
            self._seconds[name] = (before[0] + wall, before[1] + cpu)

    def delivered(self) -> None:
        """A result held one batch more than was counted when it came."""
        self._batches += 1

    def planned(self, seconds: float, stage: str = "plan") -> None:
        """Planning a window, or what else is done in order, took so long. Called by whoever takes the next piece."""
        self._in_order[stage] = self._in_order.get(stage, 0.0) + seconds

    def report(self) -> Stats:
        """What has been collected so far."""
        so_far = self._seconds.copy()  # in one go: another thread may be adding stages
        wall, cpu = so_far.pop("piece", (0.0, 0.0))
        stages = {name: Stage(*seconds) for name, seconds in so_far.items()}
        inner = list(stages.values())
        stages["other"] = Stage(
            max(0.0, wall - sum(stage.wall for stage in inner)),
            max(0.0, cpu - sum(stage.cpu for stage in inner)),
        )
        for name, seconds in self._in_order.copy().items():
            before = stages.get(name, Stage(0.0, 0.0))
            stages[name] = Stage(before.wall + seconds, before.cpu + seconds)
        return Stats(
            batches=self._batches,
            bytes=self._bytes,
            wall=self._wall,
            waited=self._waited,
            workers=self._workers,
            stages=stages if self._batches else {},
            queue_fill=self._fill / self._asked if self._asked else 0.0,
        )
