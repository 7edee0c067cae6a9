"""Tests of how arguments are looked at."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from headrace.batch.check import float_type
from headrace.checks import one_of, whole, whole_of, wholes_of
from headrace.errors import PlanError


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_are_taken_whatever_their_type(value: Any) -> None:
    assert whole("n", value, 0, 3) == 3
    assert type(whole("n", value, 0)) is int


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "n is an integer, got True"),
        (np.True_, "n is an integer"),
        (1.0, "n is an integer, got 1.0"),
        ("1", "n is an integer, got '1'"),
        (-1, "n is at least 0, got -1"),
        (4, "n is at most 3, got 4"),
    ],
)
def test_other_arguments_are_not_whole_numbers(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        whole("n", value, 0, 3)


def test_messages_say_whose_argument_it_is_and_what_else_it_may_be() -> None:
    assert whole_of("take", "count", 1 << 70, None) == 1 << 70
    with pytest.raises(PlanError, match=r"^take: count is at least 0, got -1$"):
        whole_of("take", "count", -1, 0)
    with pytest.raises(PlanError, match=r"^take: count is an integer or 'all', got None$"):
        whole_of("take", "count", None, 0, otherwise=" or 'all'")
    with pytest.raises(ValueError, match=r"^n is at most 9223372036854775807, got 9223372036854775808$"):
        whole("n", 1 << 63, None)


def test_words_and_lists_of_numbers_name_what_they_may_be() -> None:
    assert one_of("pad", "side", "left", Literal["left", "right"]) == "left"
    for wrong in ("up", None, 1, ["left"], np.array(["left", "right"])):
        with pytest.raises(PlanError, match=r"^pad: side is one of 'left', 'right', got "):
            one_of("pad", "side", wrong, ("left", "right"))
    with pytest.raises(TypeError, match=r"^side is one of 'left', got 'up'$"):
        one_of("", "side", "up", ("left",), error=TypeError)
    assert wholes_of("verify", "ranks", np.array([1, 2]), 1) == (1, 2)
    for wrong in (3, "12", None):
        with pytest.raises(PlanError, match=r"^verify: ranks is a list of integers, got "):
            wholes_of("verify", "ranks", wrong, 1)
    with pytest.raises(PlanError, match=r"^verify: ranks has one number at least, got none$"):
        wholes_of("verify", "ranks", [], 1, some=True)


@pytest.mark.parametrize("dtype", ["float64", np.float64, np.dtype(np.float64), float])
def test_types_of_values_have_several_names(dtype: Any) -> None:
    assert float_type(dtype) == np.float64


@pytest.mark.parametrize("dtype", ["int8", "half", ">f4", "nothing", 3])
def test_other_types_are_refused(dtype: Any) -> None:
    with pytest.raises(ValueError, match="dtype is 'float32' or 'float64', got"):
        float_type(dtype)
