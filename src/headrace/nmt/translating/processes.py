"""Translating by several processes of one program."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, resource_tracker
from multiprocessing.process import BaseProcess
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
    others = multiprocessing.active_children()
    try:
        with ProcessPoolExecutor(max(1, len(shares)), get_context("spawn"), _start, setup) as pool, _ended(others):
            with _later():
                jobs = [pool.submit(_work, [sentences[i] for i in share], n, attention) for share in shares]
            for share, job in zip(shares, jobs, strict=True):
                for i, hypotheses in zip(share, job.result(), strict=True):
                    found[i] = hypotheses
    except BrokenProcessPool as error:
        raise PartError(
            f"one of {workers} processes that translate was killed: give fewer --num_workers, if memory is short"
        ) from error
    return found


@contextlib.contextmanager
def _later() -> Iterator[None]:
    """Lets a Ctrl-C wait; processes that are started meanwhile know of none: this one ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would end the waiting
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _ended(others: Sequence[BaseProcess]) -> Iterator[None]:
    """Ends the processes that were started meanwhile, where their work is not wanted any more."""
    try:
        yield
    except BaseException:
        for process in multiprocessing.active_children():
            if process not in others:
                process.terminate()
        raise


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _start(setup: bytes, threads: int) -> None:
    global _mine
    if (parent := multiprocessing.parent_process()) is not None:  # may be killed, and then nobody ends this one
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    prepare_process(threads)
    _mine = pickle.loads(setup)


def _work(sentences: list[str], n: int, attention: bool) -> list[list[Translation]]:
    return _mine.nbest(sentences, n, attention=attention)
