"""`DataLoader`: torch's, on headrace's engine, and with what torch's lacks."""

from __future__ import annotations

import copy
import inspect
import operator
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, TypeVar

import torch
from torch.utils import data as torch_data

from headrace.engine import Stats
from headrace.profile import Profile, profile
from headrace.torch.auto import _AutoDataLoaderIter
from headrace.torch.fetch import MapFetcher, Skipped
from headrace.torch.held import all_put_back, held_generators
from headrace.torch.iterators import _BaseDataLoaderIter, _SingleProcessDataLoaderIter
from headrace.torch.order import Ranks, keys_of
from headrace.torch.position import Epoch, data_of
from headrace.torch.runs import _MultiProcessingDataLoaderIter, _ThreadsDataLoaderIter
from headrace.torch.runtime import Runtime
from headrace.torch.samplers import RandomSampler
from headrace.torch.saved import parse

T_co = TypeVar("T_co", covariant=True)
Mode = Literal["auto", "inline", "threads", "processes"]

_TAKES = inspect.signature(torch_data.DataLoader.__init__).parameters


class DataLoader(torch_data.DataLoader[T_co]):
    """torch's `DataLoader`: the same arguments, batches and errors; made by headrace's engine, and resumable.

    It is a subclass of torch's, so that what asks for one is content. What differs on purpose stands in docs/torch.md.

    Args:
        dataset: What is read: by keys, or an `IterableDataset` forward.
        batch_size: Samples of a batch; None gives single samples.
        shuffle: Whether each epoch has an order of its own.
        sampler: Gives the keys.
        batch_sampler: Gives lists of keys.
        num_workers: Worker processes (or threads); 0 reads in the caller's thread.
        collate_fn: Makes a batch of samples.
        pin_memory: Whether batches come in pinned memory.
        drop_last: Whether a last batch that is short is left out.
        timeout: Seconds to wait for a batch from workers; 0 waits on. Batches that are made in the caller's thread, as
            the first ones are with `mode="auto"`, take what they take.
        worker_init_fn: Called in each worker with its number, before it reads.
        multiprocessing_context: How worker processes are started; None: the quickest safe way.
        generator: Draws the order and the base seed; None: torch's own generator.
        prefetch_factor: Batches that each worker makes ahead; 2 unless given.
        persistent_workers: Whether workers keep their copy of the dataset, as it has become, from epoch to epoch.
        pin_memory_device: Without effect, as in torch.
        in_order: Whether batches come in the sampler's order; otherwise as they are ready, if processes
            make them and `mode` isn't `"auto"`.
        mode: Where batches are made: `"inline"`, `"threads"`, `"processes"`, `"auto"` (chosen by measuring the first
            batches, and so is the number of workers, up to `num_workers` if that isn't 0); None: what `num_workers`
            means in torch.
        rank: This process's number among those that train together; must be given if `world_size` is.
        world_size: How many these are. Each gets `batch_size` samples of each step; no `DistributedSampler` is needed.
        uneven: What becomes of a last step that can't be shared out evenly: `"pad"` repeats samples from the beginning,
            as `DistributedSampler` does, `"drop"` leaves the rest out, `"short"` gives some ranks less.
        device: Where batches are handed over; `"cuda"` copies the next one while this one is worked on.
        on_error: `"raise"`, or `"skip"` to leave out samples that can't be read; `skipped` tells which.
        max_errors: With `"skip"`, how many may be left out before it is an error; None: any number.

    Raises:
        ValueError: If arguments contradict each other, with torch's words where torch has some.
        TypeError: If `multiprocessing_context` is none, or `num_workers` no whole number.

    Example:
        >>> loader = DataLoader(range(10), batch_size=4)
        >>> batches = iter(loader)
        >>> next(batches)
        tensor([0, 1, 2, 3])
        >>> state = loader.state_dict()
        >>> other = DataLoader(range(10), batch_size=4)
        >>> other.load_state_dict(state)
        >>> list(other)
        [tensor([4, 5, 6, 7]), tensor([8, 9])]
    """

    def __init__(
        self,
        dataset: torch_data.Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        mode: Mode | None = None,
        rank: int | None = None,
        world_size: int = 1,
        uneven: Literal["pad", "drop", "short"] = "pad",
        device: torch.device | str | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        max_errors: int | None = None,
    ) -> None:
        _check_workers(num_workers)
        named: dict[str, Any] = {
            "prefetch_factor": prefetch_factor,
            "persistent_workers": persistent_workers,
            "pin_memory_device": pin_memory_device,
            "in_order": in_order,
        }
        super().__init__(
            *(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, drop_last),
            *(timeout, worker_init_fn, multiprocessing_context, generator),
            **{name: value for name, value in named.items() if name in _TAKES},  # the last came with torch 2.6
        )
        self.in_order = in_order
        self.mode = mode
        if rank is None and world_size != 1:
            raise ValueError(f"world_size={world_size!r} needs rank, this process's number among them, from 0")
        self.rank, self.world_size, self.uneven = 0 if rank is None else rank, world_size, uneven
        self.device = None if device is None else torch.device(device)
        self.on_error, self.max_errors = on_error, max_errors
        self._check_more()
        self._use_small_sampler(shuffle, sampler, batch_sampler)
        self._runtime = self._new_runtime()

    def _check_more(self) -> None:
        mode, workers = self.mode, self.num_workers
        if mode not in (None, "auto", "inline", "threads", "processes"):
            raise ValueError(f"mode is 'auto', 'inline', 'threads' or 'processes', got {mode!r}")
        if mode in ("threads", "processes") and not workers:
            raise ValueError(f"mode={mode!r} needs num_workers > 0, got num_workers=0")
        if type(self.world_size) is not int or type(self.rank) is not int or not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank is within 0 … world_size−1, got rank {self.rank!r} of {self.world_size!r}")
        if self.uneven not in ("pad", "drop", "short"):
            raise ValueError(f"uneven is 'pad', 'drop' or 'short', got {self.uneven!r}")
        if self.on_error not in ("raise", "skip"):
            raise ValueError(f"on_error is 'raise' or 'skip', got {self.on_error!r}")
        if self.max_errors is not None and self.on_error != "skip":
            raise ValueError(f"max_errors={self.max_errors!r} needs on_error='skip'")
        if self.max_errors is not None and (type(self.max_errors) is not int or self.max_errors < 0):
            raise ValueError(f"max_errors is None or a whole number, from 0, got {self.max_errors!r}")
        sampler = getattr(self.batch_sampler, "sampler", self.sampler)
        if self.world_size > 1 and isinstance(sampler, torch_data.DistributedSampler):
            raise ValueError("world_size and DistributedSampler both divide the data among ranks: use one of them")

    def _use_small_sampler(self, shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
        if not shuffle or sampler is not None or batch_sampler is not None or self._dataset_kind == 1:
            return
        mine = RandomSampler(self.dataset, generator=self.generator)  # type: ignore[arg-type]
        self.__dict__["sampler"] = mine  # past __setattr__, which forbids what users mustn't do
        if self.batch_size is not None:
            self.__dict__["batch_sampler"] = torch_data.BatchSampler(mine, self.batch_size, self.drop_last)

    def _new_runtime(self) -> Runtime:
        mode = {None: "processes" if self.num_workers else "inline", "auto": "inline"}.get(self.mode, self.mode)
        workers = 0 if mode == "inline" else int(self.num_workers)
        return Runtime(workers, workers * (self.prefetch_factor or 2), mode, self.max_errors)

    @property
    def _ranks(self) -> Ranks:
        return Ranks(self.rank, self.world_size, self.uneven)

    @property
    def _is_datapipe(self) -> bool:
        return isinstance(self.dataset, (torch_data.IterDataPipe, torch_data.MapDataPipe))

    # iteration -------------------------------------------------------------------------------------------------------

    def _get_iterator(self) -> Any:
        if self._is_datapipe:
            return super()._get_iterator()  # torch's own machinery, which they are a part of
        if self.num_workers > 0 and self.mode != "inline":
            self.check_worker_number_rationality()
        made: _BaseDataLoaderIter = self._iterator_class()(self)
        self._runtime.last = weakref.ref(made)
        return made

    def _iterator_class(self) -> type[_BaseDataLoaderIter]:
        if self.mode == "auto":
            return _AutoDataLoaderIter
        if self.mode == "inline" or not self.num_workers:
            return _SingleProcessDataLoaderIter
        if self.mode == "threads" or (self.mode != "processes" and self._gathers()):
            return _ThreadsDataLoaderIter
        return _MultiProcessingDataLoaderIter

    def _gathers(self) -> bool:
        """Whether batches are cut out of memory, which a process could only copy twice, and nobody looks on."""
        if self._dataset_kind == 1 or self.worker_init_fn is not None or self.multiprocessing_context is not None:
            return False
        return MapFetcher(self.dataset, self._auto_collation, self.collate_fn).take is not None

    def __len__(self) -> int:
        """Batches of an epoch, as this rank gets them."""
        if self.world_size == 1 or self._dataset_kind == 1:
            return super().__len__()
        return _share_of(self)

    # position --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is, counted at the consumer: a document that JSON can hold.

        It can be loaded with another number of workers, another mode, and, with `rank` and `world_size`, other ranks.
        It is of some hundred bytes, or 3 KB where the state of a torch generator must be kept.

        Raises:
            TypeError: If the dataset is one of torch's DataPipes.
        """
        if self._is_datapipe:
            raise TypeError("DataPipes are read by torch's own code, which knows no state")
        runtime = self._runtime
        if runtime.resume is not None:
            return dict(runtime.resume.document)
        epoch = runtime.epoch or Epoch(-1, over=True)
        return epoch.dump(data_of(self))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to a saved place: the next iteration gives what is left of its epoch. An empty document does nothing.

        Raises:
            StateError: If it is damaged, or was saved with another dataset, batch size or sampler.
        """
        if isinstance(state, Mapping) and not state:
            return
        readers = self.num_workers if self._iterator_class() is _MultiProcessingDataLoaderIter else 1
        keys = keys_of(self._index_sampler, self._auto_collation) if self._dataset_kind == 0 else None
        self._runtime.resume = parse(state, data_of(self), readers, keys)

    # end and report --------------------------------------------------------------------------------------------------

    @property
    def skipped(self) -> list[Skipped]:
        """What `on_error="skip"` has left out so far."""
        return list(self._runtime.skipped)

    def stats(self) -> Stats:
        """What loading has cost so far, by stage and worker, and what bounds the run.

        Example:
            >>> loader = DataLoader(range(10), batch_size=4)
            >>> for batch in loader:
            ...     pass
            >>> loader.stats().batches
            3
        """
        return self._runtime.stats.report()

    def profile(
        self, *, batches: int = 100, step: Callable[[Any], Any] | None = None, seconds: float = 10.0
    ) -> Profile:
        """Measures what better loading could gain: the loader alone, with a step, and the step with one batch.

        It is done with a copy of the loader. Random generators are afterwards as they were: those of `random`, NumPy
        and torch (with CUDA's, if it was in use before), the loader's own, and those that the dataset holds; so
        training goes on as if nothing had been. Samplers of your own that remember something are iterated, though.

        Args:
            batches: How many to take for each measurement, at most. Epochs follow each other.
            step: What is done with a batch, a training step say; None measures the loader alone.
            seconds: After so long a measurement ends, with however many batches.

        Raises:
            PlanError: If an argument is out of range.
            DataError: If there are no batches.

        Example:
            >>> loader = DataLoader(range(100), batch_size=4, shuffle=True)
            >>> found = loader.profile(batches=10, step=lambda batch: batch.sum())
            >>> found.stats.batches, found.gain >= 1
            (10, True)
        """
        other = copy.copy(self)
        held = held_generators(self.dataset, self.collate_fn)
        with all_put_back([*held, *(() if self.generator is None else (self.generator,))]):
            try:
                return profile(other, other._runtime.stats, batches=batches, step=step, seconds=seconds)
            finally:
                other.close()

    def close(self) -> None:
        """Ends the current iteration and its workers; iterating again is possible."""
        self._runtime.close()
        self._iterator = None

    def __enter__(self) -> DataLoader[T_co]:
        """`with DataLoader(…) as loader:` closes it at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_runtime": None, "_iterator": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["_runtime"] = self._new_runtime()


def _check_workers(given: Any) -> None:
    try:
        operator.index(given)
    except TypeError:
        hint = "; mode='auto' finds how many by measuring" if given == "auto" else ""
        raise TypeError(f"num_workers is a whole number, from 0, got {given!r}{hint}") from None


def _share_of(loader: DataLoader[Any]) -> int:
    ranks = loader._ranks
    if loader.batch_sampler is not None and type(loader.batch_sampler) is not torch_data.BatchSampler:
        steps, rest = divmod(len(loader.batch_sampler), ranks.count)  # type: ignore[arg-type]
        return steps + bool(rest and (ranks.uneven == "pad" or (ranks.uneven == "short" and ranks.rank < rest)))
    keys = len(loader.sampler)  # type: ignore[arg-type]
    steps, rest = divmod(keys, (loader.batch_size or 1) * ranks.count)
    if not rest or loader.drop_last:
        return steps
    return steps + {"pad": True, "drop": rest >= ranks.count, "short": ranks.rank < rest}[ranks.uneven]
