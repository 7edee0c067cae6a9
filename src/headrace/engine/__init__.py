"""The flow: carries out pieces of work on workers and hands the results over in order.

What belongs here: where pieces run (in the caller's thread, in worker threads, in worker processes), how many may be
under way, how they end, and what they cost. An engine knows neither records nor
formats: a piece is anything, and the work a function of it. No order is decided here.
"""

from headrace.engine.auto import Auto, Choice, run_auto
from headrace.engine.crew import Crew, Method
from headrace.engine.freight import FreightError
from headrace.engine.inline import run_inline
from headrace.engine.processes import HOLD, Job, ProcessRun, WorkerDied, WorkerError
from headrace.engine.result import Result, Work
from headrace.engine.seat import Seat
from headrace.engine.stats import Mode, Stage, Stats, StatsCollector
from headrace.engine.threads import run_threads

__all__ = [
    "HOLD",
    "Auto",
    "Choice",
    "Crew",
    "FreightError",
    "Job",
    "Method",
    "Mode",
    "ProcessRun",
    "Result",
    "Seat",
    "Stage",
    "Stats",
    "StatsCollector",
    "Work",
    "WorkerDied",
    "WorkerError",
    "run_auto",
    "run_inline",
    "run_threads",
]
