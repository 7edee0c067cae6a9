"""The option `--streams`: which streams a file has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.errors import PlanError

EXAMPLE = "x=sparse:1000000 label=dense:10,alias=y"
_STREAM = re.compile(r"(?P<name>[^=\s]+)=(?P<format>[^:,]*)(?::(?P<dim>[^,]*))?(?P<rest>(?:,.*)?)")
_WIDEST = (1 << 31) - 1


class StreamOption(NamedTuple):
    """A stream as the command line names it."""

    sparse: bool
    dim: int
    alias: str | None = None
    defines_size: bool = False


def parse_streams(text: str) -> dict[str, StreamOption]:
    """Reads `NAME=FORMAT:DIM[,alias=ALIAS][,defines_size]`, one or more, with blanks between.

    Raises:
        PlanError: If the text is something else; the message names the part.

    Example:
        >>> parse_streams("x=sparse:1000000 label=dense:10,alias=y")["label"]
        StreamOption(sparse=False, dim=10, alias='y', defines_size=False)
    """
    streams: dict[str, StreamOption] = {}
    for part in text.split():
        name, stream = _stream(part)
        if name in streams:
            raise PlanError(f"--streams: expected each stream once, got {name!r} again; drop one of them")
        streams[name] = stream
    if not streams:
        raise PlanError(f'--streams: expected at least one stream, got none; write for instance "{EXAMPLE}"')
    addressed: dict[str, str] = {}
    for name, stream in streams.items():
        alias = stream.alias or name
        if alias in addressed:
            raise PlanError(f"--streams: {addressed[alias]!r} and {name!r} are both called {alias!r} in the file")
        addressed[alias] = name
    if sum(stream.defines_size for stream in streams.values()) > 1:
        raise PlanError("--streams: expected at most one stream with defines_size, got several")
    return streams


def _stream(part: str) -> tuple[str, StreamOption]:
    found = _STREAM.fullmatch(part)
    if found is None:
        raise _wrong(part, "NAME=FORMAT:DIM", repr(part))
    if found["format"] not in ("dense", "sparse"):
        raise _wrong(part, "dense or sparse as the format", repr(found["format"]))
    dim = found["dim"]
    if dim is None or not (dim.isascii() and dim.replace("_", "").isdecimal()) or not 0 < int(dim) <= _WIDEST:
        raise _wrong(part, f"a whole number from 1 to {_WIDEST} as the dimension", repr(dim or ""))
    alias, defines_size = None, False
    for option in found["rest"].split(",")[1:]:
        key, _, value = option.partition("=")
        if key == "alias" and value and "|" not in value:
            alias = value
        elif option == "defines_size":
            defines_size = True
        else:
            raise _wrong(part, "alias=ALIAS or defines_size after the comma", repr(option))
    return found["name"], StreamOption(found["format"] == "sparse", int(dim), alias, defines_size)


def _wrong(part: str, expected: str, got: str) -> PlanError:
    return PlanError(f'--streams, {part!r}: expected {expected}, got {got}; write for instance "{EXAMPLE}"')


def format_streams(streams: Mapping[str, StreamOption] | Iterable[tuple[str, StreamOption]]) -> str:
    """Streams as `parse_streams` reads them.

    Example:
        >>> format_streams({"x": StreamOption(True, 9), "y": StreamOption(False, 2, "l", True)})
        'x=sparse:9 y=dense:2,alias=l,defines_size'
    """
    return " ".join(
        f"{name}={'sparse' if stream.sparse else 'dense'}:{stream.dim}"
        + (f",alias={stream.alias}" if stream.alias not in (None, name) else "")
        + (",defines_size" if stream.defines_size else "")
        for name, stream in dict(streams).items()
    )
