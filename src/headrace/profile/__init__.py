"""Profiling: what a loop could gain from better loading, and a picture of who did what when.

`measure` runs a loader and a step, together and each alone; `program` runs a whole script and watches its loaders;
`report` is what comes out; `timeline`, `page` and `picture` draw it. Works on whatever can be iterated and reports to a
`StatsCollector`.
"""

from headrace.profile.measure import profile
from headrace.profile.report import Profile

__all__ = ["Profile", "profile"]
