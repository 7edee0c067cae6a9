"""The option `--streams`: which streams a file has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.errors import PlanError
from headrace.formats.ctf_schema import MAX_DIM, CtfStream, check_streams

EXAMPLE = "x=sparse:1000000 label=dense:10,alias=y"
_STREAM = re.compile(r"(?P<name>[^=\s]+)=(?P<format>[^:,]*)(?::(?P<dim>[^,]*))?(?P<rest>(?:,.*)?)")


def parse_streams(text: str) -> dict[str, CtfStream]:
    """Reads `NAME=FORMAT:DIM[,alias=ALIAS][,defines_size]`, one or more, with blanks between.

    Raises:
        PlanError: If the text is something else; the message names the part.

    Example:
        >>> parse_streams("x=sparse:1000000 label=dense:10,alias=y")["label"].alias
        'y'
    """
    streams: dict[str, CtfStream] = {}
    for part in text.split():
        name, stream = _stream(part)
        if name in streams:
            raise PlanError(f"--streams: expected each stream once, got {name!r} again; drop one of them")
        streams[name] = stream
    if not streams:
        raise PlanError(f'--streams: expected at least one stream, got none; write for instance "{EXAMPLE}"')
    try:
        return check_streams(streams)
    except ValueError as error:
        raise PlanError(f"--streams: {error}") from None


def _stream(part: str) -> tuple[str, CtfStream]:
    found = _STREAM.fullmatch(part)
    if found is None:
        raise _wrong(part, "NAME=FORMAT:DIM", repr(part))
    if found["format"] not in ("dense", "sparse"):
        raise _wrong(part, "dense or sparse as the format", repr(found["format"]))
    dim = found["dim"]
    digits = (dim or "").replace("_", "")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 10 or int(digits) > MAX_DIM:
        raise _wrong(part, f"a whole number from 0 to {MAX_DIM} as the dimension", repr(dim or ""))
    alias, defines_size = None, False
    for option in found["rest"].split(",")[1:]:
        key, _, value = option.partition("=")
        if key == "alias" and value:
            alias = value
        elif option == "defines_size":
            defines_size = True
        else:
            raise _wrong(part, "alias=ALIAS or defines_size after the comma", repr(option))
    try:
        return found["name"], CtfStream(int(digits), found["format"] == "sparse", alias, defines_size)
    except ValueError as error:
        raise PlanError(f"--streams, {part!r}: {error}") from None


def _wrong(part: str, expected: str, got: str) -> PlanError:
    return PlanError(f'--streams, {part!r}: expected {expected}, got {got:.80}; write for instance "{EXAMPLE}"')


def format_streams(streams: Mapping[str, CtfStream]) -> str:
    """Streams as `parse_streams` reads them.

    Example:
        >>> import headrace as hr
        >>> from headrace.formats.ctf_schema import dense, sparse
        >>> format_streams({"x": sparse(9), "y": dense(2, alias="l", defines_size=True)})
        'x=sparse:9 y=dense:2,alias=l,defines_size'
    """
    return " ".join(
        f"{name}={'sparse' if stream.sparse else 'dense'}:{stream.dim}"
        + (f",alias={stream.alias}" if stream.alias not in (None, name) else "")
        + (",defines_size" if stream.defines_size else "")
        for name, stream in streams.items()
    )
