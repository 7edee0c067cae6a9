from __future__ import annotations

import pathlib
import pickle
from typing import Any

import numpy as np
import pytest

import headrace as hr


def numbers(n: int) -> hr.Dataset:
    return hr.from_arrays(np.arange(n))


def values(data: hr.Dataset) -> list[int]:
    return [int(x) for x in data]


def test_order_operations_mean_what_lists_mean() -> None:
    ten = list(range(10))
    assert values(numbers(10).take(3)) == ten[:3]
    assert values(numbers(10).take(99)) == ten
    assert values(numbers(10).skip(8)) == ten[8:]
    assert values(numbers(10).skip(99)) == []
    assert values(numbers(10).slice(2, 9, 3)) == ten[2:9:3]
    assert values(numbers(10).shard(3, 1)) == ten[1::3]
    assert values(numbers(3).repeat(2)) == [0, 1, 2, 0, 1, 2]
    assert values(numbers(2).concat(numbers(3))) == [0, 1, 0, 1, 2]
    assert len(numbers(10).skip(1).repeat(4)) == 36


def test_shuffle_then_take_takes_from_the_new_order() -> None:
    shuffled = values(numbers(100).shuffle(seed=1))
    assert values(numbers(100).shuffle(seed=1).take(5)) == shuffled[:5]
    assert sorted(shuffled) == list(range(100))
    assert values(numbers(100).shuffle(seed=2)) != shuffled


def test_windowed_shuffle_stays_inside_its_windows() -> None:
    order = values(numbers(100).shuffle(seed=1, window=10))
    assert order != list(range(100))
    for start in range(0, 100, 10):
        assert sorted(order[start : start + 10]) == list(range(start, start + 10))


def test_repeat_shuffles_each_pass_anew() -> None:
    order = values(numbers(50).shuffle(seed=1).repeat(2))
    assert order[:50] != order[50:]
    assert sorted(order[:50]) == sorted(order[50:]) == list(range(50))


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


def test_zip_by_position_and_by_name() -> None:
    a, b = numbers(3), hr.from_dataset(["x", "y", "z"])
    assert list(hr.zip(a, b))[1] == (1, "y")
    assert list(hr.zip(n=a, s=b))[2] == {"n": 2, "s": "z"}
    (batch,) = hr.Loader(hr.zip(n=a, s=b).batch(3))
    assert batch["n"].tolist() == [0, 1, 2]
    assert batch["s"].tolist() == ["x", "y", "z"]


def test_zip_of_shuffled_parts_keeps_each_order() -> None:
    a, b = numbers(20).shuffle(seed=1), numbers(20).shuffle(seed=2)
    pairs = list(hr.zip(a, b))
    assert [int(x) for x, _ in pairs] == values(a)
    assert [int(y) for _, y in pairs] == values(b)


def test_zip_names_both_counts_when_lengths_differ() -> None:
    with pytest.raises(hr.DataError, match=r"same number of records on every side, got src: 3 .*tgt: 4"):
        hr.Loader(hr.zip(src=numbers(3), tgt=numbers(4)).batch(1))
    assert len(hr.zip(numbers(3), numbers(4), shortest=True)) == 3


def test_zip_needs_datasets_by_position_or_by_name() -> None:
    with pytest.raises(hr.PlanError, match="at least one, and not both"):
        hr.zip()
    with pytest.raises(hr.PlanError, match=r"have no dot, got 'a\.b'"):
        hr.zip(**{"a.b": numbers(1)})  # type: ignore[arg-type]


def test_concat_reads_each_record_through_its_own_steps() -> None:
    data = numbers(3).map(lambda n: n * 10).concat(numbers(2).map(lambda n: -n)).shuffle(seed=4)
    (batch,) = hr.Loader(data.batch(5))
    assert sorted(batch.tolist()) == [-1, 0, 0, 10, 20]
    assert batch.tolist() == [int(x) for x in data]


