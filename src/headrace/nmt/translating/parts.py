"""Translating one file by several programs, which meet in the folder of the translations.

Each translates a contiguous part of the lines. While it works it keeps `TARGET_job_JOB`, a file that changes all the
time and so says that it is alive; when its part is whole, that is called `TARGET_done_JOB`. Job 0 waits for all of
them, puts them together and deletes them.

Everything is marked with what it is a part of: model, input and settings. So a part that another run left behind is
never taken for one of this run; and one of this run that is there already isn't translated again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import torch

import headrace as hr
from headrace.nmt.hparams import HParams, flags_of
from headrace.nmt.text.files import write_lines

__all__ = ["PartError", "mark_of", "part_of", "torchrun_job", "translate_part"]

POLL = 1.0  # seconds from one look at the folder to the next, and from one sign of life to the next


class PartError(hr.HeadraceError):
    """Another program has not done its part of the work: the message says which, and what became of it."""


def part_of(lines: Sequence[str], hparams: HParams) -> list[str]:
    """Returns the lines that are this job's.

    Example:
        >>> part_of(["a", "b", "c", "d", "e"], HParams(num_workers=2, jobid=1))
        ['d', 'e']
    """
    size, job = -(-len(lines) // hparams.num_workers), hparams.jobid or 0
    return list(lines[job * size : (job + 1) * size])


def torchrun_job() -> dict[str, int]:
    """Returns the settings of this program among those that torchrun started: so many workers, and which of them."""
    size = int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1
    return {"num_workers": size, "jobid": int(os.environ["RANK"])} if size > 1 else {}


def mark_of(lines: Iterable[str], weights: Iterable[torch.Tensor], hparams: HParams) -> str:
    """Returns what tells this run from others: a hash of the input, the models' weights and the settings."""
    found = hashlib.blake2b(digest_size=16)
    mine = {*flags_of("place"), *flags_of("command")} - {"num_workers"}  # which may differ from program to program
    settings = {name: value for name, value in dataclasses.asdict(hparams).items() if name not in mine}
    found.update(repr(settings).encode("utf-8", "surrogateescape"))
    for line in lines:
        found.update(f"{line}\n".encode("utf-8", "surrogateescape"))
    for weight in weights:
        found.update(weight.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def translate_part(target: Path, hparams: HParams, mark: str, translate: Callable[[], list[str]]) -> list[str]:
    """Does this job's part; job 0 then puts all together. Returns the lines written: the part's, or all of them.

    Args:
        target: Where all translations go.
        hparams: The settings: which job this is, of how many.
        mark: What `mark_of` returned.
        translate: Translates the part.

    Raises:
        PartError: Another job has failed, or given no sign of life for `worker_timeout` seconds.
        OSError: A file cannot be written or read.
    """
    job = hparams.jobid or 0
    if job == 0:
        for other in range(1, hparams.num_workers):
            if _failure(target, other, mark):
                _status(target, other).unlink(missing_ok=True)  # of an earlier try
    with _at_work(target, job, mark):
        lines = _read(target, job, mark)
        if lines is None:
            lines = translate()
            write_lines(_done(target, job), [mark, *lines])
        if job > 0:
            return lines
        lines = _wait(target, hparams, mark)
        write_lines(target, lines)
        for other in range(hparams.num_workers):
            _done(target, other).unlink()
    return lines


def _wait(target: Path, hparams: HParams, mark: str) -> list[str]:
    """Waits until all parts are there; returns their lines, one part after the other."""
    parts: dict[int, list[str]] = {}
    signs: dict[int, tuple[str, float]] = {}  # of each job that is waited for the last one, and when it came
    while True:
        for job in range(hparams.num_workers):
            if job not in parts and (lines := _read(target, job, mark)) is not None:
                parts[job] = lines
        missing = [job for job in range(hparams.num_workers) if job not in parts]
        if not missing:
            return [line for _, lines in sorted(parts.items()) for line in lines]
        for job in missing:
            if failure := _failure(target, job, mark):
                raise PartError(f"job {job} of {hparams.num_workers} failed: {failure}; run it and job 0 again")
            sign, now = _text(_status(target, job)), time.monotonic()
            if job not in signs or sign != signs[job][0]:
                signs[job] = sign, now
            if now - signs[job][1] > hparams.worker_timeout:
                raise PartError(_silence(target, job, mark, hparams))
        time.sleep(POLL)


def _silence(target: Path, job: int, mark: str, hparams: HParams) -> str:
    seen = "was not started"
    if _done(target, job).exists():
        seen = f"left {_done(target, job).name}, which is of another input, model or other settings"
    elif sign := _text(_status(target, job)):
        seen = "died" if sign.startswith(mark) else "works with another input, model or other settings"
    return (
        f"job {job} of {hparams.num_workers} has given no sign of life for {hparams.worker_timeout} seconds: it "
        f"{seen}. Run it with the same settings and --jobid={job}, and job 0 again, which keeps what is done"
    )


@contextlib.contextmanager
def _at_work(target: Path, job: int, mark: str) -> Iterator[None]:
    """Gives signs of life; where the work fails, the reason is left for job 0."""
    path, ended = _status(target, job), threading.Event()

    def live() -> None:
        for beat in itertools.count():
            with contextlib.suppress(OSError):  # a full disk, say: the work itself will tell
                write_lines(path, [f"{mark} {os.getpid()} {beat}"])
            if ended.wait(POLL):
                return

    thread = threading.Thread(target=live, name="headrace-nmt-alive", daemon=True)
    thread.start()
    try:
        yield
    except BaseException as error:
        ended.set()
        thread.join()
        with contextlib.suppress(OSError):
            if job == 0:  # nobody waits for it
                path.unlink(missing_ok=True)
                raise
            reason = str(error) or type(error).__name__
            write_lines(path, [f"{mark} failed", reason])
        raise
    ended.set()
    thread.join()
    path.unlink(missing_ok=True)


def _failure(target: Path, job: int, mark: str) -> str:
    """Returns why a job failed, if it did."""
    first, _, reason = _text(_status(target, job)).partition("\n")
    return reason.strip() if first == f"{mark} failed" else ""


def _read(target: Path, job: int, mark: str) -> list[str] | None:
    """Returns the lines of a part, if it is there and of this run."""
    first, *lines = _text(_done(target, job)).split("\n")
    return lines[:-1] if first == mark else None


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")  # read_text would end lines at \\r, too
    except FileNotFoundError:
        return ""


def _done(target: Path, job: int) -> Path:
    return target.with_name(f"{target.name}_done_{job}")


def _status(target: Path, job: int) -> Path:
    return target.with_name(f"{target.name}_job_{job}")
