"""How good a model in training is: perplexities, scores of its translations, and the checkpoints that did best."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from headrace.nmt.data import Vocabs
from headrace.nmt.hparams import HParams
from headrace.nmt.infer import Translator
from headrace.nmt.judging import metrics
from headrace.nmt.judging.evaluate import EvalSet
from headrace.nmt.judging.plot import plot_attention
from headrace.nmt.model import Seq2Seq
from headrace.nmt.saved import checkpoint
from headrace.nmt.saved.average import average, last_weights
from headrace.nmt.saved.checkpoint import Checkpoint
from headrace.nmt.text.subwords import Subwords
from headrace.nmt.training.progress import Progress
from headrace.nmt.training.report import Report

__all__ = ["Judge", "draw_seed"]


class Judge:
    """Evaluates a run's model on dev and test.

    Args:
        hparams: The settings.
        files: The settings whose files the model reads: those cut into subwords, where the program cut them.
        model: The model.
        vocabs: Its words.
        subwords: Cuts plain text; None: it comes cut.
        progress: Gets the points of all curves, and the best scores.
        report: Is told.
        snapshot: Returns the run as it is now.

    Raises:
        OSError: A file of dev or test cannot be read.
        DataError: There is nothing in it.
    """

    def __init__(
        self,
        hparams: HParams,
        files: HParams,
        model: Seq2Seq,
        vocabs: Vocabs,
        subwords: Subwords | None,
        progress: Progress,
        report: Report,
        snapshot: Callable[[], Checkpoint],
    ) -> None:
        self.hparams, self.model, self.vocabs, self.subwords = hparams, model, vocabs, subwords
        self.progress, self.report, self.snapshot = progress, report, snapshot
        self.out_dir = Path(str(hparams.out_dir))
        self.shown = progress.step  # the last step of which TensorBoard has a sample
        found = [EvalSet.read(name, vocabs, files, hparams) for name in ("dev", "test")]
        self.sets = [data for data in found if data is not None]
        for data in self.sets:
            src, tgt = data.unknown()
            advice = "; is --vocab_prefix that of these files?" if max(src, tgt) > 0.3 else ""
            report.line(f"# {data.name}: {src:.1%} of source and {tgt:.1%} of target words are unknown{advice}")

    def evaluate(self, score: bool = False) -> None:
        """Measures perplexities and shows a sample; with `score` also translates and keeps the best checkpoint.

        What was measured at this step is not measured again.
        """
        progress, translator = self.progress, Translator(self.model, self.vocabs, self.hparams, self.subwords)
        if progress.step and self.sets and self.sets[0].name == "dev":
            self.sample(self.sets[0], translator)
        for data in self.sets:
            if progress.at(f"{data.name}_ppl", progress.step) is None:
                began = time.perf_counter()
                self.add(f"{data.name}_ppl", perplexity := data.perplexity(self.model))
                took = time.perf_counter() - began
                self.report.line(f"  eval {data.name}: perplexity {perplexity:.2f}, time {took:.0f}s, {time.ctime()}")
        if score and progress.step and not self.scored():
            self.report.line(f"# External evaluation, global step {progress.step}")
            for data in self.sets:
                for name, value in data.scores(translator, self.out_dir / f"output_{data.name}").items():
                    self.add(f"{data.name}_{name}", value)
                    self.report.line(f"  {name} {data.name}: {value:.1f}")
            for name in self.hparams.metric_names:
                self.keep_best(name, self.snapshot())
            if self.hparams.avg_ckpts:
                self.evaluate_average()

    def add(self, curve: str, value: float) -> None:
        """Adds a point to a curve."""
        self.progress.add(curve, value)
        self.report.board.scalars(self.progress.step, {curve: value})

    def evaluate_average(self) -> None:
        """Scores the mean of the last checkpoints, the present weights included, and keeps it."""
        progress, count = self.progress, self.hparams.num_keep_ckpts
        earlier = last_weights(self.out_dir, progress.step, count - 1)
        if earlier is None:
            self.report.line(f"# no average yet: it takes {count} checkpoints")
            return
        saved = dataclasses.replace(self.snapshot(), weights=average([*earlier, self.model.state_dict()]))
        translator = Translator(saved.model(), self.vocabs, self.hparams, self.subwords)
        for data in self.sets:
            for name, value in data.scores(translator, self.out_dir / f"output_avg_{data.name}").items():
                self.add(f"{data.name}_avg_{name}", value)
                self.report.line(f"  {name} {data.name}, average of {count} checkpoints: {value:.1f}")
        checkpoint.save(self.out_dir / "avg_checkpoints", saved)
        checkpoint.prune(self.out_dir / "avg_checkpoints", keep=1)
        for name in self.hparams.metric_names:
            self.keep_best(f"avg_{name}", saved)

    def keep_best(self, name: str, saved: Checkpoint) -> None:
        """Keeps a checkpoint if it scored better on dev than all before."""
        found, best = self.progress.at(f"dev_{name}", self.progress.step), self.progress.best
        metric = name.removeprefix("avg_")
        if found is not None and (name not in best or metrics.better(metric, found, best[name])):
            best[name] = found
            checkpoint.save(self.best_dir(name), saved)
            checkpoint.prune(self.best_dir(name), keep=1)

    def sample(self, data: EvalSet, translator: Translator) -> None:
        """Shows the translation of a sentence drawn by seed and step."""
        i = draw_seed(self.hparams, self.progress.step, "sample") % len(data.sources)
        source, reference = data.sources[i], data.references[i]
        (found,) = translator.translate([source], attention=True)
        self.report.line(f"  # {i}\n    src: {source}\n    ref: {reference}\n    nmt: {found.text}")
        board, step = self.report.board, self.progress.step
        if step == self.shown:
            return
        self.shown = step
        board.text(step, "sample", f"**source** {source}\n\n**reference** {reference}\n\n**translation** {found.text}")
        if found.attention is not None and found.source:
            picture = io.BytesIO()
            with contextlib.suppress(ModuleNotFoundError):  # matplotlib is not needed otherwise
                plot_attention(picture, found.attention, found.source, found.words)
                board.picture(step, "attention_images", picture.getvalue())

    def out_of_patience(self) -> bool:
        """Says whether dev has not got better for so many measurements that training should stop."""
        name = self.hparams.watched if self.hparams.patience else ""
        values = [value for step, value in self.progress.curves.get(f"dev_{name}", []) if step]
        best = 0
        for i, value in enumerate(values):
            best = i if metrics.better(name, value, values[best]) else best
        return bool(values) and 0 < self.hparams.patience <= len(values) - 1 - best

    def scored(self) -> bool:
        """Says whether the translations of this step have been scored, or there are none to score."""
        names = [f"{data.name}_{name}" for data in self.sets for name in self.hparams.metric_names]
        return all(self.progress.at(name, self.progress.step) is not None for name in names)

    def best_so_far(self) -> str:
        """Returns the best scores on dev, as in `bleu 34.10`; `bleu -` before the first."""
        best = self.progress.best
        return " ".join(
            f"{name} {best[name]:.2f}" if name in best else f"{name} -" for name in self.hparams.metric_names
        )

    def best_dir(self, metric: str) -> Path:
        """Returns where the best checkpoint of a metric goes."""
        of_average = metric.startswith("avg_")
        return self.out_dir / (f"avg_best_{metric.removeprefix('avg_')}" if of_average else f"best_{metric}")


def draw_seed(hparams: HParams, step: int, purpose: str) -> int:
    """Returns 32 bits that depend on the seed, the step and what they are for."""
    entropy = [abs(hparams.random_seed or 0), step, *purpose.encode()]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])
