"""Shows on one GPU how fast translation trains: `python -m benchmarks.gpu_nmt [--multi30k FOLDER]`, within ten minutes.

1. Speed: the tutorial's IWSLT'15 model (2 x 512 units, encoder of both directions, scaled Luong attention, input
   feeding, batch 128, words of 17,191 and 7,709) on made-up text of such lengths, through the loader, a CUDA graph for
   each shape of batch. Words a second count both sides, as the tutorial's log does; beside it the share of time that
   training waited for data. To be reached: 500,000 words/s, less than 2 % waiting.
2. Score: training on Multi30k German-English (`FOLDER` with train, val and test_2016_flickr as `*.lc.norm.tok.de` and
   `.en`, plain or gzip, and vocab.de and vocab.en) to BLEU 35 in less than 60 s; without a folder on made-up text, to
   see that it runs.

Prints a line of JSON for each. `--dry-run` runs both on the CPU, with small models for a few steps.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import tempfile
import time
from itertools import chain, repeat
from typing import Any

import numpy as np
import torch

import headrace as hr
from headrace.nmt.data import batches, load_vocabs, read_pairs, to_batch
from headrace.nmt.hparams import HParams
from headrace.nmt.model import Seq2Seq
from headrace.nmt.speed.graphs import GraphedLoss, round_up_steps
from headrace.nmt.speed.runtime import prepare_process
from headrace.nmt.train import train
from headrace.nmt.training.optim import Optimizer

WORDS_A_SECOND, WAITING, BLEU, SECONDS = 500_000, 0.02, 35.0, 60.0
IWSLT = {"attention": "scaled_luong", "encoder_type": "bi", "num_units": 512, "compute_dtype": "bfloat16"}


def write_text(folder: pathlib.Path, pairs: int, words: tuple[int, int], mean: float = 20.0) -> None:
    """Writes made-up text: lengths by a gamma distribution, words by Zipf's law, the target a little longer."""
    rng = np.random.default_rng(1)
    lengths = np.clip(rng.gamma(3.0, mean / 3.0, pairs).round(), 1, 50).astype(int)
    others = np.clip(lengths * 1.2 + rng.normal(0.0, 2.0, pairs), 1, 50).astype(int)
    for suffix, size, each in (("en", words[0], lengths), ("vi", words[1], others)):
        ids = rng.zipf(1.2, int(each.sum())) % (size - 3)
        parts = np.split(ids, np.cumsum(each)[:-1])
        lines = "".join(" ".join(f"w{i}" for i in part) + "\n" for part in parts)
        (folder / f"train.{suffix}").write_text(lines)
        vocab = ["<unk>", "<s>", "</s>", *(f"w{i}" for i in range(size - 3))]
        (folder / f"vocab.{suffix}").write_text("\n".join(vocab) + "\n")


def measure_speed(folder: pathlib.Path, device: torch.device, steps: int, dry: bool) -> dict[str, Any]:
    """Trains for some steps, after as many that record the graphs."""
    words = (500, 400) if dry else (17_191, 7_709)
    write_text(folder, 400 if dry else 40_000, words, 6.0 if dry else 20.0)
    prefixes = {"train_prefix": str(folder / "train"), "vocab_prefix": str(folder / "vocab")}
    small = {"num_units": 16, "batch_size": 32} if dry else {}
    hparams = HParams().replace(**{**IWSLT, **prefixes, **small}, src="en", tgt="vi", random_seed=1)
    vocabs = load_vocabs(hparams)
    data = batches(read_pairs(hparams, "train_prefix").filter_length(), vocabs, hparams, training=True)
    model = Seq2Seq(hparams, len(vocabs.src), len(vocabs.tgt), torch.Generator().manual_seed(1)).to(device).train()
    optimizer = Optimizer(model.parameters(), hparams)
    graphs = GraphedLoss(model, None if device.type == "cuda" else lambda step: step)
    generator = torch.Generator(device).manual_seed(1)
    loss, counted, seconds, waited = torch.zeros(()), 0, 0.0, 0.0
    with hr.Loader(data, workers=1, to="torch") as loader:
        each = chain.from_iterable(repeat(loader))
        for phase in ("record", "measure"):
            if device.type == "cuda":
                torch.cuda.synchronize()
            counted, waited, began = 0, 0.0, time.perf_counter()
            done = 0
            while done < steps:
                asked = time.perf_counter()
                batch = to_batch(next(each))
                waited += time.perf_counter() - asked
                if len(batch.src_BS) < hparams.batch_size:
                    continue
                padded = round_up_steps(batch).to(device)
                loss = graphs(padded, model.draw_masks(padded, generator))
                optimizer.step(0)
                counted += int(batch.src_len_B.sum()) + int(batch.tgt_len_B.sum())
                done += 1
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds = time.perf_counter() - began
            print(f"# {phase}: {steps} steps, {len(graphs.recorded)} shapes, {seconds:.1f} s", flush=True)
    speed, share = counted / seconds, waited / seconds
    return {
        "what": "speed",
        "step seconds": seconds / steps,
        "words/s": speed,
        "waiting": share,
        "loss": float(loss),
        "reached": speed >= WORDS_A_SECOND and share < WAITING,
    }


