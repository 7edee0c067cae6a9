"""Minibatch sources that read no file: of data in memory, and of users' own making."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.cntk.checkpoint import POSITION, place_of
from headrace.cntk.minibatch import INFINITELY_REPEAT, end_of
from headrace.cntk.minibatch_data import MinibatchData
from headrace.cntk.streams import Record, StreamInformation
from headrace.cntk.user_data import columns_of, stream_of
from headrace.errors import DataError, PlanError
from headrace.plan.cntk_order import CntkOrder
from headrace.plan.minibatches import Minibatches, Partition
from headrace.plan.timeline import Place, Timeline


class UserMinibatchSource(ABC):
    """A minibatch source of a user's own: override `stream_infos` and `next_minibatch`.

    Example:
        >>> import numpy as np
        >>> import headrace as hr
        >>> from headrace.cntk import MinibatchData, StreamInformation, UserMinibatchSource
        >>> class Ones(UserMinibatchSource):
        ...     def stream_infos(self):
        ...         return [StreamInformation("x", 0, "dense", np.float32, (2,))]
        ...     def next_minibatch(self, num_samples, number_of_workers=1, worker_rank=0, device=None):
        ...         return {self["x"]: MinibatchData(hr.Ragged.from_rows([np.ones((1, 2))] * num_samples), False)}
        >>> source = Ones()
        >>> source.next_minibatch(3)[source.streams.x].num_samples
        3
    """

    @abstractmethod
    def stream_infos(self) -> list[StreamInformation]:
        """The streams."""

    @abstractmethod
    def next_minibatch(
        self, num_samples: int, number_of_workers: int = 1, worker_rank: int = 0, device: Any = None
    ) -> dict[StreamInformation, MinibatchData]:
        """The next minibatch; empty at the end."""

    @property
    def streams(self) -> Record:
        """The streams by name."""
        return Record({info.name: info for info in self.stream_infos()})

    def stream_info(self, name: str) -> StreamInformation:
        """The stream of a name.

        Raises:
            PlanError: If there is none.
        """
        for info in self.stream_infos():
            if info.name == name:
                return info
        names = ", ".join(repr(info.name) for info in self.stream_infos())
        raise PlanError(f"No stream found matching given name {name!r}; there are {names}")

    def __getitem__(self, name: str) -> StreamInformation:
        return self.stream_info(name)

    def is_infinite(self) -> bool:
        """Whether reading has no end."""
        return False

    def get_checkpoint_state(self) -> dict[str, Any]:
        """Where reading is; override it, and `restore_from_checkpoint`, to make it resumable.

        Raises:
            NotImplementedError: Unless overridden.
        """
        raise NotImplementedError(f"{type(self).__name__} has no get_checkpoint_state, so it can't be resumed")

    def restore_from_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Goes on from where a state was taken.

        Raises:
            NotImplementedError: Unless overridden.
        """
        raise NotImplementedError(f"{type(self).__name__} has no restore_from_checkpoint, so it can't be resumed")


class MinibatchSourceFromData(UserMinibatchSource):
    """Minibatches of data in memory, in its order; none reaches over the end of the data.

    Args:
        data_streams: Streams by name: an array or a SciPy matrix, whose rows are samples; or a list of those, each a
            sequence (also as a pair of the list and a type, as CNTK wants it). Whole numbers become float32.
        max_samples: Samples after which reading ends; `FULL_DATA_SWEEP` is once through the data.

    Raises:
        DataError: If the streams differ in their number of sequences, or one is neither array, matrix nor list.
        PlanError: If `max_samples` makes no sense.

    Example:
        >>> import numpy as np
        >>> from headrace.cntk import FULL_DATA_SWEEP, MinibatchSourceFromData
        >>> source = MinibatchSourceFromData({"x": np.arange(5.0), "y": np.eye(5)}, max_samples=FULL_DATA_SWEEP)
        >>> while minibatch := source.next_minibatch(2):
        ...     print(minibatch[source["x"]].asarray().ravel())
        [0. 1.]
        [2. 3.]
        [4.]
    """

    def __init__(self, data_streams: Mapping[str, Any], max_samples: int = INFINITELY_REPEAT) -> None:
        self._columns = columns_of(data_streams, "the data")
        streams = [stream_of(name, column) for name, column in self._columns.items()]
        self._infos = [StreamInformation.of(stream, i) for i, stream in enumerate(streams)]
        sizes = np.max([column.lengths for column in self._columns.values()], axis=0)
        if not len(sizes) or not sizes.all():
            raise DataError("the data needs sequences, each with a sample; leave empty ones out")
        order = CntkOrder(np.array([0, len(sizes)]), np.array([sizes.sum()], np.uint64), None)
        self._timeline = Timeline(order, sizes)
        self._end = end_of(self._timeline, max_samples)
        self._place = Place()

    def stream_infos(self) -> list[StreamInformation]:
        """The streams, in the order given."""
        return list(self._infos)

    def is_infinite(self) -> bool:
        """Whether reading has no end."""
        return self._end is None

    def next_minibatch(
        self, num_samples: int, number_of_workers: int = 1, worker_rank: int = 0, device: Any = None
    ) -> dict[StreamInformation, MinibatchData]:
        """The next minibatch; empty at the end.

        Args:
            num_samples: Samples of all workers together, at most, but for a sequence that is longer.
            number_of_workers: How many share the data.
            worker_rank: Which of them this is.
            device: A torch device on which `MinibatchData.to_torch` puts tensors.

        Raises:
            PlanError: If an argument makes no sense.
        """
        partition = Partition(number_of_workers, worker_rank)
        while True:
            sweep_end = (self._place.number // self._timeline.length + 1) * self._timeline.samples
            end = sweep_end if self._end is None else min(sweep_end, self._end)
            found = Minibatches(self._timeline, end).cut(self._place, num_samples, partition)
            if found is not None:
                break
            if self._end is not None and end >= self._end:
                return {}
            self._place = self._timeline.at(sweep_end)  # what was left of this sweep is other workers'
        self._place = found.after
        return {
            info: MinibatchData(self._columns[info.name].take(found.records), found.end_of_sweep, device=device)
            for info in self._infos
        }

    @property
    def current_position(self) -> int:
        """Samples that were passed."""
        return self._place.position

    @current_position.setter
    def current_position(self, position: int) -> None:
        self.restore_from_checkpoint({POSITION: position})

    def get_checkpoint_state(self) -> dict[str, Any]:
        """Where reading is: a short document, fit for JSON."""
        return {POSITION: self._place.position}

    def restore_from_checkpoint(self, state: Mapping[str, Any]) -> None:
        """Goes on from where a state was taken.

        Raises:
            StateError: If it is no state of this data's.
        """
        self._place = place_of(state, self._timeline, self._end)
