"""Training from plain text: learns subwords from the training files, cuts all files into them, makes vocabularies.

What was learned goes into every checkpoint, so that a checkpoint translates plain text into plain text.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import headrace as hr
from headrace.nmt.data import read_pairs, with_words
from headrace.nmt.hparams import HParamError, HParams
from headrace.nmt.text.bpe import Bpe, learn
from headrace.nmt.text.files import SEPARATORS, find_side, make_folder, replacing
from headrace.nmt.vocab import count_words

__all__ = ["CutPairs", "Subwords", "prepare"]


class Subwords:
    """Cuts sentences into subwords; `metrics.undo_subwords` joins them.

    Args:
        model: What was learned: the merges of BPE as text, or a model of sentencepiece.

    Raises:
        DataError: It is neither.
        ModuleNotFoundError: It is of sentencepiece, which is not installed.
    """

    def __init__(self, model: bytes) -> None:
        self.model = model
        self.bpe: Bpe | None = None
        if model.startswith(b"#version"):
            self.bpe = Bpe.parse(model.decode("utf-8", "surrogateescape"))
            return
        import sentencepiece

        self._spm: Any = sentencepiece.SentencePieceProcessor()
        try:
            self._spm.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise hr.DataError(f"expected merges of BPE or a model of sentencepiece: {error}") from error

    @classmethod
    def learn(cls, option: str, texts: Iterator[str], size: int) -> Subwords:
        """Learns subwords.

        Args:
            option: bpe or spm.
            texts: The sentences.
            size: bpe: merges, so about as many subwords beside the letters; spm: subwords at most.

        Raises:
            HParamError: sentencepiece finds `size` too small for this text.
        """
        if option == "bpe":
            counts = Counter(word for text in texts for word in text.split(SEPARATORS) if word)
            return cls(learn(counts, size).text().encode("utf-8", "surrogateescape"))
        import sentencepiece

        found = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=map(_as_utf8, texts),
                model_writer=found,
                vocab_size=size,
                hard_vocab_limit=False,  # a small text has no more
                normalization_rule_name="identity",  # joined subwords are the text as it was
                character_coverage=1.0,
                bos_id=-1,
                eos_id=-1,
                num_threads=1,  # sums of several come out differently each time
                minloglevel=2,
            )
        except RuntimeError as error:
            reason = str(error).split("\n")[-1].split("] ")[-1] or str(error)
            raise HParamError(f"sentencepiece cannot learn subword_size={size} subwords: {reason}") from error
        return cls(found.getvalue())

    def cut(self, text: str) -> str:
        """Cuts a sentence."""
        return self.bpe.encode(text) if self.bpe else " ".join(self._spm.encode(_as_utf8(text), out_type=str))


def _as_utf8(text: str) -> str:
    """Returns text with a sign in the place of bytes that are no letters, which sentencepiece cannot take."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class CutPairs:
    """Cuts the two sentences of a record, each time in another way.

    Args:
        subwords: What was learned, with BPE.
        dropout: How likely a join is passed over.
    """

    def __init__(self, subwords: Subwords, dropout: float) -> None:
        self.subwords, self.dropout = subwords, dropout

    def __call__(self, record: Mapping[str, str], rng: np.random.Generator) -> dict[str, str]:
        """Makes a record of pieces."""
        bpe = self.subwords.bpe
        assert bpe is not None
        return {side: bpe.encode(text, rng.random, self.dropout) for side, text in record.items()}


def prepare(
    hparams: HParams, folder: Path, say: Callable[[str], None], learned: bytes | None = None
) -> tuple[HParams, Subwords]:
    """Makes training files of plain text, unless they are there and of the same text.

    Args:
        hparams: The settings, `subword_size` among them.
        folder: Where files, vocabularies and the model go.
        say: Told what is done.
        learned: A model to cut with; None: learn one.

    Returns:
        The settings with the prefixes of the new files, and the model.

    Raises:
        OSError: A file cannot be read or written.
        DataError: The files of the two languages are not of the same length.
        HParamError: There cannot be so many subwords.
    """
    names = [name for name in ("train", "dev", "test") if getattr(hparams, f"{name}_prefix")]
    for name in names:
        flag = f"{name}_prefix"
        with_words(read_pairs(hparams, flag), hparams, flag)  # or says what is wrong, in the user's names
    make_folder(folder)
    suffixes = list(dict.fromkeys((str(hparams.src), str(hparams.tgt))))
    sides = {
        f"{name}.{suffix}": find_side(getattr(hparams, f"{name}_prefix"), suffix, f"{name}_prefix")
        for name in names
        for suffix in suffixes
    }
    ready = hparams.replace(
        vocab_prefix=str(folder / "vocab"), **{f"{name}_prefix": str(folder / name) for name in names}
    )
    model, record = folder / "model", _record(hparams, sides)
    if _is_ready(folder, record) and learned in (None, model.read_bytes()):
        return ready, Subwords(model.read_bytes())
    (folder / "made_from.json").unlink(missing_ok=True)
    if learned is None:
        say(f"# learning {hparams.subword_size:,} subwords ({hparams.subword_option}) from the training files")
        texts = (text for suffix in suffixes for text in _lines(sides[f"train.{suffix}"]))
        subwords = Subwords.learn(hparams.subword_option, texts, hparams.subword_size)
    else:
        subwords = Subwords(learned)
    for name, paths in sides.items():
        with (
            replacing(folder / name) as temporary,
            temporary.open("w", encoding="utf-8", errors="surrogateescape") as file,
        ):
            file.writelines(f"{subwords.cut(text)}\n" for text in _lines(paths))
    _write_vocabs(folder, suffixes, subwords, hparams)
    with replacing(model) as temporary:
        temporary.write_bytes(subwords.model)
    with replacing(folder / "made_from.json") as temporary:  # the last one: all others are whole
        temporary.write_text(json.dumps(record), encoding="utf-8")
    say(f"# {', '.join(sides)} cut into subwords, in {folder}")
    return ready, subwords


def _lines(paths: Sequence[str]) -> Iterator[str]:
    yield from hr.read_text(list(paths), index="memory")


def _write_vocabs(folder: Path, suffixes: list[str], subwords: Subwords, hparams: HParams) -> None:
    files = {suffix: [str(folder / f"train.{suffix}")] for suffix in suffixes}
    if hparams.share_vocab:
        together = [path for paths in files.values() for path in paths]
        files = dict.fromkeys(suffixes, together)
    for suffix, paths in files.items():
        vocab = count_words(paths, sos=hparams.sos, eos=hparams.eos).vocab
        if hparams.subword_dropout and subwords.bpe:  # which makes pieces that are never left otherwise
            vocab = hr.Vocab([*vocab, *(piece for piece in subwords.bpe.pieces() if piece not in vocab)])
        vocab.save(folder / f"vocab.{suffix}")


def _record(hparams: HParams, sides: Mapping[str, list[str]]) -> dict[str, Any]:
    """Returns what the files depend on, as JSON has it."""
    flags = ("subword_option", "subword_size", "share_vocab", "sos", "eos")
    stats = {
        name: [[path, Path(path).stat().st_size, Path(path).stat().st_mtime_ns] for path in paths]
        for name, paths in sides.items()
    }
    return {
        **{flag: getattr(hparams, flag) for flag in flags},
        "dropout": hparams.subword_dropout > 0,
        "files": stats,
    }


def _is_ready(folder: Path, record: dict[str, Any]) -> bool:
    try:
        found = json.loads((folder / "made_from.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(found == record) and (folder / "model").is_file()
