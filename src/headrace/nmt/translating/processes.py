"""Translating by several processes of one program."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TYPE_CHECKING

from headrace.nmt.speed.runtime import prepare_process
from headrace.nmt.translating.parts import PartError

if TYPE_CHECKING:
    from headrace.nmt.infer import Translation, Translator

__all__ = ["translate_by_workers"]

_mine: Translator  # in a worker: what it translates with


def translate_by_workers(
    translator: Translator, sentences: Sequence[str], n: int, workers: int, *, attention: bool = False
) -> list[list[Translation]]:
    """Returns what `translator.nbest` does, by so many processes.

    Args:
        translator: Translates; each process gets a copy.
        sentences: Source sentences.
        n: How many translations of each.
        workers: How many processes.
        attention: Whether to keep the attention matrices.

    Raises:
        PartError: A process was killed, for want of memory for instance.
    """
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    shares = [order[worker::workers] for worker in range(min(workers, len(order)))]  # of like lengths
    threads = translator.hparams.num_intra_threads or max(1, (os.cpu_count() or 1) // workers)
    found: list[list[Translation]] = [[] for _ in sentences]
    setup = pickle.dumps(translator), threads
    try:
        with ProcessPoolExecutor(max(1, len(shares)), get_context("spawn"), _start, setup) as pool:
            jobs = [pool.submit(_work, [sentences[i] for i in share], n, attention) for share in shares]
            for share, job in zip(shares, jobs, strict=True):
                for i, hypotheses in zip(share, job.result(), strict=True):
                    found[i] = hypotheses
    except BrokenProcessPool as error:
        raise PartError(
            f"one of {workers} processes that translate was killed: give fewer --num_workers, if memory is short"
        ) from error
    return found


def _start(setup: bytes, threads: int) -> None:
    global _mine
    prepare_process(threads)
    _mine = pickle.loads(setup)


def _work(sentences: list[str], n: int, attention: bool) -> list[list[Translation]]:
    return _mine.nbest(sentences, n, attention=attention)
