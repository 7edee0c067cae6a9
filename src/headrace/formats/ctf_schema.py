"""What the streams of a file in CNTK's text format are, as whoever reads it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.checks import whole
from headrace.errors import PlanError

MAX_DIM = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class CtfStream:
    """A stream of a file in CNTK's text format; `dense` and `sparse` make them.

    Attributes:
        dim: Numbers in a sample; of a sparse one, more than its largest index.
        sparse: Whether samples are written as `index:value`.
        alias: What lines call the stream, if not by its name.
        defines_size: Whether only lines and sequences with a sample of this stream count.
        sequence: Whether a record has any number of samples (True) or exactly one (False). None goes by the file: any
            number where lines begin with ids, one where each line is a record.

    Example:
        >>> import headrace as hr
        >>> hr.CtfStream(dim=784)
        CtfStream(dim=784, sparse=False, alias=None, defines_size=False, sequence=None)
    """

    dim: int
    sparse: bool = False
    alias: str | None = None
    defines_size: bool = False
    sequence: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", whole("dim", self.dim, 0, MAX_DIM))
        for name in ("sparse", "defines_size"):
            if not isinstance(value := getattr(self, name), bool):
                raise ValueError(f"{name} is True or False, got {value!r:.60}")
        if self.sequence is not None and not isinstance(self.sequence, bool):
            raise ValueError(f"sequence is True, False or None, got {self.sequence!r:.60}")
        if self.alias is not None:
            check_alias(self.alias, "alias")


def dense(dim: int, *, alias: str | None = None, defines_size: bool = False, sequence: bool | None = None) -> CtfStream:
    """Describes a stream whose samples are written as lists of numbers.

    Args:
        dim: Numbers in a sample. Where the file has fewer, the rest are zeros.
        alias: What lines call the stream; by default its name.
        defines_size: Count sequences by the samples of this stream instead of by their lines; lines and sequences
            without one are left out. One stream may do so.
        sequence: True gives each record any number of samples, False exactly one (anything else is an error); None
            goes by the file: True where lines begin with sequence ids, False where each line is a record.

    Raises:
        ValueError: If `dim` is no integer in [0, 2^31), or the alias can't stand in a file.

    Example:
        >>> import headrace as hr
        >>> hr.dense(784, alias="x").dim
        784
    """
    return CtfStream(dim, False, alias, defines_size, sequence)


def sparse(
    dim: int, *, alias: str | None = None, defines_size: bool = False, sequence: bool | None = None
) -> CtfStream:
    """Describes a stream whose samples are written as pairs `index:value`.

    Args:
        dim: More than the largest index.
        alias: What lines call the stream; by default its name.
        defines_size: Count sequences by the samples of this stream instead of by their lines; lines and sequences
            without one are left out. One stream may do so.
        sequence: True gives each record any number of samples, False exactly one (anything else is an error); None
            goes by the file: True where lines begin with sequence ids, False where each line is a record.

    Raises:
        ValueError: If `dim` is no integer in [0, 2^31), or the alias can't stand in a file.

    Example:
        >>> import headrace as hr
        >>> hr.sparse(50_000, sequence=True).sparse
        True
    """
    return CtfStream(dim, True, alias, defines_size, sequence)


def check_alias(alias: Any, what: str) -> None:
    """Refuses what no line can call a stream.

    Raises:
        ValueError: If it isn't text, is empty, or holds a blank, a pipe, a control character, or bytes that aren't
            UTF-8; a `#` at its beginning would make it a comment.
    """
    if not isinstance(alias, str):
        raise ValueError(f"{what} is a str, got {type(alias).__name__} {alias!r:.60}")
    if not alias:
        raise ValueError(f"{what} is empty, expected what the file calls the stream, as in '|x 1 2'")
    for character in alias:
        if character in " |" or character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff":
            raise ValueError(
                f"{what} {alias!r:.60} holds {character!r}, expected what the file calls the stream: no blanks, pipes "
                "or control characters"
            )
    if alias[0] == "#":
        raise ValueError(f"{what} {alias!r:.60} begins with '#', which begins a comment; call the stream otherwise")


def check_streams(streams: Any) -> dict[str, CtfStream]:
    """The streams that a user gave, by name, in the order given.

    Raises:
        PlanError: If they contradict each other: none, two with one alias, two that define the size.
        TypeError: If they are no mapping of names to `CtfStream`.
        ValueError: If a name can't stand in a file and there is no alias.
    """
    if not isinstance(streams, Mapping):
        raise TypeError(f"streams is a dict such as {{'x': hr.dense(784)}}, got {type(streams).__name__}")
    if not streams:
        raise PlanError("streams is empty, expected at least one, such as {'x': hr.dense(784)}")
    aliases: dict[str, str] = {}
    main: str | None = None
    for name, stream in streams.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"streams are named by str that aren't empty, got {name!r:.60}")
        if not isinstance(stream, CtfStream):
            raise TypeError(f"stream {name!r} is hr.dense(…) or hr.sparse(…), got {type(stream).__name__}")
        alias = stream.alias
        if alias is None:
            check_alias(name, "the name of a stream without an alias")
            alias = name
        if alias in aliases:
            raise PlanError(
                f"streams {aliases[alias]!r} and {name!r} are both called {alias!r} in the file; one may be"
            )
        aliases[alias] = name
        if stream.defines_size:
            if main is not None:
                raise PlanError(f"streams {main!r} and {name!r} both define the size of sequences; one stream may")
            main = name
    return dict(streams)


def alias_of(name: str, stream: CtfStream) -> str:
    """What lines call a stream."""
    return name if stream.alias is None else stream.alias
