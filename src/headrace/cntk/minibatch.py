"""CNTK's minibatch source: sequences of files, in its order and its minibatches."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Ragged
from headrace.checks import whole
from headrace.cntk.ahead import Ahead
from headrace.cntk.arguments import boolean
from headrace.cntk.checkpoint import POSITION, Checkpoints
from headrace.cntk.deserializers import Deserializer
from headrace.cntk.join import Join, Part
from headrace.cntk.minibatch_data import MinibatchData, SequencePiece
from headrace.cntk.streams import Record, StreamInformation
from headrace.cntk.truncated import HeldSequences
from headrace.engine.stats import Stats
from headrace.errors import DataError, PlanError
from headrace.formats.mistakes import Mistakes
from headrace.plan.cntk_order import CntkOrder, CntkWindow
from headrace.plan.minibatches import Minibatches, Partition
from headrace.plan.timeline import Place, Timeline
from headrace.plan.truncated import Slots, Truncated

INFINITELY_REPEAT = (1 << 64) - 1
"""As `max_samples` or `max_sweeps`: no end."""
FULL_DATA_SWEEP = (1 << 64) - 2
"""As `max_samples`: one sweep."""
DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS = 128
"""Chunks of the window that sequences are shuffled in, by default."""
_MOST_THREADS = 4
_MOST_SAMPLES = 1 << 27  # of a minibatch that would go over smaller data again and again

_RUN_BYTES = 1 << 20  # of text that is parsed in one go: small enough for a processor's cache
_WHOLE = Partition()

_log = logging.getLogger("headrace")


class _Found(NamedTuple):
    """A minibatch: the streams' columns and the rows of them that are meant (None: all)."""

    columns: Mapping[str, Ragged]
    rows: tuple[int, int] | None
    end_of_sweep: bool
    pieces: tuple[SequencePiece, ...] | None = None  # of truncated sequences,
    layout: tuple[int, int] = (0, 0)  # and their slots and steps