def test_concat_of_different_records_is_refused() -> None:
    data = numbers(2).concat(hr.from_arrays({"x": np.arange(2)}))
    with pytest.raises(hr.DataError, match="the parts of a concat or mix give different records"):
        list(hr.Loader(data.batch(4)))
    with pytest.raises(hr.DataError, match="the parts of a concat or mix give different records"):
        list(hr.Loader(numbers(2).concat(hr.zip(numbers(2), numbers(2))).batch(4)))


def test_concat_joins_zips_with_single_sources() -> None:
    pairs = hr.zip(numbers(3), numbers(3)).map(lambda pair: pair[0] + pair[1])
    assert [int(x) for x in numbers(2).concat(pairs, numbers(1))] == [0, 1, 0, 2, 4, 0]


def test_mix_keeps_proportions() -> None:
    a = hr.from_arrays(np.zeros(300, np.int64))
    b = hr.from_arrays(np.ones(100, np.int64))
    order = values(hr.mix([a, b], weights=[3, 1], seed=1))
    assert 380 <= len(order) <= 400
    assert [sum(order[i : i + 64]) for i in range(0, 320, 64)] == [16] * 5
    with pytest.raises(hr.PlanError, match="one weight for each dataset, got 2 datasets and 1 weights"):
        hr.mix([a, b], weights=[1])


def test_random_numbers_depend_on_record_and_epoch_alone() -> None:
    def draw(n: Any, rng: np.random.Generator) -> tuple[int, float]:
        return int(n), float(rng.random())

    plain = dict(numbers(30).map(draw, rng=True, seed=1))
    shuffled = dict(numbers(30).shuffle(seed=9).map(draw, rng=True, seed=1))
    assert plain == shuffled
    assert len(set(plain.values())) == 30
    assert dict(numbers(30).map(draw, rng=True, seed=2)) != plain
    loader = hr.Loader(numbers(30).map(draw, rng=True, seed=1).batch(30))
    [first], [second] = ([b[1].tolist() for b in loader] for _ in range(2))
    assert first == list(plain.values())
    assert not set(first) & set(second)


def test_two_maps_do_not_draw_alike() -> None:
    twice = numbers(5).map(lambda n, rng: rng.random(), rng=True).map(lambda x, rng: (x, rng.random()), rng=True)
    assert all(x != y for x, y in twice)


def test_getitems_is_asked_for_a_whole_batch() -> None:
    class Table:
        def __init__(self) -> None:
            self.calls: list[list[int]] = []

        def __len__(self) -> int:
            return 10

        def __getitem__(self, i: int) -> int:
            raise AssertionError("asked one by one")

        def __getitems__(self, indices: list[int]) -> list[int]:
            self.calls.append(indices)
            return [i * i for i in indices]

    table = Table()
    assert next(iter(hr.Loader(hr.from_dataset(table).batch(4)))).tolist() == [0, 1, 4, 9]
    assert table.calls[0] == [0, 1, 2, 3]
    table.__getitems__ = lambda indices: [1]  # type: ignore[method-assign]
    with pytest.raises(hr.DataError, match="asked for 4 records, gave 1"):
        next(iter(hr.Loader(hr.from_dataset(table).batch(4))))


