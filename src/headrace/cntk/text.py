"""Writes sequences as lines of CNTK's text format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_FORBIDDEN = frozenset("| \t\r\n#")


def sequence_to_cntk_text_format(seq_idx: int, alias_tensor_map: Mapping[str, Any]) -> str:
    r"""Writes one sequence: a line a step, with a sample of each stream that goes on so far.

    The function of this name in `cntk.io`: streams in the order of their aliases, numbers as NumPy writes them.

    Args:
        seq_idx: The number that the lines begin with.
        alias_tensor_map: Of each stream by its alias the samples: an array (or list) whose first dimension is steps
            and whose rows are written out in C order, or a list of dicts from index to value: sparse samples.

    Returns:
        The lines, joined by line feeds, without one at the end; nothing for streams without a step.

    Raises:
        ValueError: If an alias can't stand in the format, a number is infinite or not a number, or an index of a
            sparse sample isn't a whole number from 0 on.

    Example:
        >>> from headrace.cntk import sequence_to_cntk_text_format
        >>> sequence_to_cntk_text_format(4, {"b": [{2: 1, 0: 5}], "a": [[1, 2], [3, 4]]}).split("\n")
        ['4\t|a 1 2 |b 0:5 2:1', '4\t|a 3 4']
    """
    if not isinstance(alias_tensor_map, Mapping):
        raise ValueError(f"expected streams by alias, {{'x': [[1, 2]]}}, got {alias_tensor_map!r:.60}")
    streams = {alias: _samples(alias, samples) for alias, samples in sorted(alias_tensor_map.items())}
    steps = max(map(len, streams.values()), default=0)
    return "\n".join(
        f"{seq_idx}\t" + " ".join(f"|{alias} {rows[step]}" for alias, rows in streams.items() if step < len(rows))
        for step in range(steps)
    )


def _samples(alias: str, samples: Any) -> Sequence[str]:
    """Each sample of a stream as text."""
    if not isinstance(alias, str) or not alias or not _FORBIDDEN.isdisjoint(alias):
        raise ValueError(f"an alias is a name without blanks, line ends, | and #, got {alias!r:.60}")
    if isinstance(samples, (list, tuple)) and len(samples) and isinstance(samples[0], Mapping):
        return [_sparse(alias, step, sample) for step, sample in enumerate(samples)]
    array = np.asarray(samples)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"stream {alias!r}: expected numbers, or a list of dicts for sparse ones, got {samples!r:.60}")
    if array.ndim == 0:
        raise ValueError(f"stream {alias!r}: expected samples in steps, got the single number {samples!r:.60}")
    _check_finite(alias, array)
    if array.dtype.kind == "b":
        array = array.astype(np.uint8)
    return [" ".join(map(str, row)) for row in array.reshape(len(array), -1)] if array.size else [""] * len(array)


def _sparse(alias: str, step: int, sample: Any) -> str:
    if not isinstance(sample, Mapping):
        raise ValueError(f"stream {alias!r}, step {step}: expected a dict as in step 0, got {sample!r:.60}")
    for index in sample:
        if not isinstance(index, (int, np.integer)) or isinstance(index, bool) or index < 0:
            raise ValueError(f"stream {alias!r}, step {step}: expected indices from 0 on, got {index!r:.60}")
    values = list(sample.values())
    array = np.asarray(values)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iuf"):
        raise ValueError(f"stream {alias!r}, step {step}: expected a number for each index, got {values!r:.60}")
    _check_finite(alias, array)
    return " ".join(f"{index}:{sample[index]!s}" for index in sorted(sample))


def _check_finite(alias: str, array: np.ndarray[Any, Any]) -> None:
    if not np.isfinite(array).all():
        raise ValueError(
            f"stream {alias!r}: the format has no way to write infinite numbers or NaN; replace them first"
        )
