"""Writes a reader's section."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from headrace import PlanError
from headrace.cntk.config.names import KNOWN
from headrace.cntk.config.result import StreamConfig
from headrace.cntk.config.variables import has_variable
from headrace.formats.ctf_schema import CtfStream, alias_of

_IN_NAMES = frozenset('=[]{}(),;"\r\n')
_IN_VALUES = frozenset('"\r\n\0')
_OPTIONS = {name.lower(): name for name in KNOWN["reader"] if name not in ("readerType", "file", "input", "precision")}


def format_config(
    streams: Mapping[str, StreamConfig | CtfStream],
    file: str | os.PathLike[str],
    *,
    section: str = "reader",
    precision: Literal["float", "double"] = "float",
    **parameters: bool | int | str,
) -> str:
    r"""Writes the section of a configuration that reads a text file; `read_config` reads it back.

    Args:
        streams: The streams by name, as `read_config` or `infer_ctf` gives them.
        file: The path of the data, as it shall stand there.
        section: The name of the section.
        precision: `"float"` or `"double"`.
        parameters: Further entries by their names in CNTK: `skipSequenceIds=True`.

    Raises:
        PlanError: If a name or a value can't be written in a configuration, or a parameter is unknown.

    Example:
        >>> from headrace.cntk import StreamConfig, format_config
        >>> print(format_config({"x": StreamConfig("x", "x", "dense", 5)}, "train.ctf", maxErrors=3), end="")
        precision = "float"
        <BLANKLINE>
        reader = [
            readerType = "CNTKTextFormatReader"
            file = "train.ctf"
            maxErrors = 3
            input = [
                x = [
                    dim = 5
                    format = "dense"
                ]
            ]
        ]
    """
    if not streams:
        raise PlanError("expected at least one stream, found none")
    if precision not in ("float", "double"):
        raise PlanError(f"precision: expected 'float' or 'double', found {precision!r}")
    lines = [f'precision = "{precision}"', "", f"{_name(section)} = ["]
    lines += ['    readerType = "CNTKTextFormatReader"', f"    file = {_quoted(os.fspath(file), 'file')}"]
    for name, value in parameters.items():
        if name.lower() not in _OPTIONS:
            known = ", ".join(_OPTIONS.values())
            raise PlanError(f"expected parameters of CNTK's text reader ({known}), found {name!r}")
        lines.append(f"    {_OPTIONS[name.lower()]} = {_value(value, name)}")
    lines.append("    input = [")
    names: set[str] = set()
    for name, described in streams.items():
        stream = _configured(name, described)
        if name.lower() in names:
            raise PlanError(f"stream names: expected names that differ in more than case, found {name!r} again")
        names.add(name.lower())
        if stream.dim is None or stream.format is None:
            raise PlanError(f"stream {name!r}: expected dim and format, found none")
        lines.append(f"        {_name(name)} = [")
        if stream.alias != name:
            lines.append(f"            alias = {_quoted(stream.alias, 'alias')}")
        lines += [f"            dim = {stream.dim}", f'            format = "{stream.format}"']
        lines += ["            definesMBSize = true"] * stream.defines_mb_size
        lines.append("        ]")
    return "\n".join([*lines, "    ]", "]", ""])


def _configured(name: str, stream: StreamConfig | CtfStream) -> StreamConfig:
    if isinstance(stream, StreamConfig):
        return stream
    form: Literal["dense", "sparse"] = "sparse" if stream.sparse else "dense"
    return StreamConfig(name, alias_of(name, stream), form, stream.dim, stream.defines_size)


def _value(value: bool | int | str, what: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _quoted(value, what)


def _quoted(text: str, what: str) -> str:
    if not text or not _IN_VALUES.isdisjoint(text) or has_variable(text) or text == "default":
        raise PlanError(
            f"{what}: a configuration can't hold {text!r:.100}: expected text without quotes, line ends and $name$, "
            "other than the word default"
        )
    return f'"{text}"'


def _name(name: str) -> str:
    unfit = not name or name != name.strip() or name.startswith("#") or " #" in name or "\t#" in name
    if unfit or not _IN_NAMES.isdisjoint(name) or has_variable(name):
        raise PlanError(
            f"a configuration can't have the name {name!r:.100}: expected one without brackets, quotes, separators, "
            "$name$, and blanks or # at its ends"
        )
    return name
