"""Wrong arguments of vocabularies and tokens."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import headrace as hr

VOCAB: Any = hr.Vocab(["<unk>", "</s>", "a", "b"])
ANY: Any = hr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_length": -1}, "max_length is at least 0, got -1"),
        ({"max_length": 1.5}, "max_length is an integer, got 1.5"),
        ({"eos": 2**40}, "eos is at most 2147483647, got 1099511627776"),
        ({"bos": "<s>"}, "bos is an integer, got '<s>'"),
    ],
)
def test_encode_refuses_numbers_out_of_range(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VOCAB.encode(["a b"], **arguments)


def test_ids_that_are_no_integers_are_refused() -> None:
    with pytest.raises(ValueError, match="ids are integers, got an array of float64"):
        VOCAB.decode([[2.5, 3]])
    with pytest.raises(ValueError, match="ids are integers, got an array of float64"):
        VOCAB.tokens([2.5])
    assert VOCAB.tokens([]) == []
    assert VOCAB.decode(np.zeros((2, 0))) == ["", ""]


def test_a_single_text_is_no_list_of_words(tmp_path: pathlib.Path) -> None:
    with pytest.raises(
        TypeError, match=r"tokens is a list of words, got str '<unk>'; for a single one write \['<unk>'\]"
    ):
        hr.Vocab("<unk>")
    (tmp_path / "t").write_text("a")
    with pytest.raises(TypeError, match="specials is a list of words, got str '<unk>'; for a single one"):
        hr.build_vocab(tmp_path / "t", specials="<unk>")
    with pytest.raises(ValueError, match="min_count is an integer, got 'x'"):
        ANY.build_vocab(tmp_path / "t", min_count="x")


@pytest.mark.parametrize("make", [ANY.read_text, ANY.build_vocab])
def test_what_is_no_path_or_separator_is_refused(make: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(TypeError, match="expected a path, a pattern or a list of those, got NoneType None"):
        make(None)
    (tmp_path / "t").write_text("a b")
    with pytest.raises(TypeError, match="separators is a str of ASCII characters, or None for white space, got b' '"):
        make(tmp_path / "t", separators=b" ")


def test_tokens_refuses_what_is_no_vocabulary_and_other_limits(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t").write_text("a b")
    text: Any = hr.read_text(tmp_path / "t")
    with pytest.raises(hr.PlanError, match="tokens takes a Vocab for column '', got int 5"):
        hr.Loader(text.tokens(5).batch(1))
    with pytest.raises(hr.PlanError, match=r"tokens: column '': max_length is an integer, got 1\.5"):
        hr.Loader(text.tokens(VOCAB, max_length=1.5).batch(1))


def test_ids_are_not_looked_up_again(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t").write_text("a b")
    twice = hr.read_text(tmp_path / "t").tokens(VOCAB).tokens(hr.Vocab(["<unk>"])).batch(1)
    with pytest.raises(hr.DataError, match="tokens: column '' holds Ragged, expected texts"):
        list(hr.Loader(twice))
