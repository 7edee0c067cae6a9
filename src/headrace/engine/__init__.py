"""The flow: carries out pieces of work on workers and hands the results over in order.

What belongs here: where pieces run (in the caller's thread, in worker threads, in worker processes), how many may be
under way, how they end, and what they cost. An engine knows neither records nor formats: a piece is anything, and the
work a function of it. No order is decided here.

What worker processes need is imported when it is first asked for: most programs have none, and start sooner.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.engine.auto import Auto, Choice, run_auto
from headrace.engine.feed import Feed
from headrace.engine.inline import run_inline
from headrace.engine.result import Result, Work
from headrace.engine.stats import Mode, Observer, Stage, Stats, StatsCollector
from headrace.engine.threads import run_threads
from headrace.engine.verdict import Advice

if TYPE_CHECKING:
    from headrace.engine.crew import Crew, Method
    from headrace.engine.job import Job
    from headrace.engine.processes import HOLD, ProcessRun
    from headrace.engine.seat import Seat

__all__ = [
    "HOLD",
    "Advice",
    "Auto",
    "Choice",
    "Crew",
    "Feed",
    "Job",
    "Method",
    "Mode",
    "Observer",
    "ProcessRun",
    "Result",
    "Seat",
    "Stage",
    "Stats",
    "StatsCollector",
    "Work",
    "run_auto",
    "run_inline",
    "run_threads",
]

_LATER = {
    "HOLD": "processes",
    "Crew": "crew",
    "Job": "job",
    "Method": "crew",
    "ProcessRun": "processes",
    "Seat": "seat",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"headrace.engine.{_LATER[name]}"), name)