class MinibatchSource:
    r"""Reads sequences of one file or several in CNTK's order, minibatch by minibatch.

    Several deserializers are joined by the keys of their sequences: the first gives the order, and a sequence that
    another one lacks is left out, with a warning. Reading may stop anywhere and go on exactly there, here or in another
    process: see `get_checkpoint_state`.

    Args:
        deserializers: One, or several.
        max_samples: Samples after which reading ends (the last sequence may pass it); `FULL_DATA_SWEEP` is one sweep.
        max_sweeps: Sweeps after which reading ends. By default there is no end.
        randomization_window_in_chunks: Chunks within which sequences are shuffled; 0 doesn't shuffle.
        randomization_window_in_samples: Samples within which sequences are shuffled, in the place of chunks.
        randomization_seed: Where the shuffle begins; each sweep adds one.
        trace_level: 0 reports nothing, 1 warnings, 2 everything; to the logger `headrace`.
        multithreaded_deserializer: True parses on several threads, False in the caller's; by default one thread reads
            ahead.
        frame_mode: Refuse sequences of more than one sample.
        truncation_length: Truncate sequences: minibatches are so many steps of parallel slots; 0 gives whole sequences.
        randomize: False reads in the order of the data.
        max_errors: CNTK's budget for images that can't be decoded. Text has its own, in its deserializer.

    Raises:
        OSError: If a file can't be opened.
        DataError: If the data has no sequence, or has longer ones in frame mode.
        PlanError: If arguments contradict each other.

    Example:
        >>> import pathlib, tempfile
        >>> from headrace.cntk import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "train.ctf")
        >>> _ = path.write_text("|x 1 2 |y 0:1\n|x 3 4 |y 2:1\n|x 5 6 |y 1:1\n")
        >>> x, y = StreamDef(field="x", shape=2), StreamDef(field="y", shape=3, is_sparse=True)
        >>> source = MinibatchSource(CTFDeserializer(path, StreamDefs(x=x, y=y)), randomize=False, max_sweeps=1)
        >>> minibatch = source.next_minibatch(2)
        >>> minibatch[source["x"]].asarray().tolist()
        [[[1.0, 2.0]], [[3.0, 4.0]]]
        >>> source.get_checkpoint_state()["minibatchSourcePosition"]
        2
        >>> source.close()
        >>> folder.cleanup()
    """

    def __init__(
        self,
        deserializers: Deserializer | Sequence[Deserializer],
        max_samples: int = INFINITELY_REPEAT,
        max_sweeps: int = INFINITELY_REPEAT,
        randomization_window_in_chunks: int = DEFAULT_RANDOMIZATION_WINDOW_IN_CHUNKS,
        randomization_window_in_samples: int = 0,
        randomization_seed: int = 0,
        trace_level: int = 1,
        multithreaded_deserializer: bool | None = None,
        frame_mode: bool = False,
        truncation_length: int = 0,
        randomize: bool = True,
        max_errors: int = 0,
    ) -> None:
        given = [deserializers] if isinstance(deserializers, Deserializer) else deserializers
        if not isinstance(given, Sequence) or not given or not all(isinstance(one, Deserializer) for one in given):
            raise PlanError(f"a minibatch source needs deserializers, as CTFDeserializer, got {deserializers!r:.80}")
        randomize, frame_mode = _flag("randomize", randomize), _flag("frame_mode", frame_mode)
        threads = None if multithreaded_deserializer is None else _flag("multithreaded", multithreaded_deserializer)
        trace_level, truncation_length = (
            _count("trace_level", trace_level),
            _count("truncation_length", truncation_length),
        )
        _count("max_errors", max_errors)
        if frame_mode and truncation_length:
            raise PlanError("frame_mode and truncation_length exclude each other: frames can't be truncated")
        max_samples, max_sweeps = _count("max_samples", max_samples, 1), _count("max_sweeps", max_sweeps)
        if max_samples != INFINITELY_REPEAT and max_sweeps != INFINITELY_REPEAT:
            raise PlanError(f"give max_samples or max_sweeps, not both; got {max_samples} and {max_sweeps}")
        window = _window(randomize, randomization_window_in_chunks, randomization_window_in_samples)
        self._trace_level = trace_level
        self._frame_mode = frame_mode
        self._join, self._mistakes = _open(given, self._trace_level)
        try:
            join = self._join
            order = CntkOrder(join.chunks, join.samples(), window, randomization_seed)
            timeline = Timeline(order, join.sizes)
            if frame_mode and join.sizes is not None and timeline.largest > 1:
                record = int(np.argmax(join.sizes > 1))
                raise DataError(
                    f"{join.where(record)}: frame mode needs sequences of one sample, found one of "
                    f"{int(join.sizes[record])}"
                )
            minibatches = Minibatches(timeline, end_of(timeline, max_samples, max_sweeps))
            truncated = Truncated(minibatches, truncation_length) if truncation_length else None
            if truncation_length > max(_MOST_SAMPLES, timeline.samples):
                what = f"truncation_length is {truncation_length} steps, more than the data has samples"
                raise PlanError(f"{what} ({timeline.samples}); 0 gives whole sequences")
        except BaseException:
            self._join.close()
            raise
        self._end = minibatches.end
        self._most = max(_MOST_SAMPLES, timeline.samples) if truncated or self._end is None else None
        self._held = HeldSequences(join) if truncated else None
        self._state: Place | Slots = Slots() if truncated else Place()
        self._partition: Partition | None = None  # whose the slots are
        self._checkpoints = Checkpoints(
            minibatches, truncated, _about(join, order, window, timeline, truncation_length)
        )
        infos = [StreamInformation.of(stream, i) for i, stream in enumerate(join.streams)]
        self._streams = Record({info.name: info for info in infos})
        self._by_stream = {info: info.name for info in infos}
        workers = {None: 1, False: 0, True: min(_MOST_THREADS, os.cpu_count() or 1)}[threads]
        plan: Any = truncated or minibatches
        self._steps = truncation_length
        self._ahead: Ahead[Any] = Ahead(
            plan.cut_run, join.parse, workers, max(1, timeline.length * _RUN_BYTES // max(join.num_bytes, 1))
        )
        self._lock = threading.Lock()
        if self._trace_level >= 2:
            _log.info("%d sequences with %d samples, %d chunks", timeline.length, timeline.samples, order.num_chunks)

    # Streams ---------------------------------------------------------------------------------------------------------

    @property
    def streams(self) -> Record:
        """The streams by name; `source.streams.x` is that of name `x`."""
        return Record(self._streams)

    def stream_infos(self) -> list[StreamInformation]:
        """The streams, in the order of their definition."""
        return list(self._streams.values())

    def stream_info(self, name: str) -> StreamInformation:
        """The stream of a name.

        Raises:
            PlanError: If there is none.
        """
        if not isinstance(name, str) or name not in self._streams:
            raise PlanError(
                f"No stream found matching given name {name!r}; there are {', '.join(map(repr, self._streams))}"
            )
        info: StreamInformation = self._streams[name]
        return info

    def __getitem__(self, name: str) -> StreamInformation:
        return self.stream_info(name)

    def is_infinite(self) -> bool:
        """Whether reading has no end."""
        return self._end is None

    # Minibatches -----------------------------------------------------------------------------------------------------

    def next_minibatch(
        self,
        minibatch_size_in_samples: int,
        input_map: Mapping[Any, Any] | None = None,
        device: Any = None,
        num_data_partitions: int | None = None,
        partition_index: int | None = None,
    ) -> dict[Any, MinibatchData]:
        """The next minibatch; empty at the end.

        Args:
            minibatch_size_in_samples: Samples of all partitions together, at most, but for a sequence that is longer.
            input_map: What the result is keyed by, each with its stream (or the stream's name); by default the
                streams.
            device: A torch device on which `MinibatchData.to_torch` puts tensors; data as such is in main memory.
            num_data_partitions: How many workers share the data.
            partition_index: Which of them this is.

        Returns:
            The data of each stream.

        Raises:
            DataError: If the data is malformed beyond what is allowed.
            PlanError: If an argument makes no sense.
        """
        partition = _WHOLE
        if num_data_partitions is not None or partition_index is not None:
            partition = Partition(
                1 if num_data_partitions is None else num_data_partitions,
                0 if partition_index is None else partition_index,
            )
        size = _count("minibatch_size_in_samples", minibatch_size_in_samples, 1)
        self._check_size(size)
        names = self._by_stream if input_map is None else self._names(input_map)
        with self._lock:
            whose = self._partition or partition
            if whose != partition:
                raise PlanError(
                    f"the slots of truncated sequences hold what partition {whose.rank} of {whose.workers} took, got "
                    f"partition {partition.rank} of {partition.workers}; keep to it until the end"
                )
            found = self._next(size, partition)
        if found is None:
            return {}
        columns, rows, end_of_sweep, pieces, layout = found
        if rows is not None:
            return {key: MinibatchData.of(columns[name], rows, end_of_sweep, device) for key, name in names.items()}
        return {key: MinibatchData(columns[name], end_of_sweep, pieces, layout, device) for key, name in names.items()}

    def _names(self, input_map: Mapping[Any, Any]) -> dict[Any, str]:
        """The stream of each key of the result."""
        if not isinstance(input_map, Mapping):
            raise PlanError(
                f"input_map says which stream each key of the minibatch stands for, {{variable: stream}}, got "
                f"{input_map!r:.60}"
            )
        return {
            key: self.stream_info(stream.name if isinstance(stream, StreamInformation) else stream).name
            for key, stream in input_map.items()
        }

    def _check_size(self, samples: int) -> None:
        """Refuses what would repeat the data until memory ends."""
        if self._most is not None and samples > self._most:
            why = "what slots hold stays in memory" if self._held else "reading has no end; max_sweeps=1 gives it one"
            raise PlanError(f"minibatch_size_in_samples is at most {self._most} here, got {samples}: {why}")

    def _next(self, size: int, partition: Partition) -> _Found | None:
        end_of_sweep = False
        first = self._place.number
        while True:
            if self._held is not None:
                self._restore_held(self._held)
            found = self._ahead.next(self._state, size, partition)
            if found is None:
                return None
            step, parsed = found
            if self._held is None and parsed.clean and not self._frame_mode:
                # The usual case, and there may be thousands of these a second: nothing is looked at or cut out yet.
                self._state = step.after
                end_of_sweep |= step.end_of_sweep
                if parsed.end > parsed.begin:
                    return _Found(_columns(parsed.parts), (parsed.begin, parsed.end), end_of_sweep)
            columns, dropped = self._settle(parsed.cut_out())
            pieces, layout, records = None, (0, 0), step.new
            if self._held is not None:
                self._held.add(step.taken, columns, dropped)
                columns, pieces = self._held.assemble(step)
                self._held.keep(step.after)
                self._partition = partition
                layout = (step.slots, self._steps)
            elif dropped is not None:
                left = np.flatnonzero(~dropped)
                columns = {name: column.take(left) for name, column in columns.items()}
                records = records[left]
            if self._frame_mode:
                self._check_frames(columns, records)
            self._state = step.after
            end_of_sweep |= step.end_of_sweep
            # A minibatch that lost all its sequences to mistakes would look like data; the next one stands for it.
            if any(len(column) for column in columns.values()):
                return _Found(columns, None, end_of_sweep, pieces, layout)
            if self._place.number - first > self._join.num_records * (partition.workers + 1):
                raise DataError(
                    f"all sequences of {self._mistakes[0].data} are lost to mistakes; correct the data, or see whether "
                    "the streams are those of the file"
                )

    @property
    def _place(self) -> Place:
        return self._state.place if isinstance(self._state, Slots) else self._state

    def _settle(self, parts: list[Part]) -> tuple[dict[str, Ragged], Any]:
        """The columns of all sources, and which rows are dropped, after counting mistakes."""
        columns: dict[str, Ragged] = {}
        dropped = None
        for mistakes, (records, parsed) in zip(self._mistakes, parts, strict=True):
            mistakes.settle(records, parsed)
            columns.update(parsed.columns)
            if parsed.dropped is not None and parsed.dropped.any():
                dropped = parsed.dropped if dropped is None else dropped | parsed.dropped
        return {name: columns[name] for name in self._streams}, dropped

    def _restore_held(self, held: HeldSequences) -> None:
        assert isinstance(self._state, Slots)
        missing = held.missing(self._state)
        if missing:
            columns, dropped = self._settle(self._join.parse(np.array([h.record for h in missing], np.int64)))
            held.add(missing, columns, dropped)

    def _check_frames(self, columns: dict[str, Ragged], records: NDArray[np.int64]) -> None:
        for name, column in columns.items():
            wrong = np.flatnonzero(column.lengths != 1)
            if len(wrong):
                raise DataError(
                    f"{self._join.where(int(records[wrong[0]]))}: frame mode needs one sample of each stream in a "
                    f"sequence, found {int(column.lengths[wrong[0]])} of {name!r}"
                )

    # Position --------------------------------------------------------------------------------------------------------

    @property
    def current_position(self) -> int:
        """Samples that were passed, over all sweeps and partitions.

        Setting it goes there, to the next sequence if it is inside one; what was in slots of truncated sequences is
        forgotten. A state of `get_checkpoint_state` is taken too.
        """
        with self._lock:
            return self._place.position

    @current_position.setter
    def current_position(self, position: int | Mapping[str, Any]) -> None:
        self.restore_from_checkpoint(position if isinstance(position, Mapping) else {POSITION: position})

    def get_checkpoint_state(self) -> dict[str, Any]:
        """Where reading is: a short document, fit for JSON."""
        with self._lock:
            return self._checkpoints.dump(self._state, self._partition)

    def restore_from_checkpoint(self, checkpoint: Mapping[str, Any]) -> None:
        """Goes on from where a state was taken, in this source or in another one of the same data and order.

        Args:
            checkpoint: What `get_checkpoint_state` gave, here or in CNTK.

        Raises:
            StateError: If the state is damaged, or of other data or another order; the message says what differs.
        """
        with self._lock:
            self._state, self._partition = self._checkpoints.load(checkpoint)

    def stats(self) -> Stats:
        """A report of what the work has cost so far, and of what bounds the run."""
        return self._ahead.stats()

    def close(self) -> None:
        """Ends threads and closes files. Reading afterwards is an error."""
        with self._lock:
            self._ahead.close()
            self._join.close()

    def __enter__(self) -> MinibatchSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _columns(parts: list[Part]) -> Mapping[str, Ragged]:
    """The columns of all sources by the names of their streams."""
    if len(parts) == 1:
        return parts[0][1].columns
    return {name: column for _, parsed in parts for name, column in parsed.columns.items()}


def _open(given: Sequence[Deserializer], trace_level: int) -> tuple[Join, list[Mistakes]]:
    """Opens what deserializers describe; at the first error closes what was opened."""
    sources: list[Any] = []
    try:
        for one in given:
            sources.append(one.open())
        names = [str(getattr(one, "filename", one.kind)) for one in given]
        join = Join(sources, names, given[0].chunk_size)
    except BaseException:
        for source in sources:
            source.close()
        raise
    levels = [trace_level if one.trace_level is None else one.trace_level for one in given]
    remarks = [(trace_level, join.remarks), *((level, one.remarks) for level, one in zip(levels, given, strict=True))]
    for level, texts in remarks:
        for remark in texts if level >= 1 else ():
            _log.warning("%s", remark)
    counted = zip(names, given, levels, strict=True)
    return join, [Mistakes(one.max_errors, data=name, log=level >= 1) for name, one, level in counted]


def _flag(name: str, value: Any) -> bool:
    try:
        return boolean(name, value)
    except ValueError as error:
        raise PlanError(str(error)) from None


def _count(name: str, value: Any, least: int = 0) -> int:
    return whole(name, value, least, None, error=PlanError)


def _window(randomize: bool, chunks: int, samples: int) -> CntkWindow | None:
    chunks = _count("randomization_window_in_chunks", chunks)
    samples = _count("randomization_window_in_samples", samples)
    if chunks and samples:
        raise PlanError(
            f"give one randomization window, got {chunks} chunks and {samples} samples; for a window in samples set "
            "randomization_window_in_chunks=0"
        )
    if not randomize or not (chunks or samples):
        return None
    return CntkWindow(samples, "samples") if samples else CntkWindow(chunks, "chunks")


def end_of(timeline: Timeline, max_samples: int, max_sweeps: int = INFINITELY_REPEAT) -> int | None:
    """Samples after which no further sequence begins; None if reading has no end.

    Raises:
        PlanError: If a limit isn't a whole number in its range.
    """
    max_samples, max_sweeps = _count("max_samples", max_samples, 1), _count("max_sweeps", max_sweeps)
    if max_samples == FULL_DATA_SWEEP:
        return timeline.samples
    if max_samples != INFINITELY_REPEAT:
        return max_samples
    return None if max_sweeps == INFINITELY_REPEAT else max_sweeps * timeline.samples


def _about(
    join: Join, order: CntkOrder, window: CntkWindow | None, timeline: Timeline, truncation_length: int
) -> dict[str, Any]:
    """What must be the same where a state is restored."""
    return {
        "order": {
            "window": None if window is None else [window.size, window.unit],
            "seed": order.seed if window is not None else None,
            "chunks": order.num_chunks,
            "sequences": timeline.length,
            "samples": timeline.samples,
            "truncation_length": truncation_length,
        },
        "data": join.fingerprint(),
    }
