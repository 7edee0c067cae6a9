"""Deserializers of users' own making: sequences in chunks, by Python code."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse
from headrace.batch.tree import interleave
from headrace.checks import whole_of
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
        PlanError: If `num_chunks()` or `chunks_in_memory` isn't a whole number.
    """

    kind = "user"

    def __init__(self, user: UserDeserializer) -> None:
        self._user = user
        self._streams = _streams(user)
        self._kept: OrderedDict[int, dict[str, Ragged]] = OrderedDict()
        self._lock = threading.Lock()
        self._first = np.empty(0, np.int64)  # until all are measured
        self._most = whole_of(type(user).__name__, "chunks_in_memory", user.chunks_in_memory, 1)
        definers = [stream.name for stream in self._streams if stream.defines_size]
        sizes = []
        self._measures = definers or [stream.name for stream in self._streams]
        count = whole_of(type(user).__name__, "num_chunks()", user.num_chunks(), 0, (1 << 31) - 1)
        for number in range(count):
            sizes.append(self._measured(self._chunk(number)))
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
                self._check_same(number, columns)
            self._kept[number] = columns
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return columns

    def _measured(self, columns: dict[str, Ragged]) -> NDArray[np.int64]:
        """The samples of each sequence of a chunk."""
        found: NDArray[np.int64] = np.max([columns[name].lengths for name in self._measures], axis=0)
        return found

    def _check_same(self, number: int, columns: dict[str, Ragged]) -> None:
        """Whether a chunk that is asked for again is what was measured: else positions would not be what they say."""
        if not self._first.size:
            return
        before = self._sizes[self._first[number] : self._first[number + 1]]
        found = self._measured(columns)
        if len(found) != len(before):
            raise DataError(
                f"{self._named(number)} has {len(found)} sequences, had {len(before)} when it was measured; give the "
                "same each time"
            )
        if (found != before).any():
            i = int(np.argmax(found != before))
            raise DataError(
                f"{self._named(number)}, sequence {i} has {int(found[i])} samples, had {int(before[i])} when it was "
                "measured; give the same each time"
            )

    def _checked(self, number: int) -> dict[str, Ragged]:
        try:
            chunk = self._user.get_chunk(number)
        except StopIteration:  # would end whatever loop or generator the minibatch is asked for in
            raise DataError(
                f"{self._named(number)}: get_chunk raised StopIteration; num_chunks says how many there are"
            ) from None
        except Exception as error:
            error.add_note(f"headrace: raised by get_chunk({number}) of {type(self._user).__name__}")
            raise
        found = columns_of(chunk, self._named(number))
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


def _streams(user: UserDeserializer) -> tuple[SequenceStream, ...]:
    """The streams that a user says there are."""
    what, infos = f"{type(user).__name__}.stream_infos()", user.stream_infos()
    infos = list(infos) if isinstance(infos, Iterable) else [infos]
    if not all(isinstance(info, StreamInformation) for info in infos):
        raise DataError(f"{what}: expected a list of StreamInformation, got {infos!r:.60}")
    if not infos:
        raise DataError(f"{what}: expected a StreamInformation for each stream, got none")
    names = [info.name for info in infos]
    if len(set(names)) < len(names):
        raise DataError(f"{what}: expected a name of its own for each stream, got {', '.join(map(repr, names))}")
    for info in infos:
        if info.is_sparse and len(info.shape) != 1:
            raise DataError(f"{what}: sparse samples have one dimension, got the shape {info.shape} of {info.name!r}")
    return tuple(
        SequenceStream(info.name, info.shape, info.is_sparse, info.dtype, info.defines_mb_size) for info in infos
    )


def _words(sparse: bool, shape: tuple[int, ...]) -> str:
    return f"{'sparse' if sparse else 'dense'} samples of shape {shape}"


def _typed(column: Ragged, stream: SequenceStream) -> Ragged:
    values = column.values
    if isinstance(values, Sparse):
        numbers = values.values.astype(stream.dtype, copy=False)
        return Ragged(Sparse(numbers, values.indices, values.offsets, values.width), column.offsets)
    return Ragged(values.reshape(len(values), *stream.shape).astype(stream.dtype, copy=False), column.offsets)
