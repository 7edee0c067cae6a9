"""Files that a minibatch source reads, described as CNTK's Python code describes them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from headrace.checks import whole
from headrace.cntk.arguments import boolean, file_path, number, precision
from headrace.cntk.config.result import CHUNK_SIZE
from headrace.cntk.streams import Record
from headrace.errors import PlanError
from headrace.formats.cbf import CbfSource
from headrace.formats.ctf import CtfSource
from headrace.formats.ctf_schema import dense, sparse
from headrace.formats.kept import KeptSequences
from headrace.formats.sequences import SequenceSource


@dataclass(frozen=True, slots=True)
class StreamDef:
    """Describes a stream of a file.

    Of CNTK's parameters, those of images and speech are refused by the deserializers of text.

    Attributes:
        field: What the file calls it (its alias).
        shape: Numbers in a sample.
        is_sparse: Whether samples are written as `index:value`.
        transforms: Of images.
        context: Of speech.
        scp: Of speech.
        mlf: Of speech.
        broadcast: Of speech.
        defines_mb_size: Whether minibatches are measured by its samples; lines and sequences without it are left out.
        max_sequence_length: Of speech; text may have sequences of any length.

    Example:
        >>> from headrace.cntk import StreamDef
        >>> StreamDef(field="x", shape=784).stream_alias
        'x'
    """

    field: str | None = None
    shape: Any = None
    is_sparse: bool = False
    transforms: Any = None
    context: Any = None
    scp: Any = None
    mlf: Any = None
    broadcast: Any = None
    defines_mb_size: bool = False
    max_sequence_length: int = 65535

    @property
    def stream_alias(self) -> str | None:
        """The field, by the name that CNTK gives it."""
        return self.field

    @property
    def dim(self) -> Any:
        """The shape, by the name that CNTK gives it."""
        return self.shape


class StreamDefs(Record):
    """Streams by the names that they have in minibatches.

    Example:
        >>> from headrace.cntk import StreamDef, StreamDefs
        >>> list(StreamDefs(features=StreamDef(field="x", shape=784), label=StreamDef(field="y", shape=10)))
        ['features', 'label']
    """


class Deserializer(ABC):
    """What gives a minibatch source its sequences. Options may also be set as items, by CNTK's names for them."""

    kind: ClassVar[str]
    """What messages call it."""
    max_errors: int = 0
    chunk_size: int = CHUNK_SIZE
    trace_level: int | None = None
    remarks: tuple[str, ...] = ()
    """What was noticed when the data was opened."""

    @abstractmethod
    def open(self) -> SequenceSource:
        """Opens the data."""

    def _options(self) -> Mapping[str, tuple[str, Callable[[str, Any], Any]]]:
        """Options by name in small letters: the attribute, and what checks a value."""
        return {}

    def _option(self, name: str) -> tuple[str, Callable[[str, Any], Any]]:
        options = self._options()
        found = options.get(str(name).replace("_", "").lower())
        if found is None:
            known = ", ".join(dict.fromkeys(attribute for attribute, _ in options.values()))
            raise KeyError(f"{self.kind} has no option {name!r}; it has {known}")
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        attribute, check = self._option(name)
        setattr(self, attribute, check(name, value))

    def __getitem__(self, name: str) -> Any:
        return getattr(self, self._option(name)[0])


class CTFDeserializer(Deserializer):
    """Describes a file in CNTK's text format.

    The options can also be set as items, by CNTK's names: `d["skipSequenceIds"] = "true"`.

    Args:
        filename: The file; plain, or compressed by gzip or zstd.
        streams: Its streams by the names that they have in minibatches: `StreamDefs(x=StreamDef(field="x", shape=9))`.
        skip_sequence_ids: Make each line a sequence, whatever it begins with.
        max_errors: Mistakes that are left out and reported; one more stops the run.
        chunk_size: Bytes of the chunks that shuffles count in.
        cache_index: Keep the index beside the file.
        trace_level: 0 tells errors, 1 warnings too, 2 everything; by default that of the minibatch source.
        precision: `"float"` or `"double"`.
        keep_data_in_memory: Keep what has been parsed.
        require_all: Make a sequence without a sample of some stream a mistake, as it is to CNTK.
        strict: Refuse a file in which a sequence id comes again after another one.

    Raises:
        ValueError: If a stream lacks its field or its shape, or an option has no sense.

    Example:
        >>> from headrace.cntk import CTFDeserializer, StreamDef, StreamDefs
        >>> text = CTFDeserializer("train.ctf", StreamDefs(x=StreamDef(field="x", shape=784)), max_errors=10)
        >>> text["maxErrors"] = 5
        >>> text.max_errors
        5
    """

    kind = "CTFDeserializer"

    def __init__(
        self,
        filename: str | os.PathLike[str],
        streams: Mapping[str, StreamDef],
        *,
        skip_sequence_ids: bool = False,
        max_errors: int = 0,
        chunk_size: int = CHUNK_SIZE,
        cache_index: bool = False,
        trace_level: int | None = None,
        precision: str = "float",
        keep_data_in_memory: bool = False,
        require_all: bool = False,
        strict: bool = False,
    ) -> None:
        self.filename = file_path(self.kind, filename)
        self.streams = _checked(streams, self.kind)
        for name, stream in self.streams.items():
            if stream.field is None:
                raise ValueError(f"stream name for key {name!r} must be specified: StreamDef(field='…'), its alias")
            if not isinstance(stream.field, str):
                raise ValueError(
                    f"the field of stream {name!r} is a str, its alias in the file, got {stream.field!r:.60}"
                )
            boolean(f"is_sparse of stream {name!r}", stream.is_sparse)
            _dim(name, stream)
        if not self.streams:
            raise PlanError("CTFDeserializer needs at least one stream, got none")
        self.skip_sequence_ids = False
        self.cache_index = False
        self.keep_data_in_memory = False
        self.require_all = False
        self.strict = False
        self.precision = "float"
        self["skip_sequence_ids"] = skip_sequence_ids
        self["max_errors"] = max_errors
        self["chunk_size"] = chunk_size
        self["cache_index"] = cache_index
        self["precision"] = precision
        self["keep_data_in_memory"] = keep_data_in_memory
        self["require_all"] = require_all
        self["strict"] = strict
        if trace_level is not None:
            self["trace_level"] = trace_level

    def _options(self) -> Mapping[str, tuple[str, Callable[[str, Any], Any]]]:
        chunk_size = ("chunk_size", number(1, (1 << 63) - 1))
        return {
            "skipsequenceids": ("skip_sequence_ids", boolean),
            "maxerrors": ("max_errors", number(0, (1 << 32) - 1)),
            "chunksize": chunk_size,
            "chunksizeinbytes": chunk_size,
            "cacheindex": ("cache_index", boolean),
            "tracelevel": ("trace_level", number(0, (1 << 31) - 1)),
            "precision": ("precision", precision),
            "keepdatainmemory": ("keep_data_in_memory", boolean),
            "requireall": ("require_all", boolean),
            "strict": ("strict", boolean),
        }

    def open(self) -> SequenceSource:
        """Indexes the file."""
        streams = {}
        for name, stream in self.streams.items():
            make = sparse if boolean(f"is_sparse of stream {name!r}", stream.is_sparse) else dense
            alias = stream.field or name
            streams[name] = make(_dim(name, stream), alias=alias, defines_size=stream.defines_mb_size)
        source = CtfSource(
            self.filename,
            streams,
            skip_ids=self.skip_sequence_ids,
            dtype="float64" if self.precision == "double" else "float32",
            require_all=self.require_all,
            strict=self.strict,
            index="auto" if self.cache_index else "memory",
        )
        self.remarks = tuple(warning.message for warning in source.warnings)
        return KeptSequences(source) if self.keep_data_in_memory else source


