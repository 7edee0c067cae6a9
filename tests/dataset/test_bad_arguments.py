"""Arguments of every wrong kind: each operation names itself, the argument and what came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr

DATA: Any = hr.from_dataset([1, 2, 3], lengths=[1, 2, 3])
ANY: Any = hr  # seen as a program without types sees it
STREAM = hr.from_iterable(range(10))


def seen(data: hr.Dataset, **arguments: Any) -> list[int]:
    return [int(x) for batch in hr.Loader(data.batch(20), **arguments) for x in batch]


@pytest.mark.parametrize(
    ("operation", "argument"),
    [
        ("batch", "size"),
        ("take", "count"),
        ("skip", "count"),
        ("repeat", "count"),
        ("shuffle", "seed"),
        ("shuffle", "window"),
        ("slice", "start"),
        ("slice", "step"),
        ("filter_length", "min"),
        ("filter_length", "max"),
        ("bucket", "batch_size"),
        ("bucket", "max_tokens"),
    ],
)
@pytest.mark.parametrize("value", ["3", 2.5, True, np.float64(2), [1]])
def test_numbers_that_are_no_integers_are_refused(operation: str, argument: str, value: Any) -> None:
    needed = {"start": 0} if operation == "slice" and argument != "start" else {}
    with pytest.raises(hr.PlanError, match=rf"{operation}: {argument} is an integer, got |needs a batch_size for each"):
        getattr(DATA, operation)(**needed, **{argument: value})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DATA.shard(2, -1), "shard: index is at least 0, got -1"),
        (lambda: DATA.map(5), "map takes a function, got int 5"),
        (lambda: DATA.batch(2).map(None), "map takes a function, got NoneType None"),
        (lambda: DATA.map(len, rng=True, seed="x"), "map: seed is an integer, got 'x'"),
        (lambda: DATA.bucket(2, boundaries=5), "boundaries is a list of integers, got 5"),
        (lambda: DATA.bucket(2, boundaries="ab"), "boundaries is a list of integers, got 'ab'"),
        (lambda: DATA.bucket(2, boundaries=[1.5]), "bucket: boundaries is an integer, got 1.5"),
        (lambda: DATA.batch(2).pad(width=2.5), "pad: width is an integer, got 2.5"),
        (lambda: ANY.zip(DATA, 3), "zip takes datasets, got int in place 1"),
        (
            lambda: ANY.concat(DATA, DATA.batch(2)),
            r"concat takes datasets, got Batches in place 1; .* before batch\(\)",
        ),
        (lambda: ANY.mix([3], [1]), "mix takes datasets, got int in place 0"),
        (lambda: ANY.mix([DATA], 5), "mix: weights is a list of numbers, one for each part, got 5"),
        (lambda: ANY.mix([DATA], [1], seed="a"), "mix: seed is an integer, got 'a'"),
        (lambda: ANY.mix([DATA, DATA], [1, 0]), "mix needs positive, finite weights, got 0 in place 1"),
        (lambda: DATA.concat(None), "concat takes datasets, got NoneType in place 0"),
    ],
)
def test_arguments_of_another_kind_are_refused(make: Any, message: str) -> None:
    with pytest.raises(hr.PlanError, match=message):
        make()


@pytest.mark.parametrize("number", [2**31, 2**62, 2**63, 2**64, 2**80])
def test_numbers_beyond_all_records_are_no_error(number: int) -> None:
    data = hr.from_arrays(np.arange(10))
    assert seen(data.take(number)) == seen(STREAM.take(number)) == list(range(10))
    assert seen(data.skip(number)) == []
    assert seen(data.slice(1, None, number)) == [1]
    assert seen(data.slice(1, number, 3)) == seen(STREAM.slice(1, number, 3)) == [1, 4, 7]
    assert seen(data.shard(number, 4)) == [4]


def test_a_stream_has_no_records_beyond_2_to_the_62() -> None:
    for data in (
        STREAM.skip(2**62),
        STREAM.skip(2**80),
        STREAM.slice(1, None, 2**62),
        STREAM.slice(2**61, None, 2**61),
    ):
        with pytest.raises(hr.PlanError, match=r"goes beyond 2\^62 positions, more than there can be"):
            seen(data)
    assert seen(STREAM.skip(2**50)) == []


def test_numpy_integers_describe_themselves_as_python_ones() -> None:
    def describe(kind: Any) -> str:
        data = DATA.skip(kind(0)).take(kind(3)).shuffle(seed=kind(1), window=kind(2)).repeat(kind(2))
        mixed = hr.mix([data, data], [kind(1), kind(2)])
        return repr(mixed.batch(kind(4))) + repr(DATA.bucket(kind(2), boundaries=[kind(1), kind(2)], window=kind(9)))

    assert describe(int) == describe(np.int64) == describe(np.uint8)


@pytest.mark.parametrize(
    ("lengths", "value"), [([1, -1, 2], -1), ([1, 2**40, 2], 2**40), (np.array([2**63, 1, 1], np.uint64), 2**63)]
)
def test_lengths_beyond_32_bits_are_refused(lengths: Any, value: int) -> None:
    with pytest.raises(hr.DataError, match=rf"lengths are within 0 … 2\^31−1, got {value} for record"):
        hr.from_dataset([1, 2, 3], lengths=lengths)


def test_no_records_have_no_lengths() -> None:
    assert list(hr.Loader(hr.from_dataset([], lengths=[]).bucket(2))) == []


def test_a_function_of_lengths_that_gives_too_large_ones_is_refused() -> None:
    data = DATA.bucket(2, by=lambda lengths: lengths[""] + 2**40)
    with pytest.raises(hr.PlanError, match=r"bucket needs lengths in \[0, 2\^31\), got lengths from 109951162777"):
        list(hr.Loader(data))


def test_weights_of_extreme_proportions_are_taken() -> None:
    parts = [hr.from_dataset([0] * 5), hr.from_dataset([1] * 5)]
    assert set(seen(hr.mix(parts, [1e-300, 1e300]))) <= {0, 1}


@pytest.mark.parametrize(("gives", "message"), [(None, "gave NoneType, not a list"), (iter([1]), "gave list_iterator")])
def test_getitems_that_gives_no_list_is_named(gives: Any, message: str) -> None:
    class Items(list[int]):
        def __getitems__(self, numbers: list[int]) -> Any:
            return gives

    with pytest.raises(hr.DataError, match=f"__getitems__ of Items was asked for 3 records, {message}"):
        seen(hr.from_dataset(Items([1, 2, 3])))
