"""Seconds of one training step of the translation model, by implementation.

What: forward, backward, clipping and SGD update of the tutorial's small recipe (2 layers of 128 units, scaled Luong
attention, dropout 0.2, batch 128, vocabularies of 7,858 and 5,920 words as in Multi30k de-en) on seeded random batches
whose lengths are drawn like Multi30k's, in five buckets.
How: `python benchmarks/bench_nmt_step.py`. The implementations take turns, a few steps each, so that whatever else
happens on the machine meets them all alike. Prints JSON: the median of each one's seconds a step, and the mean of its CPU
seconds, of all threads.
Reading: `reference` is `model.py` under autograd, `fast` is `fast.py` in float32, `fast_bfloat16` the same with
bfloat16 inputs of the large products. The original on TensorFlow 1.15 needs 0.26 s on two cores of a like machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from headrace.nmt import fast
from headrace.nmt.hparams import HParams
from headrace.nmt.model import Batch, Masks, Seq2Seq
from headrace.nmt.optim import Optimizer
from headrace.nmt.runtime import prepare_process

SRC_WORDS, TGT_WORDS = 7858, 5920


def make_batches(number: int, size: int, seed: int) -> list[Batch]:
    """Draws batches: lengths from a gamma distribution with the mean and spread of Multi30k, bucketed; word ids from Zipf's law."""
    rng = np.random.default_rng(seed)
    src = np.clip(rng.gamma(8.9, 12.44 / 8.9, number * size * 4).round(), 2, 50).astype(np.int64)
    tgt = np.clip(src + rng.normal(0.6, 2.1, len(src)).round(), 2, 50).astype(np.int64)
    buckets = np.minimum(5, np.maximum(src, tgt) // 10)
    batches = []
    for _ in range(number):
        chosen = rng.choice(np.flatnonzero(buckets == rng.choice(buckets)), size)
        batches.append(_batch(src[chosen], tgt[chosen], rng))
    return batches


def _batch(src_len: np.ndarray, tgt_len: np.ndarray, rng: np.random.Generator) -> Batch:
    def words(lengths: np.ndarray, extra: int, vocabulary: int) -> torch.Tensor:
        ids = rng.zipf(1.2, (len(lengths), int(lengths.max()) + extra)) % (vocabulary - 3) + 3
        ids[np.arange(ids.shape[1])[None] >= lengths[:, None] + extra] = 2
        return torch.from_numpy(ids)

    target = words(tgt_len, 1, TGT_WORDS)
    target[:, 0] = 1
    target = torch.cat([target, torch.full((len(target), 1), 2)], dim=1)
    return Batch(words(src_len, 0, SRC_WORDS), torch.from_numpy(src_len), target, torch.from_numpy(tgt_len + 1))


Loss = Callable[[Seq2Seq, Batch, Masks], torch.Tensor]


def step(model: Seq2Seq, optimizer: Optimizer, batch: Batch, loss_of: Loss) -> tuple[float, float, float]:
    """Makes one update; returns its loss, seconds and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    loss = loss_of(model, batch, model.draw_masks(batch))
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step(0)
    return loss.item(), time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=6, help="turns of each implementation")
    parser.add_argument("--steps", type=int, default=8, help="steps of one turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--num_units", type=int, default=128)
    parser.add_argument("--encoder_type", default="uni")
    parser.add_argument("--only", help="time this implementation alone")
    options = parser.parse_args()
    prepare_process(options.threads)
    batches = make_batches(options.steps, 128, seed=1)
    hparams = HParams(
        num_units=options.num_units, attention="scaled_luong", encoder_type=options.encoder_type, num_train_steps=3000
    )
    contenders: dict[str, tuple[Loss, str]] = {
        "reference": (lambda model, batch, masks: model.loss(batch, masks), "float32"),
        "fast": (fast.loss, "float32"),
        "fast_bfloat16": (fast.loss, "bfloat16"),
    }
    runs, seconds, cpu_seconds = {}, {}, {}
    for name, (_, dtype) in contenders.items():
        if options.only in (None, name):
            model = Seq2Seq(hparams.replace(compute_dtype=dtype), SRC_WORDS, TGT_WORDS)
            runs[name] = model, Optimizer(model.parameters(), hparams)
            seconds[name], cpu_seconds[name] = [], []
    for turn in range(options.rounds + 1):
        for name, (model, optimizer) in runs.items():
            for batch in batches:
                _, wall, cpu = step(model, optimizer, batch, contenders[name][0])
                if turn > 0:  # the first turn warms up
                    seconds[name].append(wall)
                    cpu_seconds[name].append(cpu)
    report = {
        "torch": torch.__version__,
        "threads": options.threads,
        "source_words": round(float(np.mean([float(b.src_len_B.float().mean()) for b in batches])), 2),
        "target_words": round(float(np.mean([float(b.tgt_len_B.float().mean()) for b in batches])), 2),
        "steps": {
            name: {
                "seconds": round(statistics.median(seconds[name]), 4),
                "mean_seconds": round(statistics.fmean(seconds[name]), 4),
                "cpu_seconds": round(statistics.fmean(cpu_seconds[name]), 4),
            }
            for name in runs
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
