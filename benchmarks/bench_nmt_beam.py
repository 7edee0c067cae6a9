"""Beam search of width 10 with length penalty, beside the same search as one would write it first.

`plain` is that search in PyTorch over the same model: all continuations of all hypotheses are scored, the best are
chosen among them, every sentence goes on until the last one of its batch is done, and the memory is repeated for each
hypothesis; `batched` with batches of 32 in the order of the file and the tutorial's longest translation, twice the
longest source of the batch, `alone` with one sentence at a time. Figures are sentences in a second of CPU time, on one
thread, of parts that take turns in one process, and how many times those of `plain` headrace has.

The sentences and the model of 2 x 128 units are made up: lengths as in Multi30k, 7,858 and 5,920 words, a translation
ends a word after its source. Real ones come with NMT_MODEL, an `out_dir` of `python -m headrace.nmt` or a checkpoint,
and NMT_SOURCE, a file of sentences. Translations are then compared, too: `same` is the share that is equal to those of
`plain batched`. Not all are: a hypothesis counts the end of its sentence as a word only from the step after it, so that
the order of those that are done can change once more, if the batch goes on. headrace never waits for others.
"""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.measure import Measure

if TYPE_CHECKING:
    import torch

    from headrace.nmt.infer import Translator
    from headrace.nmt.model import Seq2Seq

    Sentences = list[list[int]]

WIDTH, BATCH, PART = 10, 32, 64
OPTIONAL = ("torch",)


def prepare(folder: pathlib.Path) -> None:
    """Needs nothing on disk."""


def plain_search(
    model: Seq2Seq, src_BS: torch.Tensor, src_len_B: torch.Tensor, limit: int, width: int = WIDTH, alpha: float = 1.0
) -> Sentences:
    """Returns the best translation of each sentence, as word ids: the search without any care for its cost."""
    import torch

    batch, eos = len(src_BS), 2
    memory, state = model.encode(src_BS, src_len_B)
    tiled = torch.arange(batch).repeat_interleave(width)
    memory = None if memory is None else type(memory)(*(part[tiled] for part in memory))
    words_R = torch.full((batch * width,), 1)
    log_probs_BK = torch.full((batch, width), -torch.inf)
    log_probs_BK[:, 0] = 0.0
    lengths_BK = torch.zeros(batch, width)
    finished_BK = torch.zeros(batch, width, dtype=torch.bool)
    words_BKT = torch.empty(batch, width, 0, dtype=torch.int64)
    cells, fed = [tuple(part[tiled] for part in cell) for cell in state.cells], state.attention_BA
    state = type(state)(tuple(cells), None if fed is None else fed[tiled])
    for _ in range(limit):
        output_RU, state, _ = model.step(words_R, state, memory)
        step_BKV = model.logits(output_RU).log_softmax(dim=1).view(batch, width, -1)
        only_eos_V = torch.full((step_BKV.shape[2],), -torch.inf)
        only_eos_V[eos] = 0.0
        step_BKV = torch.where(finished_BK[:, :, None], only_eos_V, step_BKV)
        total_BKV = log_probs_BK[:, :, None] + step_BKV
        longer_BKV = (~finished_BK)[:, :, None] & (torch.arange(step_BKV.shape[2]) != eos)
        scores_BKV = total_BKV / ((5.0 + lengths_BK[:, :, None] + longer_BKV) / 6.0) ** alpha
        _, best_BK = scores_BKV.flatten(1).topk(width, dim=1)
        parents_BK, words_BK = best_BK // step_BKV.shape[2], best_BK % step_BKV.shape[2]
        log_probs_BK = total_BKV.flatten(1).gather(1, best_BK)
        lengths_BK = (lengths_BK + ~finished_BK).gather(1, parents_BK)
        finished_BK = finished_BK.gather(1, parents_BK) | (words_BK == eos)
        rows_R = (torch.arange(batch)[:, None] * width + parents_BK).flatten()
        words_BKT = torch.cat([words_BKT.flatten(0, 1)[rows_R].view(batch, width, -1), words_BK[:, :, None]], dim=2)
        cells, fed = [tuple(part[rows_R] for part in cell) for cell in state.cells], state.attention_BA
        state, words_R = type(state)(tuple(cells), None if fed is None else fed[rows_R]), words_BK.flatten()
        if finished_BK.all():
            break
    found = words_BKT[:, 0].tolist()
    return [words[: words.index(eos)] if eos in words else words for words in found]


