"""The names of entries that CNTK's readers know, and what to say of others."""

from __future__ import annotations

import difflib
from typing import Literal, TypeAlias

from headrace.cntk.config.section import Section
from headrace.cntk.config.text import Place

Kind: TypeAlias = Literal["reader", "composite", "deserializer", "input", "stream"]

MAX_WARNINGS = 100
"""Warnings that are kept; of more only the number is."""

_LONGEST = 64  # of a name for which similar ones are looked for

_WINDOWS = (
    "randomize",
    "randomizationWindow",
    "sampleBasedRandomizationWindow",
    "randomizationWindowInChunks",
    "randomizationWindowInSamples",
    "randomizationSeed",
)
_BOTH = ("readerType", "precision", *_WINDOWS, "maxErrors", "traceLevel", "chunkSizeInBytes", "keepDataInMemory")
_FLOW = ("frameMode", "truncated", "truncationLength", "verbosity", "prefetch")
_COMPOSITE = (
    "deserializers",
    "multiThreadedDeserialization",
    "localTimeline",
    "checkData",
    "useNumericSequenceKeys",
    "hashSequenceKeys",
    "action",
)
_FILE = ("file", "input", "skipSequenceIds", "cacheIndex")

KNOWN: dict[Kind, tuple[str, ...]] = {
    "reader": (*_BOTH, *_FLOW, *_FILE),
    "composite": (*_BOTH, *_FLOW, *_COMPOSITE),
    "deserializer": (
        *("type", "module", "composable", *_FILE, "maxErrors", "traceLevel", "chunkSizeInBytes", "keepDataInMemory"),
        *("precision", "frameMode"),
    ),
    "input": (),  # all names are streams
    "stream": ("alias", "dim", "format", "definesMBSize"),
}
_OWNERS: dict[Kind, str] = {
    "stream": "a stream's section within input",
    "deserializer": "a deserializer's section",
    "composite": "a section with deserializers",
    "reader": "a section with a readerType",
}
_LOWER = {kind: {name.lower(): name for name in names} for kind, names in KNOWN.items()}


class Notes:
    """Collects the warnings of a configuration."""

    def __init__(self) -> None:
        self._found: list[tuple[int, Place, str]] = []
        self._more = 0

    def add(self, place: Place, text: str) -> None:
        """Keeps a warning."""
        if len(self._found) < MAX_WARNINGS:
            self._found.append((len(self._found), place, text))
        else:
            self._more += 1

    def all(self) -> tuple[str, ...]:
        """All warnings, in the order of the text."""
        found = sorted(self._found, key=lambda note: (note[1].line == 0, note[1].line, note[1].column, note[0]))
        texts = [f"{place}: {text}" for _, place, text in found]
        return (*texts, f"and {self._more:,} more") if self._more else tuple(texts)

    def look_through(self, section: Section, kind: Kind) -> None:
        """Warns of entries that nothing asks for, and of those given twice."""
        known = _LOWER[kind]
        for place in section.strays:
            self.add(place, "expected a name before this value, found none; it is passed over")
        for key, entry in section.entries.items():
            if entry.replaced and entry.place.line:  # an argument is there to replace
                self.add(entry.place, f"{entry.name[:60]} replaces the value given at {entry.replaced[-1]}")
            if kind != "input" and key not in known:
                advice = _advice(key, kind) if len(self._found) < MAX_WARNINGS else ""
                self.add(entry.place, f"unknown entry {entry.name[:60]!r} is passed over{advice}")


def _advice(key: str, kind: Kind) -> str:
    for owner, text in _OWNERS.items():
        if owner != kind and key in _LOWER[owner]:
            return f"; it belongs in {text}"
    near = difflib.get_close_matches(key, _LOWER[kind], 1) if len(key) <= _LONGEST else []
    return f"; did you mean {_LOWER[kind][near[0]]}?" if near else ""
