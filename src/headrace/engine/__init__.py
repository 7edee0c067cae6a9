"""The flow: carries out pieces of work on workers and hands the results over in order.

What belongs here: where pieces run (in the caller's thread, in worker threads; worker processes get a module of their
own beside these), how many may be under way, how they end, and what they cost. An engine knows neither records nor
formats: a piece is anything, and the work a function of it. No order is decided here.
"""

from headrace.engine.inline import run_inline
from headrace.engine.result import Result, Work
from headrace.engine.stats import Mode, Stage, Stats, StatsCollector
from headrace.engine.threads import run_threads

__all__ = ["Mode", "Result", "Stage", "Stats", "StatsCollector", "Work", "run_inline", "run_threads"]
