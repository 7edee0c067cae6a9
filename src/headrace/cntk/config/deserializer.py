"""Reads what a configuration says of one file and of its streams."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from headrace.cntk.config.error import ConfigError
from headrace.cntk.config.names import Notes
from headrace.cntk.config.result import CHUNK_SIZE, DeserializerConfig, StreamConfig
from headrace.cntk.config.section import Named, Section
from headrace.cntk.config.text import Place
from headrace.formats.ctf_schema import check_alias
from headrace.plan.cntk_order import MAX_SEED

MAX_INT = (1 << 31) - 1
MAX_COUNT = (1 << 32) - 1
UNLIMITED = (1 << 63) - 1
"""What -1 comes to, which CNTK counts back from 2^64: no limit; of mistakes `MAX_COUNT`."""

_UNSUPPORTED = ("image", "htk", "lattice", "kaldi", "base64", "mlf", "ucifast", "lmsequence", "lusequence", "sparsepc")


@dataclass(frozen=True, slots=True)
class Files:
    """Where the files of data are looked for.

    Attributes:
        base_dir: The folder that relative paths start from; None: the working directory.
        beside: The folder of the configuration.
        must_exist: Whether a file that isn't there is an error.
    """

    base_dir: str | None
    beside: str
    must_exist: bool

    def find(self, entry: Named) -> str:
        """The path that an entry names.

        Raises:
            ConfigError: If there is no such file.
        """
        name = str(entry.value)
        path = os.path.join(self.base_dir, name) if self.base_dir is not None else name
        if "\0" in path:
            raise ConfigError(f"{entry.value.place}: file: expected a path, found one with a zero byte")
        if not self.must_exist or os.path.exists(path):
            return path
        where = f"in {self.base_dir!r}" if self.base_dir is not None else "from the working directory on"
        advice = "" if os.path.isabs(name) else f"; relative paths are looked for {where}"
        beside = os.path.join(self.beside, name)
        if beside != path and os.path.exists(beside):
            advice += f"; there is one beside the configuration: give base_dir={self.beside or '.'!r}"
        raise ConfigError(f"{entry.value.place}: file: expected a file, found none at {path[:1000]!r}{advice}")


def kind_of(entry: Named, kinds: dict[str, str], name: str) -> Literal["ctf", "cbf"]:
    """Whether a `readerType` or `type` reads text or binary files."""
    found = str(entry.value)
    kind = kinds.get(found.lower())
    if kind is None:
        names = {
            "readerType": "CNTKTextFormatReader, CNTKBinaryReader",
            "type": "CNTKTextFormatDeserializer, CNTKBinaryFormatDeserializer",
        }
        known = found.lower().startswith(_UNSUPPORTED)
        what = "which isn't supported: images, speech and the older formats are not" if known else "which is unknown"
        raise ConfigError(f"{entry.value.place}: {name}: expected one of {names[name]}, found {found[:60]!r}, {what}")
    return "ctf" if kind == "ctf" else "cbf"


def chunk_size(section: Section, *, own: bool) -> int:
    """The bytes of a chunk.

    Raises:
        ConfigError: If it isn't a whole number above 0.
    """
    size = section.integer("chunkSizeInBytes", CHUNK_SIZE, 0, MAX_SEED, own=own)
    if not size:
        entry = section.own("chunkSizeInBytes") if own else section.find("chunkSizeInBytes")
        assert entry is not None
        raise ConfigError(f"{entry.value.place}: chunkSizeInBytes: expected at least 1, found 0")
    return min(size, UNLIMITED)


def read_deserializer(
    section: Section,
    kind: Literal["ctf", "cbf"],
    precision: Literal["float", "double"],
    notes: Notes,
    files: Files,
    within: Section | None,
) -> DeserializerConfig:
    """What a section says of its file.

    Args:
        section: The section: that of the reader in the old form, an item of `deserializers` in the composite one.
        kind: Text or binary.
        precision: What the reader says of it.
        notes: Collects warnings.
        files: Where the file is looked for.
        within: The section of the composite reader. Names are not looked up in it but for `keepDataInMemory`, and for
            `traceLevel`, which counts for all files if it is given there.

    Raises:
        ConfigError: If something is missing, malformed, or contradicts something else.
    """
    own = within is not None
    if within is not None:
        notes.look_through(section, "deserializer")
        _warn_of_overruled(section, within, precision, kind, notes)
    file = section.own("file") if own else section.find("file")
    if file is None or not section.text("file", own=own):
        place = section.place if file is None else file.place
        raise ConfigError(f'{place}: expected file = "…", the path of the data, found none')
    if kind == "cbf":
        for name in ("skipSequenceIds", "maxErrors", "cacheIndex"):
            if entry := section.own(name):
                notes.add(entry.place, f"{name} is without effect on binary files")
    levels = within if within is not None and within.find("traceLevel") else section
    return DeserializerConfig(
        kind=kind,
        file=files.find(file),
        streams=_streams(section, kind, notes, own),
        skip_sequence_ids=section.boolean("skipSequenceIds", False, own=own),
        max_errors=min(section.integer("maxErrors", 0, 0, MAX_SEED, own=own), MAX_COUNT),
        trace_level=levels.integer("traceLevel", 1, 0, MAX_INT, own=own and levels is section),
        chunk_size=chunk_size(section, own=own),
        cache_index=section.boolean("cacheIndex", False, own=own),
        keep_data_in_memory=section.boolean("keepDataInMemory", False),
        precision=precision,
    )


def _warn_of_overruled(section: Section, within: Section, precision: str, kind: str, notes: Notes) -> None:
    module = section.own("module")
    expected = "CNTKTextFormatReader" if kind == "ctf" else "CNTKBinaryReader"
    if module is not None and section.text("module", own=True).lower() != expected.lower():
        notes.add(module.place, f"module is without effect: the type is read by {expected}")
    if not section.boolean("composable", True, own=True):
        entry = section.own("composable")
        assert entry is not None
        notes.add(entry.place, "composable is without effect: all deserializers can be joined")
    values = {
        "precision": (section.text("precision", precision, own=True).lower(), precision),
        "frameMode": (section.boolean("frameMode", False, own=True), within.boolean("frameMode", False)),
    }
    if within.find("traceLevel"):
        level = within.integer("traceLevel", 1, 0, MAX_INT)
        values["traceLevel"] = (section.integer("traceLevel", level, 0, MAX_INT, own=True), level)
    for name, (inner, outer) in values.items():
        if inner != outer and (entry := section.own(name)):
            notes.add(entry.place, f"{name} is without effect here: that of the reader counts for all its files")


def _streams(section: Section, kind: Literal["ctf", "cbf"], notes: Notes, own: bool) -> dict[str, StreamConfig]:
    """The sections of `input`, in CNTK's order."""
    found = section.section("input", own=True)
    if found is None:
        if kind == "cbf":
            return {}
        raise ConfigError(f"{section.place}: expected input = [ … ] with a section for each stream, found none")
    notes.look_through(found, "input")
    place = section.own("input")
    assert place is not None
    if not found.entries:
        raise ConfigError(f"{place.place}: input: expected a section for each stream, found none")
    streams: dict[str, StreamConfig] = {}
    aliases: dict[str, str] = {}
    main = ""
    for _, entry in sorted(found.entries.items()):
        inner = found.section(entry.name, own=True)
        if inner is None:
            raise ConfigError(f"{entry.place}: {entry.name[:60]}: expected a section, found the word default")
        notes.look_through(inner, "stream")
        stream = _stream(inner, entry, kind, own)
        if (other := aliases.setdefault(stream.alias, entry.name)) != entry.name:
            raise ConfigError(
                f"{_place(inner, 'alias', entry)}: expected streams of different aliases, found {stream.alias[:60]!r} "
                f"for {other[:60]} and for {entry.name[:60]}"
            )
        if stream.defines_mb_size:
            if main:
                raise ConfigError(
                    f"{_place(inner, 'definesMBSize', entry)}: expected one stream with definesMBSize, found {main} "
                    f"and {entry.name[:60]}"
                )
            main = entry.name[:60]
        streams[entry.name] = stream
    return streams