def test_an_object_that_cannot_be_indexed_is_refused() -> None:
    with pytest.raises(
        TypeError, match="needs an object with __len__ and __getitem__, got generator; use from_iterable"
    ):
        hr.from_dataset(n for n in range(3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="needs an iterable or a function that returns one, got int"):
        hr.from_iterable(5)  # type: ignore[arg-type]


def test_an_error_in_reading_names_the_record() -> None:
    class Broken(list[int]):
        def __getitem__(self, i: Any) -> Any:
            if i == 3:
                raise StopIteration
            raise OSError("no disk")

    with pytest.raises(OSError, match="no disk") as info:
        next(iter(hr.Loader(hr.from_dataset(Broken([0] * 5)).batch(2))))
    assert any("record 0 of Broken" in note for note in info.value.__notes__)
    with pytest.raises(hr.DataError, match="raised StopIteration; let it catch that"):
        next(iter(hr.Loader(hr.from_dataset(Broken([0] * 5)).skip(3).batch(2))))


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(hr.DataError, match="same number of rows, got x: 3, y: 4"):
        hr.from_arrays({"x": np.zeros(3), "y": np.zeros(4)})
    with pytest.raises(hr.DataError, match="is a single number"):
        hr.from_arrays(np.float64(3))
    with pytest.raises(hr.DataError, match="holds Python objects; use from_dataset"):
        hr.from_arrays(np.array([{}, None]))


def test_memory_maps_are_read_where_they_lie(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(400, dtype=np.float32).reshape(100, 4))
    mapped = np.load(path, mmap_mode="r")
    (batch,) = hr.Loader(hr.from_arrays(mapped).shuffle(seed=1).batch(100))
    assert sorted(batch[:, 0].tolist()) == list(range(0, 400, 4))
    assert type(batch) is np.ndarray


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "f4", "f8", "c16", "M8[s]", "S5", "U3", [("a", "i4"), ("b", "f8")]])
def test_arrays_of_any_type_are_gathered(dtype: Any) -> None:
    array = np.zeros(7, dtype) if isinstance(dtype, list) else np.arange(7).astype(dtype)
    (batch,) = hr.Loader(hr.from_arrays(array).slice(1, None, 2).batch(9))
    assert batch.dtype == array.dtype
    assert (batch == array[1::2]).all()


def test_arrays_that_are_not_contiguous_are_gathered() -> None:
    array = np.arange(24).reshape(4, 6).T
    (batch,) = hr.Loader(hr.from_arrays(array).skip(2).batch(9))
    assert (batch == array[2:]).all()


