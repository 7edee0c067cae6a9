"""Readers: records out of the files whose names stand in a queue."""

from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np

from headrace.tf1 import errors, read_files
from headrace.tf1.dtypes import int64, string
from headrace.tf1.graph import Operation, Tensor, add_op, convert, get_default_graph
from headrace.tf1.monitor import QueueState
from headrace.tf1.queues import QueueBase
from headrace.tf1.read_files import Record, Source
from headrace.tf1.session import Run

__all__ = [
    "FixedLengthRecordReader",
    "IdentityReader",
    "ReaderBase",
    "TFRecordOptions",
    "TFRecordReader",
    "TextLineReader",
    "WholeFileReader",
    "compression_of",
]


class TFRecordOptions:
    """How records are compressed: `""`, `GZIP`, `ZLIB`, or `ZSTD`, which TensorFlow doesn't know."""

    def __init__(self, compression_type: Any = ""):
        self.compression_type = compression_of(compression_type)


class TFRecordCompressionType:
    """TensorFlow's numbers of compressions."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


def compression_of(options: Any) -> str:
    """The name of a compression, from options, a name or TensorFlow's number."""
    if isinstance(options, TFRecordOptions):
        return options.compression_type
    name = {0: "", 1: "ZLIB", 2: "GZIP", None: "", "NONE": ""}.get(options, options)
    if name not in ("", "GZIP", "ZLIB", "ZSTD"):
        raise errors.InvalidArgumentError(
            None, None, f"expected the compression '', 'GZIP', 'ZLIB' or 'ZSTD', got {options!r}"
        )
    return str(name)


class _ReaderState:
    """A reader in a session: the file it is in, and what it has counted."""

    def __init__(self, reader: ReaderBase):
        self._reader = reader
        self._lock = threading.Lock()
        self._source: Source | None = None
        self._work = b""
        self.started = 0
        self.completed = 0
        self.produced = 0

    def read(self, queue: QueueState, run: Run, count: int) -> list[Record]:
        """At least one record and at most `count`, all of one file."""
        with self._lock:
            while True:
                if self._source is None:
                    self._work = queue.take(1, deadline=run.deadline)[0][0]
                    self._source = self._reader.open(self._work)
                    self.started += 1
                found: list[Record] = []
                while len(found) < count:
                    try:
                        record = self._source.read()
                    except Exception:
                        if found:
                            break  # the next call meets the error
                        raise
                    if record is None:
                        if not found:
                            self._finish()
                        break
                    found.append(record)
                self.produced += len(found)
                if found:
                    return found

    def _finish(self) -> None:
        if self._source is not None:
            self._source.close()
        self._source = None
        self.completed += 1

    def reset(self) -> None:
        """Begins anew, with the next file."""
        with self._lock:
            self.abort()
            self.started = self.completed = self.produced = 0

    def abort(self) -> None:
        """Lets go of the file."""
        if self._source is not None:
            self._source.close()
        self._source = None

    def serialize(self) -> bytes:
        """The state, as a string."""
        with self._lock:
            state = [self.started, self.completed, self.produced, self._work.decode("latin-1")]
            return json.dumps(state).encode()

    def restore(self, state: bytes) -> None:
        """Takes a state that `serialize` gave."""
        try:
            started, completed, produced, work = json.loads(state)
            numbers = [int(started), int(completed), int(produced)]
            data = work.encode("latin-1")
            if min(numbers) < 0 or numbers[1] > numbers[0]:
                raise ValueError("counters that can't be")
        except (ValueError, TypeError, AttributeError) as error:
            raise errors.InvalidArgumentError(None, None, f"Could not parse state for {self._reader.name}") from error
        with self._lock:
            self.abort()
            self.started, self.completed, self.produced = numbers
            self._work = data
            if numbers[0] > numbers[1]:
                self._source = self._reader.open(data)