def _place(section: Section, name: str, default: Named) -> Place:
    entry = section.own(name)
    return default.place if entry is None else entry.value.place


def _stream(section: Section, entry: Named, kind: Literal["ctf", "cbf"], own: bool) -> StreamConfig:
    name = entry.name[:60]
    alias = section.text("alias", entry.name, own=True)
    if not alias:
        raise ConfigError(
            f"{_place(section, 'alias', entry)}: {name}: expected an alias, what the file calls the stream, found an "
            "empty one; without the entry it is the stream's name"
        )
    if kind == "ctf":
        try:
            check_alias(alias, "alias")
        except ValueError as error:
            raise ConfigError(f"{_place(section, 'alias', entry)}: {name}: {error}") from None
    form = section.text("format", own=True).lower()
    if kind == "ctf":
        for needed in ("dim", "format"):
            if section.own(needed) is None:
                raise ConfigError(f"{entry.place}: {name}: expected {needed} = …, which each stream needs, found none")
    elif section.own("format") is None:
        form = "none"
    if form not in ("dense", "sparse", "none") or (form == "none" and section.own("format")):
        raise ConfigError(
            f"{_place(section, 'format', entry)}: {name}: expected the format dense or sparse, found {form[:60]!r}"
        )
    return StreamConfig(
        name=entry.name,
        alias=alias,
        format="dense" if form == "dense" else "sparse" if form == "sparse" else None,
        dim=section.integer("dim", 0, 0, MAX_INT, own=True) if section.own("dim") else None,
        defines_mb_size=section.boolean("definesMBSize", False, own=own),
    )