class CBFDeserializer(Deserializer):
    """Describes a file in CNTK's binary format.

    Args:
        filename: The file.
        streams: New names for streams, `{"x": StreamDef(field="name in the file")}`; the others keep theirs. All
            streams of the file are read, as what the file says they are.
        chunk_size: Bytes of the chunks that shuffles count in; the file's own chunks aren't divided.
        trace_level: As for text.
        keep_data_in_memory: Keep what has been read.

    Raises:
        ValueError: If a stream lacks its field, or an option has no sense.
    """

    kind = "CBFDeserializer"

    def __init__(
        self,
        filename: str | os.PathLike[str],
        streams: Mapping[str, StreamDef] | None = None,
        *,
        chunk_size: int = CHUNK_SIZE,
        trace_level: int | None = None,
        keep_data_in_memory: bool = False,
    ) -> None:
        self.filename = file_path(self.kind, filename)
        self.streams = _checked({} if streams is None else streams, self.kind)
        for name, stream in self.streams.items():
            if stream.field is None:
                raise ValueError(f"stream name for key {name!r} must be specified: StreamDef(field='…')")
        self.keep_data_in_memory = False
        self["chunk_size"] = chunk_size
        self["keep_data_in_memory"] = keep_data_in_memory
        if trace_level is not None:
            self["trace_level"] = trace_level

    def _options(self) -> Mapping[str, tuple[str, Callable[[str, Any], Any]]]:
        chunk_size = ("chunk_size", number(1, (1 << 63) - 1))
        return {
            "chunksize": chunk_size,
            "chunksizeinbytes": chunk_size,
            "tracelevel": ("trace_level", number(0, (1 << 31) - 1)),
            "keepdatainmemory": ("keep_data_in_memory", boolean),
        }

    def open(self) -> SequenceSource:
        """Reads the file's header."""
        rename = {str(stream.field): name for name, stream in self.streams.items()}
        source: SequenceSource = CbfSource(self.filename, rename=rename)
        return KeptSequences(source) if self.keep_data_in_memory else source


_FOREIGN = {field.name for field in fields(StreamDef)} & {"transforms", "context", "scp", "mlf", "broadcast"}


def _checked(streams: Any, kind: str) -> dict[str, StreamDef]:
    """The streams, after refusing what isn't one, or not one of text."""
    if not isinstance(streams, Mapping):
        raise ValueError(f"{kind} takes streams by name, StreamDefs(x=StreamDef(…)), got {type(streams).__name__}")
    for name, stream in streams.items():
        if not isinstance(stream, StreamDef):
            raise ValueError(f"{kind}: stream {name!r} is a StreamDef(field=…, shape=…), got {type(stream).__name__}")
        for foreign in sorted(_FOREIGN):
            if getattr(stream, foreign) is not None:
                raise PlanError(f"{kind}: stream {name!r} has {foreign}, which is for images or speech; leave it out")
    return dict(streams)


def _dim(name: str, stream: StreamDef) -> int:
    """Numbers in a sample."""
    shape = stream.shape
    if isinstance(shape, (tuple, list)) and len(shape) == 1:
        shape = shape[0]
    if shape is None:
        raise ValueError(f"stream {name!r} needs its shape: StreamDef(shape=…), the numbers in a sample")
    return whole(f"the shape of stream {name!r}", shape, 0, (1 << 31) - 1)
