"""Converts tab-separated columns of tokens to CNTK's text format: `python -m headrace.cntk.txt2ctf`.

After the script of this name that comes with CNTK. Each column has a dictionary, a file with a token a line, whose line
number (from 0) is the token's index. Line n of an input becomes the sequence n, whose k-th line holds the k-th token of
each column as `|S<column> <index>:1`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from headrace import DataError, HeadraceError
from headrace.cntk.arguments import check_output
from headrace.formats.atomic import write_atomic
from headrace.formats.files import AnyPath


def read_dictionary(path: AnyPath) -> dict[str, int]:
    """The tokens of a file, one a line, with their line numbers from 0; blanks round them don't count.

    A token that comes twice has the number of its last line, as with CNTK.

    Raises:
        DataError: If the file isn't UTF-8.
    """
    with open(path, encoding="utf-8", newline="\n") as file:
        try:
            return {line.strip(): number for number, line in enumerate(file)}
        except UnicodeDecodeError as error:
            raise DataError(f"{os.fspath(path)}: expected UTF-8 text ({error.reason}); convert it first") from None


def convert_lines(
    lines: Iterable[str],
    dictionaries: Sequence[Mapping[str, int]],
    *,
    annotated: bool = False,
    unk: str | None = None,
    source: str = "the input",
) -> Iterator[str]:
    r"""Makes lines of CNTK's text format of lines of tab-separated columns.

    Args:
        lines: With or without line ends.
        dictionaries: Of each column the index of each token.
        annotated: Add each token as a comment (a `|` in it is written as `|#`).
        unk: The token that stands for those that a dictionary lacks; it must be in the dictionary itself.
        source: What the lines are called in messages.

    Yields:
        Lines without line ends. A line whose columns are all empty gives none, and its number is used up.

    Raises:
        DataError: If a line has another number of columns than there are dictionaries, or a token isn't in its
            dictionary; the message names the line and the column.

    Example:
        >>> from headrace.cntk.txt2ctf import convert_lines
        >>> words, tags = {"go": 0, "home": 1}, {"VERB": 0, "NOUN": 1}
        >>> list(convert_lines(["go home\tVERB NOUN"], [words, tags]))
        ['0\t|S0 0:1\t|S1 0:1', '0\t|S0 1:1\t|S1 1:1']
    """
    for number, line in enumerate(lines):
        columns = [column.split() for column in line.rstrip("\r\n").split("\t")]
        if len(columns) != len(dictionaries):
            raise DataError(
                f"{source}, line {number + 1}: expected {len(dictionaries)} columns with tabs between, one for each "
                f"dictionary, found {len(columns)}"
            )
        fields = [
            [
                _field(token, column, dictionaries[column], annotated, unk, f"{source}, line {number + 1}")
                for token in row
            ]
            for column, row in enumerate(columns)
        ]
        for step in range(max(map(len, fields))):
            yield "\t".join([str(number), *(row[step] if step < len(row) else "" for row in fields)])


def _field(token: str, column: int, dictionary: Mapping[str, int], annotated: bool, unk: str | None, at: str) -> str:
    index = dictionary.get(token)
    if index is None and unk is not None:
        index = dictionary.get(unk)
    if index is None:
        asked = f"nor is {unk!r}" if unk is not None else "give a token for such as --unk"
        raise DataError(
            f"{at}, column {column + 1}: the token {token!r:.80} is not in the column's dictionary; {asked}"
        )
    comment = f" |# {_escaped(token)}" if annotated else ""
    return f"|S{column} {index}:1{comment}"


def _escaped(token: str) -> str:
    """With each `|` written as `|#`, unless a `#` follows it anyway."""
    return token.replace("|#", "|").replace("|", "|#")


def txt2ctf(
    maps: Sequence[AnyPath],
    inputs: Sequence[AnyPath],
    output: AnyPath,
    *,
    annotated: bool = False,
    unk: str | None = None,
) -> None:
    """Converts files; the output appears when it is complete.

    Args:
        maps: The dictionary of each column.
        inputs: Files of tab-separated columns. Sequences are numbered from 0 in each, as with CNTK.
        output: The file to write; one that is there is replaced.
        annotated: Add each token as a comment.
        unk: The token that stands for those that a dictionary lacks.

    Raises:
        DataError: As `convert_lines`, and if a file isn't UTF-8.
        PlanError: If the output is one of the files that are read.
        OSError: If a file can't be read or written.
    """
    check_output(output, [*maps, *inputs])
    dictionaries = [read_dictionary(path) for path in maps]
    write_atomic(output, (line.encode() for line in _converted(dictionaries, inputs, annotated, unk)))


def _converted(
    dictionaries: Sequence[Mapping[str, int]], inputs: Sequence[AnyPath | None], annotated: bool, unk: str | None
) -> Iterator[str]:
    """The lines of several inputs, line ends included; None is standard input."""
    for path in inputs:
        name = "standard input" if path is None else os.fspath(path)
        with contextlib.nullcontext(sys.stdin) if path is None else open(path, encoding="utf-8", newline="\n") as file:
            try:
                for line in convert_lines(file, dictionaries, annotated=annotated, unk=unk, source=name):
                    yield line + "\n"
            except UnicodeDecodeError as error:
                raise DataError(f"{name}: expected UTF-8 text ({error.reason}); convert it first") from None


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"expected True or False, got {text!r}")
    return text.lower() == "true"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command, with the flags of CNTK's script. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m headrace.cntk.txt2ctf",
        description="Converts tab-separated columns of tokens to CNTK's text format.",
    )
    parser.add_argument("--map", nargs="+", required=True, metavar="FILE", help="the dictionary of each column")
    parser.add_argument("--input", nargs="+", metavar="FILE", help="files to convert (default: standard input)")
    parser.add_argument("--output", metavar="FILE", help="the file to write (default: standard output)")
    parser.add_argument("--annotated", type=_truth, nargs="?", const=True, default=False, metavar="True|False",
                        help="add each token as a comment")  # fmt: skip
    parser.add_argument("--unk", metavar="TOKEN", help="stands for tokens that a dictionary lacks")
    given = parser.parse_args(arguments)
    try:
        if given.output:
            check_output(given.output, [*given.map, *(given.input or [])])
        if given.output and given.input:
            txt2ctf(given.map, given.input, given.output, annotated=given.annotated, unk=given.unk)
            return 0
        dictionaries = [read_dictionary(path) for path in given.map]
        converted = _converted(dictionaries, given.input or [None], given.annotated, given.unk)
        if given.output:
            write_atomic(given.output, (line.encode() for line in converted))
        else:
            sys.stdout.writelines(converted)
            sys.stdout.flush()  # here, for an error to be noticed
    except BrokenPipeError:  # whoever read the output had enough of it; Python flushes once more, and would complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (HeadraceError, OSError) as error:
        sys.stderr.write(f"txt2ctf: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
