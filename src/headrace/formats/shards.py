"""The names of files that are parts of one whole: `train-00000-of-00003.tfrecord` and so on."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence

_log = logging.getLogger("headrace")
_NAME = re.compile(r"(.*)-(\d{5})-of-(\d{5})([^/]*)", re.DOTALL)


def shard_name(path: str, number: int, count: int) -> str:
    """The name of one part of a file.

    Example:
        >>> from headrace.formats.shards import shard_name
        >>> shard_name("train.tfrecord", 1, 3)
        'train-00001-of-00003.tfrecord'
    """
    stem, suffix = os.path.splitext(path)
    return f"{stem}-{number:05d}-of-{count:05d}{suffix}"


def check_shards(pattern: str, paths: Sequence[str]) -> None:
    """Warns where the files that a pattern matches are not each part of one whole, once.

    Parts that are there but that the pattern leaves out are left out on purpose.

    Args:
        pattern: For the message.
        paths: The files.
    """
    found: dict[tuple[str, str], dict[int, set[int]]] = {}
    for path in paths:
        if name := _NAME.fullmatch(path):
            stem, number, count, suffix = name.groups()
            found.setdefault((stem, suffix), {}).setdefault(int(count), set()).add(int(number))
    for (stem, suffix), wholes in found.items():
        if len(wholes) > 1:
            counts = " and of ".join(map(str, sorted(wholes)))
            text = (
                "%s: matches the parts of wholes of %s files, and the records of all are read; delete those of an "
                "earlier run, or name the others: %s"
            )
            _log.warning(text, pattern, counts, f"{stem}-*-of-{max(wholes):05d}{suffix}")
        for count, numbers in wholes.items():
            for number in range(min(count, 100_000)):
                path = f"{stem}-{number:05d}-of-{count:05d}{suffix}"
                if number not in numbers and not os.path.exists(path):
                    text = "%s: expected all of %d parts, found no %s; write them again, or copy what is missing"
                    _log.warning(text, pattern, count, path)
                    break
