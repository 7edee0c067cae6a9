"""Vocabularies: words to ids and back."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headrace import _native
from headrace.batch.columns import Bytes, Ragged, Strings
from headrace.checks import list_of, one_of, whole
from headrace.errors import DataError
from headrace.formats.atomic import write_atomic
from headrace.formats.files import AnyPath, Paths, check_separators, find_files, open_bytes

_MOST = (1 << 31) - 1  # ids and lengths are 32 bits wide


class Vocab:
    """Words and their ids, which are their places from 0. Immutable, safe to share between threads, can be pickled.

    Args:
        tokens: The words, each once, without white space in them.
        unk: The word whose id those get that aren't in the vocabulary; it must be one of the words.
        special: Other words that must be there.
        missing: What to do if `unk` or words of `special` aren't: `"error"`, or `"prepend"` them in this order.

    Raises:
        DataError: If a word comes twice, is empty or has white space in it, or a special one isn't there; the message
            says which.

    Example:
        >>> import headrace as hr
        >>> vocab = hr.Vocab(["<unk>", "</s>", "the", "mill"])
        >>> vocab["mill"], vocab["wheel"], "wheel" in vocab, len(vocab)
        (3, 0, False, 4)
        >>> ids = vocab.encode(["the old mill", "mill"], eos=vocab["</s>"])
        >>> ids.tolist()
        [[2, 0, 3, 1], [3, 1]]
        >>> vocab.decode(ids, eos="</s>")
        ['the <unk> mill', 'mill']
    """

    __slots__ = ("_fingerprint", "_native", "_unk", "_unk_id")

    def __init__(
        self,
        tokens: Iterable[str | bytes],
        *,
        unk: str = "<unk>",
        special: Sequence[str] = (),
        missing: Literal["error", "prepend"] = "error",
    ) -> None:
        words = Strings.from_rows(list_of("Vocab", "tokens", tokens, "words"))
        self._set(_native.Vocabulary.from_words(words.data, words.offsets, "the vocabulary"), unk)
        self._require(unk, special, missing, "the vocabulary")

    @classmethod
    def from_file(
        cls,
        path: AnyPath,
        *,
        unk: str = "<unk>",
        special: Sequence[str] = (),
        missing: Literal["error", "prepend"] = "error",
    ) -> Vocab:
        r"""Reads a vocabulary file: UTF-8, one word a line, the word of line 1 has id 0. It may be gzip.

        Args:
            path: The file.
            unk: As for `Vocab`.
            special: As for `Vocab`.
            missing: As for `Vocab`.

        Raises:
            OSError: If the file can't be found or opened.
            DataError: If a line is blank, has white space in it or repeats a word, or a special word isn't there; the
                message names file and line.

        Example:
            >>> import pathlib, tempfile, headrace as hr
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "vocab")
            ...     _ = path.write_text("<unk>\nmill\n")
            ...     hr.Vocab.from_file(path)["mill"]
            1
        """
        (file,) = find_files([path])
        vocab = cls.__new__(cls)
        vocab._set(_native.Vocabulary.from_file(open_bytes(file)), unk)
        vocab._require(unk, special, missing, file)
        return vocab

    def _set(self, native: _native.Vocabulary, unk: str) -> None:
        self._native = native
        self._unk = unk
        self._unk_id = native.find(_encoded(unk))
        self._fingerprint: str | None = None

    def _require(self, unk: str, special: Sequence[str], missing: str, name: str) -> None:
        one_of("", "missing", missing, ("error", "prepend"), error=ValueError)
        special = list_of("", "special", special, "words")
        for word in special:
            _encoded(word)
        lacking = [word for word in dict.fromkeys((unk, *special)) if word not in self]
        if not lacking:
            return
        if missing == "error":
            words = ", ".join(map(repr, lacking))
            raise DataError(
                f"{name} has no {words} among its {len(self):,} words; add a line for each, pass missing='prepend' to "
                "put them before the first word, or name the symbols that it does have with unk= and special="
            )
        longer = Strings.from_rows([*lacking, *self._words()])
        self._set(_native.Vocabulary.from_words(longer.data, longer.offsets, name), unk)

    @property
    def unk(self) -> str:
        """The word that stands for unknown ones."""
        return self._unk

    @property
    def unk_id(self) -> int:
        """The id that unknown words get."""
        return self._unk_id

    @property
    def native(self) -> _native.Vocabulary:
        """The table of the native core, for sources that look words up while reading."""
        return self._native

    def __len__(self) -> int:
        return len(self._native)

    def __iter__(self) -> Iterator[str]:
        return (word.decode("utf-8", "surrogateescape") for word in self._words())

    def __contains__(self, token: object) -> bool:
        return isinstance(token, (str, bytes)) and self._native.find(_encoded(token)) >= 0

    def __getitem__(self, token: str | bytes) -> int:
        """The id of a word, or that of `unk` for a word that isn't in the vocabulary."""
        found = self._native.find(_encoded(token))
        return found if found >= 0 else self._unk_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocab) and self.fingerprint() == other.fingerprint()

    def __hash__(self) -> int:
        return hash(self.fingerprint())

    def __repr__(self) -> str:
        return f"Vocab({len(self):,} words, unk={self._unk!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (*self._native.words(), self._unk))

    def tokens(self, ids: ArrayLike) -> list[str]:
        """The words of ids; an id outside the vocabulary gives the unknown word.

        Args:
            ids: The ids, an array of any shape.

        Raises:
            ValueError: If they are no whole numbers.

        Example:
            >>> import headrace as hr
            >>> hr.Vocab(["<unk>", "mill"]).tokens([1, 0, 7, -1])
            ['mill', '<unk>', '<unk>', '<unk>']
        """
        flat = _as_ids(ids).reshape(-1)
        return self._decode(flat, np.arange(len(flat) + 1), None)

    def encode(
        self,
        texts: Strings | Bytes | Sequence[str | bytes],
        *,
        max_length: int | None = None,
        bos: int | None = None,
        eos: int | None = None,
        separators: str | None = None,
    ) -> Ragged:
        """Splits texts into tokens and looks them up.

        Args:
            texts: The texts; a list, not a single one.
            max_length: Tokens kept of a text, not counting `bos` and `eos`.
            bos: Id put before each text's ids.
            eos: Id put after them.
            separators: The ASCII characters that separate tokens; by default white space, as `bytes.split` has it.

        Returns:
            int32 ids.

        Raises:
            TypeError: If `texts` is no list, or `separators` no text.
            ValueError: If one of the texts is neither text nor bytes, or a number is out of range.

        Example:
            >>> import headrace as hr
            >>> hr.Vocab(["<unk>", "</s>", "the", "mill"]).encode(["the old mill"], max_length=2, eos=1).tolist()
            [[2, 0, 1]]
        """
        check_separators(separators)
        max_length = None if max_length is None else whole("max_length", max_length, 0, _MOST)
        bos = None if bos is None else whole("bos", bos, -_MOST - 1, _MOST)
        eos = None if eos is None else whole("eos", eos, -_MOST - 1, _MOST)
        rows = texts
        if not isinstance(rows, (Strings, Bytes)):
            rows = Strings.from_rows(list_of("encode", "texts", texts, "texts"))
        data, offsets = np.ascontiguousarray(rows.data), np.ascontiguousarray(rows.offsets)
        return Ragged(*self._native.encode(data, offsets, self._unk_id, max_length, bos, eos, separators))

    def decode(self, ids: Ragged | ArrayLike, *, eos: str | int | None = None) -> list[str]:
        """Joins the words of each row of ids by blanks.

        Args:
            ids: Rows of ids: `Ragged`, or anything that makes a two-dimensional array.
            eos: The word or id before which a row ends; what follows it is padding.

        Raises:
            DataError: If `eos` is a word that isn't in the vocabulary.
            ValueError: If `ids` hasn't two dimensions.

        Example:
            >>> import headrace as hr
            >>> hr.Vocab(["<unk>", "</s>", "mill"]).decode([[2, 2, 1, 1], [0, 2, 2, 1]], eos="</s>")
            ['mill mill', '<unk> mill mill']
        """
        if isinstance(ids, Ragged):
            flat, offsets = ids.values, ids.offsets
        else:
            matrix = np.asarray(ids)
            if matrix.ndim != 2:
                raise ValueError(f"decode takes rows of ids (two dimensions), got an array of shape {matrix.shape}")
            flat, offsets = matrix.reshape(-1), np.arange(matrix.shape[0] + 1) * matrix.shape[1]
        if isinstance(eos, str):
            if eos not in self:
                raise DataError(f"the vocabulary has no {eos!r}; pass the word that ends texts in it, or None")
            eos = self[eos]
        eos = None if eos is None else whole("eos", eos, -_MOST - 1, _MOST)
        return self._decode(_as_ids(flat), np.ascontiguousarray(offsets, np.int64), eos)

    def _decode(self, ids: NDArray[np.int64], offsets: NDArray[np.int64], eos: int | None) -> list[str]:
        return Strings(*self._native.decode(ids, offsets, self._unk_id, eos)).tolist()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the words, one a line, so that the file is whole or not there.

        Args:
            path: The file.

        Raises:
            OSError: If the file can't be written; an older one is still as it was.

        Example:
            >>> import pathlib, tempfile, headrace as hr
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "vocab")
            ...     hr.Vocab(["<unk>", "mill"]).save(path)
            ...     path.read_text().split()
            ['<unk>', 'mill']
        """
        write_atomic(path, [b"".join(word + b"\n" for word in self._words())])

    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that tell these words, their order and the unknown one from others."""
        if self._fingerprint is None:
            import hashlib  # loads OpenSSL, which importing headrace shouldn't wait for

            digest = hashlib.blake2b(b"\n".join(self._words()), digest_size=8, key=_encoded(self._unk)[:64])
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def _words(self) -> list[bytes]:
        data, offsets = self._native.words()
        joined, ends = data.tobytes(), offsets.tolist()
        return [joined[a:b] for a, b in itertools.pairwise(ends)]


