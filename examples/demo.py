"""From text files to a trained translation model, in one to three minutes on two cores.

    python examples/demo.py                                  a toy corpus that this makes: numbers in words, en to vi
    python examples/demo.py --data=FOLDER --src=de --tgt=en  your files: train.de, train.en, and valid.* and test.*

Writes text files, makes vocabularies, trains, then shows ten translations of sentences that the model has never seen,
how many of all of them are right to the letter, BLEU, and what the loader says about the run. Leaves a folder with the
model, the attention picture of one sentence and the loss curve.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import tempfile

# Before PyTorch starts its threads: those that wait for work would otherwise spin, which makes a step twenty times
# slower as soon as another program uses the same cores. On a machine of its own it costs a third.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import number_words
from rich.console import Console
from rich.markup import escape

import headrace as hr
from headrace.nmt.hparams import HParams
from headrace.nmt.judging import metrics
from headrace.nmt.judging.plot import plot_attention, plot_curves
from headrace.nmt.text.files import find_side, read_lines
from headrace.nmt.train import Result, train

VALID_NAMES = ("valid", "val", "dev")


def make_vocabularies(data: pathlib.Path, out: pathlib.Path, languages: tuple[str, str], max_size: int) -> None:
    """Counts the words of the training files and writes `vocab.<language>` beside the model."""
    for language in languages:
        vocab = hr.build_vocab(find_side(str(data / "train"), language, "data"), max_size=max_size)
        vocab.save(out / f"vocab.{language}")


def settings(options: argparse.Namespace, data: pathlib.Path, out: pathlib.Path) -> HParams:
    """The tutorial's small model with attention; Adam, so that some hundred steps go a long way."""
    prefixes = {}
    for flag, names in (("dev_prefix", VALID_NAMES), ("test_prefix", ("test",))):
        for name in names:
            if list(data.glob(f"{name}.{options.src}*")):
                prefixes[flag] = str(data / name)
                break
    return HParams(
        src=options.src,
        tgt=options.tgt,
        train_prefix=str(data / "train"),
        vocab_prefix=str(out / "vocab"),
        out_dir=str(out / "model"),
        num_units=128,
        attention="scaled_luong",
        optimizer="adam",
        learning_rate=0.002,
        decay_scheme="luong10",
        dropout=0.1,
        num_train_steps=options.steps,
        steps_per_stats=min(50, options.steps),
        steps_per_external_eval=max(1, options.steps // 6),
        random_seed=1,
        **prefixes,
    )


def show(console: Console, result: Result, data: pathlib.Path, out: pathlib.Path, options: argparse.Namespace) -> float:
    """Prints what the model learnt and draws the pictures; returns the share of exact translations."""
    name = "test" if list(data.glob(f"test.{options.src}*")) else "train"
    sources = read_lines(find_side(str(data / name), options.src, "data")[0])[:1000]
    references = read_lines(find_side(str(data / name), options.tgt, "data")[0])[:1000]
    found = result.translator.translate(sources, attention=True)
    texts = [translation.text for translation in found]

    kind = "held-out" if name == "test" else "training"
    console.rule(f"ten of {len(sources):,} {kind} sentences")
    for source, text, reference in zip(sources[:10], texts[:10], references[:10], strict=True):
        mark = "[green]=[/]" if text == reference else "[red]≠[/]"
        console.print(f"  {options.src}  {escape(source)}\n  {options.tgt}  {escape(text)}  {mark}", highlight=False)
        console.print(f"  ref {escape(reference)}\n", highlight=False)

    exact = metrics.score("accuracy", references, texts)
    bleu, signature = metrics.sacre_bleu(references, texts, tokenize="none")
    console.print(f"exact match  {exact:.1f} % of {len(sources):,}", highlight=False)
    console.print(f"BLEU         {bleu:.1f}  ({signature})", highlight=False)

    longest = max(range(min(10, len(found))), key=lambda i: len(found[i].words))
    attention = found[longest].attention
    assert attention is not None
    plot_attention(out / "attention.png", attention, found[longest].source, found[longest].words)
    plot_curves(out / "curves.png", result.curves, title=f"{options.src} to {options.tgt}")
    console.print(f"\nThe loader's report:\n{result.data}", highlight=False)
    console.print(f"\nThe model waited for data {result.data.wait_share:.1%} of the time.", highlight=False)
    for path in ("attention.png", "curves.png", "model"):
        console.print(f"  {out / path}", highlight=False)
    return exact


def main() -> int:
    """Runs the demo; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, help="folder of your files; without it a toy corpus is made")
    parser.add_argument("--src", default=None, help="suffix of the source files (en)")
    parser.add_argument("--tgt", default=None, help="suffix of the target files (vi)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo"), help="where results go (demo)")
    parser.add_argument("--steps", type=int, default=600, help="updates of the model (600)")
    parser.add_argument("--max_vocab", type=int, default=10_000, help="words of each vocabulary (10000)")
    options = parser.parse_args()
    if (options.data is None) != (options.src is None and options.tgt is None) or (options.src is None) != (
        options.tgt is None
    ):
        parser.error("give --data, --src and --tgt together, or none of them for the toy corpus")
    console = Console()
    # A folder of its own for each run, so that a second demo trains anew instead of going on.
    options.out.mkdir(parents=True, exist_ok=True)
    out = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=options.out))
    try:
        if options.data is None:
            options.src, options.tgt = "en", "vi"
            data = out / "corpus"
            console.print("A toy corpus of real grammar: numbers in words, made by num2words, English to Vietnamese.")
            number_words.write_corpus(data)
        else:
            data = options.data
        console.print(
            f"{options.src} to {options.tgt} with the tutorial's small model (two layers of 128 units, attention), "
            f"{options.steps} steps: 600 of the toy corpus take one to three minutes on two cores.",
            highlight=False,
        )
        console.print(
            "In the log lr is the learning rate, step-time seconds a step, wps thousand words a second, ppl the "
            "perplexity (lower is better), gN the gradient norm, bleu the best score so far (- before the first).",
            highlight=False,
        )
        make_vocabularies(data, out, (options.src, options.tgt), options.max_vocab)
        result = train(settings(options, data, out), progress=True)
        show(console, result, data, out, options)
    except KeyboardInterrupt:
        sys.stderr.write(f"demo: stopped; what there is of the model is in {out}\n")
        return 130
    except (hr.HeadraceError, OSError) as error:
        sys.stderr.write(f"demo: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
