"""CNTK's configuration files: text to sections, with the place of everything.

The syntax is the one of `cntk configFile=…` (not the language BrainScript): entries `key = value`, sections in `[ ]` or
`{ }`, arrays in `( )`, variables `$name$`. What stands where: `text.py` lines, comments, brackets, places;
`syntax.py` entries and items; `variables.py` what replaces `$name$`; `section.py` looking names up, and typed values.

On top of it the readers' sections: `read.py` files and arguments; `reader.py` both forms of a section and
`deserializer.py` one file, to `result.py` plain values; `names.py` the names known, and warnings; `format.py` writing.
"""

from __future__ import annotations

from headrace.cntk.config.error import ConfigError
from headrace.cntk.config.format import format_config
from headrace.cntk.config.read import read_config
from headrace.cntk.config.result import DeserializerConfig, ReaderConfig, StreamConfig
from headrace.cntk.config.section import Section, Tree
from headrace.cntk.config.text import Line, Span, Text

__all__ = [
    "ConfigError",
    "DeserializerConfig",
    "ReaderConfig",
    "StreamConfig",
    "format_config",
    "parse_config",
    "read_config",
]


def parse_config(text: str, source: str = "the configuration") -> dict[str, Tree]:
    r"""Reads a configuration as nested dictionaries.

    Sections become dictionaries, arrays in parentheses lists, all other values strings: quotes gone, variables
    replaced, numbers and truth values not converted. A key keeps the spelling of its first appearance; case doesn't
    matter. A second section in square brackets of one name is merged into the first, one in braces or any other value
    replaces it.

    Args:
        text: The configuration.
        source: What it is called in messages: its path.

    Raises:
        ConfigError: If it is malformed. The message names line and column, what was expected and what came.

    Example:
        >>> from headrace.cntk import parse_config
        >>> parse_config('data = "/corpus"\nreader = [\n  file = "$data$/a.ctf"  # plain text\n  randomize = true\n]')
        {'data': '/corpus', 'reader': {'file': '/corpus/a.ctf', 'randomize': 'true'}}
    """
    lines = text.removeprefix("\ufeff").split("\n")
    whole = Text.from_lines(Line(line, source, number) for number, line in enumerate(lines, 1))
    return Section([Span(whole, 0, len(whole.string))]).tree()
