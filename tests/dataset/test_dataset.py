from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import headrace as hr
from tests.dataset.helpers import numbers


def test_datasets_can_be_looked_at() -> None:
    data = hr.from_arrays({"x": np.arange(4), "y": (np.ones(4), np.zeros(4))})
    assert data[2]["x"] == 2
    assert data[-1]["y"][0] == 1.0
    with pytest.raises(IndexError):
        data[4]
    assert repr(data.shuffle(seed=3).batch(2)) == "arrays() → shuffle(seed=3) → batch(2)"
    stream = hr.from_iterable("abc")
    assert stream[1] == "b"
    with pytest.raises(IndexError, match="the stream has no record 3"):
        stream[3]
    with pytest.raises(TypeError, match="its records isn't known"):
        len(stream)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda d: d.batch(0), "batch: size is at least 1, got 0"),
        (lambda d: d.bucket(), "needs batch_size or max_tokens, one of them"),
        (lambda d: d.bucket(2, max_tokens=3), "needs batch_size or max_tokens, one of them"),
        (lambda d: d.bucket(0), "batch_size is at least 1, got 0"),
        (lambda d: d.bucket(2, width=2, boundaries=[3]), "width or boundaries, not both"),
        (lambda d: d.bucket(2, boundaries=[3, 2]), "boundaries ascend"),
        (lambda d: d.bucket(2, window=0), "window is at least 1, got 0"),
        (lambda d: d.take(-1), "count is at least 0, got -1"),
        (lambda d: d.shard(2, 2), "index is within 0 … count−1"),
        (lambda d: d.shuffle(window=0), "shuffle: window is at least 1, got 0"),
        (lambda d: d.repeat(0), "repeat: count is at least 1, got 0"),
        (lambda d: d.batch(2).pad(side="up"), "side is one of 'left', 'right', got 'up'"),
    ],
)
def test_arguments_out_of_range_are_refused(make: Any, message: str) -> None:
    with pytest.raises(hr.PlanError, match=message):
        make(numbers(5))


def test_streams_refuse_what_needs_a_length() -> None:
    stream = hr.from_iterable([1])
    for data in (stream.shuffle(), stream.filter_length()):
        with pytest.raises(hr.PlanError, match="needs a known number of records"):
            len(data)


def test_descriptions_can_be_pickled() -> None:
    data = numbers(10).shuffle(seed=1).skip(2).repeat(2).map(abs).batch(4)
    again = pickle.loads(pickle.dumps(data))
    assert [b.tolist() for b in hr.Loader(again)] == [b.tolist() for b in hr.Loader(data)]


def test_looking_at_records_compiles_once() -> None:
    rows = hr.Ragged.from_rows([[1]] * 100)
    data = hr.from_arrays(rows).filter_length()
    assert len([data[i] for i in range(len(data))]) == 100
    assert data._build() is data._build()
    stream = hr.from_iterable(range(5))
    assert stream[3] == 3
    assert stream[1] == 1
    assert list(stream) == list(stream) == [0, 1, 2, 3, 4]


def test_names_of_other_libraries_lead_on() -> None:
    with pytest.raises(AttributeError, match=r"Dataset has no 'pad'; pad comes after batch\(…\) or bucket\(…\)"):
        numbers(3).pad()
    with pytest.raises(AttributeError, match=r"Batches has no 'shuffle'; shuffle comes before batch"):
        numbers(3).batch(2).shuffle()
    with pytest.raises(AttributeError, match="'prefetch'; prefetch is done by the loader"):
        numbers(3).batch(2).prefetch(2)
    with pytest.raises(AttributeError, match=r"^Dataset has no 'nonsense'$"):
        _ = numbers(3).nonsense
    with pytest.raises(hr.PlanError, match="columns are named by texts, got True; those of tuples are '0', '1'"):
        numbers(3).batch(2, ragged=True)  # type: ignore[arg-type]


def test_texts_show_their_beginning() -> None:
    assert repr(hr.Strings.from_rows(["a", "b"])) == "Strings(['a', 'b'], 2 rows)"
    assert repr(hr.Strings.from_rows(list("abcd"))) == "Strings(['a', 'b', 'c', …], 4 rows)"