def build_vocab(
    files: Paths,
    *,
    min_count: int = 1,
    max_size: int | None = None,
    specials: Sequence[str] = ("<unk>", "<s>", "</s>"),
    unk: str = "<unk>",
    separators: str | None = None,
    threads: int = 0,
) -> Vocab:
    """Makes a vocabulary of the tokens of text files: the special words, then the most frequent tokens.

    Equally frequent tokens are ordered by their bytes, so the order of the files and the number of threads change
    nothing.

    Args:
        files: A path, a glob pattern, or a list of those; plain or gzip.
        min_count: Leave out tokens that come less often.
        max_size: Words at most, with the special ones.
        specials: Words put first, whether or not they come in the files.
        unk: The word whose id unknown words get; one of `specials`.
        separators: The ASCII characters that separate tokens; by default white space, as `bytes.split` has it.
        threads: Threads that count; 0 takes as many as are useful.

    Raises:
        OSError: If a file can't be found or opened.
        DataError: If `unk` isn't among `specials`, or a token can't be a word (only with other `separators`: it has
            white space in it).
        ValueError: If an argument is out of range.

    Example:
        >>> import pathlib, tempfile, headrace as hr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "train.txt")
        ...     _ = path.write_text("the mill and the wheel and the water")
        ...     list(hr.build_vocab(path, max_size=5))
        ['<unk>', '<s>', '</s>', 'the', 'and']
    """
    min_count, threads = whole("min_count", min_count, 1), whole("threads", threads, 0, 1 << 16)
    max_size = None if max_size is None else whole("max_size", max_size, 0)
    check_separators(separators)
    specials = list_of("", "specials", specials, "words")
    if max_size is not None and max_size < len(specials):
        raise ValueError(f"max_size {max_size} leaves no room for the {len(specials)} special words")
    counter = _native.TokenCounter()
    for path in find_files(files):
        counter.count(open_bytes(path), separators, threads)
    data, offsets, _ = counter.ranked(min_count)
    first = {_encoded(word) for word in specials}
    joined, ends = data.tobytes(), offsets.tolist()
    words: list[bytes] = [_encoded(word) for word in specials]
    for begin, end in itertools.pairwise(ends):
        if max_size is not None and len(words) >= max_size:
            break
        if (word := joined[begin:end]) not in first:
            words.append(word)
    return Vocab(words, unk=unk)


def _as_ids(ids: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(ids)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"ids are integers, got an array of {array.dtype}")
    return np.ascontiguousarray(array, np.int64)


def _encoded(token: str | bytes) -> bytes:
    if isinstance(token, str):
        return token.encode("utf-8", "surrogateescape")
    if not isinstance(token, bytes):
        raise TypeError(f"words of a vocabulary are str or bytes, got {token!r:.60}")
    return token


def _restore(data: NDArray[np.uint8], offsets: NDArray[np.int64], unk: str) -> Vocab:
    vocab = Vocab.__new__(Vocab)
    vocab._set(_native.Vocabulary.from_words(data, offsets, "the vocabulary"), unk)
    return vocab
