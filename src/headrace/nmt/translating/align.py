"""What attention says of which word came from which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import headrace as hr
from headrace.nmt.text.special import UNKNOWN

__all__ = ["pharaoh", "read_dictionary", "replace_unknown"]


def pharaoh(attention: NDArray[np.floating], words: int) -> str:
    """Writes an alignment in the format of Pharaoh: pairs of source and target word, counted from 0.

    Each target word is aligned with the source word that it looked at most.

    Args:
        attention: (target words, source words); more rows, as that of eos, are left out.
        words: How many target words there are.

    Example:
        >>> pharaoh(np.array([[0.1, 0.9], [0.7, 0.3], [0.5, 0.5]]), words=2)
        '1-0 0-1'
    """
    if not attention.shape[1]:
        return ""
    return " ".join(f"{source}-{target}" for target, source in enumerate(attention[:words].argmax(axis=1).tolist()))


def read_dictionary(path: str | Path) -> dict[str, str]:
    """Reads translations of words: a line has a source word, a tab or blank, and what to write for it.

    Raises:
        OSError: The file cannot be read.
        DataError: A line has no second word; the message names file and line.
    """
    dictionary: dict[str, str] = {}
    for number, line in enumerate(hr.read_text(path, index="memory"), 1):
        parts = line.split(maxsplit=1)
        if len(parts) == 1:
            raise hr.DataError(f"{path}, line {number}: expected a source word and its translation, got {line!r}")
        if parts:
            dictionary.setdefault(parts[0], parts[1].strip())
    return dictionary


def replace_unknown(
    words: Sequence[str],
    source: Sequence[str],
    attention: NDArray[np.floating],
    dictionary: Mapping[str, str] | None = None,
) -> list[str]:
    """Puts the source word that it looked at most in the place of each unknown word: names and numbers come over.

    Args:
        words: The translation.
        source: The source.
        attention: (target words or more, source words).
        dictionary: Translations of source words, written where there is one.

    Example:
        >>> replace_unknown(["the", "<unk>"], ["die", "Mühle"], np.array([[0.9, 0.1], [0.2, 0.8]]))
        ['the', 'Mühle']
    """
    if not source:
        return list(words)
    looked_at = attention[: len(words)].argmax(axis=1).tolist()
    known = dictionary or {}
    copies = [known.get(source[at], source[at]) for at in looked_at]
    return [copy if word == UNKNOWN else word for word, copy in zip(words, copies, strict=True)]
