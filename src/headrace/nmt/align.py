"""What attention says of which word came from which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["pharaoh", "replace_unknown"]

UNKNOWN = "<unk>"


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


def replace_unknown(words: Sequence[str], source: Sequence[str], attention: NDArray[np.floating]) -> list[str]:
    """Puts the source word that it looked at most in the place of each unknown word: names and numbers come over.

    Args:
        words: The translation.
        source: The source.
        attention: (target words or more, source words).

    Example:
        >>> replace_unknown(["the", "<unk>"], ["die", "Mühle"], np.array([[0.9, 0.1], [0.2, 0.8]]))
        ['the', 'Mühle']
    """
    if not source:
        return list(words)
    looked_at = attention[: len(words)].argmax(axis=1).tolist()
    return [source[at] if word == UNKNOWN else word for word, at in zip(words, looked_at, strict=True)]
