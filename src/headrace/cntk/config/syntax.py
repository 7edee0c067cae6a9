"""Splits the text of a configuration into entries and items, by the rules of CNTK's own parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from headrace.cntk.config.error import ConfigError
from headrace.cntk.config.text import Span

MAX_ITEMS = 100_000
"""Items of an array, at most: `x*1000000000` is short to write."""

_SEPARATORS = ",\r\n"
_CUSTOM = "`~!@$%^&*_-+|:;,?."
_PATHS = ("..", "./", ".\\")
_KEY_END = re.compile(r'[=\[{("]')
_COUNT = re.compile(r"[+-]?[0-9]+")


class Entry(NamedTuple):
    """A key and its value; `value` is None where the key stands alone, which means true."""

    key: Span
    value: Span | None
    quoted: bool = False


class Item(NamedTuple):
    """A value in an array."""

    value: Span
    quoted: bool


class _Token(NamedTuple):
    span: Span
    quoted: bool
    bracketed: bool


def entries(source: Span) -> Iterator[Entry]:
    """The entries of a section, or of a whole file. Brackets round the section are taken off.

    Raises:
        ConfigError: If a key has an equals sign and no value.
    """
    for token in _tokens(source, ";"):
        text, begin, end = token.span.extract() if token.quoted else token.span
        found = _KEY_END.search(text.string, begin, end)
        if found is None:
            yield Entry(_trimmed(Span(text, begin, end)), None)
            continue
        at = found.start() + (found.group() == "=")
        key, value = _trimmed(Span(text, begin, found.start())), _trimmed(Span(text, at, end))
        if value.begin == value.end:
            raise ConfigError(
                f"{key.place}: expected a value after '{key!s:.60} =' on the same line, found none; an empty value is "
                'written "", and the bracket of a section stands on the line of its key'
            )
        close = text.brackets.get(value.begin)
        if close is not None and text.string[close] == '"':
            yield Entry(key, Span(text, value.begin + 1, close), quoted=True)
        else:
            yield Entry(key, value)


def items(source: Span) -> Iterator[Item]:
    """The items of an array, with or without brackets round it.

    Raises:
        ConfigError: If what follows a `*` isn't a number, or there are too many items.
    """
    total = 0
    for token in _tokens(source, ":"):
        value, count = _trimmed(token.span), 1
        star = -1 if token.quoted or token.bracketed else value.text.string.find("*", value.begin, value.end)
        if star >= 0:
            times = str(_trimmed(Span(value.text, star + 1, value.end)))
            if not _COUNT.fullmatch(times) or len(times) > 18:
                raise ConfigError(
                    f"{value.text.place(star)}: expected a number of repetitions after *, found {times[:60]!r}; "
                    "put the item in quotes if the * belongs to it"
                )
            value, count = _trimmed(Span(value.text, value.begin, star)), int(times)
        total += max(count, 0)
        if total > MAX_ITEMS:
            raise ConfigError(f"{value.place}: expected at most {MAX_ITEMS:,} items in an array, found {total:,}")
        for _ in range(count):
            yield Item(value, token.quoted)


def _tokens(source: Span, separator: str) -> Iterator[_Token]:
    """What stands between separators; brackets and quotes keep theirs.

    The outermost brackets are entered rather than given as one token, and a character like `|` directly after such a
    bracket becomes the separator within it.
    """
    text, position, source_end = source
    string, brackets = text.string, text.brackets
    end, inside = source_end, False
    skip, stop = _patterns(separator)
    while True:
        found = skip.search(string, position, end)
        if found is None:
            if not inside:
                return
            position, end, inside = end + 1, source_end, False
            skip, stop = _patterns(separator)
            continue
        begin = found.start()
        close = brackets.get(begin)
        if close is None:
            ahead = stop.search(string, begin, end)
            until = end if ahead is None else ahead.start()
            # An opening bracket belongs to the token, and the token ends where the bracket does.
            position = brackets.get(until, until - 1) + 1 if until < end else end
            yield _Token(Span(text, begin, position), quoted=False, bracketed=False)
        elif not inside and string[begin] == '"':
            position = close + 1
            yield from _tokens(Span(text, begin + 1, close).extract(), separator)
        elif not inside:
            position, end, inside = begin + 1, close, True
            if position < end and string[position] in _CUSTOM and not string.startswith(_PATHS, position):
                skip, stop = _patterns(string[position])
                position += 1
        else:
            position, quoted = close + 1, string[begin] == '"'
            inner = Span(text, begin + quoted, position - quoted)
            if inner.begin < inner.end:
                yield _Token(inner, quoted, not quoted)


@lru_cache(maxsize=32)
def _patterns(separator: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What a token begins with, and what ends it: a separator, or an opening bracket that is part of it."""
    separators = re.escape(_SEPARATORS + separator)
    return re.compile(rf"[^{separators} \t]"), re.compile(rf'[{separators}\[{{("]')


def _trimmed(span: Span) -> Span:
    """Without blanks at both ends."""
    text, begin, end = span
    string = str(span)
    return Span(text, begin + len(string) - len(string.lstrip(" \t")), end - len(string) + len(string.rstrip(" \t")))
