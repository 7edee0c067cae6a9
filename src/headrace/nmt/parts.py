"""Translating one file by several programs, which meet in the folder of the translations.

Each translates a contiguous part of the lines and writes it as `TARGET_JOB`; a part that is whole is called
`TARGET_done_JOB`. Job 0 waits for all of them, puts them together and deletes them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from headrace.nmt.checkpoint import replacing
from headrace.nmt.hparams import HParams

__all__ = ["join_parts", "part_of", "write_part"]

POLL = 1.0  # seconds from one look at the folder to the next


def part_of(lines: Sequence[str], hparams: HParams) -> list[str]:
    """Returns the lines that are this job's.

    Example:
        >>> part_of(["a", "b", "c", "d", "e"], HParams(num_workers=2, jobid=1))
        ['d', 'e']
    """
    size = -(-len(lines) // hparams.num_workers)
    return list(lines[hparams.jobid * size : (hparams.jobid + 1) * size])


def write_part(target: Path, lines: Sequence[str], jobid: int) -> None:
    """Writes a job's translations; they appear whole."""
    with replacing(_done(target, jobid)) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")


def join_parts(target: Path, workers: int) -> list[str]:
    """Waits for all parts, writes them as one file and deletes them; returns the lines."""
    parts = [_done(target, jobid) for jobid in range(workers)]
    while not all(part.exists() for part in parts):
        time.sleep(POLL)
    text = "".join(part.read_text(encoding="utf-8", errors="surrogateescape") for part in parts)
    with replacing(target) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
    for part in parts:
        part.unlink()
    return text.split("\n")[:-1]


def _done(target: Path, jobid: int) -> Path:
    return target.with_name(f"{target.name}_done_{jobid}")
