"""Random columns for the tests of formats that hold sequences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st

import headrace as hr


@st.composite
def columns(draw: st.DrawFn, dtype: Any = None, least: int = 0) -> dict[str, hr.Ragged]:
    """One to three streams, dense and sparse, of as many sequences; each has `least` samples or more of the first."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    count = draw(st.integers(1, 6))
    found = {}
    for number in range(draw(st.integers(1, 3))):
        kind = dtype or draw(st.sampled_from([np.float32, np.float64]))
        lengths = rng.integers(least if number == 0 else 0, 4, count)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        dim = draw(st.integers(1, 5))
        if draw(st.booleans()):
            found[f"s{number}"] = hr.Ragged(numbers(rng, (int(offsets[-1]), dim), kind), offsets)
        else:
            rows = [np.sort(rng.choice(dim, rng.integers(0, dim + 1), replace=False)) for _ in range(offsets[-1])]
            sparse = hr.Sparse.from_rows([(row, numbers(rng, len(row), kind)) for row in rows], dim, kind)
            found[f"s{number}"] = hr.Ragged(sparse, offsets)
    return found


def numbers(rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
    """Numbers of every size: any finite bit pattern, whole ones, zeros of both signs."""
    size = np.dtype(dtype).itemsize
    wild = rng.integers(0, 256, (*np.atleast_1d(shape), size), np.uint8).view(dtype)[..., 0]
    whole = rng.integers(-(10**6), 10**6, shape).astype(dtype)
    zero = rng.choice(np.array([0.0, -0.0], dtype), shape)
    found = np.choose(rng.integers(0, 3, shape), [np.where(np.isfinite(wild), wild, dtype(1.5)), whole, zero])
    return found.astype(dtype)


def pieces(found: dict[str, hr.Ragged], rng: np.random.Generator) -> list[dict[str, Any]]:
    """The same sequences in several batches, some of which may be empty."""
    count = len(next(iter(found.values())))
    cuts = [0, *np.sort(rng.integers(0, count + 1, 3)).tolist(), count]
    return [{name: column.take(np.arange(a, b)) for name, column in found.items()} for a, b in itertools.pairwise(cuts)]
