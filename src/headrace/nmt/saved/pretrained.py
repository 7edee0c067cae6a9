"""Word vectors that were trained elsewhere, in the text formats of GloVe and word2vec."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

import headrace as hr
from headrace.nmt.data import Vocabs
from headrace.nmt.hparams import HParamError, HParams
from headrace.nmt.model import Seq2Seq
from headrace.nmt.text.files import find_side, open_text
from headrace.nmt.text.special import NUM_SPECIAL

__all__ = ["fill_embeddings", "read_vectors"]


def fill_embeddings(model: Seq2Seq, vocabs: Vocabs, hparams: HParams) -> list[str]:
    """Gives a new model the vectors of `embed_prefix`; returns what to tell of it, a line for each language.

    Words that the files have keep their vectors in training. The others, and the special words, are learned.

    Raises:
        FileNotFoundError: A file is not there.
        HParamError: Its vectors are not as wide as the model.
        DataError: A line of it is damaged, or it has none of the words.
    """
    said = []
    sides = [("source", hparams.src, vocabs.src, model.src_embedding_VU, model.src_frozen_V)]
    if not hparams.share_vocab:
        sides.append(("target", hparams.tgt, vocabs.tgt, model.tgt_embedding_VU, model.tgt_frozen_V))
    for side, suffix, vocab, weight_VU, frozen_V in sides:
        (path,) = find_side(str(hparams.embed_prefix), str(suffix), "embed_prefix")
        ids, vectors = read_vectors(path, vocab, hparams.num_units)
        if not len(ids):
            raise hr.DataError(
                f"{path} has a vector for none of the {len(vocab):,} {side} words: is it of this language?"
            )
        assert frozen_V is not None
        with torch.no_grad():
            weight_VU[torch.from_numpy(ids)] = torch.from_numpy(vectors).to(weight_VU.dtype)
            frozen_V[torch.from_numpy(ids)] = True
        said.append(
            f"# {path}: vectors for {len(ids):,} of {len(vocab):,} {side} words, which stay; the others are learned"
        )
    return said


def read_vectors(path: str, vocab: hr.Vocab, width: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Reads the vectors of a vocabulary's words: a word and its numbers a line, separated by blanks.

    A first line of two numbers, count and width, may stand before them. Of a word that comes again the first vector
    counts.

    Args:
        path: The file; may be gzip.
        vocab: The words.
        width: How many numbers a vector has.

    Returns:
        Ids of the words found, and their vectors.

    Raises:
        HParamError: The file's vectors are of another width.
        DataError: A line is damaged; the message names it.
    """
    known = {word: number for number, word in enumerate(vocab) if number >= NUM_SPECIAL}
    found: dict[int, NDArray[np.float32]] = {}
    for line, fields in _rows(path):
        if line == 1 and len(fields) == 2:
            if fields[1].isdigit() and int(fields[1]) != width:
                raise _other_width(path, int(fields[1]), width)
            continue
        if not found and line <= 2 and len(fields) - 1 != width:
            raise _other_width(path, len(fields) - 1, width)
        number = known.get(" ".join(fields[:-width]))  # some files have words with blanks
        if number is None or number in found:
            continue
        try:
            found[number] = np.array(fields[-width:], dtype=np.float32)
        except ValueError:
            raise hr.DataError(
                f"{path}, line {line}: expected a word and {width} numbers, got {fields[-width:]!r:.80}"
            ) from None
    ids = np.array(sorted(found), dtype=np.int64)
    return ids, np.array([found[number] for number in ids], dtype=np.float32).reshape(-1, width)


def _rows(path: str) -> Iterator[tuple[int, list[str]]]:
    with open_text(path) as opened:
        for line, text in enumerate(opened, 1):
            yield line, text.decode("utf-8", "surrogateescape").rstrip("\r\n ").split(" ")


def _other_width(path: str, found: int, width: int) -> HParamError:
    return HParamError(f"{path} has vectors of {found} numbers, but num_units={width}: they must be equal")
