"""`python -m headrace.nmt.clean`: leaves out the pairs of a parallel text that would teach nothing, or wrong things.

It goes through the text once, line by line, and holds none of it: memory is that of the table that finds duplicates,
whose size is a setting.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import itertools
import sys
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import headrace as hr
from headrace.nmt.cli.run import Parser, run_command
from headrace.nmt.hparams import HParamError
from headrace.nmt.text.files import find_side, make_folder, open_text, replacing

__all__ = ["Rules", "Seen", "main"]

_HASHES = 6  # bits of the table that a pair sets
_SCRIPTS = {  # how the Unicode names of a script's letters begin
    "arabic": ("ARABIC",),
    "bengali": ("BENGALI",),
    "cyrillic": ("CYRILLIC",),
    "devanagari": ("DEVANAGARI",),
    "greek": ("GREEK",),
    "hebrew": ("HEBREW",),
    "chinese": ("CJK",),
    "japanese": ("CJK", "HIRAGANA", "KATAKANA"),
    "korean": ("HANGUL",),
    "latin": ("LATIN", "FULLWIDTH LATIN"),
    "thai": ("THAI",),
}
_LANGUAGES = {
    "arabic": "ar fa ur",
    "bengali": "bn",
    "chinese": "zh",
    "cyrillic": "be bg kk mk mn ru uk",
    "devanagari": "hi mr ne",
    "greek": "el",
    "hebrew": "he",
    "japanese": "ja",
    "korean": "ko",
    "latin": "ca cs da de en es et eu fi fr ga gl hr hu id is it lt lv ms nl no pl pt ro sk sl sq sv sw tr vi",
    "thai": "th",
}
_OF_LANGUAGE = {language: script for script, languages in _LANGUAGES.items() for language in languages.split()}


@dataclass(frozen=True)
class Rules:
    """Which pairs stay.

    Attributes:
        min_words: Words that each side has at least.
        max_words: Words that each side has at most; 0: any number.
        max_ratio: How many times as many words one side may have as the other; 0: any.
        max_word_length: Characters of a word at most; 0: any number. Longer ones are addresses, tables, broken text.
        min_script: Share of the letters of a side that are of its script, at least; 0: any.
        scripts: The scripts of both sides; None: not known, and not looked at.
    """

    min_words: int = 1
    max_words: int = 80
    max_ratio: float = 9.0
    max_word_length: int = 100
    min_script: float = 0.5
    scripts: tuple[str | None, str | None] = (None, None)

    def fault(self, source: str, target: str) -> str | None:
        """Returns why a pair has to go; None if it stays.

        Example:
            >>> rules = Rules(scripts=("latin", "cyrillic"))
            >>> rules.fault("a mill", "мельница"), rules.fault("a mill", "a water mill"), rules.fault("a mill", " ")
            (None, 'wrong script', 'empty side')
        """
        sides = source.split(), target.split()
        counts = [len(words) for words in sides]
        if min(counts) == 0:
            return "empty side"
        if min(counts) < self.min_words:
            return "too short"
        if self.max_words and max(counts) > self.max_words:
            return "too long"
        if self.max_ratio and max(counts) > self.max_ratio * min(counts):
            return "lengths too different"
        if self.max_word_length and any(len(word) > self.max_word_length for words in sides for word in words):
            return "word too long"
        for text, script in zip((source, target), self.scripts, strict=True):
            if script is not None and self.min_script and _share(text, script) < self.min_script:
                return "wrong script"
        return None


@functools.lru_cache(maxsize=1 << 16)
def _is_of(letter: str, script: str) -> bool:
    return unicodedata.name(letter, "").startswith(_SCRIPTS[script])


def _share(text: str, script: str) -> float:
    """Returns the share of the letters that are of a script; 1 for text without letters, which is of none."""
    letters = [letter for letter in text if letter.isalpha()]
    return sum(_is_of(letter, script) for letter in letters) / len(letters) if letters else 1.0


class Seen:
    """Remembers what it has seen, in a table of fixed size (a Bloom filter).

    It never forgets; something new is taken for old with a probability that `mistaken` tells.

    Args:
        megabytes: Size of the table.

    Example:
        >>> seen = Seen(1)
        >>> seen.add(b"a pair"), seen.add(b"another"), seen.add(b"a pair")
        (False, False, True)
    """

    def __init__(self, megabytes: int) -> None:
        self._table = bytearray(megabytes << 20)
        self.count = 0

    def add(self, content: bytes) -> bool:
        """Adds something; returns whether it was there."""
        digest, size = hashlib.blake2b(content, digest_size=8 * _HASHES).digest(), len(self._table) * 8
        old = True
        for start in range(0, len(digest), 8):
            byte, bit = divmod(int.from_bytes(digest[start : start + 8]) % size, 8)
            old = old and bool(self._table[byte] >> bit & 1)
            self._table[byte] |= 1 << bit
        self.count += not old
        return old

    @property
    def mistaken(self) -> float:
        """How likely something new is taken for old now, at most."""
        return float((1 - (1 - 1 / (8 * len(self._table))) ** (_HASHES * self.count)) ** _HASHES)


# The command ---------------------------------------------------------------------------------------------------------


_LIMITS = ("min_words", "max_words", "max_ratio", "max_word_length", "min_script")  # of `Rules`, and flags


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    return run_command("headrace.nmt.clean", lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> None:
    flags = _parser().parse_args(argv)
    for name in (*_LIMITS, "duplicates_mb"):
        if not getattr(flags, name) >= 0:
            raise HParamError(f"{name} must be a number that is not negative, got {getattr(flags, name)}")
    if 0 < flags.max_words < flags.min_words:
        raise HParamError(f"no sentence has at least {flags.min_words} words and at most {flags.max_words}")
    if flags.min_script > 1:
        raise HParamError(f"min_script is a share, at most 1, got {flags.min_script}")
    suffixes = flags.src, flags.tgt
    scripts = [
        _script(flag, suffix) for flag, suffix in zip((flags.src_script, flags.tgt_script), suffixes, strict=True)
    ]
    rules = Rules(**{name: getattr(flags, name) for name in _LIMITS}, scripts=(scripts[0], scripts[1]))
    sides = [find_side(flags.input_prefix, suffix, "input_prefix") for suffix in suffixes]
    outputs = [Path(f"{flags.output_prefix}.{suffix}") for suffix in suffixes]
    if taken := {str(path.resolve()) for path in outputs} & {
        str(Path(path).resolve()) for side in sides for path in side
    }:
        raise HParamError(f"output_prefix would write over the input {min(taken)}: give another one")
    make_folder(outputs[0].parent)
    try:
        seen = Seen(flags.duplicates_mb) if flags.duplicates_mb else None
    except (MemoryError, OverflowError):
        raise HParamError(f"duplicates_mb is more memory than there is, got {flags.duplicates_mb}") from None
    why: Counter[str] = Counter()
    kept = 0
    with ExitStack() as stack:
        files = [stack.enter_context(stack.enter_context(replacing(path)).open("wb")) for path in outputs]
        for pair in _pairs(*sides):
            texts = [" ".join(line.split()) for line in pair]
            fault = rules.fault(*texts)
            if fault is None and not flags.keep_copies and texts[0] == texts[1]:
                fault = "both sides the same"
            lines = [f"{text}\n".encode("utf-8", "surrogateescape") for text in texts]
            if fault is None and seen is not None and seen.add(b"".join(lines)):
                fault = "duplicate"
            if fault is not None:
                why[fault] += 1
                continue
            kept += 1
            for file, line in zip(files, lines, strict=True):
                file.write(line)
    total = kept + why.total()
    sys.stdout.write(f"# {kept:,} of {total:,} pairs stay, in {outputs[0]} and {outputs[1]}\n")
    for fault, count in why.most_common():
        sys.stdout.write(f"#   {fault}: {count:,}\n")
    if seen is not None and seen.mistaken > 1e-4:
        sys.stdout.write(
            f"# the table of duplicates is small for this text: up to {seen.mistaken:.2%} of the pairs may have been "
            "taken for duplicates; raise --duplicates_mb\n"
        )


def _script(flag: str, suffix: str) -> str | None:
    """Returns the script of a side: as asked for, or that of the language which its suffix names."""
    if flag != "auto":
        return None if flag == "any" else flag
    return _OF_LANGUAGE.get(suffix.rsplit(".", 1)[-1].lower().split("-")[0].split("_")[0])


def _pairs(sources: list[str], targets: list[str]) -> Iterator[tuple[str, str]]:
    """Yields the lines of both sides.

    Raises:
        DataError: One side ends before the other.
    """
    for number, (source, target) in enumerate(itertools.zip_longest(_read(sources), _read(targets)), 1):
        if source is None or target is None:
            short, long = (sources, targets) if source is None else (targets, sources)
            raise hr.DataError(
                f"{', '.join(short)} ends after {number - 1:,} lines, {', '.join(long)} goes on: line for line one has "
                "to be the translation of the other"
            )
        yield source, target


def _read(paths: list[str]) -> Iterator[str]:
    for path in paths:
        with open_text(path) as opened:
            try:
                for line in opened:
                    yield line.decode("utf-8", "surrogateescape")
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise hr.DataError(f"{path} cannot be unpacked: {error}; load it again") from error


def _parser() -> Parser:
    parser = Parser(
        "clean",
        "Leaves out pairs of INPUT_PREFIX.SRC and INPUT_PREFIX.TGT, and says why how many.",
    )
    rules = Rules()
    scripts = ("auto", "any", *_SCRIPTS)
    parser.add_argument("--src", required=True, help="suffix of the source files")
    parser.add_argument("--tgt", required=True, help="suffix of the target files")
    parser.add_argument("--input_prefix", required=True, help="files without their suffix; may be a glob")
    parser.add_argument("--output_prefix", required=True, help="where the pairs that stay go, without suffix")
    parser.add_argument("--min_words", type=int, default=rules.min_words, metavar="N", help="of each side at least")
    parser.add_argument("--max_words", type=int, default=rules.max_words, metavar="N", help="of each side at most")
    parser.add_argument(
        "--max_ratio", type=float, default=rules.max_ratio, metavar="X", help="of words of the two sides"
    )
    parser.add_argument("--max_word_length", type=int, default=rules.max_word_length, metavar="N", help="characters")
    parser.add_argument("--min_script", type=float, default=rules.min_script, metavar="X", help="share of letters")
    parser.add_argument("--src_script", choices=scripts, default="auto", help="script of the source; auto: by --src")
    parser.add_argument("--tgt_script", choices=scripts, default="auto", help="script of the target; auto: by --tgt")
    parser.add_argument("--keep_copies", action="store_true", help="keep pairs whose sides are the same")
    parser.add_argument(
        "--duplicates_mb", type=int, default=64, metavar="N", help="table for finding them; 0: keep them"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
