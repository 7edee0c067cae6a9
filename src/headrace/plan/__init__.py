"""Order: which records come, in which sequence, in which batch. Integers in, integers out.

Here belongs whatever decides about order and can be computed from seed, epoch and position alone: no file is opened, no
record is read, and nothing is remembered from one call to the next. Whoever carries a plan out lives elsewhere.

A `Plan` orders records and answers `locate(epoch, positions)`; a `BatchPlan` cuts its records into batches, window by
window. Both are described in `base.py` and `batches.py`; the shuffles are specified in docs/specs/permutation.md.
CNTK's way is apart: `cntk_order.py` orders a sweep, `timeline.py` measures sweep after sweep, `minibatches.py` and
`truncated.py` cut.
"""

from headrace.plan.base import Plan
from headrace.plan.batches import BatchPlan, Blocks, FixedBatches, Window
from headrace.plan.bucket import BucketBatches
from headrace.plan.filling import Filling
from headrace.plan.interleave import Interleave
from headrace.plan.mix import Mix
from headrace.plan.order import Concat, Leaf, Repeat, Slice, Widen, Without, Zip
from headrace.plan.pack import PackBatches, PackedRows
from headrace.plan.permutation import Shuffle, WindowShuffle, seed_key
from headrace.plan.rng import RecordRng, record_rng
from headrace.plan.rows import LEAF_SHIFT, Rows

__all__ = [
    "LEAF_SHIFT",
    "BatchPlan",
    "Blocks",
    "BucketBatches",
    "Concat",
    "Filling",
    "FixedBatches",
    "Interleave",
    "Leaf",
    "Mix",
    "PackBatches",
    "PackedRows",
    "Plan",
    "RecordRng",
    "Repeat",
    "Rows",
    "Shuffle",
    "Slice",
    "Widen",
    "Window",
    "WindowShuffle",
    "Without",
    "Zip",
    "record_rng",
    "seed_key",
]