def measure_score(
    folder: pathlib.Path, multi30k: pathlib.Path | None, device: torch.device, dry: bool
) -> dict[str, Any]:
    """Trains to a score."""
    if multi30k is None:
        write_text(folder, 300 if dry else 20_000, (40, 40), 5.0)
        files = {"src": "en", "tgt": "vi", "train_prefix": "train", "dev_prefix": "train", "vocab_prefix": "vocab"}
        root = folder
        if not dry:  # as many sentences as Multi30k has to translate
            for suffix in ("en", "vi"):
                lines = (folder / f"train.{suffix}").read_text().splitlines(keepends=True)[:1000]
                (folder / f"dev.{suffix}").write_text("".join(lines))
            files["dev_prefix"] = "dev"
    else:
        names = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
        files = {f"{name}_prefix": f"{file}.lc.norm.tok" for name, file in names.items()}
        files |= {"src": "de", "tgt": "en", "vocab_prefix": "vocab"}
        root = multi30k
    paths = {name: value if name in ("src", "tgt") else str(root / value) for name, value in files.items()}
    # The tutorial's recipe, wider: a GPU takes the same time for it.
    recipe: dict[str, Any] = {"attention": "scaled_luong", "encoder_type": "bi", "num_units": 512, "dropout": 0.3}
    recipe |= {"num_train_steps": 3000, "decay_scheme": "luong234", "steps_per_stats": 250, "batch_size": 128}
    recipe |= {"steps_per_external_eval": 1500, "compute_dtype": "bfloat16"}
    if dry:
        recipe |= {"num_units": 8, "num_train_steps": 4, "steps_per_stats": 2, "steps_per_external_eval": 4}
        recipe |= {"batch_size": 32, "num_intra_threads": 1}
    began = time.perf_counter()
    result = train(
        HParams().replace(**paths, **recipe, out_dir=str(folder / "model"), random_seed=1, device=str(device)),
        quiet=dry,
    )
    seconds = time.perf_counter() - began
    scores = {name: value for name, value in result.scores.items() if "bleu" in name}
    reached = multi30k is not None and scores.get("test_bleu", 0.0) >= BLEU and seconds < SECONDS
    return {"what": "score", "data": str(multi30k or "made up"), "seconds": seconds, **scores, "reached": reached}


def main(arguments: list[str] | None = None) -> None:
    """Runs both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--multi30k", type=pathlib.Path, help="folder of the corpus")
    parser.add_argument("--steps", type=int, default=300, help="steps to measure, and before that to record")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, small, a few steps")
    options = parser.parse_args(arguments)
    if not options.dry_run and not torch.cuda.is_available():
        parser.error("this needs a GPU that PyTorch can use; --dry-run shows on the CPU that the program runs")
    device = torch.device("cpu" if options.dry_run else "cuda")
    torch.backends.cuda.matmul.allow_tf32 = True  # of float32 products on a GPU: 10 bits of the inputs' fractions
    prepare_process(threads=1 if options.dry_run else 0)
    name = "cpu" if options.dry_run else torch.cuda.get_device_name()
    for what in ("speed", "score"):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            if what == "speed":
                found = measure_speed(place, device, 3 if options.dry_run else options.steps, options.dry_run)
            else:
                found = measure_score(place, options.multi30k, device, options.dry_run)
        print(json.dumps({"device": name, **found}), flush=True)


if __name__ == "__main__":
    main()
