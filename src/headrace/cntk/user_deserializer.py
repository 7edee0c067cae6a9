"""Deserializers of users' own making: sequences in chunks, by Python code."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse
from headrace.batch.tree import interleave
from headrace.cntk.deserializers import Deserializer
from headrace.cntk.streams import StreamInformation
from headrace.cntk.user_data import columns_of
from headrace.errors import DataError
from headrace.formats.sequences import Parsed, SequenceSource, SequenceStream, checked_records
from headrace.formats.source import Fingerprint


class UserDeserializer(Deserializer):
    """A deserializer of a user's own: override `stream_infos`, `num_chunks` and `get_chunk`.

    Chunks are asked for once when the minibatch source is made, to measure them, and again when they are read; so
    `get_chunk` must give the same each time. Sequences are shuffled as those of files are. `get_chunk` is called by
    one thread at a time, which need not be the caller's.

    Attributes:
        chunks_in_memory: How many chunks are kept; a shuffle should have its window and one or two more.

    Example:
        >>> import numpy as np
        >>> from headrace.cntk import MinibatchSource, StreamInformation, UserDeserializer
        >>> class Squares(UserDeserializer):
        ...     def stream_infos(self):
        ...         return [StreamInformation("x", 0, "dense", np.float32, (1,))]
        ...     def num_chunks(self):
        ...         return 3
        ...     def get_chunk(self, chunk_id):
        ...         return {"x": np.array([[chunk_id], [chunk_id**2]], np.float32)}
        >>> source = MinibatchSource(Squares(), randomize=False, max_sweeps=1)
        >>> source.next_minibatch(6)[source["x"]].asarray().ravel().tolist()
        [0.0, 0.0, 1.0, 1.0, 2.0, 4.0]
    """

    kind = "UserDeserializer"
    chunks_in_memory: int = 130

    @abstractmethod
    def stream_infos(self) -> list[StreamInformation]:
        """The streams."""

    @abstractmethod
    def num_chunks(self) -> int:
        """How many chunks there are."""

    @abstractmethod
    def get_chunk(self, chunk_id: int) -> Mapping[str, Any]:
        """The streams of a chunk by name: an array or SciPy matrix, whose rows are sequences of one sample, or a list
        of those, each a sequence.
        """

    def open(self) -> SequenceSource:
        """Measures the chunks."""
        return UserSequences(self)


class UserSequences(SequenceSource):
    """The sequences of a user's chunks.

    Args:
        user: Gives the chunks.

    Raises:
        DataError: If there are none, or one isn't what its streams are said to be.
    """

    kind = "user"

    def __init__(self, user: UserDeserializer) -> None:
        self._user = user
        self._streams = tuple(
            SequenceStream(info.name, info.shape, info.is_sparse, info.dtype, info.defines_mb_size)
            for info in user.stream_infos()
        )
        self._kept: OrderedDict[int, dict[str, Ragged]] = OrderedDict()
        self._lock = threading.Lock()
        definers = [stream.name for stream in self._streams if stream.defines_size]
        sizes = []
        for number in range(user.num_chunks()):
            columns = self._chunk(number)
            measured = [column.lengths for name, column in columns.items() if name in definers or not definers]
            sizes.append(np.max(measured, axis=0))
        if not any(len(part) for part in sizes):
            raise DataError(f"{type(user).__name__} has no sequences: num_chunks() is {len(sizes)}")
        self._sizes = np.concatenate(sizes).astype(np.uint32)
        self._first = np.cumsum([0, *map(len, sizes)])  # the first sequence of each chunk

    @property
    def num_records(self) -> int:
        """Of all chunks."""
        return len(self._sizes)

    @property
    def streams(self) -> tuple[SequenceStream, ...]:
        """As `stream_infos` gives them."""
        return self._streams

    @property
    def sizes(self) -> NDArray[np.uint32]:
        """Of the stream that defines the size, else of the longest."""
        return self._sizes

    @property
    def num_bytes(self) -> int:
        """Roughly: a guess from samples."""
        return int(self._sizes.sum()) * 4 * max(1, sum(stream.shape[0] for stream in self._streams if stream.shape))

    def keys(self) -> NDArray[np.uint64]:
        """Running numbers."""
        return np.arange(self.num_records, dtype=np.uint64)

    def chunks(self, limit: int) -> NDArray[np.int64]:
        """The user's, whatever their bytes; without those that are empty."""
        return np.unique(self._first).astype(np.int64)

    def parse(self, records: NDArray[np.int64]) -> Parsed:
        """Takes the sequences from their chunks.

        Raises:
            DataError: If a chunk has changed.
            IndexError: If a sequence isn't there.
        """
        records = checked_records(records, self.num_records)
        numbers = np.searchsorted(self._first, records, side="right") - 1
        parts = []
        for number in np.unique(numbers).tolist():
            where = np.flatnonzero(numbers == number)
            columns = self._chunk(number)
            count = int(self._first[number + 1] - self._first[number])
            if len(next(iter(columns.values()))) != count:
                raise DataError(
                    f"{self._named(number)} has {len(next(iter(columns.values())))} sequences, had {count} when it "
                    "was measured; give the same each time"
                )
            own = records[where] - self._first[number]
            parts.append((where, {name: column.take(own) for name, column in columns.items()}))
        if not parts:
            none = np.empty(0, np.int64)
            return Parsed({name: column.take(none) for name, column in self._chunk(0).items()})
        return Parsed(interleave(parts))

    def fingerprint(self) -> Fingerprint:
        """Class, sequences and samples: what is in them can't be known."""
        user = type(self._user)
        return {
            "kind": self.kind,
            "class": f"{user.__module__}.{user.__qualname__}",
            "sequences": self.num_records,
            "samples": int(self._sizes.sum(dtype=np.uint64)),
        }

    def where(self, record: int) -> str:
        """By chunk and number in it."""
        number = int(np.searchsorted(self._first, record, side="right")) - 1
        return f"{self._named(number)}, sequence {record - int(self._first[number])}"

    def _named(self, number: int) -> str:
        return f"{type(self._user).__name__}, chunk {number}"

    def _chunk(self, number: int) -> dict[str, Ragged]:
        with self._lock:
            columns = self._kept.pop(number, None)
            if columns is None:
                columns = self._checked(number)
            self._kept[number] = columns
            while len(self._kept) > max(1, self._user.chunks_in_memory):
                self._kept.popitem(last=False)
            return columns

    def _checked(self, number: int) -> dict[str, Ragged]:
        found = columns_of(self._user.get_chunk(number), self._named(number))
        columns = {}
        for stream in self._streams:
            if stream.name not in found:
                raise DataError(f"{self._named(number)} lacks the stream {stream.name!r}; it has {', '.join(found)}")
            column = found[stream.name]
            values = column.values
            sparse = isinstance(values, Sparse)
            shape = (values.width,) if sparse else values.shape[1:]
            # A row of an array may be given as it lies in memory, flat or not.
            if sparse != stream.sparse or int(np.prod(shape)) != int(np.prod(stream.shape)):
                raise DataError(
                    f"{self._named(number)}, stream {stream.name!r}: expected {_words(stream.sparse, stream.shape)}, "
                    f"got {_words(sparse, shape)}"
                )
            columns[stream.name] = _typed(column, stream)
        return columns


def _words(sparse: bool, shape: tuple[int, ...]) -> str:
    return f"{'sparse' if sparse else 'dense'} samples of shape {shape}"


def _typed(column: Ragged, stream: SequenceStream) -> Ragged:
    values = column.values
    if isinstance(values, Sparse):
        numbers = values.values.astype(stream.dtype, copy=False)
        return Ragged(Sparse(numbers, values.indices, values.offsets, values.width), column.offsets)
    return Ragged(values.reshape(len(values), *stream.shape).astype(stream.dtype, copy=False), column.offsets)
