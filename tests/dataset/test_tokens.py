from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import headrace as hr


def test_tokens_of_columns() -> None:
    vocab = hr.Vocab(["<unk>", "<s>", "</s>", "a", "b"])
    texts = hr.Strings.from_rows(["a b a", "", "b x"])
    data = hr.from_arrays({"t": texts, "n": np.arange(3)})
    ids = [r["t"].tolist() for r in data.tokens({"t": vocab}, max_length=2, bos="<s>", eos="</s>")]
    assert ids == [[1, 3, 4, 2], [1, 2], [1, 4, 0, 2]]
    made = hr.from_dataset([{"t": "a"}, {"t": "b b"}]).map(dict).tokens({"t": vocab})
    (batch,) = hr.Loader(made.batch(2))
    assert batch["t"].tolist() == [[3], [4, 4]]
    with pytest.raises(hr.PlanError, match=r"vocab names column 'u'; the columns are \['t', 'n'\]"):
        hr.Loader(data.tokens({"u": vocab}).batch(1))
    with pytest.raises(hr.PlanError, match="the vocabulary of column 't' has no '<go>'"):
        hr.Loader(data.tokens({"t": vocab}, bos={"t": "<go>"}).batch(1))
    with pytest.raises(hr.DataError, match="column 'n' holds ndarray, expected texts"):
        list(hr.Loader(data.tokens({"n": vocab}).batch(1)))


@pytest.mark.parametrize("vocab", [{}, {"t": None}, [], None])
def test_tokens_of_no_column_are_refused(vocab: Any) -> None:
    data = hr.from_arrays({"t": hr.Strings.from_rows(["a"])})
    words = r"vocab has 0 values for 1 columns|tokens needs a Vocab for one column at least"
    with pytest.raises(hr.PlanError, match=words):
        hr.Loader(data.tokens(vocab).batch(1))


def test_tokens_are_separated_as_the_source_says(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.txt").write_text("x y\tz\n")
    vocab = hr.Vocab(["<unk>", "x", "y", "z"])
    text = hr.read_text(tmp_path / "a.txt", separators="\t")
    assert [ids.tolist() for ids in text.tokens(vocab)] == [[0, 3]]
    with pytest.raises(hr.PlanError, match=r"after a map doesn't know that read_text\(separators='\\t'\) is meant"):
        len(text.map(str).tokens({"": vocab}))
    assert [ids.tolist() for ids in text.map(str).tokens({"": vocab}, separators="\t")] == [[0, 3]]
    with pytest.raises(hr.PlanError, match="differs from the source's"):
        len(text.tokens(vocab, separators=" "))
