"""The tutorial's data: parallel text files and vocabularies, through headrace to batches of the model.

Pairs with an empty side are left out, long sentences are cut, the source gets neither begin nor end, the target both.
Sentences of like length come together, and everything is padded with the word that ends a sentence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

import headrace as hr
from headrace.nmt.hparams import HParams
from headrace.nmt.model import Batch
from headrace.nmt.text.files import SEPARATORS, find_side
from headrace.nmt.text.special import EOS, UNKNOWN

__all__ = ["Vocabs", "batches", "load_vocabs", "read_pairs", "to_batch", "with_words"]


class Vocabs(NamedTuple):
    """The words of both languages; `<unk>`, sos and eos have the ids 0, 1 and 2 in both."""

    src: hr.Vocab
    tgt: hr.Vocab


# Files ---------------------------------------------------------------------------------------------------------------


def read_pairs(hparams: HParams, flag: str) -> hr.Dataset:
    """Describes the sentence pairs of a setting such as `train_prefix`: records `{"src": …, "tgt": …}`.

    Raises:
        FileNotFoundError: A side has no file.
        DataError: The globs of the two sides match files that do not belong together, or of unequal length.
    """
    prefix, src, tgt = getattr(hparams, flag), str(hparams.src), str(hparams.tgt)
    sides = find_side(prefix, src, flag), find_side(prefix, tgt, flag)
    stems = [
        [path.removesuffix(".gz").removesuffix(f".{suffix}") for path in paths]
        for paths, suffix in zip(sides, (src, tgt), strict=True)
    ]
    if stems[0] != stems[1]:
        alone = sorted(set(stems[0]) ^ set(stems[1]))[0]
        has, lacks = (src, tgt) if alone in stems[0] else (tgt, src)
        raise hr.DataError(
            f"--{flag}={prefix} finds {alone}.{has} but no {alone}.{lacks}: add it, or narrow the pattern"
        )
    texts = [hr.read_text(paths, separators=SEPARATORS) for paths in sides]
    if len(texts[0]) != len(texts[1]):
        raise hr.DataError(f"--{flag}={prefix}: {_unequal(*sides)}")
    return hr.zip(src=texts[0], tgt=texts[1])


def with_words(pairs: hr.Dataset, hparams: HParams, flag: str) -> hr.Dataset:
    """Returns the pairs of a setting that have words on both sides.

    Raises:
        DataError: There is none.
    """
    found = pairs.filter_length()
    if len(found) == 0:
        raise hr.DataError(f"--{flag}={getattr(hparams, flag)} has no sentence pair with words on both sides")
    return found


def _unequal(sources: list[str], targets: list[str]) -> str:
    """Says which two files do not belong together."""
    for paths in zip(sources, targets, strict=True):
        counts = [len(hr.read_text(path)) for path in paths]
        if counts[0] != counts[1]:
            break
    return (
        f"{paths[0]} has {counts[0]:,} lines and {paths[1]} has {counts[1]:,}, but line for line one has to be the "
        "translation of the other: repair the files"
    )


# Batches -------------------------------------------------------------------------------------------------------------


def batches(pairs: hr.Dataset, vocabs: Vocabs, hparams: HParams, *, training: bool) -> hr.Batches:
    """Describes the batches of sentence pairs; `to_batch` makes the model's `Batch` of one.

    Args:
        pairs: Records of `src` and `tgt` texts.
        vocabs: The vocabularies.
        hparams: The settings.
        training: Shuffle anew each epoch and cut at the lengths for training; else keep the order and cut at the
            lengths for inference.

    Example:
        >>> vocab = hr.Vocab(["<unk>", "<s>", "</s>", "a", "b"])
        >>> src, tgt = hr.Strings.from_rows(["a b", "b"]), hr.Strings.from_rows(["a", "b a"])
        >>> texts = hr.from_arrays({"src": src, "tgt": tgt})
        >>> data = batches(texts, Vocabs(vocab, vocab), HParams(num_buckets=1), training=False)
        >>> batch = to_batch(next(iter(hr.Loader(data, to="torch"))))
        >>> batch.src_BS.tolist(), batch.tgt_BT1.tolist(), batch.tgt_len_B.tolist()
        ([[3, 4], [4, 2]], [[1, 3, 2, 2], [1, 4, 3, 2]], [2, 3])
    """
    if training:
        pairs = pairs.shuffle(seed=hparams.random_seed or 0)
        longest = {"src": hparams.src_max_len, "tgt": hparams.tgt_max_len}
    else:
        longest = {"src": hparams.src_max_len_infer, "tgt": hparams.tgt_max_len_infer}
    ids = pairs.tokens(
        {"src": vocabs.src, "tgt": vocabs.tgt},
        max_length=longest,
        bos={"tgt": hparams.sos},
        eos={"tgt": hparams.eos},
        separators=SEPARATORS,
    )
    if training and hparams.batch_tokens:
        return ids.bucket(max_tokens=hparams.batch_tokens).pad(value=EOS)
    if hparams.num_buckets <= 1:
        return ids.batch(hparams.batch_size).pad(value=EOS)
    width = -(-longest["src"] // hparams.num_buckets) if longest["src"] else 10
    return ids.bucket(hparams.batch_size, width=width, num_buckets=hparams.num_buckets, by=_length).pad(value=EOS)


def _length(lengths: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """The length that decides on the bucket: the target's counts one of sos and eos, not both."""
    return np.maximum(lengths["src"], lengths["tgt"] - 1)


def to_batch(columns: Mapping[str, Tensor]) -> Batch:
    """Makes the model's batch of the loader's columns."""
    return Batch(columns["src"].long(), columns["src_len"].long(), columns["tgt"].long(), columns["tgt_len"].long() - 1)


# Vocabularies --------------------------------------------------------------------------------------------------------


def load_vocabs(hparams: HParams) -> Vocabs:
    """Reads the vocabularies of both languages; with `share_vocab` the source's serves for both.

    Raises:
        FileNotFoundError: A file is not there.
        DataError: A file repeats a word, has a blank line or a word with white space, or no words at all; the message
            names file and line. With `check_special_token=false`, also if it does not start with the special words.
    """
    src = _load_vocab(hparams, str(hparams.src))
    return Vocabs(src, src if hparams.share_vocab else _load_vocab(hparams, str(hparams.tgt)))


def _load_vocab(hparams: HParams, suffix: str) -> hr.Vocab:
    (path,) = find_side(str(hparams.vocab_prefix), suffix, "vocab_prefix")
    special = [UNKNOWN, hparams.sos, hparams.eos]
    vocab = hr.Vocab.from_file(path, special=special[1:], missing="prepend")
    words = [word for word in vocab if word not in special]
    if not words:
        raise hr.DataError(f"{path} has no words: expected one a line, the most frequent first")
    if list(hr.read_text(path, index="memory").take(3)) == special:
        return vocab
    if not hparams.check_special_token:
        raise hr.DataError(
            f"{path} starts with other words than {', '.join(special)}: put these three on its first lines, "
            "or leave out --check_special_token=false, which writes a copy that has them there"
        )
    vocab = hr.Vocab([*special, *words])
    if hparams.out_dir:
        copy = Path(hparams.out_dir, os.path.basename(path).removesuffix(".gz"))
        if not (copy.exists() and copy.samefile(path)):  # the user's own file stays as it is
            vocab.save(copy)
    return vocab
