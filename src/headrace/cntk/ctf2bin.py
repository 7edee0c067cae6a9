"""Converts CNTK's text format to its binary format: `python -m headrace.cntk.ctf2bin`.

After the script of this name that comes with CNTK, and with its rules, which are not quite those of reading the text:
an id is compared as text (`01` is another than `1`), an alias that the header lacks is an error, so are a dense sample
of another size than the header says and a line without a sample, and numbers are all that Python's `float` takes
(`inf`, `nan` and `.5` among them). A sample without values is left out, with a warning here.

What differs from the script: chunks are closed by the bytes that they have (the script makes each sequence a chunk of
its own after the first one that is full), negative indices are refused, mistakes are named by line, and the output
appears when it is complete. Files of one chunk are the same, byte for byte. To convert by the rules of reading, and
faster, write what `headrace.read_ctf` reads with `headrace.write_cbf`.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

import numpy as np

from headrace import DataError, HeadraceError, Ragged, Sparse, write_cbf
from headrace.batch.column import offsets_of
from headrace.cntk.arguments import check_output
from headrace.formats.files import AnyPath

_BLOCK = 1 << 19
"""Numbers that are handed on in one go; memory is bounded by them and the longest sequence."""
_LINE = 1 << 16
"""Characters of a header's line, at most."""
_log = logging.getLogger("headrace")


@dataclass(slots=True)
class HeaderStream:
    """A line of a header: a stream, and the samples of it that wait to be written.

    Attributes:
        name: Its name in the binary file.
        alias: Its name in the text.
        sparse: Whether its samples are sparse.
        dim: Numbers of a sample.
    """

    name: str
    alias: str
    sparse: bool
    dim: int
    _values: list[float] = field(default_factory=list, repr=False)
    _indices: list[int] = field(default_factory=list, repr=False)
    _entries: list[int] = field(default_factory=list, repr=False)  # of each sample
    _lengths: list[int] = field(default_factory=list, repr=False)  # of each sequence

    def add(self, tokens: Sequence[str]) -> int:
        """Takes up a sample of the last sequence; returns its numbers.

        Raises:
            ValueError: If it is malformed.
        """
        if self.sparse:
            pairs = [self._entry(token) for token in tokens]
            if any(a > b for (a, _), (b, _) in pairwise(pairs)):
                pairs.sort(key=lambda pair: pair[0])
            self._indices += [index for index, _ in pairs]
            self._values += [value for _, value in pairs]
            self._entries.append(len(pairs))
        else:
            if len(tokens) != self.dim:
                raise ValueError(f"expected {self.dim} numbers, found {len(tokens)}")
            self._values += map(_number, tokens)
        self._lengths[-1] += 1
        return len(tokens)

    def _entry(self, token: str) -> tuple[int, float]:
        index, colon, value = token.partition(":")
        if not (colon and index.isascii() and index.isdigit()):
            raise ValueError(f"expected index:value, found {token!r:.60}")
        if len(index) > 4000 or int(index) >= self.dim:  # more digits Python doesn't take
            raise ValueError(f"expected an index in [0, {self.dim}), found {index:.60}")
        return int(index), _number(value)

    def next_sequence(self) -> None:
        """Begins another sequence."""
        self._lengths.append(0)

    def take(self) -> Ragged:
        """The sequences that wait, which then don't any more."""
        values = np.array(self._values, np.float64)
        offsets = offsets_of(self._lengths)
        if self.sparse:
            indices = np.array(self._indices, np.int32)
            column = Ragged(Sparse(values, indices, offsets_of(self._entries), self.dim), offsets)
        else:
            column = Ragged(values.reshape(-1, self.dim), offsets)
        self._values, self._indices, self._entries, self._lengths = [], [], [], []
        return column


def _number(token: str) -> float:
    try:
        return float(token)
    except ValueError:
        raise ValueError(f"expected a number, found {token!r:.60}") from None


def read_header(path: AnyPath) -> list[HeaderStream]:
    """The streams of a header file: a line `name alias dense|sparse dim` for each.

    Raises:
        DataError: If a line is something else, or two streams share a name or an alias.
    """
    streams: list[HeaderStream] = []
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        # Bounded: a file of data given by mistake may be one line without end.
        for number, line in enumerate(iter(lambda: file.readline(_LINE), ""), 1):
            fields = line.split() if len(line) < _LINE else []
            if len(line) == _LINE:
                raise DataError(f"{os.fspath(path)}, line {number}: expected a short line of a header; is it data?")
            if not fields:
                continue
            if len(fields) != 4 or fields[2].lower() not in ("dense", "sparse") or not _is_width(fields[3]):
                raise DataError(
                    f"{os.fspath(path)}, line {number}: expected 'name alias dense dim' or 'name alias sparse dim', "
                    f"found {line.strip()!r:.80}"
                )
            name, alias, kind, dim = fields
            for other in streams:
                if name == other.name or alias == other.alias:
                    raise DataError(
                        f"{os.fspath(path)}, line {number}: expected a name and an alias of its own for each stream, "
                        f"found {name!r} and {alias!r} after {other.name!r} and {other.alias!r}"
                    )
            streams.append(HeaderStream(name, alias, kind.lower() == "sparse", int(dim)))
    if not streams:
        raise DataError(f"{os.fspath(path)}: expected a line for each stream, found none")
    return streams


def _is_width(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) < 1 << 31


