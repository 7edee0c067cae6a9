"""Reads a configuration file and gives what its section of a reader says."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from headrace.cntk.config.deserializer import Files
from headrace.cntk.config.error import ConfigError
from headrace.cntk.config.names import KNOWN, Notes
from headrace.cntk.config.reader import read_reader
from headrace.cntk.config.result import ReaderConfig
from headrace.cntk.config.section import Section
from headrace.cntk.config.text import Line, Place, Span, Text, strip_comment
from headrace.formats.files import AnyPath

Override: TypeAlias = "str | bool | int | float | os.PathLike[str] | Mapping[str, Override]"

MAX_BYTES = 1 << 20
"""Of a configuration, at most: anything larger is a file of data."""

_log = logging.getLogger("headrace")
_INCLUDE = re.compile(r"[ \t]*include[ \t]*=(.*)", re.IGNORECASE | re.DOTALL)
_KNOWN = {name.lower() for names in KNOWN.values() for name in names}
_BYTE_ORDER_16 = (b"\xff\xfe", b"\xfe\xff")


def read_config(
    path: AnyPath | Sequence[AnyPath],
    section: str | None = "reader",
    *,
    base_dir: AnyPath | None = None,
    must_exist: bool = True,
    **variables: Override,
) -> ReaderConfig:
    """Reads a reader's section of a CNTK configuration file, with all of its defaults.

    Both forms are understood: `readerType = "CNTKTextFormatReader"` with one file, and `deserializers = ( … )` with
    several. What isn't known or has no effect here is told in `ReaderConfig.warnings` and logged.

    Args:
        path: The file. Of several, later ones add to earlier ones and replace their values.
        section: The reader's section; of one within another `"train.reader"`. None: the whole file.
        base_dir: The folder that relative paths of data start from; the working directory, as in CNTK, if not given.
        must_exist: Whether a file of data that isn't there is an error.
        variables: Entries at the top of the configuration that are added last, as CNTK takes them from its command
            line: `data="/corpus"` for `$data$`, `reader={"maxErrors": 5}` to change a section. Text is taken as it
            would stand in the file, paths are put in quotes.

    Raises:
        ConfigError: If the configuration is malformed, incomplete, or contradicts itself.
        FileNotFoundError: If it isn't there.

    Example:
        >>> import pathlib, tempfile
        >>> from headrace.cntk import read_config
        >>> path = pathlib.Path(tempfile.mkdtemp(), "reader.cntk")
        >>> _ = path.write_text('reader = [ readerType = "CNTKTextFormatReader"; file = "$data$.ctf"; maxErrors = 3;'
        ...                     'input = [ x = [ dim = 5; format = "dense" ] ] ]')
        >>> config = read_config(path, data="/corpus/train", must_exist=False)
        >>> config.deserializers[0].file, config.deserializers[0].max_errors, config.window
        ('/corpus/train.ctf', 3, CntkWindow(size=128, unit='chunks'))
    """
    if section is not None and not isinstance(section, str):
        raise ConfigError(f"expected the name of a section, or None, found {section!r:.60}")
    paths = list(path) if isinstance(path, Sequence) and not isinstance(path, (str, bytes)) else [path]
    if not paths:
        raise ConfigError("expected a configuration file, found an empty list")
    names = [_path(one, "a configuration file") for one in paths]
    seen: set[str] = set()
    lines = [line for name in names for line in _lines(name, _read(name), seen)]
    notes = Notes()
    for name, value in variables.items():
        source = f"the argument {name}"
        _warn_of_unused(name, lines, section, source, notes)
        lines += [Line(line, source, 0) for line in f"{name}={_written(value)}".split("\n")]
    whole = Text.from_lines(lines)
    found = _find(Section([Span(whole, 0, len(whole.string))], names[-1]), section, names[-1])
    base = None if base_dir is None else _path(base_dir, "a folder as base_dir")
    result = read_reader(found, notes, Files(base, os.path.dirname(names[-1]), must_exist))
    if result.trace_level > 0:
        for warning in result.warnings:
            _log.warning("%s", warning)
    return result


def _path(value: object, what: str) -> str:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str) or "\0" in path:
        raise ConfigError(f"expected the path of {what}, found {value!r:.60}")
    return path


def _read(path: str) -> str:
    if stat.S_ISFIFO(os.stat(path).st_mode):  # whose opening would wait for somebody to write
        raise ConfigError(f"{path}: expected a configuration file, found a pipe")
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: expected a configuration of at most {MAX_BYTES:,} bytes, found more: is it data?")
    return decoded(data, path)


def decoded(data: bytes, source: str) -> str:
    """The text of a file.

    Raises:
        ConfigError: If it isn't UTF-8; the message names the line and the column.
    """
    if data.startswith(_BYTE_ORDER_16):
        raise ConfigError(f"{source}: expected text in UTF-8, found UTF-16; save it in the other encoding")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        place = Place(source, before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
        byte = data[error.start]
        raise ConfigError(f"{place}: expected text in UTF-8, found the byte 0x{byte:02x}; save it as UTF-8") from None


def _lines(path: str, text: str, seen: set[str]) -> Iterator[Line]:
    """The lines of a file, those of included files in their place. A file is included once."""
    seen.add(os.path.abspath(path))
    for number, line in enumerate(text.split("\n"), 1):
        match = _INCLUDE.fullmatch(strip_comment(line))
        if match is None:
            yield Line(line, path, number)
            continue
        for name in match[1].strip().strip('"').split("+"):
            place = Place(path, number, 1)
            if "$" in name or "\0" in name or not os.path.isfile(name):
                raise ConfigError(
                    f"{place}: include: expected a configuration file, found none at {name[:1000]!r}; paths start from "
                    "the working directory, variables are not replaced in them"
                )
            if len(seen) == _MAX_FILES:
                raise ConfigError(f"{place}: expected at most {_MAX_FILES} files in a configuration")
            if os.path.abspath(name) not in seen:
                yield from _lines(name, _read(name), seen)


_MAX_FILES = 64


def _written(value: Override) -> str:
    """A value as it stands in a configuration."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "[" + "\n".join(f"{name}={_written(inner)}" for name, inner in value.items()) + "]"
    if isinstance(value, os.PathLike):
        return f'"{os.fspath(value)}"'
    if not isinstance(value, (str, int, float)):
        raise ConfigError(f"expected text, a number, a path or a mapping of those as argument, found {value!r:.60}")
    return str(value) or '""'


