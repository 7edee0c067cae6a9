"""Replaces `$name$` by values that stand at the top of a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from headrace.cntk.config.error import ConfigError
from headrace.cntk.config.text import Part, Span, Text

MAX_CHAIN = 64
"""Variables that stand in the value of another, at most one after the other."""

MAX_INSERTED = 1 << 22
"""Characters that all variables of a configuration may insert: `a=$b$$b$` and the like grow without end."""

_NAME = re.compile(r"""[A-Za-z_][^$,/<>?;':"\[\]{}\\|!@#%^&*()+=~`\s]*""")


def has_variable(text: str) -> bool:
    """Whether something in a text would be replaced.

    Example:
        >>> from headrace.cntk.config.variables import has_variable
        >>> has_variable("$root$/a"), has_variable("5$ and 6$")
        (True, False)
    """
    return re.search(rf"\$(?:{_NAME.pattern})\$", text) is not None


class Definition(NamedTuple):
    """What a variable's name stands for."""

    value: Span
    name: str


class Variables:
    """The variables of a configuration.

    Args:
        find: Gives the definition of a name, or None.
    """

    def __init__(self, find: Callable[[str], Definition | None]) -> None:
        self._find = find
        self._values: dict[str, str] = {}
        self._open: list[str] = []
        self._left = MAX_INSERTED

    def replace(self, span: Span) -> Span:
        """The same text with all variables replaced; what isn't the name of a variable stays as it is.

        Raises:
            ConfigError: If a variable isn't defined, stands in its own value, has several lines, or they grow
                too large.
        """
        if span.text.string.find("$", span.begin, span.end) < 0:
            return span
        text = Text.from_parts(self._parts(span))
        return Span(text, 0, len(text.string))

    def _parts(self, span: Span) -> Iterator[Part]:
        text, position, end = span
        string = text.string
        at = string.find("$", position, end)
        while at >= 0:
            name = _NAME.match(string, at + 1, end)
            if name is None:
                at = string.find("$", at + 2, end)  # `$$` and `$1` hide the character after the first `$`, too
            elif name.end() == end or string[name.end()] != "$":
                at = string.find("$", at + 1, end)
            else:
                yield from text.parts(position, at)
                yield Part(self._value(name.group(), Span(text, at, end)), text.place(at), fixed=True)
                position = name.end() + 1
                at = string.find("$", position, end)
        yield from text.parts(position, end)

    def _value(self, name: str, use: Span) -> str:
        key = name.lower()
        value = self._values.get(key)
        if value is None:
            if key in self._open:
                chain = " → ".join([*self._open[self._open.index(key) :], key])
                raise ConfigError(f"{use.place}: expected a value for ${name:.60}$, found a circle: {chain:.200}")
            if len(self._open) == MAX_CHAIN:
                raise ConfigError(f"{use.place}: expected at most {MAX_CHAIN} variables that stand in one another")
            definition = self._find(name)
            if definition is None:
                raise ConfigError(
                    f"{use.place}: expected a variable {name[:60]!r} at the top of the configuration; write "
                    f"{name:.60}=… outside of all sections, or give it as an argument"
                )
            self._open.append(key)
            value = str(self.replace(definition.value))
            self._open.pop()
            if "\n" in value:
                raise ConfigError(
                    f"{use.place}: expected ${name:.60}$ to have a value on one line, found several lines at "
                    f"{definition.value.place}"
                )
            self._values[key] = value
        self._left -= len(value)
        if self._left < 0:
            raise ConfigError(
                f"{use.place}: expected variables to insert at most {MAX_INSERTED:,} characters, ${name:.60}$ is more"
            )
        return value