def test_bucket_batches_hold_rows_of_one_bucket() -> None:
    rng = np.random.default_rng(0)
    rows = hr.Ragged.from_rows([np.full(n, n) for n in rng.integers(1, 40, 500)])
    data = hr.from_arrays({"x": rows, "i": np.arange(500)}).shuffle(seed=1)
    seen = []
    for batch in hr.Loader(data.bucket(batch_size=16, width=10, num_buckets=3).pad()):
        assert len(set(np.minimum(batch["x_len"] // 10, 3).tolist())) == 1
        assert batch["x"].shape == (len(batch["i"]), batch["x_len"].max())
        seen += batch["i"].tolist()
    assert sorted(seen) == list(range(500))


def test_bucket_by_tokens_keeps_the_budget() -> None:
    rng = np.random.default_rng(0)
    rows = hr.Ragged.from_rows([np.full(n, n) for n in rng.integers(1, 90, 500)])
    for batch, lengths in hr.Loader(hr.from_arrays(rows).shuffle(seed=1).bucket(max_tokens=256).pad()):
        assert batch.size <= 256
        assert batch.shape[1] == lengths.max()


def test_bucket_by_a_function_of_lengths() -> None:
    a = hr.Ragged.from_rows([[1], [1, 1, 1], [1]])
    b = hr.Ragged.from_rows([[1, 1, 1], [1], [1]])
    data = hr.from_arrays({"a": a, "b": b})
    by_a = [len(x["a"]) for x in hr.Loader(data.bucket(batch_size=2, width=2, by="a"))]
    assert by_a == [2, 1]
    by_sum = hr.Loader(data.bucket(batch_size=2, width=2, by=lambda n: n["a"] + n["b"]))
    assert [x["a"].tolist() for x in by_sum] == [[[1], [1, 1, 1]], [[1]]]
    with pytest.raises(hr.PlanError, match="must give one integer for each of"):
        hr.Loader(data.bucket(batch_size=2, by=lambda n: n["a"] / 2))  # type: ignore[arg-type, return-value]


def test_bucket_needs_lengths() -> None:
    with pytest.raises(hr.PlanError, match="bucket needs the lengths of the records, known are those of no column"):
        hr.Loader(hr.from_dataset([1, 2]).bucket(batch_size=2))
    data = hr.from_dataset([[1], [2, 2]], lengths=[1, 2])
    assert len(list(hr.Loader(data.bucket(batch_size=2, width=1)))) == 2
    with pytest.raises(hr.DataError, match="one integer for each of 2 records"):
        hr.from_dataset([1, 2], lengths=[1])


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
        (lambda d: d.batch(2).pad(side="up"), "side is 'left' or 'right', got 'up'"),
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


def test_filter_length_leaves_out_by_the_index() -> None:
    rows = hr.Ragged.from_rows([[1], [], [2, 2], [3, 3, 3], []])
    data = hr.from_arrays(rows)
    assert [r.tolist() for r in data.filter_length()] == [[1], [2, 2], [3, 3, 3]]
    assert [r.tolist() for r in data.filter_length(min=0, max=1)] == [[1], [], []]
    assert len(data.filter_length().shuffle(seed=1)) == 3
    with pytest.raises(hr.PlanError, match="filter_length comes before shuffle"):
        len(data.shuffle().filter_length())


def test_pad_gives_lengths_beside_the_column() -> None:
    rows = hr.Ragged.from_rows([[1, 2, 3], [4]])
    (batch,) = hr.Loader(hr.from_arrays({"a": rows}).batch(2).pad({"a": 9}, multiple_of=4))
    assert batch["a"].tolist() == [[1, 2, 3, 9], [4, 9, 9, 9]]
    assert batch["a_len"].tolist() == [3, 1]
    ((array, lengths),) = hr.Loader(hr.from_arrays(rows).batch(2).pad(side="left"))
    assert array.tolist() == [[1, 2, 3], [0, 0, 4]]
    assert lengths.tolist() == [3, 1]


def test_pad_names_the_record_that_is_too_long() -> None:
    rows = hr.Ragged.from_rows([[1], [1, 2, 3]])
    with pytest.raises(hr.DataError, match=r"column 'a' of row 1 of the arrays has 3 items, more than the width of 2"):
        list(hr.Loader(hr.from_arrays({"a": rows}).batch(2).pad(width=2)))
    with pytest.raises(hr.PlanError, match=r"pad names column 'b'; the columns are \['a'\]"):
        hr.Loader(hr.from_arrays({"a": rows}).batch(2).pad(columns="b"))
    with pytest.raises(hr.DataError, match="expected Ragged; say so where batches are made"):
        list(hr.Loader(hr.from_dataset([{"a": 1}]).batch(1).pad(columns="a")))


def test_ragged_columns_of_python_records_are_padded() -> None:
    data = hr.from_dataset([{"a": [1], "b": 5}, {"a": [1, 2], "b": 6}]).batch(2, ragged="a").pad()
    (batch,) = hr.Loader(data)
    assert batch["a"].tolist() == [[1, 0], [1, 2]]
    assert batch["b"].tolist() == [5, 6]


def test_map_over_batches() -> None:
    data = numbers(5).batch(2).map(lambda batch: batch.sum())
    assert [int(x) for x in hr.Loader(data)] == [1, 5, 4]
    with pytest.raises(ZeroDivisionError) as info:
        list(hr.Loader(numbers(5).batch(2).map(lambda batch: 1 // 0)))
    assert any("a batch of 2 records, the first row 0 of the arrays" in note for note in info.value.__notes__)


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


def test_descriptions_can_be_pickled() -> None:
    data = numbers(10).shuffle(seed=1).skip(2).repeat(2).map(abs).batch(4)
    again = pickle.loads(pickle.dumps(data))
    assert [b.tolist() for b in hr.Loader(again)] == [b.tolist() for b in hr.Loader(data)]
