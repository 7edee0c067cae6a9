"""The data path of a translation model: 1M sentence pairs from two text files to padded batches.

Each contender shuffles, splits at blanks, looks words up, groups pairs by length, pads and makes batches of 128, and
reads the files once. `fill` is the share of the padded arrays that isn't padding. Sentences have 4 to 50 words, most
about 18 (a gamma distribution), words of a Zipf distribution over 20,000; source and target lengths differ by a few
words.

Reading: pairs a second say how fast a model may train before data bounds it; CPU microseconds a pair say what that
costs. torch stands for a Dataset over lines in memory, a batch sampler that sorts by length, and collate in Python.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable, Iterator

import numpy as np

import headrace as hr
from benchmarks.measure import Measure, peak_megabytes

PAIRS = 1_000_000
BATCH = 128


def prepare(folder: pathlib.Path) -> None:
    """Writes two parallel files and their vocabularies."""
    if (folder / "done").exists():
        return
    rng = np.random.default_rng(1234)
    words = np.array([f"w{i:x}" for i in range(20_000)])
    weights = 1.0 / np.arange(10, 20_010)
    cumulative = np.cumsum(weights / weights.sum())
    lengths = np.clip(rng.gamma(4.0, 4.5, PAIRS), 4, 50).astype(int)
    for side in ("src", "tgt"):
        own = np.clip(lengths + rng.integers(-2, 3, PAIRS), 4, 50)
        with open(folder / f"train.{side}", "w") as file:
            for start in range(0, PAIRS, 50_000):
                counts = own[start : start + 50_000]
                text = words[np.searchsorted(cumulative, rng.random(counts.sum()))]
                ends = np.cumsum(counts)
                for begin, end in zip(ends - counts, ends, strict=True):
                    file.write(" ".join(text[begin:end]) + "\n")
        hr.build_vocab(folder / f"train.{side}").save(folder / f"vocab.{side}")
    (folder / "done").touch()


def _batches(folder: pathlib.Path) -> hr.Batches:
    vocab = {side: hr.Vocab.from_file(folder / f"vocab.{side}") for side in ("src", "tgt")}
    pairs = hr.zip(src=hr.read_text(folder / "train.src"), tgt=hr.read_text(folder / "train.tgt"))
    data = pairs.shuffle(seed=1).tokens(vocab, bos={"tgt": "<s>"}, eos={"tgt": "</s>"})
    return data.bucket(batch_size=BATCH, width=2).pad(value=2)


def _headrace(workers: int) -> Callable[[pathlib.Path], dict[str, float]]:
    def run(folder: pathlib.Path) -> dict[str, float]:
        with Measure() as start:
            loader = hr.Loader(_batches(folder), workers=workers, prefetch=16)
            batches = iter(loader)
            first = next(batches)
        pairs, tokens, cells = 0, 0, 0
        with Measure() as m:
            for batch in itertools.chain([first], batches):
                pairs += len(batch["src"])
                tokens += int(batch["src_len"].sum() + batch["tgt_len"].sum())
                cells += batch["src"].size + batch["tgt"].size
        return _figures(pairs, tokens, cells, m, start)

    return run


def _figures(pairs: int, tokens: int, cells: int, m: Measure, start: Measure) -> dict[str, float]:
    return {
        "pairs/s": pairs / m.wall,
        "tokens/s": tokens / m.wall,
        "cpu us/pair": 1e6 * m.cpu / pairs,
        "fill": tokens / cells,
        "first batch s": start.wall,
        "peak MB": peak_megabytes(),
    }


def _torch(workers: int) -> Callable[[pathlib.Path], dict[str, float]]:
    def run(folder: pathlib.Path) -> dict[str, float]:
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Pairs(Dataset[tuple[list[int], list[int]]]):
            def __init__(self) -> None:
                self.sides = []
                self.vocabs = []
                for side in ("src", "tgt"):
                    tokens = (folder / f"vocab.{side}").read_text().split("\n")
                    self.vocabs.append({token: i for i, token in enumerate(tokens)})
                    self.sides.append((folder / f"train.{side}").read_text().split("\n")[:PAIRS_TORCH])

            def __len__(self) -> int:
                return len(self.sides[0])

            def __getitem__(self, i: int) -> tuple[list[int], list[int]]:
                src, tgt = (
                    [vocab.get(word, 0) for word in lines[i].split()]
                    for lines, vocab in zip(self.sides, self.vocabs, strict=True)
                )
                return src, [1, *tgt, 2]

        def by_length(data: Pairs) -> Iterator[list[int]]:
            order = torch.randperm(len(data)).tolist()
            for start in range(0, len(order), 100 * BATCH):
                pool = sorted(order[start : start + 100 * BATCH], key=lambda i: len(data.sides[0][i]))
                chunks = [pool[k : k + BATCH] for k in range(0, len(pool), BATCH)]
                yield from (chunks[k] for k in torch.randperm(len(chunks)).tolist())

        def collate(pairs: list[tuple[list[int], list[int]]]) -> list[torch.Tensor]:
            return [torch.nn.utils.rnn.pad_sequence([torch.tensor(p[side]) for p in pairs], True, 2) for side in (0, 1)]

        with Measure() as start:
            data = Pairs()
            loader = DataLoader(data, batch_sampler=list(by_length(data)), collate_fn=collate, num_workers=workers)
            batches = iter(loader)
            first = next(batches)
        pairs, cells, tokens = 0, 0, 0
        with Measure() as m:
            for src, tgt in itertools.chain([first], batches):
                pairs += len(src)
                cells += src.numel() + tgt.numel()
                tokens += int((src != 2).sum() + (tgt != 2).sum()) + len(tgt)
        return _figures(pairs, tokens, cells, m, start)

    return run


PAIRS_TORCH = 100_000  # a tenth is enough to measure its rate

OPTIONAL = ("torch",)  # contenders that need these are left out where they aren't installed

CONTENDERS = {
    "headrace, 2 workers": _headrace(2),
    "headrace, 1 worker": _headrace(1),
    "headrace, inline": _headrace(0),
    "torch DataLoader, inline": _torch(0),
    "torch DataLoader, 2 workers": _torch(2),
}
