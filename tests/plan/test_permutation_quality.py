"""The statistical quality of the permutation. Seeds are fixed, so every run computes the same numbers."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace import _native

LIMIT = 4.5
"""Standard deviations that a statistic may be away from its mean. Broken permutations are at dozens or thousands."""

Ints = NDArray[np.int64]


def permutation(seed: int, n: int, *, epoch: int = 0, stream: int = 0) -> Ints:
    return _native.permute(seed, epoch, stream, n, np.arange(n))


def z_score(counts: Ints, expected: float) -> float:
    """How far the χ² statistic of counts is from its mean, in standard deviations."""
    freedom = counts.size - 1
    chi2 = float(((counts - expected) ** 2).sum()) / expected
    return (chi2 - freedom) / math.sqrt(2 * freedom)


def sampled(n: int, samples: int) -> Ints:
    """The first values of many permutations, one a row."""
    return np.array([_native.permute(seed, 0, 0, n, np.arange(min(n, 8))) for seed in range(samples)])


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_all_orders_of_few_records_are_equally_likely(n: int) -> None:
    per_order = 60
    seen = Counter(tuple(permutation(seed, n).tolist()) for seed in range(math.factorial(n) * per_order))
    assert len(seen) == math.factorial(n)
    assert abs(z_score(np.array(list(seen.values())), per_order)) < LIMIT


@pytest.mark.parametrize("n", [2, 7, 16, 100, 255, 256, 257, 1000])
def test_values_are_uniform_at_each_position(n: int) -> None:
    samples = 40_000
    values = sampled(n, samples)
    for column in values.T:
        assert abs(z_score(np.bincount(column, minlength=n), samples / n)) < LIMIT


@pytest.mark.parametrize("n", [16, 256])
def test_pairs_of_positions_are_uniform(n: int) -> None:
    samples = 40_000 if n == 16 else 120_000
    values = sampled(n, samples)
    for i, j in ((0, 1), (3, 4), (0, 7)):
        difference = (values[:, j] - values[:, i]) % n
        assert difference.min() > 0
        assert abs(z_score(np.bincount(difference, minlength=n)[1:], samples / (n - 1))) < LIMIT
    if n == 16:
        joint = values[:, 0] * n + values[:, 1]
        counts = np.bincount(joint, minlength=n * n).reshape(n, n)
        assert np.diag(counts).sum() == 0
        off_diagonal = counts[~np.eye(n, dtype=bool)]
        assert abs(z_score(off_diagonal, samples / (n * (n - 1)))) < LIMIT


@pytest.mark.parametrize("n", [1 << 17, 999_680, 1 << 24, (1 << 33) + (1 << 32), 1 << 48])
@pytest.mark.parametrize("stride", ["1", "half", "below half"])
def test_neighbours_are_not_correlated(n: int, stride: str) -> None:
    # Strides of 2^(bits / 2) change one half of the network's input only: its weakest place.
    half = n.bit_length() // 2
    step = {"1": 1, "half": 1 << half, "below half": 1 << (half - 1)}[stride]
    count = min(n // step, 1 << 12)
    first, second = np.zeros(64, np.int64), np.zeros(64, np.int64)
    for seed in range(max(8, (1 << 20) // count)):
        values = _native.permute(seed, 0, 0, n, np.arange(count) * step)
        once = np.diff(values) % n
        first += np.bincount(once * 64 // n, minlength=64)
        second += np.bincount(np.diff(once) % n * 64 // n, minlength=64)
    assert abs(z_score(first, first.sum() / 64)) < LIMIT
    assert abs(z_score(second, second.sum() / 64)) < LIMIT


@pytest.mark.parametrize("n", [1000, 65_536, 100_000])
@pytest.mark.parametrize("what", ["epoch", "seed", "stream", "size", "position"])
def test_orders_are_not_correlated_with_each_other(n: int, what: str) -> None:
    """Rank correlation with the next epoch, seed, stream, size, and with the unshuffled order."""
    correlations, agreements = [], 0
    for seed in range(40):
        one = permutation(seed, n)
        match what:
            case "epoch":
                other = permutation(seed, n, epoch=1)
            case "seed":
                other = permutation(seed + 1, n)
            case "stream":
                other = permutation(seed, n, stream=1)
            case "size":
                other = permutation(seed, n + 1)[:n]
            case _:
                other = np.arange(n)
        correlations.append(float(np.corrcoef(one, other)[0, 1]))
        agreements += int((one == other).sum())
    scale = math.sqrt(n - 1)  # a random pair has correlation 0 ± 1 / sqrt(n - 1)
    assert max(abs(c) for c in correlations) * scale < LIMIT
    assert abs(sum(correlations)) / math.sqrt(len(correlations)) * scale < LIMIT
    assert abs(agreements - len(correlations)) < LIMIT * math.sqrt(len(correlations))  # one place agrees on average


@pytest.mark.parametrize("n", [256, 1000])
def test_cycles_and_fixed_points_are_those_of_random_permutations(n: int) -> None:
    samples = 1000
    fixed, cycles, odd = [], [], 0
    for seed in range(samples):
        values = permutation(seed, n)
        fixed.append(int((values == np.arange(n)).sum()))
        cycles.append(count_cycles(values.tolist()))
        odd += (n - cycles[-1]) % 2
    harmonic = sum(1 / i for i in range(1, n + 1))
    spread = math.sqrt((harmonic - math.pi**2 / 6) / samples)
    assert abs(np.mean(fixed) - 1) < LIMIT / math.sqrt(samples)
    assert abs(np.var(fixed) - 1) < LIMIT * math.sqrt(3 / samples)
    assert abs(np.mean(cycles) - harmonic) < LIMIT * spread
    assert abs(odd - samples / 2) < LIMIT * math.sqrt(samples) / 2


def count_cycles(values: list[int]) -> int:
    seen, cycles = [False] * len(values), 0
    for start in range(len(values)):
        cycles += not seen[start]
        while not seen[start]:
            seen[start] = True
            start = values[start]
    return cycles


def test_runs_are_as_long_as_in_random_permutations() -> None:
    """Neighbours rise half of the time, and rises don't come in rows: 1/6 of all neighbouring threes only rise."""
    n = 300_000
    values = permutation(11, n)
    up = np.diff(values) > 0
    assert abs(up.mean() - 1 / 2) * math.sqrt(12 * n) < LIMIT
    assert abs((up[1:] & up[:-1]).mean() - 1 / 6) * math.sqrt(n) < LIMIT


def test_windows_of_one_epoch_have_orders_of_their_own() -> None:
    window, n = 64, 64 * 4000
    values = _native.permute_windows(3, 0, window, n, np.arange(n)).reshape(-1, window) % window
    for column in values.T:
        assert abs(z_score(np.bincount(column, minlength=window), len(values) / window)) < LIMIT
    same = sum(int((a == b).sum()) for a, b in pairwise(values))
    assert abs(same - len(values)) < LIMIT * math.sqrt(len(values))
