"""What a reader's section comes to: plain values, all defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from headrace import PlanError
from headrace.plan.cntk_order import CntkWindow

if TYPE_CHECKING:
    from headrace import Dataset
    from headrace.cntk.deserializers import Deserializer
    from headrace.cntk.minibatch import MinibatchSource

CHUNK_SIZE = 32 << 20
"""Bytes of a chunk, by default."""
_DEFAULT_WINDOW = CntkWindow(128)


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """A stream, as a section of `input` describes it.

    Attributes:
        name: What it is called in minibatches.
        alias: What it is called in the file.
        format: `"dense"` or `"sparse"`; None where a binary file says it.
        dim: Numbers of a sample; None where a binary file says it.
        defines_mb_size: Whether its samples are what minibatches count.

    Example:
        >>> from headrace.cntk import StreamConfig
        >>> StreamConfig("labels", alias="L", format="sparse", dim=10).defines_mb_size
        False
    """

    name: str
    alias: str
    format: Literal["dense", "sparse"] | None
    dim: int | None
    defines_mb_size: bool = False


@dataclass(frozen=True, slots=True)
class DeserializerConfig:
    """A file, and how it is read.

    Attributes:
        kind: `"ctf"` (text) or `"cbf"` (binary).
        file: Its path.
        streams: Its streams by name, in the alphabetical order of CNTK.
        skip_sequence_ids: Whether each line is a sequence, whatever it begins with.
        max_errors: Malformed samples that are left out; one more is an error.
        trace_level: 0: errors are told, 1: warnings, 2: everything.
        chunk_size: Bytes of a chunk.
        cache_index: Whether the index is kept beside the file.
        keep_data_in_memory: Whether what has been parsed is kept.
        precision: `"float"` or `"double"`.

    Example:
        >>> from headrace.cntk import DeserializerConfig, StreamConfig
        >>> DeserializerConfig("ctf", "train.ctf", {"x": StreamConfig("x", "x", "dense", 3)}).chunk_size
        33554432
    """

    kind: Literal["ctf", "cbf"]
    file: str
    streams: dict[str, StreamConfig]
    skip_sequence_ids: bool = False
    max_errors: int = 0
    trace_level: int = 1
    chunk_size: int = CHUNK_SIZE
    cache_index: bool = False
    keep_data_in_memory: bool = False
    precision: Literal["float", "double"] = "float"

    def deserializer(self) -> Deserializer:
        """The same for a `MinibatchSource`; opens nothing.

        Raises:
            PlanError: If a text file has no streams.

        Example:
            >>> from headrace.cntk import DeserializerConfig, StreamConfig
            >>> text = DeserializerConfig("ctf", "train.ctf", {"x": StreamConfig("x", "x", "dense", 3)}, max_errors=2)
            >>> text.deserializer().max_errors
            2
        """
        from headrace.cntk.deserializers import CBFDeserializer, CTFDeserializer, StreamDef

        streams = {
            stream.name: StreamDef(
                field=stream.alias,
                shape=stream.dim,
                is_sparse=stream.format == "sparse",
                defines_mb_size=stream.defines_mb_size,
            )
            for stream in self.streams.values()
        }
        if self.kind == "cbf":
            return CBFDeserializer(
                self.file,
                streams,
                chunk_size=self.chunk_size,
                trace_level=self.trace_level,
                keep_data_in_memory=self.keep_data_in_memory,
            )
        return CTFDeserializer(
            self.file,
            streams,
            skip_sequence_ids=self.skip_sequence_ids,
            max_errors=self.max_errors,
            chunk_size=self.chunk_size,
            cache_index=self.cache_index,
            trace_level=self.trace_level,
            precision=self.precision,
            keep_data_in_memory=self.keep_data_in_memory,
        )


@dataclass(frozen=True, slots=True)
class ReaderConfig:
    """A reader, as its section in a configuration file describes it; `read_config` makes it.

    Attributes:
        deserializers: The files; the first gives the order, the others are joined to it by sequence.
        randomize: Whether sequences are shuffled.
        seed: What the shuffle follows from; the number of the sweep is added.
        window: How far sequences move; None: not at all.
        frame_mode: Whether each sequence is a single sample.
        truncated: Whether minibatches are stretches of `truncation_length` steps.
        truncation_length: Steps of such a stretch; 0 if not truncated.
        max_errors: Sequences with mistakes that the whole may leave out.
        trace_level: 0: errors are told, 1: warnings, 2: everything.
        precision: `"float"` or `"double"`.
        verbosity: Read, and without effect.
        prefetch: Read, and without effect.
        multithreaded: Whether several threads parse; None: not given.
        warnings: What was passed over, or is without effect: file, line, column, why.

    Example:
        >>> from headrace.cntk import DeserializerConfig, ReaderConfig, StreamConfig
        >>> text = DeserializerConfig("ctf", "train.ctf", {"x": StreamConfig("x", "x", "dense", 3)})
        >>> list(ReaderConfig((text,)).streams)
        ['x']
    """

    deserializers: tuple[DeserializerConfig, ...]
    randomize: bool = True
    seed: int = 0
    window: CntkWindow | None = _DEFAULT_WINDOW
    frame_mode: bool = False
    truncated: bool = False
    truncation_length: int = 0
    max_errors: int = 0
    trace_level: int = 1
    precision: Literal["float", "double"] = "float"
    verbosity: int = 0
    prefetch: bool = True
    multithreaded: bool | None = None
    warnings: tuple[str, ...] = ()

    @property
    def streams(self) -> dict[str, StreamConfig]:
        """The streams of all files by name; of a binary file those that are given another name."""
        return {name: stream for one in self.deserializers for name, stream in one.streams.items()}

    def read(self) -> Dataset:
        r"""Describes the data, in its order, to be shuffled and batched as any other; for a reader of one file.

        Raises:
            OSError: If the file can't be opened.
            DataError: If it isn't of its format, or not what the configuration says.
            PlanError: If there are several files, which only `minibatch_source` joins.

        Example:
            >>> import pathlib, tempfile, headrace as hr
            >>> from headrace.cntk import DeserializerConfig, ReaderConfig, StreamConfig
            >>> folder = tempfile.TemporaryDirectory()
            >>> path = pathlib.Path(folder.name, "train.ctf")
            >>> _ = path.write_text("|x 1 2\n|x 3 4\n")
            >>> text = DeserializerConfig("ctf", str(path), {"x": StreamConfig("x", "x", "dense", 2)})
            >>> next(iter(hr.Loader(ReaderConfig((text,)).read().batch(2))))["x"].tolist()
            [[1.0, 2.0], [3.0, 4.0]]
            >>> folder.cleanup()
        """
        import headrace as hr

        if len(self.deserializers) != 1:
            raise PlanError(
                f"expected a configuration of one file, found {len(self.deserializers)}; minibatch_source() joins them"
            )
        one = self.deserializers[0]
        if one.kind == "cbf":
            names = {stream.alias: name for name, stream in one.streams.items()}
            return hr.read_cbf(one.file, rename=names, keep_in_memory=one.keep_data_in_memory)
        make = {"dense": hr.dense, "sparse": hr.sparse}
        streams = {
            name: make[stream.format](stream.dim, alias=stream.alias, defines_size=stream.defines_mb_size)
            for name, stream in one.streams.items()
            if stream.format is not None and stream.dim is not None
        }
        return hr.read_ctf(
            one.file,
            streams,
            skip_ids=one.skip_sequence_ids,
            max_errors=one.max_errors,
            dtype="float64" if one.precision == "double" else "float32",
            index="auto" if one.cache_index else "memory",
            keep_in_memory=one.keep_data_in_memory,
        )

    def minibatch_source(self, *, max_samples: int | None = None, max_sweeps: int | None = None) -> MinibatchSource:
        r"""Opens the files, and gives minibatches as CNTK would.

        Args:
            max_samples: Samples after which reading ends.
            max_sweeps: Sweeps after which reading ends. By default there is no end.

        Raises:
            OSError: If a file can't be opened.
            DataError: If a file isn't of its format, or not what the configuration says.
            PlanError: If both limits are given.

        Example:
            >>> import pathlib, tempfile
            >>> from headrace.cntk import DeserializerConfig, ReaderConfig, StreamConfig
            >>> folder = tempfile.TemporaryDirectory()
            >>> path = pathlib.Path(folder.name, "train.ctf")
            >>> _ = path.write_text("|x 1 2\n|x 3 4\n|x 5 6\n")
            >>> text = DeserializerConfig("ctf", str(path), {"x": StreamConfig("x", "x", "dense", 2)})
            >>> source = ReaderConfig((text,), randomize=False, window=None).minibatch_source(max_sweeps=1)
            >>> [source.next_minibatch(2)[source.streams.x].num_samples for _ in range(2)]
            [2, 1]
            >>> folder.cleanup()
        """
        from headrace.cntk.minibatch import INFINITELY_REPEAT, MinibatchSource

        window = self.window or CntkWindow(0)
        in_samples = window.unit == "samples"
        return MinibatchSource(
            [one.deserializer() for one in self.deserializers],
            max_samples=INFINITELY_REPEAT if max_samples is None else max_samples,
            max_sweeps=INFINITELY_REPEAT if max_sweeps is None else max_sweeps,
            randomization_window_in_chunks=0 if in_samples else window.size,
            randomization_window_in_samples=window.size if in_samples else 0,
            randomization_seed=self.seed,
            trace_level=self.trace_level,
            multithreaded_deserializer=self.multithreaded,
            frame_mode=self.frame_mode,
            truncation_length=self.truncation_length,
            randomize=self.randomize,
            max_errors=self.max_errors,
        )