class ReaderBase:
    """What all readers do: records from the files that a queue names, one file after another.

    A file that can't be opened is an error once; the next call takes the next file. A reader that is run from several
    threads hands out each record once.
    """

    _stateful = False  # whether its state can be saved

    def __init__(self, name: str):
        self.name = get_default_graph().unique_name(name)
        self._key = f"reader/{self.name}"

    @property
    def supports_serialize(self) -> bool:
        """Whether `serialize_state` works."""
        return self._stateful

    @property
    def reader_ref(self) -> Operation:
        """An operation that stands for the reader."""
        return add_op("ReaderRef", self._state, name=f"{self.name}/ref")

    def open(self, name: bytes) -> Source:
        """The records of a file."""
        raise NotImplementedError

    def _state(self, run: Run) -> _ReaderState:
        state: _ReaderState = run.resource(self._key, lambda: _ReaderState(self))
        return state

    def _queue(self, queue: QueueBase) -> QueueBase:
        if not isinstance(queue, QueueBase):
            raise TypeError(f"expected a queue of file names, got {queue!r}")
        if [d.name for d in queue.dtypes] != ["string"]:
            raise TypeError(f"expected a queue of strings, got one of {queue.dtypes}")
        return queue

    def read(self, queue: QueueBase, name: str | None = None) -> tuple[Tensor, Tensor]:
        """The next record: its key and its value.

        Raises:
            OutOfRangeError: When all files are read and the queue is closed.
        """
        source = self._queue(queue)
        compute = lambda run: self._state(run).read(source.state(run.session), run, 1)[0]  # noqa: E731
        op = add_op("ReaderRead", compute, (), [(string, ()), (string, ())], name or f"{self.name}/Read")
        return op.outputs[0], op.outputs[1]

    def read_up_to(self, queue: QueueBase, num_records: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Up to `num_records` records, at least one, all of one file: vectors of keys and values."""
        source = self._queue(queue)

        def compute(run: Run, count: Any) -> Any:
            if count < 1:
                raise errors.InvalidArgumentError(None, None, f"expected to read 1 or more records, got {count}")
            found = self._state(run).read(source.state(run.session), run, int(count))
            keys, values = np.empty(len(found), object), np.empty(len(found), object)
            for i, (key, value) in enumerate(found):
                keys[i], values[i] = key, value
            return keys, values

        outputs = [(string, [None]), (string, [None])]
        op = add_op("ReaderReadUpTo", compute, [convert(num_records)], outputs, name or f"{self.name}/ReadUpTo")
        return op.outputs[0], op.outputs[1]

    def _count(self, kind: str, name: str | None) -> Tensor:
        compute = lambda run: np.int64(getattr(self._state(run), kind))  # noqa: E731
        return add_op(f"Reader_{kind}", compute, (), [(int64, ())], name).outputs[0]

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """How many records it has given."""
        return self._count("produced", name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """How many files it has read to their end."""
        return self._count("completed", name)

    def reset(self, name: str | None = None) -> Operation:
        """An operation that makes it begin anew."""
        return add_op("ReaderReset", lambda run: self._state(run).reset(), name=name)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Its state as a string; not all readers can do that.

        Raises:
            UnimplementedError: When it runs, if this reader can't.
        """

        def compute(run: Run) -> bytes:
            self._check_stateful()
            return self._state(run).serialize()

        return add_op("ReaderSerializeState", compute, (), [(string, ())], name).outputs[0]

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """An operation that puts it into a state that `serialize_state` gave."""

        def compute(run: Run, data: bytes) -> None:
            self._check_stateful()
            self._state(run).restore(data)

        return add_op("ReaderRestoreState", compute, [convert(state, string)], (), name)

    def _check_stateful(self) -> None:
        if not self._stateful:
            raise errors.UnimplementedError(None, None, f"{type(self).__name__} can't save its state")


class WholeFileReader(ReaderBase):
    """Each file is one record; its key is the file's name."""

    _stateful = True

    def __init__(self, name: str = "WholeFileReader"):
        super().__init__(name)

    def open(self, name: bytes) -> Source:
        """The file."""
        return read_files.WholeFile(name)


class IdentityReader(ReaderBase):
    """The names themselves."""

    _stateful = True

    def __init__(self, name: str = "IdentityReader"):
        super().__init__(name)

    def open(self, name: bytes) -> Source:
        """The name."""
        return read_files.Item(name)


class TextLineReader(ReaderBase):
    """Lines without their ends, LF or CR LF; keys are `file:line`, from 1.

    Args:
        skip_header_lines: Lines at the beginning of each file that are passed over, but counted.
        name: Of the operations.
    """

    def __init__(self, skip_header_lines: int | None = None, name: str = "TextLineReader"):
        super().__init__(name)
        self._skip = skip_header_lines or 0

    def open(self, name: bytes) -> Source:
        """The lines of a file."""
        return read_files.TextFile(name, self._skip)


class FixedLengthRecordReader(ReaderBase):
    """Records of one length; keys are `file:number`, from 0. A rest at the end of a file is passed over with a warning.

    Args:
        record_bytes: Bytes of a record.
        header_bytes: Bytes before the first one.
        footer_bytes: Bytes after the last one.
        hop_bytes: Bytes from the beginning of one to that of the next; `record_bytes` if not given.
        name: Of the operations.
        encoding: `GZIP`, `ZLIB` or nothing.

    Raises:
        InvalidArgumentError: For a record of no bytes; when a file is shorter than header and footer.
    """

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str = "FixedLengthRecordReader",
        encoding: str | None = None,
    ):
        super().__init__(name)
        if record_bytes < 1:
            raise errors.InvalidArgumentError(None, None, f"record_bytes must be 1 or more, got {record_bytes}")
        self._record = record_bytes
        self._layout = header_bytes or 0, footer_bytes or 0, hop_bytes or 0
        if min(self._layout) < 0:
            raise errors.InvalidArgumentError(None, None, "header_bytes, footer_bytes and hop_bytes can't be negative")
        self._compression = compression_of(encoding)

    def open(self, name: bytes) -> Source:
        """The records of a file."""
        return read_files.FixedFile(name, self._record, *self._layout, self._compression)


class TFRecordReader(ReaderBase):
    """Records of TFRecord files; keys are `file:offset`.

    A corrupt record stays in the way: each further call raises the same DataLossError.

    Args:
        name: Of the operations.
        options: The compression.
    """

    def __init__(self, name: str | None = None, options: Any = None):
        super().__init__(name or "TFRecordReader")
        self._compression = compression_of(options)

    def open(self, name: bytes) -> Source:
        """The records of a file."""
        return read_files.RecordFile(name, self._compression)