def made_up(count: int) -> tuple[Translator, Sentences]:
    """Makes a model that has learned nothing, and sentences for it."""
    import torch

    import headrace as hr
    from headrace.nmt.data import Vocabs
    from headrace.nmt.hparams import HParams
    from headrace.nmt.infer import Translator
    from headrace.nmt.model import Seq2Seq

    rng = np.random.default_rng(1)
    lengths = np.clip(rng.gamma(8.9, 12.44 / 8.9, count).round(), 2, 50).astype(int)
    sources = [(rng.zipf(1.2, n) % 7855 + 3).tolist() for n in lengths]
    hparams = HParams(attention="scaled_luong", num_units=128, beam_width=WIDTH, length_penalty_weight=1.0)
    model = Seq2Seq(hparams, 7858, 5920, torch.Generator().manual_seed(1)).eval()
    vocabs = (hr.Vocab(["<unk>", "<s>", "</s>", *map(str, range(n - 3))]) for n in (7858, 5920))
    return Translator(model, Vocabs(*vocabs)), sources


def given(model: str, source: str) -> tuple[Translator, Sentences]:
    """Reads a trained model, and sentences for it."""
    import headrace as hr
    from headrace.nmt.infer import Translator

    translator = Translator.load(model, beam_width=WIDTH, length_penalty_weight=1.0)
    ids = translator.vocabs.src.encode(translator.cut(list(hr.read_text(source, index="memory"))), separators=" ")
    return translator, [row.tolist() for row in ids if len(row)]


def compare(count: int = 384) -> dict[str, float]:
    """Runs all three searches in turn."""
    import torch

    from headrace.nmt.speed.runtime import prepare_process
    from headrace.nmt.translating.decode import beam_search

    prepare_process(threads=1)
    real = "NMT_MODEL" in os.environ
    names = os.environ.get("NMT_MODEL", ""), os.environ.get("NMT_SOURCE", "")
    translator, sources = given(*names) if real else made_up(count)
    model, twice = translator.model, 2 if real else 1

    def batch_of(rows: Sentences) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(map(len, rows))
        padded = [[*words, *[2] * (longest - len(words))] for words in rows]
        return torch.tensor(padded), torch.tensor([len(words) for words in rows])

    def ours(rows: Sentences) -> Sentences:
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        found: dict[int, list[int]] = {}
        for start in range(0, len(rows), BATCH):
            part = order[start : start + BATCH]
            src_BS, src_len_B = batch_of([rows[i] for i in part])
            done = beam_search(model, src_BS, src_len_B, src_len_B * twice + 2 - twice, WIDTH, 1.0)
            found.update({i: done.words(b) for b, i in enumerate(part)})
        return [found[i] for i in range(len(rows))]

    def plain(rows: Sentences, batch: int) -> Sentences:
        found = []
        for start in range(0, len(rows), batch):
            src_BS, src_len_B = batch_of(rows[start : start + batch])
            found += plain_search(model, src_BS, src_len_B, int(src_len_B.max()) * twice + 2 - twice)
        return found

    spent = {"ours": 0.0, "batched": 0.0, "alone": 0.0}
    done = dict.fromkeys(spent, 0)
    same = 0
    expected: Sentences = []
    with torch.inference_mode():
        ours(sources[:PART])  # warms up
        for start in range(0, len(sources), PART):
            rows = sources[start : start + PART]
            few = rows[:: max(1, len(rows) // 8)]
            for name in spent:
                with Measure() as measure:
                    found = ours(rows) if name == "ours" else plain(rows, BATCH) if name == "batched" else plain(few, 1)
                spent[name] += measure.cpu
                done[name] += len(found)
                if name == "ours":
                    expected = found
                elif name == "batched":
                    same += sum(a == b for a, b in zip(expected, found, strict=True))
    speed = {name: done[name] / spent[name] for name in spent}
    return {
        "sentences/s": speed["ours"],
        "plain batched": speed["batched"],
        "plain alone": speed["alone"],
        "times batched": speed["ours"] / speed["batched"],
        "times alone": speed["ours"] / speed["alone"],
        **({"same": same / len(sources)} if real else {}),
    }


CONTENDERS = {"beam 10": lambda folder: compare()}
