"""The random numbers of a record."""

from __future__ import annotations

import pickle
import re
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PlanError
from headrace.plan import record_rng, seed_key
from headrace.plan.rng import RecordRng

words = st.integers(0, 2**63 - 1)


def raw(seed: int, epoch: int, record: int, stream: int = 0) -> list[int]:
    return [int(word) for word in record_rng(seed, epoch, record, stream=stream).bit_generator.random_raw(3)]


def test_golden_draws() -> None:
    assert raw(7, 3, 12, 1) == [0x8F6ECF9D17C3A07E, 0x7D35AD458B093160, 0xC2AF6E5397AA0399]


@given(st.integers(), words, words, words)
def test_draws_are_philox_keyed_as_specified(seed: int, epoch: int, record: int, stream: int) -> None:
    key = np.array([seed_key(seed), stream], np.uint64)
    philox = np.random.Philox(key=key, counter=np.array([0, 0, record, epoch], np.uint64))
    assert raw(seed, epoch, record, stream) == [int(word) for word in philox.random_raw(3)]


def test_draws_differ_by_seed_epoch_record_and_stream() -> None:
    near = [(s, e, r, d) for s in (-1, 0, 1) for e in (0, 1) for r in (0, 1, 1 << 48) for d in (0, 1)]
    assert len({tuple(raw(*key)) for key in near}) == len(near)


def test_first_draws_of_neighbouring_records_are_uniform() -> None:
    draws = np.array([record_rng(1, epoch, record).random() for epoch in range(10) for record in range(400)])
    counts = np.histogram(draws, bins=20, range=(0, 1))[0]
    chi2 = float(((counts - 200) ** 2 / 200).sum())
    assert chi2 < 19 + 4.5 * (2 * 19) ** 0.5
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) * len(draws) ** 0.5 < 4.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.5, 0, 0, 0), "a seed is a whole number, got 0.5"),
        ((0, -1, 0, 0), "record_rng: epoch is at least 0, got -1"),
        ((0, 0, -1, 0), "record_rng: record is at least 0, got -1"),
        ((0, 0, 0, -1), "record_rng: stream is at least 0, got -1"),
        ((0, "1", 0, 0), "record_rng: epoch is an integer, got '1'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        raw(*arguments)


@given(st.integers(), words, st.lists(st.tuples(words, words), max_size=5))
def test_a_reused_generator_draws_what_a_new_one_does(seed: int, stream: int, keys: list[tuple[int, int]]) -> None:
    draws = RecordRng(seed, stream)
    for epoch, record in keys:
        reused, new = draws.at(epoch, record), record_rng(seed, epoch, record, stream=stream)
        # One half of a word is left over, and must not come first for the next record.
        assert reused.integers(1 << 20, dtype=np.uint32) == new.integers(1 << 20, dtype=np.uint32)
        assert reused.normal() == new.normal()


def test_threads_do_not_share_a_reused_generator() -> None:
    draws = RecordRng(7, 1)
    mine = draws.at(3, 12)
    others: list[np.random.Generator] = []
    thread = threading.Thread(target=lambda: others.append(draws.at(5, 1)))
    thread.start()
    thread.join()
    assert others[0] is not mine
    assert int(mine.bit_generator.random_raw()) == 0x8F6ECF9D17C3A07E
    again = pickle.loads(pickle.dumps(draws)).at(3, 12)
    assert int(again.bit_generator.random_raw()) == 0x8F6ECF9D17C3A07E


def test_a_reused_generator_refuses_what_makes_no_sense() -> None:
    with pytest.raises(PlanError, match=r"a seed is a whole number, got 0\.5"):
        RecordRng(0.5)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="record_rng: stream is at least 0, got -1"):
        RecordRng(0, -1)
    with pytest.raises(PlanError, match="record_rng: record is at least 0, got -1"):
        RecordRng(0).at(0, -1)
    with pytest.raises(PlanError, match="record_rng: epoch is at least 0, got -1"):
        RecordRng(0).at(-1, 0)
