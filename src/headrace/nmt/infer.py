"""Translating with a trained model: lists of sentences, and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import headrace as hr
from headrace.nmt.data import Vocabs
from headrace.nmt.hparams import HParamError, HParams
from headrace.nmt.judging import metrics
from headrace.nmt.judging.plot import plot_attention
from headrace.nmt.model import Batch, Seq2Seq
from headrace.nmt.saved import checkpoint
from headrace.nmt.text.files import SEPARATORS, read_lines, write_lines
from headrace.nmt.text.special import EOS, SOS
from headrace.nmt.text.subwords import Subwords
from headrace.nmt.translating.align import pharaoh, read_dictionary, replace_unknown
from headrace.nmt.translating.decode import Model, translate
from headrace.nmt.translating.ensemble import Ensemble
from headrace.nmt.translating.parts import mark_of, part_of, translate_part
from headrace.nmt.translating.processes import translate_by_workers

__all__ = ["Translation", "Translator", "check_references", "score_lines", "translate_file"]


@dataclass(frozen=True)
class Translation:
    """One translation of a sentence.

    Attributes:
        text: The translation, subwords joined.
        words: Its words as the model wrote them.
        source: The words that the model read.
        score: What hypotheses are ordered by: the log-probability after penalties.
        log_prob: The log-probability itself, of the words and eos.
        attention: How much of each source word each word looked at, (words + 1, source words): the last row is that of
            eos, and is not there where the translation was cut. None without attention, or where it was not asked for.
    """

    text: str
    words: list[str]
    source: list[str]
    score: float
    log_prob: float
    attention: NDArray[np.float32] | None = None


class Translator:
    """A model with its vocabularies, ready to translate.

    Args:
        model: The model.
        vocabs: The words of both languages.
        hparams: Settings of the search; None: the model's own.
        subwords: Cuts the sentences; None: they come cut.
        others: Models over the same words that translate together with it.
    """

    def __init__(
        self,
        model: Seq2Seq,
        vocabs: Vocabs,
        hparams: HParams | None = None,
        subwords: Subwords | None = None,
        others: Sequence[Seq2Seq] = (),
    ) -> None:
        self.subwords = subwords
        self.model = model
        self.others = tuple(others)
        self.vocabs = vocabs
        self.hparams = hparams or model.hparams
        self._dictionary: tuple[str | None, dict[str, str] | None] = None, None  # the file, and what it says
        self.dictionary()  # or what is wrong with it, at once

    @classmethod
    def load(cls, path: str | Path | Sequence[str | Path], **settings: object) -> Translator:
        """Reads a checkpoint, or the latest one of a folder such as `out_dir` or `out_dir/best_bleu`.

        Args:
            path: The file or folder; several translate as one, by the mean of their probabilities.
            settings: Settings to change, such as `beam_width=10`; not those of the model itself.

        Raises:
            CheckpointError: There is none, it cannot be read, the settings are of another model, or several have
                not the same words.
        """
        paths = [path] if isinstance(path, str | Path) else list(path)
        if not paths:
            raise checkpoint.CheckpointError("expected a checkpoint or several, got none")
        first, *others = (cls._read(path) for path in paths)
        for saved in (first, *others):
            saved.check_shape(saved.hparams.replace(**settings))
            for side, words, mine in zip(("source", "target"), first.vocabs, saved.vocabs, strict=True):
                if words != mine:
                    raise checkpoint.CheckpointError(
                        f"{first.path} and {saved.path} have not the same {side} words ({len(words):,} and "
                        f"{len(mine):,}): only models with the same vocabularies translate together"
                    )
            if saved.subwords != first.subwords:
                raise checkpoint.CheckpointError(
                    f"{first.path} and {saved.path} cut words in different ways: only models with the same subwords "
                    "translate together"
                )
        subwords = Subwords(first.subwords) if first.subwords else None
        hparams = first.hparams.replace(**settings)
        return cls(first.model(), first.vocabs, hparams, subwords, [saved.model() for saved in others])

    @staticmethod
    def _read(path: str | Path) -> checkpoint.Checkpoint:
        path = Path(path)
        saved = checkpoint.load(path) if not path.is_dir() else checkpoint.latest(path, _no_older)
        if saved is None:
            raise checkpoint.CheckpointError(
                f"{path} has no checkpoint (translate.ckpt-…): train into it first, or name another with --out_dir, "
                "--ckpt"
            )
        return saved

    def cut(self, sentences: Sequence[str]) -> list[str]:
        """Returns sentences as the model reads them: cut into subwords, if it was trained on plain text."""
        return [self.subwords.cut(text) for text in sentences] if self.subwords else list(sentences)

    def dictionary(self) -> dict[str, str] | None:
        """Returns what `replace_unk` writes for words, read once."""
        path = self.hparams.unk_dictionary
        if path != self._dictionary[0]:
            self._dictionary = path, read_dictionary(path) if path else None
        return self._dictionary[1]

    @property
    def models(self) -> Model:
        """What translates: the model, or all of them as one."""
        return Ensemble([self.model, *self.others]) if self.others else self.model

    def translate(self, sentences: Sequence[str], *, attention: bool = False) -> list[Translation]:
        """Returns the best translation of each sentence, in the same order; an empty one stays empty.

        The sentences are batched by length, so that their order changes nothing.

        Args:
            sentences: Source sentences as in the training files: words separated by blanks.
            attention: Whether to keep the attention matrices.
        """
        return [hypotheses[0] for hypotheses in self.nbest(sentences, attention=attention)]

    def nbest(self, sentences: Sequence[str], n: int = 1, *, attention: bool = False) -> list[list[Translation]]:
        """Returns the `n` best translations of each sentence, the best first; beam search keeps up to `beam_width`."""
        texts = self.cut(sentences)
        ids = self.vocabs.src.encode(texts, max_length=self.hparams.src_max_len_infer, separators=SEPARATORS)
        order = list(range(len(texts)))
        if not self.hparams.whole_batch_limit:  # which goes by batches of neighbouring lines
            order.sort(key=lambda i: (len(ids[i]), texts[i]))  # by length, for less padding
        found: list[list[Translation]] = [[] for _ in texts]
        model = self.models
        for start in range(0, len(order), self.hparams.infer_batch_size):
            rows = order[start : start + self.hparams.infer_batch_size]
            part = ids.take(np.array(rows))
            src_BS = torch.from_numpy(hr.pad(part, EOS)).long()
            with torch.inference_mode():
                lengths_B = torch.from_numpy(part.lengths)
                result = translate(model, src_BS.to(model.device), lengths_B.to(model.device), self.hparams).cpu()
            for b, row in enumerate(rows):
                source = [word for word in texts[row].split(SEPARATORS) if word][: int(part.lengths[b])]
                for k in range(min(n, result.ids_BKT.shape[1])):
                    words = self.vocabs.tgt.tokens(result.words(b, k))
                    matrix = None
                    if result.alignments_BKTS is not None and (attention or self.hparams.replace_unk):
                        matrix = result.alignments_BKTS[b, k, : len(words) + 1, : len(source)].numpy().copy()
                        if not matrix[len(words) :].any():  # cut before eos: whether there is a row depends on others
                            matrix = matrix[: len(words)]
                        if self.hparams.replace_unk:
                            words = replace_unknown(words, source, matrix, self.dictionary())
                        matrix = matrix if attention else None
                    text = metrics.undo_subwords(" ".join(words), self.hparams.subword_option)
                    scores = float(result.scores_BK[b, k]), float(result.log_probs_BK[b, k])
                    found[row].append(Translation(text, words, source, *scores, matrix))
        return found

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """Returns how likely the model finds given translations: the natural logarithm, summed over words and eos.

        Args:
            sources: Source sentences.
            targets: A translation of each.

        Raises:
            DataError: There are not as many of one as of the other.
        """
        if len(sources) != len(targets):
            raise hr.DataError(f"expected a target for each source, got {len(sources):,} and {len(targets):,}")
        sides = zip((self.vocabs.src, self.vocabs.tgt), (self.cut(sources), self.cut(targets)), strict=True)
        src, tgt = (vocab.encode(texts, separators=SEPARATORS) for vocab, texts in sides)
        order = sorted(range(len(sources)), key=lambda i: (len(src[i]), len(tgt[i]), sources[i], targets[i]))
        found, model = [0.0] * len(order), self.models
        for start in range(0, len(order), self.hparams.infer_batch_size):
            rows = np.array(order[start : start + self.hparams.infer_batch_size])
            source, target = src.take(rows), tgt.take(rows)
            src_BS = torch.from_numpy(hr.pad(source, EOS)).long()
            tgt_BT = torch.from_numpy(hr.pad(target, EOS)).long()
            around = tgt_BT.new_full((len(rows), 1), SOS), tgt_BT.new_full((len(rows), 1), EOS)
            lengths = torch.from_numpy(source.lengths), torch.from_numpy(target.lengths) + 1
            src_BS = src_BS if src_BS.shape[1] else around[1]
            batch = Batch(src_BS, lengths[0], torch.cat([around[0], tgt_BT, around[1]], dim=1), lengths[1])
            with torch.inference_mode():
                batch = batch.to(model.device)
                log_p_TB = model(batch).log_softmax(dim=2).gather(2, batch.tgt_out_TB[:, :, None])[:, :, 0]
                totals_B = (log_p_TB * batch.real_TB).sum(dim=0)
            for row, total in zip(rows.tolist(), totals_B.tolist(), strict=True):
                found[row] = total
        return found


def _no_older(message: str) -> None:
    """Someone who asks for the latest checkpoint to translate with should not silently get another."""
    raise checkpoint.CheckpointError(message.removeprefix("# ").removesuffix(". Trying the one before it"))


def translate_file(translator: Translator, source: str | Path, target: str | Path) -> list[str]:
    """Translates a file line by line into another; returns what it wrote, `num_translations_per_input` lines each.

    With several `num_workers` so many processes do it. With a `jobid` as well, so many programs do, and this one
    translates its part of the lines; job 0 waits for the others and returns all of them.
    With `inference_list` only the lines named there. Then a picture of the attention is written beside the target for
    each, `TARGET` followed by the line's number and `.png`, if the model has attention. `nbest_file` gets all
    hypotheses that the search kept, and `alignment_file` the alignment of each line written.

    Raises:
        OSError: The source cannot be read, or the target not written; an older target is then as it was.
        HParamError: `inference_list` names a line that the source hasn't.
        PartError: Another program, or a process, has not done its part.
    """
    texts, chosen = read_lines(source), translator.hparams.inference_lines
    if beyond := [number for number in chosen if number >= len(texts)]:
        raise HParamError(f"inference_list names line {beyond[0]}, but {source} has the lines 0 to {len(texts) - 1}")
    hparams, count = translator.hparams, translator.hparams.num_translations_per_input
    if hparams.num_workers > 1 and hparams.jobid is not None:
        weights = (w for model in (translator.model, *translator.others) for w in model.state_dict().values())

        def translate_mine() -> list[str]:
            found = translator.nbest(part_of(texts, hparams), count)
            return [hypothesis.text for sentence in found for hypothesis in sentence[:count]]

        return translate_part(Path(target), hparams, mark_of(texts, weights, hparams), translate_mine)
    sentences = [texts[number] for number in chosen] if chosen else texts
    alignments, nbest = hparams.alignment_file, hparams.nbest_file
    kept = hparams.hypotheses if nbest else count
    attention = bool(chosen or alignments)
    if hparams.num_workers > 1:
        everything = translate_by_workers(translator, sentences, kept, hparams.num_workers, attention=attention)
    else:
        everything = translator.nbest(sentences, kept, attention=attention)
    hypotheses = [sentence[:count] for sentence in everything]
    for number, (best, *_) in zip(chosen, hypotheses, strict=False):
        if best.attention is not None and best.source:
            plot_attention(f"{target}{number}.png", best.attention, best.source, best.words)
    if nbest:
        write_lines(Path(nbest), nbest_lines(everything, chosen or range(len(sentences))))
    if alignments:
        every = [hypothesis for sentence in hypotheses for hypothesis in sentence]
        write_lines(
            Path(alignments), ["" if h.attention is None else pharaoh(h.attention, len(h.words)) for h in every]
        )
    lines = [hypothesis.text for sentence in hypotheses for hypothesis in sentence]
    write_lines(Path(target), lines)
    return lines


def nbest_lines(hypotheses: Sequence[Sequence[Translation]], numbers: Iterable[int]) -> list[str]:
    """Writes hypotheses as lists of n best usually are: `LINE ||| TRANSLATION ||| LOG-PROBABILITY ||| SCORE`.

    Args:
        hypotheses: Of each sentence, the best first.
        numbers: The lines of the sentences, counted from 0.
    """
    return [
        f"{number} ||| {found.text} ||| {found.log_prob:.6f} ||| {found.score:.6f}"
        for number, sentence in zip(numbers, hypotheses, strict=True)
        for found in sentence
    ]


def check_references(count: int, source: str | Path) -> None:
    """Refuses references that are not as many as the lines of the file to translate.

    Raises:
        OSError: The file cannot be read.
        DataError: The message has both numbers.
    """
    lines = len(hr.read_text(source, index="memory"))
    if lines != count:
        raise hr.DataError(
            f"expected a reference for each sentence, got {count:,} references for the {lines:,} lines of {source}: "
            "give the --inference_ref_file that belongs to it"
        )


def score_lines(references: Sequence[str], hypotheses: Sequence[str], hparams: HParams) -> Iterator[str]:
    """Yields a line for each metric that the settings ask for, and one for sacreBLEU in any case.

    Those of sacreBLEU come with the signature that makes them comparable.

    Raises:
        DataError: There is not one hypothesis for each reference.
    """
    if len(references) != len(hypotheses):
        raise hr.DataError(
            f"expected a reference for each translation, got {len(references):,} references and "
            f"{len(hypotheses):,} translations: give the file that belongs to --inference_input_file"
        )
    how = hparams.reference_subwords, hparams.detokenize
    for name in dict.fromkeys((*hparams.metric_names, "sacrebleu")):
        try:
            value = metrics.score(name, references, hypotheses, *how)
            yield f"{name}: {value:.1f}" + (f" ({metrics.signature(name)})" if name in metrics.SACRE else "")
        except ModuleNotFoundError:
            yield f"{name}: not installed; pip install 'headrace[nmt]'"
