"""Proofs for users' own tests: that a run can be stopped, resumed and moved anywhere and still is what its plan says.

What belongs here: `verify` goes through chains of events and compares each record with a reading of the plan, which
walks through windows, blocks, filters, buckets of what was read, ranks and ends of epochs by itself; plans, readers and
the patience with filters are the loader's. `assert_resumable` compares a run with itself.
"""

from headrace.proof.chain import Stop
from headrace.proof.compare import same
from headrace.proof.report import Verified
from headrace.proof.resumable import assert_resumable
from headrace.proof.run import verify

__all__ = ["Stop", "Verified", "assert_resumable", "same", "verify"]
