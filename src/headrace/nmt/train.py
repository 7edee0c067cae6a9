"""Training, from the settings to the best checkpoint.

Read it from top to bottom: `train` sets up a run or takes up an old one, `Run.loop` is the training loop, and what
the loop does every step, every hundred steps, every thousand and at the end follows in that order. How good the model
is, `judging/judge.py` finds out; what several processes that train together tell each other is in
`training/distributed.py`.

A run is a function of its data and settings: the order of the sentences, dropout and the samples that are shown
depend on the seed and the step, so a run that was killed goes on from its latest checkpoint as if nothing had been.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import headrace as hr
from headrace.nmt.data import batches, load_vocabs, read_pairs, to_batch, with_words
from headrace.nmt.hparams import HParamError, HParams, flags_of
from headrace.nmt.infer import Translator
from headrace.nmt.judging.evaluate import exp
from headrace.nmt.judging.judge import Judge, draw_seed
from headrace.nmt.model import Batch, Seq2Seq
from headrace.nmt.saved import checkpoint
from headrace.nmt.saved.checkpoint import Checkpoint, changes
from headrace.nmt.saved.pretrained import fill_embeddings
from headrace.nmt.speed import fast
from headrace.nmt.speed.graphs import GraphedLoss, round_up_steps
from headrace.nmt.speed.runtime import place, prepare_process
from headrace.nmt.text.files import locked, make_folder
from headrace.nmt.text.subwords import CutPairs, prepare
from headrace.nmt.training.distributed import Ranks
from headrace.nmt.training.interrupt import Interrupt
from headrace.nmt.training.optim import Optimizer, learning_rate
from headrace.nmt.training.placement import find_gpus, place_layers, spread
from headrace.nmt.training.progress import Progress, Window
from headrace.nmt.training.report import Report

__all__ = ["DivergedError", "Result", "train"]


class DivergedError(hr.HeadraceError, ArithmeticError):
    """The loss is no longer a number: training was stopped, and the checkpoints before that kept."""


@dataclass(frozen=True)
class Result:
    """What came of a training run.

    Attributes:
        step: Updates made, those before a resumption included.
        seconds: Time that this call took.
        scores: The last of each curve, and the best score of each metric on dev as `best_<metric>`.
        curves: Points (step, value) of `train_ppl`, `dev_ppl`, `test_ppl`, `dev_<metric>`, `test_<metric>`.
        translator: The final model.
        data: The loader's report: whether the model waited for its data.
        best: Where the best checkpoint of each metric is.
    """

    step: int
    seconds: float
    scores: dict[str, float]
    curves: dict[str, list[tuple[int, float]]]
    translator: Translator
    data: hr.Stats
    best: dict[str, Path]


def train(hparams: HParams, *, progress: bool | None = None, quiet: bool = False) -> Result:
    """Trains a model, or goes on training the one in `out_dir`.

    Args:
        hparams: The settings; src, tgt, train_prefix, vocab_prefix and out_dir are needed.
        progress: Show a progress bar; None: where standard output is a terminal and rich is installed.
        quiet: Write the log to `out_dir` alone.

    Raises:
        HParamError: A setting is missing.
        OSError: A file cannot be read.
        DataError: The training data or a vocabulary is malformed.
        CheckpointError: The checkpoints in `out_dir` do not fit, or one cannot be written.
        DivergedError: The loss overflows.
        KeyboardInterrupt: Ctrl-C, or as Terminated SIGTERM; the last step that was completed is saved, and the message
            says what comes next.
    """
    for name in ("src", "tgt", "train_prefix", "vocab_prefix", "out_dir"):
        if not getattr(hparams, name) and not (name == "vocab_prefix" and hparams.subword_size):
            known = "" if not hparams.out_dir else f" (nothing is known from an earlier run in {hparams.out_dir})"
            raise HParamError(f"training needs --{name}; --help says what it is{known}")
    began = time.perf_counter()
    find_gpus(hparams)  # or say at once that there are too few
    prepare_process(hparams.num_intra_threads)
    out_dir = Path(str(hparams.out_dir))
    make_folder(out_dir)
    with (
        Ranks.join() as ranks,
        locked(out_dir) if ranks.leads else contextlib.nullcontext(),
        Report(out_dir, hparams.num_train_steps, progress, quiet, silent=not ranks.leads) as report,
    ):
        saved = checkpoint.latest(out_dir, report.line)
        if hparams.random_seed is None:  # stays the same over the whole run
            seed = saved.hparams.random_seed if saved else int(np.random.SeedSequence().generate_state(1)[0])
            hparams = hparams.replace(random_seed=ranks.tell(seed))
            report.line(f"# random_seed {seed}")
        ranks.agree("settings", dataclasses.asdict(hparams))
        ranks.agree("the step to go on from", saved.step if saved else 0)
        try:
            run = Run(hparams, out_dir, report, saved, ranks)
            try:
                run.loop()
                return run.finish(began)
            finally:
                run.loader.close()
        except KeyboardInterrupt as error:
            raise type(error)(_what_next(out_dir)) from error


def _what_next(out_dir: Path) -> str:
    steps = list(checkpoint.steps_of(out_dir))
    if not steps:
        return "stopped before there was a checkpoint; the same command begins anew"
    return f"stopped; the same command goes on from the checkpoint of step {steps[-1]}"


def _progress_of(saved: Checkpoint) -> Progress:
    try:
        return Progress.of(saved.progress)
    except (KeyError, TypeError) as error:
        raise checkpoint.CheckpointError(
            f"{saved.path} cannot go on: what it says of the progress is damaged ({error!r}); delete it, and training "
            "goes on from the one before"
        ) from error


class Run:
    """A training run: its data, model, optimiser, and how far it has come."""

    def __init__(self, hparams: HParams, out_dir: Path, report: Report, saved: Checkpoint | None, ranks: Ranks) -> None:
        self.hparams, self.out_dir, self.report, self.ranks = hparams, out_dir, report, ranks
        try:
            self.device = place(hparams.device)
        except ValueError as error:
            raise HParamError(str(error)) from None
        files, self.subwords = hparams, None
        with ranks.first_alone():
            if hparams.subword_size:
                learned = saved.subwords if saved else None
                files, self.subwords = prepare(hparams, out_dir / "subwords", report.line, learned)
            self.vocabs = load_vocabs(files)
        pairs = with_words(read_pairs(files, "train_prefix"), files, "train_prefix")
        if self.subwords and hparams.subword_dropout:
            pairs = (
                read_pairs(hparams, "train_prefix")
                .filter_length()
                .map(CutPairs(self.subwords, hparams.subword_dropout), rng=True, seed=draw_seed(hparams, 0, "subwords"))
            )
        self.loader = hr.Loader(batches(pairs, self.vocabs, hparams, training=True), workers=1, to="torch")
        generator = torch.Generator().manual_seed(draw_seed(hparams, 0, "weights"))
        self.model = Seq2Seq(hparams, len(self.vocabs.src), len(self.vocabs.tgt), generator)
        if self.model.chars is not None:
            self.model.chars.set_words(list(self.vocabs.src))
        if hparams.embed_prefix is not None and saved is None:
            for line in fill_embeddings(self.model, self.vocabs, hparams):
                report.line(line)
        self.evaluated = self.model  # what is evaluated and translates: a copy, if layers are on several GPUs
        if gpus := find_gpus(hparams):
            self.device = torch.device("cpu")  # from which each layer takes what it needs
            self.evaluated = copy.deepcopy(self.model)
            spread(self.model, place_layers(hparams, len(gpus), len(self.vocabs.src), len(self.vocabs.tgt)), gpus)
        else:
            self.model.to(self.device)  # drawn on the CPU, for the first weights to be the same everywhere
        alone = ranks.size == 1 and hparams.accumulate == 1 and not hparams.num_sampled_softmax
        scaled = hparams.compute_dtype == "float16"
        graphed = self.device.type == "cuda" and alone and not scaled and fast.covers(hparams)
        self.graphs = GraphedLoss(self.model) if graphed else None
        self.optimizer = Optimizer(self.model.parameters(), hparams)
        self.progress = Progress() if saved is None else _progress_of(saved)
        self.began_at = self.progress.step
        self.held: list[Batch] = []  # batches whose gradients are to make the next update,
        self.loss = 0.0  # and the loss of this rank's share of them
        self.enough = False  # whether dev has not got better for long
        self.interrupt, self.stopping = Interrupt(), False  # whether this process is asked to stop, and any of them
        self.mark = time.perf_counter()  # when the last step ended
        words = f"{len(self.vocabs.src):,} source and {len(self.vocabs.tgt):,} target words"
        weights = sum(p.numel() for p in self.model.parameters())
        report.line(f"# {len(pairs):,} sentence pairs, {words}, {weights:,} weights")
        if hparams.pass_hidden_state and not (hparams.passes_state or hparams.language_model):
            report.line("# encoder and decoder are not equally deep: the decoder starts from zeros")
        with ranks.first_alone():
            judged = hparams, files, self.evaluated, self.vocabs, self.subwords, self.progress
            self.judge = Judge(*judged, report, self.checkpoint)
        report.board.begin(self.progress.step)
        if saved is not None:
            self.take_up(saved)

    def take_up(self, saved: Checkpoint) -> None:
        """Goes on from a checkpoint: with the next batch, or with a new epoch if other data is asked for."""
        before = saved.hparams
        saved.check_shape(self.hparams)
        saved.check_vocabs(self.vocabs)
        self.model.load_state_dict(saved.model().state_dict())
        self.report.line(f"# going on from {saved.path}, step {saved.step}")
        if before.optimizer == self.hparams.optimizer:
            try:
                self.optimizer.load_state_dict(saved.optimizer)
            except (ValueError, KeyError, TypeError) as error:
                what = error if isinstance(error, ValueError) else f"the saved optimiser is damaged ({error!r})"
                raise checkpoint.CheckpointError(
                    f"{saved.path} cannot go on: {what}; delete it, and training goes on from the one before"
                ) from error
        else:
            self.report.line("# another optimizer than before: it starts anew")
        changed = changes(before, self.hparams)
        for name in changed:
            self.report.line(f"# {name}: {getattr(before, name)} -> {getattr(self.hparams, name)}")
        if not set(changed).isdisjoint(flags_of("data")):
            self.loader.set_epoch(saved.loader["epoch"] + 1)
            self.begin_epoch()
            self.report.line("# other data or batches than before: a new epoch begins")
            return
        try:
            self.loader.load_state_dict(saved.loader)
        except hr.StateError as error:
            raise checkpoint.CheckpointError(
                f"{saved.path} cannot go on, as the training data is not what it was: {error}; put the old data back, "
                "or give the new one another name with --train_prefix to begin a new epoch with it"
            ) from error

    def loop(self) -> None:
        """Trains up to `num_train_steps`; after Ctrl-C or SIGTERM saves the last step and raises KeyboardInterrupt."""
        hparams, progress = self.hparams, self.progress
        if progress.step >= hparams.num_train_steps:
            self.report.line(f"# nothing left to train: raise --num_train_steps above {progress.step} to go on")
        self.enough = self.judge.out_of_patience()
        if self.enough:
            self.report.line(f"# nothing left to train: raise --patience above {hparams.patience} to go on")
        if progress.step == 0:
            self.evaluate()  # of the new model: about as many as there are target words
        with self.interrupt:
            while progress.step < hparams.num_train_steps and not self.enough:
                if self.loader.epoch != progress.epoch:  # the last run stopped at the end of an epoch
                    self.end_epoch()
                self.epoch()

    def epoch(self) -> None:
        """Trains on what is left of an epoch, or up to `num_train_steps`."""
        hparams, progress = self.hparams, self.progress
        for columns in self.loader:
            if not self.update(to_batch(columns)):
                continue
            if progress.step % hparams.steps_per_stats == 0:
                self.log()
            score = progress.step % hparams.external_eval_steps == 0
            if score or progress.step % (10 * hparams.steps_per_stats) == 0:
                self.evaluate(score)
                self.save()
            if self.stopping:
                self.save()
                raise self.interrupt.stop()
            if progress.step == hparams.num_train_steps or self.enough:
                return
        self.end_epoch()

    def end_epoch(self) -> None:
        """Evaluates, as in the tutorial; but not after epochs of a few steps, which would be spent on evaluations."""
        progress = self.progress
        if progress.step - progress.epoch_began >= 10 * self.hparams.steps_per_stats:
            self.report.line(f"# Finished an epoch, step {progress.step}. Perform external evaluation")
            self.evaluate(score=True)
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Notes where the epoch begins that the loader comes to."""
        self.progress.epoch, self.progress.epoch_began = self.loader.epoch, self.progress.step

    # every step ----------------------------------------------------------------------------------------------------

    def update(self, batch: Batch) -> bool:
        """Makes one step; with `accumulate`, after so many batches. Returns whether it did.

        Args:
            batch: The sentences, of all ranks together.
        """
        progress, window = self.progress, self.progress.window
        self.backward(batch)
        if len(self.held) < self.hparams.accumulate:
            return False
        held, self.held = self.held, []
        sentences = sum(len(batch.src_BS) for batch in held)
        total, stopping = self.ranks.add_up(self.model.parameters(), (self.loss, float(self.interrupt.asked > 0)))
        self.loss, self.stopping = 0.0, stopping > 0
        if len(held) > 1:
            self.take_mean(sentences)
        norm = self.optimizer.step(progress.step)
        progress.step += 1
        if not math.isfinite(norm) and self.optimizer.lowered:
            scale = f"loss scale {2 * self.optimizer.scale:g} -> {self.optimizer.scale:g}"
            self.report.line(f"# step {progress.step}: a gradient too large for float16 was left out; {scale}")
            norm = 0.0
        if not math.isfinite(total) or not math.isfinite(norm):
            self.stop(f"loss {total / sentences}, gradient norm {norm}")
        now = time.perf_counter()
        window.steps += 1
        window.seconds += now - self.mark
        window.loss += total
        window.tgt_words += sum(int(batch.tgt_len_B.sum()) for batch in held)
        window.all_words += sum(int(batch.src_len_B.sum()) + int(batch.tgt_len_B.sum()) for batch in held)
        window.norm += norm
        self.mark = now
        curves = {"train_loss": total / sentences, "lr": learning_rate(self.hparams, progress.step - 1)}
        curves |= {"grad_norm": norm, "clipped_gradient": min(norm, self.hparams.max_gradient_norm)}
        self.report.board.scalars(progress.step, curves)
        self.report.advance(progress.step, f"ppl {exp(window.loss / window.tgt_words):.2f}")
        return True

    def backward(self, batch: Batch) -> None:
        """Adds the gradient of this rank's share of a batch to what is held."""
        purpose = "dropout" + (f" {len(self.held)}" if self.held else "")
        generator = torch.Generator(self.device).manual_seed(draw_seed(self.hparams, self.progress.step, purpose))
        model = self.model.train()
        if self.graphs is not None and len(batch.src_BS) == self.hparams.batch_size:
            steps = round_up_steps(batch).to(self.device)
            self.loss += self.graphs(steps, model.draw_masks(steps, generator)).item() * len(batch.src_BS)
            model.eval()
            self.held.append(batch)
            return
        share, masks = self.ranks.share(model, batch, model.draw_masks(batch, generator))
        if size := len(share.src_BS):
            loss = fast.loss(model, share.to(self.device), masks)
            # Of several batches the sum is held until it is known how many sentences they have together.
            weight = size if self.hparams.accumulate > 1 else size / len(batch.src_BS)
            weight *= self.optimizer.scale
            (loss if weight == 1 else loss * weight).backward()  # type: ignore[no-untyped-call]
            self.loss += loss.item() * size
        model.eval()
        self.held.append(batch)

    def take_mean(self, sentences: int) -> None:
        """Makes gradients of the sum over several batches those of the mean over their sentences."""
        for weight in self.model.parameters():
            if weight.grad is not None:
                weight.grad = weight.grad.coalesce() if weight.grad.is_sparse else weight.grad
                weight.grad.mul_(1.0 / sentences)

    def stop(self, why: str) -> None:
        """Ends a run that has diverged."""
        raise DivergedError(
            f"step {self.progress.step} overflow ({why}), stop early: lower --learning_rate (now "
            f"{learning_rate(self.hparams, self.progress.step - 1):g}) or --max_gradient_norm and run again; it goes "
            "on from the latest checkpoint"
        )

    # every steps_per_stats -----------------------------------------------------------------------------------------

    def log(self) -> None:
        """Writes the tutorial's line about the steps since the last one, and starts counting anew."""
        perplexity = self.summarize()
        self.progress.add("train_ppl", perplexity)
        board, window = self.report.board, self.progress.window
        speed, step_time = window.all_words / window.seconds / 1000, window.seconds / window.steps
        curves = {"train_ppl": perplexity, "speed": speed, "avg_step_time": step_time}
        board.scalars(self.progress.step, curves | {"avg_grad_norm": window.norm / window.steps})
        board.flush()
        self.progress.window = Window()
        if perplexity > 1e20:
            self.stop(f"perplexity {perplexity:.3g}")

    def summarize(self) -> float:
        """Writes the line, and keeps it for the end; returns the perplexity."""
        progress, window = self.progress, self.progress.window
        perplexity = exp(window.loss / window.tgt_words)
        progress.summary = (
            f"step {progress.step} lr {learning_rate(self.hparams, progress.step - 1):g} "
            f"step-time {window.seconds / window.steps:.2f}s wps {window.all_words / window.seconds / 1000:.2f}K "
            f"ppl {perplexity:.2f} gN {window.norm / window.steps:.2f}"
        )
        self.report.line(f"  {progress.summary} {self.judge.best_so_far()}, {time.ctime()}")
        return perplexity

    # every 10 steps_per_stats, and every steps_per_external_eval -----------------------------------------------------

    def evaluate(self, score: bool = False) -> None:
        """Has rank 0 evaluate the model, which the others wait for; with `score` also by its translations."""
        if self.ranks.leads:
            self.refresh()
            self.judge.evaluate(score)
        enough = self.ranks.tell(self.judge.out_of_patience())
        if enough and not self.enough:
            watched, step = self.hparams.watched, self.progress.step
            self.report.line(f"# dev {watched} was no better {self.hparams.patience} times: stopping at step {step}")
        self.enough = enough
        self.mark = time.perf_counter()

    def refresh(self) -> None:
        """Gives the model that is evaluated the present weights."""
        if self.evaluated is not self.model:
            self.evaluated.load_state_dict(self.model.state_dict())

    def checkpoint(self) -> Checkpoint:
        """Returns the run as it is now."""
        return Checkpoint(
            step=self.progress.step,
            hparams=self.hparams,
            vocabs=self.vocabs,
            weights=self.model.state_dict(),
            optimizer=self.optimizer.state_dict(),
            loader=self.loader.state_dict(),
            progress=dataclasses.asdict(self.progress),
            subwords=self.subwords.model if self.subwords else None,
        )

    def save(self) -> None:
        """Writes a checkpoint, and deletes the oldest ones."""
        if self.ranks.leads:
            checkpoint.save(self.out_dir, self.checkpoint())
            checkpoint.prune(self.out_dir, self.hparams.num_keep_ckpts)
        self.ranks.tell()
        self.mark = time.perf_counter()

    # the end -------------------------------------------------------------------------------------------------------

    def finish(self, began: float) -> Result:
        """Evaluates the final model, and recalls the best ones."""
        progress, stats = self.progress, self.loader.stats()
        self.refresh()
        if progress.window.steps:  # which stays open in the checkpoint: a later run with more steps goes on in it
            self.summarize()
        if self.ranks.tell(not self.judge.scored()):
            self.save()  # translating takes a while, in which someone may stop it
            self.evaluate(score=True)
        self.save()
        final = f"{progress.summary} {self.judge.best_so_far()}{progress.measured(progress.step)}"
        self.report.line(f"# Final, {final}, {time.ctime()}")
        seconds = time.perf_counter() - began
        self.report.line(f"# Done training!, time {seconds:.0f}s, {time.ctime()}.")
        scores = {name: points[-1][1] for name, points in progress.curves.items()}
        for name, value in progress.best.items():
            scores[f"best_{name}"] = value
            step = next(step for step, found in progress.curves[f"dev_{name}"] if found == value)
            self.report.line(f"# Best {name}, step {step}{progress.measured(step)}, in {self.judge.best_dir(name)}")
        if progress.step > self.began_at:
            self.report.line(f"# {stats.verdict()}")
        return Result(
            step=progress.step,
            seconds=seconds,
            scores=scores,
            curves=progress.curves,
            translator=Translator(self.evaluated, self.vocabs, self.hparams, self.subwords),
            data=stats,
            best={name: self.judge.best_dir(name) for name in progress.best},
        )
