"""The surface of `torch.utils.data`: change the import, keep the program.

`DataLoader`, `RandomSampler` and `get_worker_info` are headrace's, the first two subclasses of torch's; all other names
are torch's own objects, so that `isinstance` answers as before. docs/torch.md tells what differs.

A batch's way: `loader.py` holds the settings, `begin.py` draws an epoch's seeds (`drawn.py` as numbers that can be
kept), `order.py` says which keys are in a batch (`samplers.py`), `iterators.py` iterates, in `runs.py` by workers, in
`auto.py` by whatever is fastest. The work on a batch: `fetch.py` from keys to a batch, with `columns.py` for datasets
in memory and `collate.py`; `streams.py` reads iterable datasets; `job.py` takes it to worker processes, `threads.py`
to threads. `deliver.py` pins and sends to a device, `failures.py` makes torch's errors. Random numbers: `randomness.py`
seeds them for each batch, `held.py` those that a dataset holds, `twisters.py` reads their states. `position.py` writes
the state, `saved.py` reads it; `runtime.py` is what is not copied with a loader, `handles.py` and `info.py` are what
programs ask about workers.
"""

import sys
from typing import TYPE_CHECKING, Any

from torch.utils import data as _torch_data
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataChunk,
    Dataset,
    DFIterDataPipe,
    DistributedSampler,
    IterableDataset,
    IterDataPipe,
    MapDataPipe,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    _DatasetKind,
    argument_validation,
    default_collate,
    default_convert,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
    random_split,
    runtime_validation,
    runtime_validation_disabled,
)

from headrace.torch.fetch import Skipped
from headrace.torch.info import get_worker_info
from headrace.torch.loader import DataLoader
from headrace.torch.samplers import RandomSampler

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DFIterDataPipe",
    "DataChunk",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Skipped",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "argument_validation",
    "default_collate",
    "default_convert",
    "functional_datapipe",
    "get_worker_info",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "random_split",
    "runtime_validation",
    "runtime_validation_disabled",
]

# Modules that programs import from, besides the package itself.
for _name in ("_utils", "_utils.collate", "_utils.worker", "dataset", "distributed", "sampler"):
    sys.modules[f"{__name__}.{_name}"] = sys.modules[f"torch.utils.data.{_name}"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """What torch's package has besides its public names, as `_utils`."""
        return getattr(_torch_data, name)
