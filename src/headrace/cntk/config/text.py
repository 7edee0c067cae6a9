"""The text of a configuration: lines without comments, where each character knows its place in a file."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from headrace.cntk.config.error import ConfigError

MAX_DEPTH = 64
"""Brackets within brackets, at most."""

_CLOSING = {"[": "]", "{": "}", "(": ")", '"': '"'}
_BRACKET = re.compile(r'[\[\](){}"]')
_BLANK = " \t"


class Place(NamedTuple):
    """Where something stands: a file (or an argument, which has no lines), line and column, counted from 1."""

    source: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source}, line {self.line}, column {self.column}" if self.line else self.source


class Line(NamedTuple):
    """A line, and where it comes from."""

    string: str
    source: str
    number: int


class Part(NamedTuple):
    """Text that comes from one place: character by character, or fixed, as the value of a variable does."""

    string: str
    place: Place
    fixed: bool = False


class Text:
    """Text in which variables may have been replaced, and the places that its parts came from.

    Args:
        string: The text.
        starts: Where its parts start, ascending, from 0.
        places: The place of each part's first character.
        fixed: Whether all characters of a part have that place: those of a variable's value have the variable's.
    """

    def __init__(
        self, string: str, starts: list[int], places: list[Place], fixed: frozenset[int] = frozenset()
    ) -> None:
        self.string = string
        self._starts = starts
        self._places = places
        self._fixed = fixed

    @classmethod
    def from_parts(cls, parts: Iterable[Part]) -> Text:
        """Joins parts of other texts."""
        strings: list[str] = []
        starts, places, fixed, length = [0], [Place("", 0, 0)], set(), 0
        for part in parts:
            if part.fixed:
                fixed.add(len(starts))
            strings.append(part.string)
            starts.append(length)
            places.append(part.place)
            length += len(part.string)
        return cls("".join(strings), starts, places, frozenset(fixed))

    @classmethod
    def from_lines(cls, lines: Iterable[Line]) -> Text:
        """Joins lines; those that are blank or comments only are left out."""
        kept: list[str] = []
        starts, places, length = [0], [Place("the configuration", 1, 1)], 0
        for string, source, number in lines:
            string = strip_comment(string)
            if string.strip(_BLANK):
                kept.append(string)
                starts.append(length)
                places.append(Place(source, number, 1))
                length += len(string) + 1
        return cls("\n".join(kept), starts, places)

    def place(self, offset: int) -> Place:
        """Where the character at an offset came from."""
        part = bisect_right(self._starts, offset) - 1
        place = self._places[part]
        if part in self._fixed:
            return place
        return place._replace(column=place.column + offset - self._starts[part])

    def parts(self, begin: int, end: int) -> Iterator[Part]:
        """The parts that a stretch consists of."""
        part = bisect_right(self._starts, begin) - 1
        while begin < end:
            following = self._starts[part + 1] if part + 1 < len(self._starts) else end
            until = min(following, end)
            yield Part(self.string[begin:until], self.place(begin), part in self._fixed)
            begin, part = until, part + 1

    @cached_property
    def brackets(self) -> dict[int, int]:
        """The closing bracket of each opening one; quotes are brackets with nothing but text in them.

        Raises:
            ConfigError: If one is never closed, closed by another kind, or they are nested too deep.
        """
        string, found = self.string, {}
        stack: list[int] = []
        position = 0
        while match := _BRACKET.search(string, position):
            at, character = match.start(), match.group()
            position = at + 1
            if character == '"':
                close = string.find('"', position)
                if close < 0:
                    raise ConfigError(f'{self.place(at)}: expected a closing " for this one, found none')
                found[at] = close
                position = close + 1
            elif character in _CLOSING:
                if len(stack) == MAX_DEPTH:
                    raise ConfigError(f"{self.place(at)}: expected at most {MAX_DEPTH} brackets within one another")
                stack.append(at)
            elif stack:  # outside of brackets a closing one is an ordinary character
                opening = stack.pop()
                if character != _CLOSING[string[opening]]:
                    raise ConfigError(
                        f"{self.place(at)}: expected {_CLOSING[string[opening]]} to close the {string[opening]} at "
                        f"{self.place(opening)}, found {character}"
                    )
                found[opening] = at
        if stack:
            expected = _CLOSING[string[stack[-1]]]
            raise ConfigError(f"{self.place(stack[-1])}: expected a closing {expected} for this one, found none")
        return found


class Span(NamedTuple):
    """A stretch of a text."""

    text: Text
    begin: int
    end: int

    def __str__(self) -> str:
        return self.text.string[self.begin : self.end]

    @property
    def place(self) -> Place:
        """Where it begins."""
        return self.text.place(self.begin)

    def extract(self) -> Span:
        """The same as a text of its own, in which what was in quotes may have brackets."""
        text = Text.from_parts(self.text.parts(self.begin, self.end))
        return Span(text, 0, len(text.string))


def strip_comment(line: str) -> str:
    """Cuts a comment off a line.

    A comment is a line that begins with `#`, or what follows the first `#` of a line if a blank stands before it. If
    none stands before the first one, there is no comment, whatever follows. A `#` in quotes is text.

    Example:
        >>> from headrace.cntk.config.text import strip_comment
        >>> [strip_comment(line) for line in ("a=1 # one", "a=x#y # z", 'a="x #y" # z')]
        ['a=1 ', 'a=x#y # z', 'a="x #y" ']
    """
    if line.lstrip(_BLANK).startswith("#"):
        return ""
    at, counted, quotes, last_quote = line.find("#"), 0, 0, line.rfind('"')
    while at > 0 and line[at - 1] in _BLANK:
        quotes += line.count('"', counted, at)
        if quotes % 2 == 0 or last_quote < at:
            return line[:at]
        counted, at = at, line.find("#", at + 1)
    return line
