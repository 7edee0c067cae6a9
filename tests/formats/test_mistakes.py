"""Mistakes are counted once, told sparingly, and too many are an error that names some."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from headrace.errors import DataError
from headrace.formats.mistakes import Mistakes, tell_once
from headrace.formats.sequences import Parsed, ParseWarning


def ones(count: int) -> np.ndarray:
    return np.ones(count, np.int64)


def parsed(rows: list[int], warnings: tuple[ParseWarning, ...] = ()) -> Parsed:
    return Parsed({}, error_rows=np.array(rows, np.int64), explain="mistake {}".format, warnings=warnings)


def test_one_more_than_allowed_is_an_error_and_counts_nothing() -> None:
    mistakes = Mistakes(3, data="a.ctf")
    mistakes.add(ones(2), "m{}".format)
    for _ in range(2):
        with pytest.raises(DataError) as info:
            mistakes.add(ones(5), "n{}".format)
        assert str(info.value) == (
            "Reached the maximum number of allowed errors (max_errors=3) while reading a.ctf; correct the data or "
            "allow more:\n  m0\n  m1\n  …\n  n1"
        )
        assert (mistakes.count, mistakes.left, mistakes.first) == (2, 1, ["m0", "m1"])
    mistakes.add(ones(1), "n{}".format)
    mistakes.add(ones(0), "n{}".format)
    assert mistakes.left == 0


def test_without_a_budget_the_first_mistake_is_the_error() -> None:
    with pytest.raises(KeyError, match=r"\(max_errors=0\); go: m0'$"):
        Mistakes(0, advice="go", error=KeyError).add(ones(9), "m{}".format)


def test_a_mistake_may_stand_for_many() -> None:
    mistakes = Mistakes(10)
    mistakes.add(np.array([1, 9]), "m{}".format)
    assert mistakes.count == 10
    with pytest.raises(DataError, match=r":\n  m0\n  …\n  m1$"):
        Mistakes(9).add(np.array([1, 9]), "m{}".format)


def test_a_hundred_are_told_in_full_then_powers_of_ten(caplog: pytest.LogCaptureFixture) -> None:
    mistakes = Mistakes(2_000_000, log=True)
    explained = []

    def explain(i: int) -> str:
        explained.append(i)
        return f"m{i}"

    with caplog.at_level(logging.WARNING, "headrace"):
        mistakes.add(ones(99), explain)
        mistakes.add(ones(901), explain)
        mistakes.add(np.array([5]), explain)
        mistakes.add(ones(990_000), explain)
        mistakes.add(ones(10_000), explain)
    messages = [record.message for record in caplog.records]
    assert messages[:2] == ["mistake 1 of 2,000,000 allowed: m0", "mistake 2 of 2,000,000 allowed: m1"]
    assert messages[99:] == [
        "mistake 100 of 2,000,000 allowed: m0",
        "further mistakes are only counted, and told at 1,000, …",
        "1,000 mistakes of 2,000,000 allowed so far",
        "100,000 mistakes of 2,000,000 allowed so far",
        "1,000,000 mistakes of 2,000,000 allowed so far",
    ]
    assert len(explained) == 102  # and the first two to remember


def test_several_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "headrace"):
        Mistakes(50, log=True).add(np.array([1, 40]), "m{}".format)
    assert [record.message for record in caplog.records] == [
        "mistake 1 of 50 allowed: m0",
        "mistakes 2 to 41 of 50 allowed: m1",
    ]


def test_each_record_is_settled_once() -> None:
    mistakes = Mistakes(4)
    mistakes.settle(np.array([7, 8, 9]), parsed([0, 0, 2]))
    assert (mistakes.count, mistakes.first) == (3, ["mistake 0", "mistake 1"])
    mistakes.settle(np.array([9, 7]), parsed([0, 1, 1]))  # all of them known
    assert mistakes.count == 3
    mistakes.settle(np.array([5, 5, 9]), parsed([0, 1, 2]))  # one of them twice
    assert mistakes.count == 4
    with pytest.raises(DataError, match=r"mistake 2$"):
        mistakes.settle(np.array([5, 6]), parsed([0, 0, 1]))
    mistakes.forget()
    assert mistakes.left == 4
    mistakes.settle(np.array([5]), parsed([0]))
    assert mistakes.count == 1


def test_warnings_are_told_once_a_kind(caplog: pytest.LogCaptureFixture) -> None:
    told: set[str] = set()
    short, odd = ParseWarning("short", 1, "a short one"), ParseWarning("odd", 1, "an odd one")
    with caplog.at_level(logging.WARNING, "headrace"):
        tell_once([short, short], told)
        tell_once([odd, short], told)
        Mistakes(0, log=True).settle(np.arange(1), parsed([], (short,)))
        Mistakes(0).settle(np.arange(1), parsed([], (odd,)))
    assert [record.message.split(";")[0] for record in caplog.records] == ["a short one", "an odd one", "a short one"]
