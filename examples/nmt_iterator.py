"""The input of tensorflow/nmt, built with headrace's own operations: the same batches, and resumable.

    python examples/nmt_iterator.py SRC TGT VOCAB_SRC VOCAB_TGT

prints the batches of two parallel text files. `get_iterator` and `get_infer_iterator` give what the functions of these
names in its `utils/iterator_utils.py` give, in the same order where nothing is shuffled. What they do there, step by
step, stands beside the operation that does it here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headrace as hr

WORD = 50  # ids a word where characters are counted: begin, at most 48 bytes, end, and the rest is padding
BEGIN, END, PADDING = 258, 259, 260
END_OF_CHARACTERS = 257

Arrays = Mapping[str, NDArray[Any]]


def get_iterator(
    src: str,
    tgt: str,
    src_vocab: hr.Vocab,
    tgt_vocab: hr.Vocab,
    batch_size: int,
    *,
    sos: str = "<s>",
    eos: str = "</s>",
    random_seed: int | None = None,
    num_buckets: int = 5,
    src_max_len: int | None = None,
    tgt_max_len: int | None = None,
    skip_count: int = 0,
    num_shards: int = 1,
    shard_index: int = 0,
    use_char_encode: bool = False,
) -> hr.Batches:
    """Batches of sentence pairs; `random_seed=None` keeps the order of the files."""
    # Dataset.zip((src, tgt)) ends with the shorter one; lines are split at blanks only, tabs are parts of words.
    texts = {"src": hr.read_text(src, separators=" "), "tgt": hr.read_text(tgt, separators=" ")}
    pairs = hr.zip(**texts, shortest=True)
    # .shard(num_shards, shard_index).skip(skip_count): counts lines of the shard, those left out below included.
    pairs = pairs.shard(num_shards, shard_index).skip(skip_count)
    # .filter(both sides have words): the index knows, so nothing is read for it.
    pairs = pairs.filter_length(min=1)
    # .shuffle(buffer, random_seed): here the whole shard, another order each epoch.
    if random_seed is not None:
        pairs = pairs.shuffle(seed=random_seed)
    # .map(cut) .map(lookup) .map(sos + tgt, tgt + eos): the target gets both; its two shifted copies are made below.
    words = {"tgt": tgt_vocab} if use_char_encode else {"src": src_vocab, "tgt": tgt_vocab}
    limits = {"tgt": tgt_max_len} if use_char_encode else {"src": src_max_len, "tgt": tgt_max_len}
    ids = pairs.tokens(words, max_length=limits, bos={"tgt": sos}, eos={"tgt": eos})
    if use_char_encode:
        ids = ids.map(lambda pair: {**pair, "src": characters(pair["src"], src_max_len)})
    # .group_by_window(bucket of the longer side, batch_size): the target's length counts sos, not eos.
    unit = WORD if use_char_encode else 1

    def longer(lengths: Arrays) -> NDArray[Any]:
        return np.maximum(lengths["src"] // unit, lengths["tgt"] - 1)

    if num_buckets > 1:
        width = (src_max_len + num_buckets - 1) // num_buckets if src_max_len else 10
        columns = ("src", "tgt") if use_char_encode else ()
        batches = ids.bucket(batch_size, width=width, num_buckets=num_buckets, by=longer, window=None, ragged=columns)
    else:
        batches = ids.batch(batch_size, ragged=("src", "tgt"))
    # .padded_batch(source: eos of the source, both targets: eos of the target)
    src_end = END_OF_CHARACTERS if use_char_encode else src_vocab[eos]
    padded = batches.pad({"src": src_end, "tgt": tgt_vocab[eos]})
    return padded.map(
        lambda batch: {
            "source": batch["src"],
            "target_input": batch["tgt"][:, :-1],
            "target_output": batch["tgt"][:, 1:],
            "source_sequence_length": batch["src_len"] // unit,
            "target_sequence_length": batch["tgt_len"] - 1,
        }
    )


def get_infer_iterator(
    src: str,
    src_vocab: hr.Vocab,
    batch_size: int,
    *,
    eos: str = "</s>",
    src_max_len: int | None = None,
    use_char_encode: bool = False,
) -> hr.Batches:
    """Batches of sentences to translate: in order, empty lines kept."""
    texts = hr.read_text(src, separators=" ")
    if use_char_encode:
        padded = (
            texts.map(lambda text: characters(text, src_max_len)).batch(batch_size, ragged="").pad(END_OF_CHARACTERS)
        )
    else:
        padded = texts.tokens(src_vocab, max_length=src_max_len).batch(batch_size).pad(src_vocab[eos])
    unit = WORD if use_char_encode else 1
    return padded.map(lambda batch: {"source": batch[0], "source_sequence_length": batch[1] // unit})


def characters(text: str, longest: int | None = None) -> NDArray[np.int32]:
    """The bytes of each word between two marks, filled up to 50, each number one higher; 0 stays free.

    Example:
        >>> characters("ab c")[[0, 1, 2, 3, 4, 49, 50, 51, 52]].tolist()
        [259, 98, 99, 260, 261, 261, 259, 100, 260]
    """
    words = [word.encode(errors="surrogateescape")[: WORD - 2] for word in text.split(" ") if word][: longest or None]
    ids = np.full((len(words), WORD), PADDING, np.int32)
    for row, word in zip(ids, words, strict=True):
        row[: len(word) + 2] = [BEGIN, *word, END]
    return ids.reshape(-1) + 1


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    files = sys.argv[1:3]
    vocabs = [hr.Vocab.from_file(path) for path in sys.argv[3:]]
    for batch in hr.Loader(get_iterator(*files, *vocabs, batch_size=32)):
        print(", ".join(f"{name} {array.shape}" for name, array in batch.items()))
