"""`python -m headrace.nmt.vocab`: makes the vocabularies of a parallel text.

The special words come first, then the others, the most frequent first: sampled softmax counts on that order. Only
training text is counted; a word that is known from the test set alone would never be trained.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import headrace as hr
from headrace.nmt.cli.run import Parser, run_command
from headrace.nmt.hparams import HParamError
from headrace.nmt.text.files import find_side, make_folder, write_lines
from headrace.nmt.text.special import NUM_SPECIAL, UNKNOWN

__all__ = ["Counted", "count_words", "main"]

_LINES = 10_000  # counted at once: memory stays small however long the text is


@dataclass(frozen=True)
class Counted:
    """Words and how often each comes; the special ones first, then the most frequent.

    Attributes:
        vocab: The words.
        counts: How often each comes, that of `<unk>` being words that were left out.
    """

    vocab: hr.Vocab
    counts: NDArray[np.int64]

    def cut(self, min_count: int = 1, max_size: int | None = None) -> Counted:
        """Leaves out rare words.

        Args:
            min_count: How often a word comes that stays.
            max_size: Words at most, the special ones included.

        Raises:
            HParamError: There is no room for the special words.
        """
        if max_size is not None and max_size <= NUM_SPECIAL:
            raise HParamError(
                f"max_size must leave room for words beside the {NUM_SPECIAL} special ones, got {max_size}"
            )
        frequent = NUM_SPECIAL + int((self.counts[NUM_SPECIAL:] >= min_count).sum())  # they are in order
        size = frequent if max_size is None else min(frequent, max_size)
        counts = self.counts[:size].copy()
        counts[0] += self.counts[size:].sum()
        return Counted(hr.Vocab(list(self.vocab)[:size]), counts)

    def save(self, path: Path, *, counts: bool = False) -> None:
        """Writes the words, one a line; with `counts` also `PATH.counts`, where a tab and its count follow each."""
        self.vocab.save(path)
        if counts:
            lines = [f"{word}\t{count}" for word, count in zip(self.vocab, self.counts.tolist(), strict=True)]
            write_lines(path.with_name(f"{path.name}.counts"), lines)


def count_words(files: Sequence[str], *, sos: str = "<s>", eos: str = "</s>") -> Counted:
    """Counts the words of text files.

    Args:
        files: The files; plain or gzip.
        sos: The word that starts a sentence.
        eos: The word that ends one.

    Raises:
        OSError: A file cannot be read.
        DataError: There are no words.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "train.en")
        ...     _ = path.write_text("the mill and the wheel")
        ...     counted = count_words([str(path)]).cut(min_count=2)
        >>> list(counted.vocab), counted.counts.tolist()
        (['<unk>', '<s>', '</s>', 'the'], [3, 0, 0, 2])
    """
    vocab = hr.build_vocab(list(files), specials=[UNKNOWN, sos, eos])
    counts = np.zeros(len(vocab), np.int64)
    for texts in hr.Loader(hr.read_text(list(files), index="memory").batch(_LINES)):
        counts += np.bincount(vocab.encode(texts).values, minlength=len(vocab))
    if counts.sum() == 0:
        raise hr.DataError(f"{', '.join(files)}: expected text, found no words")
    return Counted(vocab, counts)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    return run_command("headrace.nmt.vocab", lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> None:
    flags = _parser().parse_args(argv)
    for name in ("min_count", "max_size"):
        value = getattr(flags, name)
        if value is not None and value < 1:
            raise HParamError(f"{name} must be at least 1, got {value}")
    sides = {suffix: find_side(flags.train_prefix, suffix, "train_prefix") for suffix in (flags.src, flags.tgt)}
    if flags.share_vocab:
        together = list(dict.fromkeys(path for files in sides.values() for path in files))
        sides = dict.fromkeys(sides, together)
    folder = Path(f"{flags.vocab_prefix}.{flags.src}").parent
    make_folder(folder)
    for suffix, files in sides.items():
        every = count_words(files, sos=flags.sos, eos=flags.eos)
        kept = every.cut(flags.min_count, flags.max_size)
        if len(kept.vocab) <= NUM_SPECIAL:
            raise HParamError(
                f"no word of the {suffix} text comes min_count={flags.min_count} times: give a smaller one"
            )
        path = Path(f"{flags.vocab_prefix}.{suffix}")
        kept.save(path, counts=flags.counts)
        total, known = int(every.counts.sum()), int(kept.counts[1:].sum())
        sys.stdout.write(
            f"# {path}: {len(kept.vocab):,} words, of {len(every.vocab):,}; "
            f"{known / total:.2%} of the {total:,} words of the text are among them\n"
        )


def _parser() -> Parser:
    parser = Parser(
        "vocab",
        "Makes VOCAB_PREFIX.SRC and VOCAB_PREFIX.TGT of the words of the training files.",
    )
    parser.add_argument("--src", required=True, help="suffix of the source files")
    parser.add_argument("--tgt", required=True, help="suffix of the target files")
    parser.add_argument("--train_prefix", required=True, help="training files without their suffix; may be a glob")
    parser.add_argument("--vocab_prefix", required=True, help="where the vocabularies go, without their suffix")
    parser.add_argument("--min_count", type=int, default=1, metavar="N", help="leave out words that come less often")
    parser.add_argument("--max_size", type=int, metavar="N", help="words of a vocabulary at most")
    parser.add_argument("--share_vocab", action="store_true", help="one vocabulary of both languages, written twice")
    parser.add_argument("--counts", action="store_true", help="also write how often each word comes, as FILE.counts")
    parser.add_argument("--sos", default="<s>", help="word that starts a sentence (default: %(default)s)")
    parser.add_argument("--eos", default="</s>", help="word that ends a sentence (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