def _warn_of_unused(name: str, lines: list[Line], section: str | None, source: str, notes: Notes) -> None:
    """Arguments are easily misspelt, and nothing else would tell."""
    key = name.lower()
    if key in _KNOWN or section is None or key == section.lower().partition(".")[0]:
        return
    if not any(f"${key}$" in line.string.lower() for line in lines):
        notes.add(Place(source, 0, 0), f"nothing in the configuration asks for {name}, as ${name}$ or as a parameter")


def _find(top: Section, name: str | None, source: str) -> Section:
    """The section of a name, or of names joined by points."""
    section, left = top, name
    while left:
        head, _, rest = left.partition(".")
        if section.own(left):
            head, rest = left, ""
        inner = section.section(head, own=True)
        if inner is None:
            readers = ", ".join(_readers(top))
            advice = f"; readers stand in: {readers}" if readers else "; no section has a readerType or deserializers"
            raise ConfigError(f"{source}: expected a section {name!r:.80}, found none{advice}")
        section, left = inner, rest
    return section


def _readers(section: Section, prefix: str = "") -> list[str]:
    """The names of sections that describe a reader."""
    found: list[str] = []
    with contextlib.suppress(ConfigError):
        for name, value in section.values():
            if value.kind == "section" and len(found) < 8:
                inner = section.inner(value, name)
                if {"readertype", "deserializers"} & inner.entries.keys():
                    found.append(f"{prefix}{name[:60]}")
                found += _readers(inner, f"{prefix}{name[:60]}.")
    return found[:8]