class _Text:
    """Lines of text on their way to columns."""

    def __init__(self, streams: Sequence[HeaderStream], source: str) -> None:
        self.streams = {stream.alias: stream for stream in streams}
        self.source = source
        self.left_out: list[str] = []  # where samples without values stood: the first; and how many there were
        self.count_left_out = 0
        self.without = 0  # sequences that lack a stream

    def blocks(self, lines: Iterable[str]) -> Iterator[dict[str, Ragged]]:
        """Batches of whole sequences."""
        current: str | None = None  # the id, once there was one
        waiting = sequences = 0
        for number, line in enumerate(lines, 1):
            head, bar, rest = line.partition("|")
            if not bar:
                self.fail(number, f"expected a sample, which begins with |, found {line.strip()!r:.60}")
            own = head.strip()
            if own or current is None:
                if own != current or not own:
                    if waiting >= _BLOCK:
                        yield self.take()
                        waiting = sequences = 0
                    for stream in self.streams.values():
                        stream.next_sequence()
                    sequences += 1
                current = own or None
            waiting += self.samples(number, rest)
        if sequences:
            yield self.take()
        if current is None and not sequences and not waiting:
            raise DataError(f"{self.source}: expected lines of samples, found none")

    def samples(self, number: int, text: str) -> int:
        """Takes up the samples of a line; returns how many numbers they have."""
        found = 0
        for piece in text.split("|"):
            if piece.startswith("#"):
                continue  # a comment, or what follows an escaped | in one
            alias, *tokens = piece.split() or [""]
            stream = self.streams.get(alias)
            if stream is None or not piece.startswith(alias):
                known = ", ".join(self.streams)
                self.fail(
                    number, f"expected the alias of a stream of the header ({known}) after |, found {piece!r:.60}"
                )
            if not tokens:
                if not self.count_left_out:
                    self.left_out.append(f"line {number}, stream {stream.name!r}")
                self.count_left_out += 1
                continue
            try:
                found += stream.add(tokens)
            except ValueError as error:
                self.fail(number, f"stream {stream.name!r}: {error}")
        return found

    def take(self) -> dict[str, Ragged]:
        batch = {stream.name: stream.take() for stream in self.streams.values()}
        self.without += int(np.any([column.lengths == 0 for column in batch.values()], axis=0).sum())
        return batch

    def fail(self, number: int, what: str) -> NoReturn:
        raise DataError(f"{self.source}, line {number}: {what}")

    def warn(self) -> None:
        """Says what was written otherwise than may be meant."""
        if self.count_left_out:
            _log.warning(
                "%s: samples without values were left out, as CNTK's converter does: %d of them, the first in %s",
                self.source,
                self.count_left_out,
                self.left_out[0],
            )
        if self.without:
            _log.warning(
                "%s: %d sequences have no sample in one of the streams; headrace reads them, CNTK refuses the file",
                self.source,
                self.without,
            )


def ctf2bin(
    input: AnyPath,
    header: AnyPath,
    output: AnyPath,
    *,
    chunk_size: int,
    precision: str = "float",
) -> None:
    r"""Converts a file of CNTK's text format to its binary format; the output appears when it is complete.

    Args:
        input: The text. Lines with one id are a sequence; lines before the first id are sequences of their own.
        header: A file with a line `name alias dense|sparse dim` for each stream.
        output: The file to write; one that is there is replaced.
        chunk_size: A chunk is closed when it has so many bytes.
        precision: `"float"` or `"double"`: the type of all values.

    Raises:
        DataError: If header or text are malformed; the message names the line.
        PlanError: If the output is one of the files that are read.
        ValueError: If `chunk_size` or `precision` is out of range.
        OSError: If a file can't be read or written.

    Example:
        >>> import pathlib, tempfile
        >>> import headrace as hr
        >>> from headrace.cntk.ctf2bin import ctf2bin
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     text, header, output = (pathlib.Path(folder, name) for name in ("a.ctf", "a.header", "a.cbf"))
        ...     _ = text.write_text("0 |w 3:1\n0 |w 0:1\n1 |w 7:1\n")
        ...     _ = header.write_text("word w sparse 9\n")
        ...     ctf2bin(text, header, output, chunk_size=1 << 20)
        ...     [record["word"].ids().tolist() for record in hr.read_cbf(output)]
        [[3, 0], [7]]
    """
    if precision not in ("float", "double"):
        raise ValueError(f"precision is 'float' or 'double', got {precision!r}")
    check_output(output, [input, header])
    text = _Text(read_header(header), os.fspath(input))
    # A byte that isn't UTF-8 can only stand in a comment, or in an alias that no header has.
    with open(input, encoding="utf-8-sig", errors="surrogateescape") as file:
        dtype = "float32" if precision == "float" else "float64"
        write_cbf(output, text.blocks(file), chunk_size=chunk_size, dtype=dtype)
    text.warn()


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text)):
        raise argparse.ArgumentTypeError(f"expected a number of bytes from 1 to 10^18, got {text!r:.60}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command, with the flags of CNTK's script. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m headrace.cntk.ctf2bin",
        description="Converts CNTK's text format to its binary format.",
    )
    parser.add_argument("--input", required=True, metavar="FILE", help="the text to convert")
    parser.add_argument("--header", required=True, metavar="FILE", help="lines 'name alias dense|sparse dim'")
    parser.add_argument("--chunk_size", required=True, type=_positive, metavar="BYTES", help="bytes that fill a chunk")
    parser.add_argument("--output", required=True, metavar="FILE", help="the file to write")
    parser.add_argument("--precision", choices=["float", "double"], default="float", help="type of the values")
    given = parser.parse_args(arguments)
    try:
        ctf2bin(given.input, given.header, given.output, chunk_size=given.chunk_size, precision=given.precision)
    except (HeadraceError, OSError) as error:
        sys.stderr.write(f"ctf2bin: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
