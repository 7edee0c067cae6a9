"""From the numbers of a run to what bounds it, and what to change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.engine.stats import Stage, Stats

_TOO_SHORT = 0.05  # seconds
_FREE = 0.05  # a consumer that waits less than this share of its time isn't held up by its data
_IDLE = 0.6  # workers that are busy less than this share could have had the batch ready
_MOST = 0.7
_CROWDED = 0.5


@dataclass(frozen=True, slots=True)
class Advice:
    """What the users of a surface can change, in its words.

    Attributes:
        stages: What to change about a stage, by its name; `"order"` for what is done in order.
        python: Stages that are the user's own functions, or call them.
        one_worker: What asks for a worker.
        look_ahead: What to raise for more look-ahead; empty if nothing can be.
    """

    stages: Mapping[str, str] = field(default_factory=dict)
    python: frozenset[str] = frozenset()
    one_worker: str = "A worker"
    look_ahead: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What bounds a run.

    Attributes:
        bound: In a word.
        sentence: In a sentence.
        advice: What to change; empty if there is nothing.
    """

    bound: str
    sentence: str
    advice: str = ""


def judge(stats: Stats) -> Verdict:
    """Says what bounds a run.

    Args:
        stats: What it cost.
    """
    if not stats.batches:
        return Verdict("nothing", "Nothing has been read yet.")
    share = f"{stats.wait_share:.0%}"
    if stats.wall < _TOO_SHORT:
        return Verdict("short", f"Too short a run to judge ({stats.wall:.3f} s): the consumer waited {share} of it.")
    if stats.wait_share < _FREE:
        return Verdict(
            "consumer",
            f"The consumer bounds the run: it waited for data {share} of the time.",
            "Make the training step faster; a better data path would change nothing." + _fewer(stats),
        )
    waited = f"The data bounds the run: the consumer waited {share} of the time"
    if not stats.stages:
        return Verdict("data", f"{waited}.")
    if stats.workers and stats.in_order > _MOST * stats.wall:
        return _by_order(stats, waited)
    enough = stats.batches >= 4 * stats.workers  # before that they were but starting
    if stats.workers and enough and stats.busy_share < _IDLE and not _take_turns(stats):
        return Verdict(
            "look-ahead",
            f"{waited}, though its workers worked only {stats.busy_share:.0%} of it: at times no batch was ready.",
            "Batches that differ in cost need more look-ahead"
            + (f": raise {stats.advice.look_ahead}." if stats.advice.look_ahead else "."),
        )
    return _by_stage(stats, waited)


def _fewer(stats: Stats) -> str:
    needed = max(1, math.ceil(1.2 * stats.busy_share * stats.workers))
    return f" {needed} of the {stats.workers} workers would do." if needed < stats.workers else ""


def _by_order(stats: Stats, waited: str) -> Verdict:
    return Verdict(
        "order",
        f"{waited}, and {stats.in_order / stats.wall:.0%} of it goes to what one worker at a time does, in order: "
        "planning, and reading what can only be read forward.",
        _advice(stats, "order", "More workers won't help."),
    )


def _busiest(stats: Stats) -> str:
    return max(stats.stages, key=lambda name: stats.stages[name].wall)


def _cores(stats: Stats) -> float:
    """Processors that the stages keep busy."""
    return sum(stage.cpu for stage in stats.stages.values()) / stats.wall


def _waits(stage: Stage) -> bool:
    return stage.wall > 0.05 and stage.cpu < 0.5 * stage.wall


def _take_turns(stats: Stats) -> bool:
    """Whether threads keep only one processor busy between them: in a stage, or on the way to the next piece."""
    name = _busiest(stats)
    held_up = _waits(stats.stages[name]) or (stats.busy_share < _IDLE and name in stats.advice.python)
    return stats.mode == "threads" and stats.workers > 1 and 0.75 < _cores(stats) < 1.25 and held_up


def _by_stage(stats: Stats, waited: str) -> Verdict:
    name = _busiest(stats)
    stage = stats.stages[name]
    part = stage.wall / max(sum(s.wall for s in stats.stages.values()), 1e-12)
    whose = "the workers' time" if stats.workers else "that"
    sentence = f"{waited}, and {part:.0%} of {whose} goes to {name!r}"
    cores = _cores(stats)
    if _take_turns(stats):
        return Verdict(
            name,
            f"{sentence}: {stats.workers} threads keep {cores:.1f} processors busy between them, as they do when "
            "Python code holds the interpreter lock.",
            _advice(stats, name, "More threads won't help; worker processes would."),
        )
    if _waits(stage) and stats.cpu_pressure > _CROWDED:
        return Verdict(
            name,
            f"{sentence}, most of it waiting, for a processor it seems: others keep this machine busy, so that "
            f"something waits for one {stats.cpu_pressure:.0%} of the time.",
            "Run it where nothing else does, and no more workers than there are processors.",
        )
    if _waits(stage):
        sentence += ", most of it waiting for the disk" if name == "read" else ", most of it waiting, not computing"
        return Verdict(
            name,
            f"{sentence}.",
            f"More workers would help: they wait at the same time.{_ahead(stats)} {_slow(name)}".strip(),
        )
    if stats.workers and stats.cpus and cores > 0.8 * stats.cpus:
        return Verdict(
            name,
            f"{sentence}; all {stats.cpus} processors are busy.",
            _advice(stats, name, "More workers won't help."),
        )
    more = "More workers may help." if stats.workers == 0 or stats.busy_share > 0.8 else ""
    return Verdict(name, f"{sentence}.", _advice(stats, name, f"{more}{_ahead(stats)}".strip()))


def _ahead(stats: Stats) -> str:
    """What reading ahead would win where nobody does."""
    if stats.workers:
        return ""
    gain = stats.wall / max(stats.waited, stats.wall - stats.waited, 1e-12)
    if gain < 1.05:
        return ""
    return f" {stats.advice.one_worker} reads ahead while the step runs: up to {gain:.1f} times as fast."


def _slow(name: str) -> str:
    return "So would a faster disk, or data kept in memory." if name == "read" else ""


def _advice(stats: Stats, name: str, first: str) -> str:
    return f"{first} {stats.advice.stages.get(name, '')}".strip()
