"""What a run cost and what bounds it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol

from headrace.clock import Clock
from headrace.engine import verdict
from headrace.engine.machine import cpu_pressure, usable_cpus
from headrace.engine.trace import Trace, announce
from headrace.engine.verdict import Advice

Mode = Literal["inline", "threads", "processes"]


@dataclass(frozen=True, slots=True)
class Stage:
    """The cost of one stage, over all workers.

    Attributes:
        wall: Seconds that passed in it.
        cpu: Seconds of a processor among them; in the others it waited: for a disk, the network, a lock.
    """

    wall: float
    cpu: float

    @property
    def wait(self) -> float:
        """Seconds that it waited."""
        return max(0.0, self.wall - self.cpu)


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """What one worker did: pieces of work (batches, or blocks that are filtered), and the seconds that they took."""

    pieces: int
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
        workers: Workers; 0 means that the consumer does the work itself.
        stages: Cost by stage (`"read"`, `"map"`, `"collate"`, `"pad"` …); `"plan"` and `"other"` included.
        queue_fill: How full the queue of finished batches was when one was asked for, from 0 to 1.
        records: Records of those batches.
        mode: Where the work is done: `"inline"` (by the consumer), `"threads"` or `"processes"`.
        in_order: Seconds among those of the stages that are spent by one worker at a time, whatever their number:
            planning, and reading what can only be read forward.
        per_worker: What each worker did.
        cpus: Processors that this process may use.
        cpu_pressure: The share of the last seconds in which something on this machine waited for a processor.
        choice: With `workers="auto"`, what was chosen, and why.
        advice: What `verdict` may advise to change.

    Example:
        >>> import headrace as hr
        >>> loader = hr.Loader(hr.from_dataset(range(100)).batch(10))
        >>> batches = list(loader)
        >>> loader.stats().batches, loader.stats().records, loader.stats().mode
        (10, 100, 'inline')
    """

    batches: int
    bytes: int
    wall: float
    waited: float
    workers: int
    stages: dict[str, Stage]
    queue_fill: float
    records: int = 0
    mode: Mode = "inline"
    in_order: float = 0.0
    per_worker: dict[int, WorkerStats] = field(default_factory=dict)
    cpus: int = 0
    cpu_pressure: float = 0.0
    choice: str = ""
    advice: Advice = field(default=Advice(), repr=False)

    @property
    def wait_share(self) -> float:
        """The share of the time that the consumer waited, from 0 to 1."""
        return min(1.0, self.waited / self.wall) if self.wall > 0 else 0.0

    @property
    def busy_share(self) -> float:
        """The share of the time that the workers worked, from 0 to 1."""
        total = sum(stage.wall for stage in self.stages.values())
        return min(1.0, total / (self.wall * max(self.workers, 1))) if self.wall > 0 else 0.0

    @property
    def batches_per_second(self) -> float:
        """Batches that the consumer got a second."""
        return self.batches / self.wall if self.wall > 0 else 0.0

    @property
    def records_per_second(self) -> float:
        """Records that the consumer got a second."""
        return self.records / self.wall if self.wall > 0 else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Bytes that the consumer got a second."""
        return self.bytes / self.wall if self.wall > 0 else 0.0

    def stage_rate(self, name: str) -> float:
        """Batches a second that one stage alone would permit, with as many workers.

        Args:
            name: One of `stages`.

        Raises:
            KeyError: If there is no such stage.

        Example:
            >>> report = Stats(10, 0, 4.0, 2.0, 2, {"read": Stage(5.0, 1.0)}, 0.5)
            >>> report.batches_per_second, report.stage_rate("read")
            (2.5, 4.0)
        """
        wall = self.stages[name].wall
        return self.batches * max(self.workers, 1) / wall if wall > 0 else float("inf")

    @property
    def bound(self) -> str:
        """What bounds the run, in a word: `"consumer"`, a stage, or another that `verdict` explains.

        The others are `"order"` (what one worker at a time does), `"look-ahead"` (workers that stand idle while the
        consumer waits), `"data"` (no stage is known), and `"nothing"` and `"short"` when it can't be told yet.
        """
        return verdict.judge(self).bound

    def verdict(self) -> str:
        """What bounds the run, and what to change."""
        found = verdict.judge(self)
        return f"{found.sentence} {found.advice}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """The report as a document that `json` can write."""
        rates = {
            "batches_per_second": self.batches_per_second,
            "records_per_second": self.records_per_second,
            "bytes_per_second": self.bytes_per_second,
        }
        numbers = asdict(replace(self, advice=Advice()))
        del numbers["advice"]
        return {**numbers, **rates, "bound": self.bound, "verdict": self.verdict()}

    def __str__(self) -> str:
        size = f"{self.batches:,} batches, {self.records:,} records, {self.bytes / 1e6:,.1f} MB in {self.wall:.2f} s"
        rates = (
            f"{self.batches_per_second:,.1f} batches/s, {self.records_per_second:,.0f} records/s, "
            f"{self.bytes_per_second / 1e6:,.1f} MB/s"
        )
        waiting = f"waited {self.waited:.2f} s ({self.wait_share:.1%}); queue {self.queue_fill:.0%} full"
        workers = f"{self.workers} {self.mode}, busy {self.busy_share:.0%}" if self.workers else "no workers"
        lines = [f"{size}: {rates}", f"{waiting}; {workers}", *self._stage_lines(), *self._worker_lines()]
        if self.choice:
            lines.append(self.choice)
        return "\n".join([*lines, self.verdict()])

    def _stage_lines(self) -> list[str]:
        if not self.stages:
            return []
        total = sum(stage.wall for stage in self.stages.values()) or 1.0
        rows: list[Sequence[str]] = [("stage", "seconds", "CPU", "share", "ms/batch", "batches/s")]
        for name, stage in sorted(self.stages.items(), key=lambda item: -item[1].wall):
            each = 1e3 * stage.wall / max(self.batches, 1)
            rate = self.stage_rate(name)
            rows.append(
                (
                    name,
                    f"{stage.wall:.3f}",
                    f"{stage.cpu:.3f}",
                    f"{stage.wall / total:.0%}",
                    f"{each:.3f}",
                    f"{rate:,.0f}" if rate < 1e6 else "–",
                )
            )
        return [f"  {row[0]:<12}" + "".join(f"{cell:>11}" for cell in row[1:]) for row in rows]

    def _worker_lines(self) -> list[str]:
        if len(self.per_worker) < 2 or not self.wall:
            return []
        busy = ", ".join(f"{number}: {w.wall / self.wall:.0%}" for number, w in sorted(self.per_worker.items()))
        return [f"  busy by worker: {busy}"]


class Observer(Protocol):
    """What the engine reports to, from the consumer's thread."""

    def runs_on(self, mode: Mode, workers: int, capacity: int, choice: str = "") -> None:
        """Where the work is done from now on, how many results can wait, and why that was chosen."""

    def waited(self, seconds: float, *, ready: int) -> None:
        """The consumer has waited for a result; so many were ready when it asked. Of its own work none ever is."""

    def finished(self, clock: Clock, nbytes: int, *, delivered: bool = True) -> None:
        """A result has come to the consumer: a batch, or (not delivered) the error in its place."""


