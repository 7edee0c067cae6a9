"""Sections of a configuration: entries by name, looked up outwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from headrace.cntk.config.error import ConfigError
from headrace.cntk.config.syntax import MAX_ITEMS, entries, items
from headrace.cntk.config.text import Place, Span, Text
from headrace.cntk.config.variables import Definition, Variables

Tree: TypeAlias = "str | list[Tree] | dict[str, Tree]"

_TRUE = ("t", "true", "T", "True", "TRUE", "1")
_FALSE = ("f", "false", "F", "False", "FALSE", "0", "")


@dataclass(slots=True)
class Value:
    """The value of an entry, or an item of an array: text, a section or an array.

    A section in square brackets may be given in several parts, which are read as one.
    """

    parts: list[Span]
    quoted: bool

    @property
    def place(self) -> Place:
        """Where it stands."""
        return self.parts[0].place

    @property
    def kind(self) -> str:
        """What it is: `"section"`, `"array"` or `"text"`."""
        first = "" if self.quoted else self.parts[0].text.string[self.parts[0].begin : self.parts[0].begin + 1]
        return {"[": "section", "{": "section", "(": "array"}.get(first, "text") if first else "text"

    def __str__(self) -> str:
        return str(self.parts[0])


@dataclass(slots=True)
class Named:
    """An entry of a section.

    Attributes:
        name: The key, as it is spelled where it first comes.
        place: Where the key stands; if several times, the last one.
        value: Its value; that of a key alone is `true`.
        replaced: Where values stand that this one took the place of.
    """

    name: str
    place: Place
    value: Value
    replaced: list[Place] = field(default_factory=list)


class Section:
    """A section, or the top of a configuration.

    Args:
        parts: Its text, with brackets or without.
        name: What it is called in messages.
        outer: The section in which names are looked up that aren't in this one; None at the top.
    """

    def __init__(self, parts: Iterable[Span], name: str = "the configuration", outer: Section | None = None) -> None:
        parts = list(parts)
        self.name = name
        self.place = parts[0].place
        self.outer = outer
        self.entries: dict[str, Named] = {}
        self.strays: list[Place] = []
        self._variables = Variables(self._definition)
        self._replaced: dict[str, Value] = {}
        for part in parts:
            for entry in entries(part):
                value = Span(_TRUE_TEXT, 0, 4) if entry.value is None else entry.value
                self._insert(str(entry.key), entry.key.place, Value([value], entry.quoted))

    def _insert(self, name: str, place: Place, value: Value) -> None:
        if not name:
            self.strays.append(place)
            return
        entry = self.entries.setdefault(name.lower(), Named(name, place, value))
        if entry.value is value:
            return
        square = not value.quoted and value.parts[0].text.string.startswith("[", value.parts[0].begin)
        if square and entry.value.kind == "section":
            entry.value.parts.extend(value.parts)
        else:
            entry.replaced.append(entry.place)
            entry.value = value
        entry.place = place

    def _definition(self, name: str) -> Definition | None:
        entry = self.entries.get(name.lower())
        if entry is None or str(entry.value) == "default":
            return None
        if len(entry.value.parts) > 1:
            joined = Text.from_parts(
                part for span in entry.value.parts for part in span.text.parts(span.begin, span.end)
            )
            return Definition(Span(joined, 0, len(joined.string)), entry.name)
        return Definition(entry.value.parts[0], entry.name)

    def own(self, name: str) -> Named | None:
        """The entry of this name in this very section; None if there is none, or its value is the word `default`.

        Variables are those at the top of the configuration: what stands in an inner section is text while it is read.
        """
        entry = self.entries.get(name.lower())
        if entry is None or str(entry.value) == "default":
            return None
        if self.outer is None:
            value = self._replaced.get(name.lower())
            if value is None:
                value = Value([self._variables.replace(part) for part in entry.value.parts], entry.value.quoted)
                self._replaced[name.lower()] = value
            return Named(entry.name, entry.place, value, entry.replaced)
        return entry

    def find(self, name: str) -> Named | None:
        """The entry of this name here or in the nearest section around that has one."""
        section: Section | None = self
        while section is not None:
            if name.lower() in section.entries:
                return section.own(name)
            section = section.outer
        return None

    def text(self, name: str, default: str = "", *, own: bool = False) -> str:
        """The text of an entry, looked up outwards.

        Raises:
            ConfigError: If it is a section or an array.
        """
        entry = self._scalar(name, own=own)
        return default if entry is None else str(entry.value)

    def boolean(self, name: str, default: bool, *, own: bool = False) -> bool:
        """A truth value, as CNTK takes them: `true`, `True`, `TRUE`, `t`, `T`, `1`, and the same for false.

        Raises:
            ConfigError: If it is anything else.
        """
        entry = self._scalar(name, own=own)
        if entry is None:
            return default
        text = str(entry.value)
        if text not in _TRUE and text not in _FALSE:
            raise ConfigError(f"{entry.value.place}: {entry.name}: expected true or false, found {text[:60]!r}")
        return text in _TRUE

    def integer(self, name: str, default: int, low: int, high: int, *, own: bool = False) -> int:
        """A whole number in decimal digits; one of -1 and below is counted back from 2^64, as CNTK does.

        Raises:
            ConfigError: If it isn't a whole number, or not within `low` and `high`.
        """
        entry = self._scalar(name, own=own)
        if entry is None:
            return default
        text = str(entry.value).lstrip(" \t\n\v\f\r")
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not (digits.isascii() and digits.isdigit()):
            raise ConfigError(
                f"{entry.value.place}: {entry.name}: expected a whole number in digits alone, found {text[:60]!r}"
            )
        number = int(text) if len(text) <= 21 else 1 << 64
        number += (number < 0) << 64 if low >= 0 else 0
        if not low <= number <= high:
            raise ConfigError(
                f"{entry.value.place}: {entry.name}: expected a number from {low} to {high}, found {text[:60]}"
            )
        return number

    def _scalar(self, name: str, *, own: bool) -> Named | None:
        entry = self.own(name) if own else self.find(name)
        if entry is not None and entry.value.kind != "text":
            raise ConfigError(f"{entry.value.place}: {entry.name}: expected a value, found a {entry.value.kind}")
        return entry

    def section(self, name: str, *, own: bool = False) -> Section | None:
        """A section within this one, or None.

        Raises:
            ConfigError: If the entry is something else.
        """
        entry = self.own(name) if own else self.find(name)
        if entry is None:
            return None
        if entry.value.kind != "section":
            raise ConfigError(
                f"{entry.value.place}: {entry.name}: expected a section in [ ] or {{ }}, found "
                f"{str(entry.value)[:60]!r}"
            )
        return self.inner(entry.value, entry.name)

    def inner(self, value: Value, name: str) -> Section:
        """The section that a value of this one is."""
        return Section(value.parts, f"{self.name}.{name}" if self.outer else name, self)

    def tree(self) -> dict[str, Tree]:
        """The whole as nested dictionaries, lists and strings.

        Raises:
            ConfigError: If anything in it is malformed.
        """
        return self._whole([MAX_ITEMS * 10])

    def _whole(self, room: list[int]) -> dict[str, Tree]:
        return {name: self._tree(value, name, room) for name, value in self.values()}

    def values(self) -> Iterator[tuple[str, Value]]:
        """Names and values, in the order in which the names first come."""
        for entry in self.entries.values():
            own = self.own(entry.name)
            yield entry.name, entry.value if own is None else own.value

    def _tree(self, value: Value, name: str, room: list[int]) -> Tree:
        if value.kind == "section":
            return self.inner(value, name)._whole(room)
        if value.kind == "array":
            found = array_items(value)
            room[0] -= len(found)
            if room[0] < 0:
                raise ConfigError(f"{value.place}: expected at most {MAX_ITEMS * 10:,} items in all arrays together")
            return [self._tree(item, name, room) for item in found]
        return str(value)


def array_items(value: Value) -> list[Value]:
    """The values that stand in an array."""
    source = value.parts[0].extract() if value.quoted else value.parts[0]
    return [Value([item.value], item.quoted) for item in items(source)]


_TRUE_TEXT = Text("true", [0], [Place("", 0, 0)])
