"""Examples as sequences of numbers, for what reads and writes those: CNTK's formats, `.npz`, Arrow, JSON lines.

A feature of an Example is a stream of one sample, if every record has as many numbers of it, and else a stream of
samples of one number each; a feature list of a SequenceExample has a sample in each step. Sparse samples are two
features, `NAME.indices` and `NAME.values`. A whole number `key`, where there is one, is the sequence's key.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Bytes, Ragged
from headrace.batch.sparse import Sparse
from headrace.errors import DataError
from headrace.formats.example import ExampleSchema
from headrace.formats.example_encode import encode_examples, encode_sequence_example
from headrace.formats.example_infer import infer_sequence_example
from headrace.formats.exchange import Block, empty_column, equal_chunks, size_of_rows
from headrace.formats.features import FixedLen, FixedLenSequence, VarLen
from headrace.formats.files import Paths
from headrace.formats.parsed import join_parsed
from headrace.formats.record_source import TFRecordSource
from headrace.formats.sequences import Parsed, SequenceSource, SequenceStream, records_a_block
from headrace.formats.source import Fingerprint
from headrace.formats.tfrecord_writer import TFRecordWriter

KEY = "key"
_INDICES, _VALUES = ".indices", ".values"
_SCAN_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class ExampleStream:
    """A stream, and the features that it is made of.

    Attributes:
        stream: The stream.
        in_lists: Whether they are feature lists, with a sample in each step.
    """

    stream: SequenceStream
    in_lists: bool

    @property
    def keys(self) -> tuple[str, ...]:
        """The features: the values, and of a sparse stream the indices before them."""
        name = self.stream.name
        return (name + _INDICES, name + _VALUES) if self.stream.sparse else (name,)


@dataclass(frozen=True, slots=True)
class ExampleStreams:
    """What is in a file, as far as it is numbers.

    Attributes:
        streams: The streams.
        types: The type of each feature that they are made of.
        keyed: Whether there is a feature that is the key.
        left_out: Features that are no numbers.
    """

    streams: tuple[ExampleStream, ...]
    types: Mapping[str, str]
    keyed: bool
    left_out: tuple[str, ...]


def infer_example_streams(
    files: Paths, declared: Sequence[SequenceStream] | None = None, *, dtype: Any = np.float32
) -> ExampleStreams:
    """Looks at the first thousand records and says which streams they make.

    Args:
        files: A path, a glob pattern, or a list of those.
        declared: The streams to take; None takes all, which can be done if they are dense.
        dtype: Of the values of streams that aren't declared.

    Raises:
        OSError: If a file can't be opened.
        DataError: If it is damaged, a record is no Example, a stream that was declared isn't there, or one is sparse
            and not declared, since its width isn't in the file.
    """
    context, lists = infer_sequence_example(files)
    both: dict[str, Any] = {**context, **lists}
    types = {name: feature.dtype for name, feature in both.items()}
    keyed = context.get(KEY) == FixedLen((), "int64")
    if declared is not None:
        found = tuple(_declared(stream, types, lists, context) for stream in declared)
        keyed &= KEY not in {stream.name for stream in declared}
        return ExampleStreams(found, types, keyed, ())
    streams, left_out = [], []
    for name, feature in both.items():
        stem = name.removesuffix(_INDICES)
        if stem != name and stem + _VALUES in both:
            raise DataError(
                f"the features {name!r} and {stem + _VALUES!r} make a sparse stream {stem!r}, and Examples don't say "
                "how wide it is; say which streams there are"
            )
        if name == KEY and keyed:
            continue
        if feature.dtype == "bytes":
            left_out.append(name)
            continue
        fixed = isinstance(feature, (FixedLen, FixedLenSequence))
        width = int(np.prod(feature.shape, dtype=int)) if fixed else 1
        if not fixed and name in lists:
            raise DataError(f"the steps of the feature list {name!r} differ in length; sequences can't hold those")
        streams.append(ExampleStream(SequenceStream(name, (width,), dtype=np.dtype(dtype)), name in lists))
    if not streams:
        raise DataError(f"expected Examples with features of numbers, found {sorted(both) or 'no feature'}")
    return ExampleStreams(tuple(streams), types, keyed, tuple(left_out))


def _declared(
    stream: SequenceStream, types: Mapping[str, str], lists: Mapping[str, Any], context: Mapping[str, Any]
) -> ExampleStream:
    found = ExampleStream(stream, False)
    for place, in_lists in ((context, False), (lists, True)):
        if all(key in place for key in found.keys):
            wrong = [key for key in found.keys if types[key] == "bytes"]
            wrong += [key for key in found.keys[:-1] if types[key] != "int64"]
            if wrong:
                raise DataError(f"stream {stream.name!r}: feature {wrong[0]!r} holds {types[wrong[0]]}, not numbers")
            return ExampleStream(stream, in_lists)
    needs = " and ".join(map(repr, found.keys))
    raise DataError(f"stream {stream.name!r} needs the feature {needs}; the records have {sorted(types)}")


class ExampleSequences(SequenceSource):
    """The sequences that Examples of TFRecord files make.

    Args:
        files: A path, a glob pattern, or a list of those.
        found: The streams.

    Raises:
        OSError: If a file can't be opened.
        DataError: If a file is damaged.
    """

    kind = "examples"

    def __init__(self, files: Paths, found: ExampleStreams) -> None:
        self._records = TFRecordSource(files, index="memory")
        self._found = found
        wanted = [(key, stream.in_lists) for stream in found.streams for key in stream.keys]
        context = {key: VarLen(found.types[key]) for key, in_lists in wanted if not in_lists}
        if found.keyed:
            context[KEY] = VarLen("int64")
        lists = {key: VarLen(found.types[key]) for key, in_lists in wanted if in_lists}
        self._schema = ExampleSchema(context, lists)
        self._lock = threading.Lock()
        self._passed: tuple[NDArray[np.uint64], NDArray[np.uint32] | None] | None = None

    @property
    def num_records(self) -> int:
        """Records."""
        return self._records.num_records

    @property
    def streams(self) -> tuple[SequenceStream, ...]:
        """As given."""
        return tuple(one.stream for one in self._found.streams)

    @property
    def num_bytes(self) -> int:
        """Of the files, unpacked."""
        return int(self._records.fingerprint()["bytes"] or 0)

    def keys(self) -> NDArray[np.uint64]:
        """Those that the records have, else their numbers; found by going through the file once."""
        if not self._found.keyed:
            return np.arange(self.num_records, dtype=np.uint64)
        return self._pass()[0]

    @property
    def sizes(self) -> NDArray[np.uint32] | None:
        """The samples of each sequence's longest stream; found as keys are."""
        return self._pass()[1]

    def _pass(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32] | None]:
        with self._lock:
            if self._passed is None:
                keys = [np.empty(0, np.uint64)]
                lengths: dict[str, list[NDArray[np.int64]]] = {name: [] for name in self.column_names()}
                step = records_a_block(self, _SCAN_BYTES)
                for start in range(0, self.num_records, step):
                    records = np.arange(start, min(start + step, self.num_records))
                    parsed, own = self._parse(records)
                    keys.append(own)
                    for name, column in parsed.columns.items():
                        lengths[name].append(column.lengths)
                none = np.empty(0, np.int64)
                sizes = {name: np.concatenate([none, *found]) for name, found in lengths.items()}
                self._passed = np.concatenate(keys), size_of_rows(self.streams, sizes)
            return self._passed

    def chunks(self, limit: int) -> NDArray[np.int64]:
        """Chunks of equally many records."""
        return equal_chunks(self, limit)

    def parse(self, records: NDArray[np.int64]) -> Parsed:
        """Reads records; one that makes no sequence is dropped, with its first mistake reported.

        Raises:
            DataError: If a checksum is wrong.
        """
        return self._parse(records)[0]

    def _parse(self, records: NDArray[np.int64]) -> tuple[Parsed, NDArray[np.uint64]]:
        records = np.ascontiguousarray(records, np.int64)
        if not len(records):
            return Parsed({stream.name: empty_column(stream) for stream in self.streams}), np.empty(0, np.uint64)
        messages = self._records.read(records)
        try:
            return self._columns(messages, records)
        except DataError as error:
            if len(records) == 1:
                columns = {stream.name: empty_column(stream, 1) for stream in self.streams}
                text = f"{error}; leave the record out, or write it again"
                return Parsed(columns, np.ones(1, bool), np.zeros(1, np.int64), lambda i: text), np.zeros(1, np.uint64)
        # One of them is wrong: by halves, so that few are parsed again and again.
        middle = len(records) // 2
        first, second = self._parse(records[:middle]), self._parse(records[middle:])
        places = np.arange(len(records))
        joined = join_parsed([(places[:middle], first[0]), (places[middle:], second[0])], len(records))
        return joined, np.concatenate([first[1], second[1]])

    def _columns(self, messages: Bytes, records: NDArray[np.int64]) -> tuple[Parsed, NDArray[np.uint64]]:
        """All of some messages; the first mistake is raised."""
        found = self._schema.columns(messages, lambda row: self._records.where(int(records[row])))
        columns = {}
        for one in self._found.streams:
            parts = [found[key] for key in one.keys]
            columns[one.stream.name] = self._column(one, parts, records)
        keys = records.astype(np.uint64)
        if self._found.keyed:
            column = found[KEY]
            if (column.lengths != 1).any() or (column.values < 0).any():
                row = int(np.flatnonzero(column.lengths != 1)[0]) if (column.lengths != 1).any() else 0
                raise DataError(
                    f"{self._records.where(int(records[row]))}: expected one whole number from 0 on as {KEY!r}, got "
                    f"{column[row].tolist()}"
                )
            keys = column.values.astype(np.uint64)
        return Parsed(columns), keys

    def _column(self, one: ExampleStream, parts: list[Ragged], records: NDArray[np.int64]) -> Ragged:
        """The samples of a stream. `parts` are of rows of values, in lists of rows of steps of values."""
        stream, width = one.stream, one.stream.shape[-1]
        values: Any = parts[-1].values if one.in_lists else parts[-1]  # of samples, but for dense ones of the context
        steps = parts[-1].offsets if one.in_lists else None
        numbers = self._numbers(stream, values, steps, records)
        if stream.sparse:
            indices = parts[0].values if one.in_lists else parts[0]
            same = len(indices) == len(values) and bool((indices.offsets == values.offsets).all())
            same = same and (not one.in_lists or bool((parts[0].offsets == steps).all()))
            if not same:
                text = f"expected one index for each value of stream {stream.name!r}, got other numbers of them"
                raise DataError(f"{self._records.where(int(records[0]))}: {text}")
            outside = np.flatnonzero((indices.values < 0) | (indices.values >= width))
            if len(outside):
                self._refuse(
                    values, steps, records, int(outside[0]),
                    f"expected indices from 0 to {width - 1} in stream {stream.name!r}, got "
                    f"{int(indices.values[outside[0]])}",
                )  # fmt: skip
            sparse = Sparse(numbers, indices.values.astype(np.int32), values.offsets, width)
            return Ragged(sparse, np.arange(len(values) + 1) if steps is None else steps)
        counts = values.lengths
        wrong = np.flatnonzero(counts != width if one.in_lists else counts % max(width, 1))
        if len(wrong):
            self._refuse(
                values, steps, records, int(values.offsets[wrong[0]]),
                f"expected {width} numbers a sample of stream {stream.name!r}, got {int(counts[wrong[0]])}",
                row=int(wrong[0]),
            )  # fmt: skip
        samples = numbers.reshape(-1, *stream.shape)
        return Ragged(samples, values.offsets // max(width, 1) if steps is None else steps)

    def _numbers(self, stream: SequenceStream, values: Ragged, steps: Any, records: NDArray[np.int64]) -> NDArray[Any]:
        raw = values.values
        if raw.dtype.kind == "f":
            floats: NDArray[Any] = raw.astype(stream.dtype, copy=False)
            return floats
        made: NDArray[Any] = raw.astype(stream.dtype)
        most = 1 << (24 if stream.dtype == np.float32 else 53)
        for place in np.flatnonzero((raw > most) | (raw < -most)).tolist():
            if int(made[place]) != int(raw[place]):
                text = f"stream {stream.name!r} has {int(raw[place])}, which {stream.dtype} can't hold"
                self._refuse(values, steps, records, place, text)
        return made

    def _refuse(self, values: Ragged, steps: Any, records: Any, place: int, text: str, row: int | None = None) -> None:
        """Raises with the name of the record that a value is in."""
        row = int(np.searchsorted(values.offsets, place, side="right")) - 1 if row is None else row
        row = row if steps is None else int(np.searchsorted(steps, row, side="right")) - 1
        raise DataError(f"{self._records.where(int(records[row]))}: {text}")

    def fingerprint(self) -> Fingerprint:
        """Of the records."""
        return self._records.fingerprint()

    def where(self, record: int) -> str:
        """File and record."""
        return self._records.where(record)

    def close(self) -> None:
        """Closes the files."""
        self._records.close()


class NeedsLists(Exception):
    """A sequence has another number of samples than one."""


def write_examples(
    path: str | os.PathLike[str], streams: Sequence[SequenceStream], blocks: Iterable[Block], *, lists: bool
) -> int:
    """Writes sequences as Examples, or as SequenceExamples with a step for each sample.

    Args:
        path: The file.
        streams: What the columns are.
        blocks: The sequences.
        lists: Whether to write SequenceExamples.

    Returns:
        How many there were.

    Raises:
        OSError: If the file can't be written.
        DataError: If a number is none that Examples can hold: 32-bit floats.
        NeedsLists: If a sequence has not one sample of each stream, and they can't be written without lists.
    """
    count = 0
    with TFRecordWriter(path) as writer:
        for block in blocks:
            columns = {stream.name: _narrow(stream.name, block.columns[stream.name]) for stream in streams}
            if lists:
                for row, key in enumerate(block.keys.tolist()):
                    writer.write(encode_sequence_example({KEY: _as_key(key)}, dict(_steps(columns, row))))
            else:
                if any(bool((column.lengths != 1).any()) for column in columns.values()):
                    raise NeedsLists
                features: dict[str, Any] = {KEY: np.array([_as_key(key) for key in block.keys.tolist()], np.int64)}
                for name, column in columns.items():
                    samples = column.values
                    if isinstance(samples, Sparse):
                        features[name + _INDICES] = Ragged(samples.indices, samples.offsets)
                        features[name + _VALUES] = Ragged(samples.values, samples.offsets)
                    else:
                        features[name] = samples
                writer.write_many(encode_examples(features))
            count += len(block.keys)
    return count


def _as_key(key: int) -> int:
    if key >= 1 << 63:
        raise DataError(f"key {key} is beyond what Examples hold, at most {(1 << 63) - 1}")
    return key


def _narrow(name: str, column: Ragged) -> Ragged:
    values = column.values
    numbers = values.values if isinstance(values, Sparse) else values
    if numbers.dtype == np.float32:
        return column
    with np.errstate(over="ignore"):
        narrow = numbers.astype(np.float32)
    lost = np.flatnonzero((narrow.astype(np.float64) != numbers) & (numbers == numbers))
    if len(lost):
        raise DataError(
            f"stream {name!r} has {numbers.ravel()[lost[0]]!r}, and Examples hold 32-bit floats, which that isn't; "
            "leave out --double, or write another format"
        )
    if isinstance(values, Sparse):
        return Ragged(Sparse(narrow, values.indices, values.offsets, values.width), column.offsets)
    return Ragged(narrow, column.offsets)


def _steps(columns: Mapping[str, Ragged], row: int) -> Iterator[tuple[str, Any]]:
    for name, column in columns.items():
        samples = column[row]
        if isinstance(samples, Sparse):
            bounds = samples.offsets.tolist()
            cuts = list(pairwise(bounds))
            yield name + _INDICES, [samples.indices[a:b].astype(np.int64) for a, b in cuts]
            yield name + _VALUES, [samples.values[a:b] for a, b in cuts]
        else:
            yield name, samples.reshape(len(samples), int(np.prod(samples.shape[1:], dtype=int)))
