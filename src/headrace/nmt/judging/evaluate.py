"""How good a model is: its perplexity on given pairs, and the score of its translations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch

import headrace as hr
from headrace.nmt.data import Vocabs, batches, read_pairs, to_batch, with_words
from headrace.nmt.hparams import HParams
from headrace.nmt.infer import Translator
from headrace.nmt.judging import metrics
from headrace.nmt.model import Seq2Seq
from headrace.nmt.speed import fast
from headrace.nmt.text.files import write_lines
from headrace.nmt.text.special import UNK

__all__ = ["EvalSet"]


@dataclass
class EvalSet:
    """Sentence pairs to evaluate with.

    Attributes:
        name: dev or test.
        loader: Batches of the pairs without an empty side, for the perplexity.
        sources: All source sentences.
        references: Their translations.
    """

    name: str
    loader: hr.Loader
    sources: list[str]
    references: list[str]

    @classmethod
    def read(cls, name: str, vocabs: Vocabs, hparams: HParams, texts: HParams | None = None) -> EvalSet | None:
        """Reads the files of the setting `<name>_prefix`; None if there is no such setting.

        Args:
            name: dev or test.
            vocabs: The words.
            hparams: The settings.
            texts: Those with the files of whole words, where the files of `hparams` were cut into subwords.

        Raises:
            OSError: A file cannot be read.
            DataError: The files differ in length, or there is no pair in them.
        """
        flag = f"{name}_prefix"
        if not getattr(hparams, flag):
            return None
        pairs = read_pairs(hparams, flag)
        full = with_words(pairs, hparams, flag)
        records = list(pairs if texts is None else read_pairs(texts, flag))
        return cls(
            name,
            hr.Loader(batches(full, vocabs, hparams, training=False), to="torch"),
            [record["src"] for record in records],
            [record["tgt"] for record in records],
        )

    def unknown(self) -> tuple[float, float]:
        """Returns the shares of source and target words that are not in the vocabularies."""
        src = tgt = src_words = tgt_words = 0
        self.loader.set_epoch(0)
        for columns in self.loader:
            batch = to_batch(columns)
            src, src_words = src + int((batch.src_BS == UNK).sum()), src_words + int(batch.src_len_B.sum())
            tgt, tgt_words = tgt + int((batch.tgt_BT1 == UNK).sum()), tgt_words + int((batch.tgt_len_B - 1).sum())
        return src / src_words, tgt / tgt_words

    def perplexity(self, model: Seq2Seq) -> float:
        """Returns the perplexity of the references: the exponential of the mean loss of a word, eos included."""
        total, words = 0.0, 0
        self.loader.set_epoch(0)
        with torch.no_grad():
            for columns in self.loader:
                batch = to_batch(columns)
                total += float(fast.loss(model, batch.to(model.device))) * len(batch.src_BS)
                words += int(batch.tgt_len_B.sum())
        return exp(total / words)

    def scores(self, translator: Translator, output: Path) -> dict[str, float]:
        """Translates all sources into a file; returns each metric that the settings ask for."""
        hparams = translator.hparams
        hypotheses = [translation.text for translation in translator.translate(self.sources)]
        write_lines(output, hypotheses)
        return {
            name: metrics.score(name, self.references, hypotheses, hparams.reference_subwords, hparams.detokenize)
            for name in hparams.metric_names
        }


def exp(x: float) -> float:
    """Returns e to the power of x, infinity where that is too large."""
    return math.exp(x) if x < 700 else math.inf
