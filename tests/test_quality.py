"""Shuffle quality: 1 as drawn at random, 0 as read in order, and between them in between."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import headrace as hr

DATA = hr.from_arrays(np.arange(40_000))


def test_the_ends_of_the_scale() -> None:
    assert hr.shuffle_quality(DATA) == 0.0
    assert hr.shuffle_quality(DATA.shuffle(seed=5)) > 0.97
    assert hr.shuffle_quality(np.random.default_rng(1).permutation(40_000)) > 0.97
    assert hr.shuffle_quality(list(range(3000))[::-1]) < 0.01


def test_the_longer_the_window_the_better() -> None:
    found = [hr.shuffle_quality(DATA.shuffle(seed=1, window=window)) for window in (400, 4000, 20_000)]
    assert found == sorted(found)
    assert found[0] < 0.05
    assert 0.2 < found[2] < 0.5


def test_shards_in_random_order_are_no_shuffle() -> None:
    shards = np.random.default_rng(0).permutation(40)
    order = (shards[:, None] * 1000 + np.arange(1000)).ravel()
    assert hr.shuffle_quality(order) < 0.1
    # but mixed from ten shards at a time they nearly are
    mixed = np.concatenate([np.random.default_rng(i).permutation(part) for i, part in enumerate(order.reshape(4, -1))])
    assert hr.shuffle_quality(mixed) > 0.7


def test_several_sources_are_one_after_another() -> None:
    both = hr.concat(DATA.take(20_000), hr.from_arrays(np.arange(20_000)))
    assert hr.shuffle_quality(both) < 0.35
    assert hr.shuffle_quality(both.shuffle(seed=2)) > 0.9


def test_batches_keep_their_size_and_buckets_count() -> None:
    lengths = np.random.default_rng(0).integers(1, 30, 5000)
    texts = hr.from_arrays(hr.Strings.from_rows([" ".join("a" * n) for n in lengths]))
    buckets = texts.shuffle(seed=1).tokens(hr.Vocab(["<unk>", "a"])).bucket(32)
    assert hr.shuffle_quality(buckets) > 0.9
    assert hr.shuffle_quality(DATA.batch(64)) == 0.0


def test_filters_count_by_what_they_are_given() -> None:
    assert hr.shuffle_quality(DATA.shuffle(seed=1).filter(lambda x: x > 9).batch(100)) > 0.9


def test_epochs_differ_and_one_batch_is_all() -> None:
    shuffled = DATA.shuffle(seed=1)
    assert hr.shuffle_quality(shuffled) != hr.shuffle_quality(shuffled, epoch=1)
    assert hr.shuffle_quality(DATA.repeat(), batches=40) < 0.1
    assert hr.shuffle_quality(DATA.take(5000).shuffle(seed=1)) > 0.9  # of what is taken, not of what there is
    assert hr.shuffle_quality(DATA.take(100).batch(100)) == 1.0


def test_mistakes() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(hr.PlanError, match="a stream has no order but its own"):
        hr.shuffle_quality(hr.from_iterable(numbers))
    with pytest.raises(hr.PlanError, match="no batch of two records or more"):
        hr.shuffle_quality([])
    with pytest.raises(hr.PlanError, match="a description or record numbers, got list"):
        hr.shuffle_quality(["a"])  # type: ignore[list-item]
    with pytest.raises(hr.PlanError, match="shuffle_quality: batch_size is at least 2, got 1"):
        hr.shuffle_quality(DATA, batch_size=1)
