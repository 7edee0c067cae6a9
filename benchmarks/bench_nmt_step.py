"""One training step of the translation model: forward, backward, clipping and update, on two threads.

`small` is the tutorial's recipe for Multi30k de-en: 2 layers of 128 units, scaled Luong attention, dropout 0.2, batch
128, vocabularies of 7,858 and 5,920 words. `wide` has its IWSLT'15 shape: 512 units, both directions, 17,191 and 7,709
words, about 20 words a sentence. Batches are seeded: lengths drawn with Multi30k's mean and spread, in buckets of ten,
as training makes them, and word ids by Zipf's law. `model` is `model.py` under autograd, `fast` is `fast.py` in
float32, and `bfloat16` the same with inputs of that precision for the large products. `s` is the median of the steps,
`cpu s` the mean CPU time of all threads. The original on TensorFlow 1.15 needs 0.26 s for `small` on two cores of a
like machine, and 4.4 s for `wide`.
"""

from __future__ import annotations

import pathlib
import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Measure

if TYPE_CHECKING:
    import torch

    from headrace.nmt.model import Batch

BATCH = 128


def prepare(folder: pathlib.Path) -> None:
    """Needs nothing on disk."""


def make_batches(n: int, mean: float, vocabularies: tuple[int, int], seed: int = 1) -> list[Batch]:
    """Draws `n` batches, of the buckets in their natural proportion."""
    rng = np.random.default_rng(seed)
    src = np.clip(rng.gamma(8.9, mean / 8.9, 4 * n * BATCH).round(), 2, 50).astype(np.int64)
    tgt = np.clip(src + rng.normal(0.6, 2.1, len(src)).round(), 2, 50).astype(np.int64)
    buckets = np.minimum(5, np.maximum(src, tgt) // 10)
    chosen = np.sort(buckets)[np.linspace(0, len(buckets) - 1, n + 2).astype(int)[1:-1]]
    rows = [rng.choice(np.flatnonzero(buckets == bucket), BATCH) for bucket in chosen]
    return [_batch(src[row], tgt[row], vocabularies, rng) for row in rows]


def _batch(
    src_len: NDArray[np.int64], tgt_len: NDArray[np.int64], vocabularies: tuple[int, int], rng: np.random.Generator
) -> Batch:
    import torch

    from headrace.nmt.model import Batch

    def words(lengths: NDArray[np.int64], words: int) -> torch.Tensor:
        ids = rng.zipf(1.2, (BATCH, int(lengths.max()))) % (words - 3) + 3
        ids[np.arange(ids.shape[1]) >= lengths[:, None]] = 2
        return torch.from_numpy(ids)

    sos, eos = torch.full((BATCH, 1), 1), torch.full((BATCH, 1), 2)
    target = torch.cat([sos, words(tgt_len, vocabularies[1]), eos], dim=1)
    lengths = torch.from_numpy(src_len), torch.from_numpy(tgt_len + 1)
    return Batch(words(src_len, vocabularies[0]), lengths[0], target, lengths[1])


def _steps(kind: str, wide: bool) -> dict[str, float]:
    from headrace.nmt.hparams import HParams
    from headrace.nmt.model import Seq2Seq
    from headrace.nmt.speed import fast
    from headrace.nmt.speed.runtime import prepare_process
    from headrace.nmt.training.optim import Optimizer

    prepare_process(threads=2)
    hparams = HParams(
        attention="scaled_luong",
        num_units=512 if wide else 128,
        encoder_type="bi" if wide else "uni",
        compute_dtype="bfloat16" if kind == "bfloat16" else "float32",
    )
    vocabularies = (17191, 7709) if wide else (7858, 5920)
    batches = make_batches(3 if wide else 12, 20.0 if wide else 12.44, vocabularies)
    model = Seq2Seq(hparams, *vocabularies)
    optimizer = Optimizer(model.parameters(), hparams)
    times = []
    for turn in range(2 if wide else 4):
        for batch in batches:
            with Measure() as measure:
                masks = model.draw_masks(batch)
                loss = model.loss(batch, masks) if kind == "model" else fast.loss(model, batch, masks)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step(0)
            if turn > 0:  # the first turn warms up
                times.append(measure)
    return {"s": statistics.median(m.wall for m in times), "cpu s": statistics.fmean(m.cpu for m in times)}


def _contender(kind: str, wide: bool) -> Callable[[pathlib.Path], dict[str, float]]:
    return lambda folder: _steps(kind, wide)


OPTIONAL = ("torch",)  # contenders that need these are left out where they aren't installed

CONTENDERS = {
    f"{'wide' if wide else 'small'}, {kind}": _contender(kind, wide)
    for wide in (False, True)
    for kind in ("model", "fast", "bfloat16")
}