class StatsCollector:
    """Adds up what the engine reports. Called from the consumer's thread, but for `planned`.

    Args:
        workers: How many there are.
        capacity: Results that can wait.
        mode: Where the work is done; None: in threads, if there are workers.
        advice: What its reports may advise to change.
    """

    def __init__(self, workers: int, capacity: int, mode: Mode | None = None, advice: Advice | None = None) -> None:
        self._advice = advice or Advice()
        self.trace: Trace | None = None
        self._mode: Mode = mode or ("threads" if workers else "inline")
        self._workers = workers
        self._capacity = capacity
        self._choice = ""
        self.reset()
        announce(self)

    def runs_on(self, mode: Mode, workers: int, capacity: int, choice: str = "") -> None:
        """Where the work is done from now on, and why that was chosen."""
        self._mode = mode
        self._workers = workers
        self._capacity = capacity
        self._choice = choice or self._choice

    def reset(self) -> None:
        """Starts anew."""
        self._batches = 0
        self._records = 0
        self._bytes = 0
        self._waited = 0.0
        self._asked = 0
        self._fill = 0.0
        self._wall = 0.0
        self._given: float | None = None  # when the consumer got its last batch
        self._in_order: dict[str, float] = {"plan": 0.0}
        self._seconds: dict[str, tuple[float, float]] = {}
        self._by_worker: dict[int, tuple[int, float, float]] = {}
        if self.trace is not None:
            self.trace = Trace()

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
        if self.trace is not None:
            self.trace.wait(now - seconds, now)

    def finished(self, clock: Clock, nbytes: int, *, delivered: bool = True) -> None:
        """A result has come to the consumer: a batch, or the error in its place."""
        self._batches += delivered
        self._bytes += nbytes
        for name, (wall, cpu) in clock.seconds.items():
            before = self._seconds.get(name, (0.0, 0.0))
            self._seconds[name] = (before[0] + wall, before[1] + cpu)
        if clock.worker is not None:
            pieces, wall, cpu = self._by_worker.get(clock.worker, (0, 0.0, 0.0))
            more = clock.seconds.get("piece", (0.0, 0.0))
            self._by_worker[clock.worker] = (pieces + 1, wall + more[0], cpu + more[1])
        if self.trace is not None and clock.ended:
            self.trace.piece(clock.worker, clock.began, clock.ended, clock.seconds)

    def gave(self, records: int) -> None:
        """The batch that came last has so many records."""
        self._records += records

    def delivered(self) -> None:
        """A result held one batch more than was counted when it came: CNTK's surface parses several in one go."""
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
        in_order = self._in_order.copy()
        for name, seconds in in_order.items():
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
            records=self._records,
            mode=self._mode,
            in_order=sum(in_order.values()),
            per_worker={number: WorkerStats(*did) for number, did in self._by_worker.items()},
            cpus=usable_cpus(),
            cpu_pressure=cpu_pressure(),
            choice=self._choice,
            advice=self._advice,
        )
