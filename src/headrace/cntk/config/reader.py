"""Reads a reader's section, in the old form and in the composite one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.cntk.config.deserializer import (
    MAX_COUNT,
    MAX_INT,
    UNLIMITED,
    Files,
    chunk_size,
    kind_of,
    read_deserializer,
)
from headrace.cntk.config.error import ConfigError
from headrace.cntk.config.names import Notes
from headrace.cntk.config.result import DeserializerConfig, ReaderConfig
from headrace.cntk.config.section import Named, Section, array_items
from headrace.plan.cntk_order import MAX_SEED, CntkWindow

_MEMORY = 1 << 32  # bytes that CNTK's default window has, in whole chunks
_WHOLE = UNLIMITED

READERS = {"cntktextformatreader": "ctf", "cntkbinaryreader": "cbf"}
_COMPOSITE = "compositedatareader"


def read_reader(section: Section, notes: Notes, files: Files) -> ReaderConfig:
    """What a section says.

    Raises:
        ConfigError: If something is missing, malformed, or contradicts something else.
    """
    listed, single = section.own("deserializers"), section.find("readerType")
    reader_type = section.text("readerType")
    if listed is not None:
        if single is not None and section.own("readerType") and reader_type.lower() != _COMPOSITE:
            raise ConfigError(
                f"{listed.place}: expected either deserializers or a readerType, found both; {reader_type[:60]!r} at "
                f"{single.place} reads the one file of its own section"
            )
        return _composite(section, listed, notes, files)
    if single is None:
        raise ConfigError(
            f"{section.place}: {section.name}: expected readerType (CNTKTextFormatReader or CNTKBinaryReader) or "
            "deserializers in this section, found neither"
        )
    if reader_type.lower() == _COMPOSITE:
        raise ConfigError(f"{single.place}: expected deserializers beside readerType = {reader_type}, found none")
    return _old(section, kind_of(single, READERS, "readerType"), notes, files)


@dataclass(slots=True)
class _Flow:
    """What both forms say alike."""

    precision: Literal["float", "double"]
    trace_level: int
    frame_mode: bool
    truncation_length: int

    @classmethod
    def read(cls, section: Section, notes: Notes) -> _Flow:
        precision = section.text("precision", "float").lower()
        if precision not in ("float", "double"):
            entry = _entry(section, "precision")
            raise ConfigError(f"{entry.value.place}: precision: expected float or double, found {precision[:60]!r}")
        frames = section.boolean("frameMode", False)
        if not section.boolean("prefetch", True):
            notes.add(
                _entry(section, "prefetch").place, "prefetch is without effect: the caller says what is read ahead"
            )
        if section.integer("verbosity", 0, -MAX_INT, MAX_INT):
            notes.add(_entry(section, "verbosity").place, "verbosity is without effect: the shuffle tells nothing")
        return cls(
            precision="double" if precision == "double" else "float",
            trace_level=section.integer("traceLevel", 1, 0, MAX_INT),
            frame_mode=frames,
            truncation_length=_truncation(section, frames, notes),
        )


def _entry(section: Section, name: str) -> Named:
    entry = section.find(name)
    assert entry is not None, name
    return entry


def _truncation(section: Section, frames: bool, notes: Notes) -> int:
    length = section.integer("truncationLength", 0, 0, MAX_INT)
    if not section.boolean("truncated", False):
        if length:
            text = "truncationLength is without effect: truncated isn't true"
            notes.add(_entry(section, "truncationLength").place, text)
        return 0
    truncated = _entry(section, "truncated")
    if frames:
        raise ConfigError(
            f"{truncated.place}: expected one of truncated and frameMode, found both (frameMode at "
            f"{_entry(section, 'frameMode').place}): a single sample can't be truncated"
        )
    if not length:
        entry = section.find("truncationLength") or truncated
        raise ConfigError(f"{entry.place}: truncated needs a truncationLength of at least 1, the steps of a minibatch")
    return length


def _shuffles(section: Section) -> bool:
    """The truth value `randomize`, or the older words for it."""
    word = section.text("randomize").lower()
    return word == "auto" or (word != "none" and section.boolean("randomize", True))


def _window(section: Section, *, own: bool) -> tuple[int, Named] | None:
    """The size of `randomizationWindow`, if it is given."""
    entry = section.own("randomizationWindow") if own else section.find("randomizationWindow")
    if entry is None:
        return None
    size = section.integer("randomizationWindow", 0, 0, MAX_SEED, own=own)
    if not size:
        raise ConfigError(
            f"{entry.value.place}: randomizationWindow: expected at least 1, found 0; without a shuffle: "
            "randomize = false"
        )
    return min(size, _WHOLE), entry


def _plain_window(section: Section) -> CntkWindow | None:
    """The window whose name says what it counts: our own entries, the names that MinibatchSource has for them."""
    chunks = min(section.integer("randomizationWindowInChunks", 0, 0, MAX_SEED, own=True), _WHOLE)
    samples = min(section.integer("randomizationWindowInSamples", 0, 0, MAX_SEED, own=True), _WHOLE)
    names = {"randomizationWindowInChunks": chunks, "randomizationWindowInSamples": samples}
    given = [_entry(section, name) for name, size in names.items() if size]
    if chunks and section.boolean("sampleBasedRandomizationWindow", False, own=True):
        given.append(_entry(section, "sampleBasedRandomizationWindow"))
    if given and (bare := section.own("randomizationWindow")) is not None:
        given.append(bare)
    if len(given) > 1:
        raise ConfigError(
            f"{given[1].place}: expected one window of the shuffle, found {given[1].name} besides {given[0].name} at "
            f"{given[0].place}"
        )
    return CntkWindow(chunks, "chunks") if chunks else CntkWindow(samples, "samples") if samples else None


def _old(section: Section, kind: Literal["ctf", "cbf"], notes: Notes, files: Files) -> ReaderConfig:
    """A section with a `readerType`: one file."""
    notes.look_through(section, "reader")
    flow = _Flow.read(section, notes)
    one = read_deserializer(section, kind, flow.precision, notes, files, within=None)
    in_samples = section.boolean("sampleBasedRandomizationWindow", False)
    bare, window = _window(section, own=False), _plain_window(section)
    if window is None and bare is not None:
        window = CntkWindow(bare[0], "samples" if in_samples else "chunks")
    elif window is None:
        window = CntkWindow(_WHOLE, "samples") if in_samples else CntkWindow(max(_MEMORY // one.chunk_size, 1))
    return _result(section, (one,), window, flow, notes, one.max_errors)


def _composite(section: Section, listed: Named, notes: Notes, files: Files) -> ReaderConfig:
    """A section with `deserializers`: several files, joined."""
    notes.look_through(section, "composite")
    flow = _Flow.read(section, notes)
    all_of_them = [listed.value] if listed.value.kind == "section" else array_items(listed.value)
    found: list[DeserializerConfig] = []
    streams: dict[str, int] = {}
    sizes: list[str] = []
    for number, value in enumerate(all_of_them, 1):
        if value.kind != "section":
            raise ConfigError(
                f"{value.place}: deserializers: expected sections, ( [ type = … ] : [ type = … ] ), found "
                f"{str(value)[:60]!r}"
            )
        inner = section.inner(value, f"deserializers({number})")
        one = read_deserializer(inner, _deserializer_kind(inner), flow.precision, notes, files, section)
        for name, stream in one.streams.items():
            if (other := streams.setdefault(name.lower(), number)) != number:
                raise ConfigError(
                    f"{value.place}: expected streams of different names in all deserializers, found {name[:60]!r} in "
                    f"number {other} and in number {number}"
                )
            sizes += [name] * stream.defines_mb_size
        if len(sizes) > 1:
            raise ConfigError(
                f"{value.place}: expected one stream with definesMBSize in all deserializers, found {sizes[0][:60]} "
                f"and {sizes[1][:60]}"
            )
        found.append(one)
    if not found:
        raise ConfigError(f"{listed.place}: expected at least one deserializer, found none")
    _warn_of_composite(section, notes)
    max_errors = min(section.integer("maxErrors", 0, 0, MAX_SEED), MAX_COUNT)
    if section.own("maxErrors") and any(one.kind == "ctf" for one in found):
        text = "maxErrors is without effect on text files here: write it in the deserializer's section"
        notes.add(_entry(section, "maxErrors").place, text)
    window = _plain_window(section) or _composite_window(section, any(one.kind == "ctf" for one in found))
    return _result(section, tuple(found), window, flow, notes, max_errors)


def _deserializer_kind(section: Section) -> Literal["ctf", "cbf"]:
    entry = section.own("type")
    if entry is None:
        raise ConfigError(
            f"{section.place}: expected a type in each deserializer: CNTKTextFormatDeserializer or "
            "CNTKBinaryFormatDeserializer, found none"
        )
    section.text("type", own=True)
    types = {"cntktextformatdeserializer": "ctf", "cntkbinaryformatdeserializer": "cbf"}
    return kind_of(entry, types, "type")


def _composite_window(section: Section, text: bool) -> CntkWindow:
    """The composite form counts samples, unless nothing is said: then 4 GiB in chunks, or all of a binary file."""
    bare, based = _window(section, own=True), section.own("sampleBasedRandomizationWindow")
    in_samples = section.boolean("sampleBasedRandomizationWindow", bare is not None or not text, own=True)
    if bare is not None:
        return CntkWindow(bare[0], "samples" if in_samples else "chunks")
    if not text:
        return CntkWindow(_WHOLE, "samples" if in_samples else "chunks")
    if in_samples and based is not None:
        raise ConfigError(
            f"{based.place}: sampleBasedRandomizationWindow needs a randomizationWindow, a number of samples, in the "
            "same section"
        )
    return CntkWindow(max(_MEMORY // chunk_size(section, own=False), 1))


def _warn_of_composite(section: Section, notes: Notes) -> None:
    """Of what doesn't do here what CNTK does, if it is set to more than its default."""
    reasons = {
        "localTimeline": (True, "each worker walks through the whole data by itself"),
        "checkData": (True, "data is always checked"),
        "useNumericSequenceKeys": (True, "sequence ids are read as numbers"),
        "hashSequenceKeys": (False, "sequence ids are read as numbers"),
    }
    for name, (default, reason) in reasons.items():
        if section.boolean(name, default) != default:
            notes.add(_entry(section, name).place, f"{name} is without effect: {reason}")


def _result(
    section: Section,
    deserializers: tuple[DeserializerConfig, ...],
    window: CntkWindow,
    flow: _Flow,
    notes: Notes,
    max_errors: int,
) -> ReaderConfig:
    composite = section.own("deserializers") is not None
    writes = composite and section.text("action", own=True).lower() == "write"  # what networks put out keeps the order
    randomize = _shuffles(section) and not writes
    threads = section.find("multiThreadedDeserialization") if composite else None
    return ReaderConfig(
        deserializers=deserializers,
        randomize=randomize,
        seed=section.integer("randomizationSeed", 0, 0, MAX_SEED),
        window=window if randomize else None,
        frame_mode=flow.frame_mode,
        truncated=flow.truncation_length > 0,
        truncation_length=flow.truncation_length,
        max_errors=max_errors,
        trace_level=flow.trace_level,
        precision=flow.precision,
        verbosity=section.integer("verbosity", 0, -MAX_INT, MAX_INT),
        prefetch=section.boolean("prefetch", True),
        multithreaded=None if threads is None else section.boolean("multiThreadedDeserialization", False),
        warnings=notes.all(),
    )
