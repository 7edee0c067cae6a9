from __future__ import annotations

import pathlib
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr


def ragged(lengths: list[int], start: int = 100) -> hr.Ragged:
    """Row i holds i*start, i*start+1, …"""
    return hr.Ragged.from_rows([np.arange(n) + i * start for i, n in enumerate(lengths)], dtype=np.int64)


def unpack(batch: dict[str, Any], column: str) -> list[list[int]]:
    """The records of a batch, row by row."""
    found = []
    for items, segments, positions in zip(batch[column], batch["segment_ids"], batch["position_ids"], strict=True):
        for number in range(1, segments.max(initial=0) + 1):
            own = segments == number
            assert positions[own].tolist() == list(range(own.sum()))
            found.append(items[own].tolist())
        assert not items[segments == 0].any()
    return found


@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=50),
    strategy=st.sampled_from(["first-fit", "best-fit"]),
    window=st.sampled_from([None, 5, 20]),
    seed=st.integers(0, 99),
)
def test_every_record_comes_once(lengths: list[int], strategy: Any, window: int | None, seed: int) -> None:
    rows = ragged(lengths)
    data = hr.from_arrays({"x": rows, "y": hr.Ragged(rows.values * 2, rows.offsets)}).shuffle(seed=seed)
    packed = data.pack(12, batch_size=3, strategy=strategy, window=window)
    records = []
    for batch in hr.Loader(packed, workers=seed % 2):
        assert batch["x"].shape == batch["segment_ids"].shape == batch["position_ids"].shape
        assert batch["x"].shape[0] <= 3
        assert (batch["y"] == batch["x"] * 2).all()
        assert batch["x"].dtype == np.int64
        assert batch["segment_ids"].dtype == np.int32
        records += unpack(batch, "x")
    assert sorted(records) == sorted(row.tolist() for row in rows)
    proven = hr.verify(packed, events=5, seed=seed, ranks=(1, 2, 5))
    assert proven.events == 5


@pytest.mark.parametrize("split", ["records", "batches"])
@pytest.mark.parametrize("strategy", ["first-fit", "best-fit", "concat"])
@pytest.mark.parametrize("overlong", ["split", "cut", "drop"])
def test_packed_runs_can_be_moved_anywhere(strategy: Any, overlong: Any, split: Any) -> None:
    rng = np.random.default_rng(1)
    data = hr.from_arrays(ragged(rng.integers(0, 20, 150).tolist())).shuffle(seed=2)
    packed = data.pack(14, batch_size=4, strategy=strategy, overlong=overlong, window=60)
    proven = hr.verify(hr.Loader(packed, split=split), events=60, ranks=(1, 2, 3, 7))
    assert proven.counted >= 1
    hr.assert_resumable(packed, epochs=2)


def test_concat_loses_no_item() -> None:
    rows = ragged([3, 0, 30, 1, 6], start=1000)
    batches = list(hr.Loader(hr.from_arrays(rows).pack(7, batch_size=2, strategy="concat", value=-1)))
    items = np.concatenate([b["tokens"][b["segment_ids"] > 0] for b in batches])
    assert items.tolist() == rows.values.tolist()
    assert [b["tokens"].shape for b in batches] == [(2, 7), (2, 7), (2, 7)]
    assert batches[-1]["tokens"][-1, -2:].tolist() == [-1, -1]
    assert batches[0]["segment_ids"][0].tolist() == [1, 1, 1, 3, 3, 3, 3]
    assert batches[0]["position_ids"][0].tolist() == [0, 1, 2, 0, 1, 2, 3]


def test_overlong_records_are_divided_cut_or_left_out() -> None:
    data = hr.from_arrays(ragged([2, 9, 3]))
    with pytest.raises(hr.DataError, match=r"pack: row 1.* has 9 items, more than a row of 4.*overlong='drop'"):
        list(hr.Loader(data.pack(4, batch_size=2)))

    def records(overlong: Any) -> list[list[int]]:
        (batch,) = hr.Loader(data.pack(4, batch_size=9, overlong=overlong))
        return unpack(batch, "tokens")

    assert records("drop") == [[0, 1], [200, 201, 202]]
    assert records("cut") == [[0, 1], [100, 101, 102, 103], [200, 201, 202]]
    assert sorted(records("split")) == [[0, 1], [100, 101, 102, 103], [104, 105, 106, 107], [108], [200, 201, 202]]


def test_texts_are_packed_as_tokens(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "text"
    path.write_text("".join("w " * (n % 5 + 1) + "\n" for n in range(30)))
    data = hr.zip(text=hr.read_text(path)).tokens(hr.build_vocab(path), eos="</s>", max_length=4)
    packed = data.shuffle(seed=1).pack(10, batch_size=4)
    assert sum((b["segment_ids"] > 0).sum() for b in hr.Loader(packed)) == sum(min(n % 5 + 1, 4) + 1 for n in range(30))
    assert set(next(iter(hr.Loader(packed)))) == {"text", "segment_ids", "position_ids"}
    assert hr.verify(packed, events=20).epochs


def test_objects_are_packed_by_the_lengths_given_with_them() -> None:
    items = [{"ids": list(range(n)), "label": n} for n in (3, 1, 2)]
    data = hr.from_dataset(items, lengths=[3, 1, 2])
    (batch,) = hr.Loader(data.pack(4, batch_size=2, columns="ids"))
    assert batch["ids"].tolist() == [[0, 1, 2, 0], [0, 1, 0, 0]]
    assert "label" not in batch
    wrong = hr.from_dataset(items, lengths=[3, 1, 3]).pack(4, batch_size=2, columns="ids")
    with pytest.raises(hr.DataError, match=r"column 'ids' of record 2 of list has 2 items, and its length was .* 3;"):
        list(hr.Loader(wrong))


def test_rows_of_vectors_are_packed() -> None:
    rows = hr.Ragged(np.arange(12.0).reshape(6, 2), np.array([0, 2, 6]))
    (batch,) = hr.Loader(hr.from_arrays({"x": rows}).pack(4, batch_size=2, value=-1))
    assert batch["x"].shape == (2, 4, 2)
    assert batch["x"][0].tolist() == [[0, 1], [2, 3], [-1, -1], [-1, -1]]


def test_fill_is_told_without_reading() -> None:
    class Never:
        def __len__(self) -> int:
            return 100

        def __getitem__(self, n: int) -> Any:
            raise AssertionError

    data = hr.from_dataset(Never(), lengths=np.arange(100) % 7 + 1)
    assert 0.9 < data.pack(16, batch_size=2).fill() <= 1
    assert data.pack(16, batch_size=2, strategy="concat").fill() > 0.98
    assert 0.5 < data.bucket(batch_size=4, width=2).fill() <= 1
    assert data.repeat().pack(16, batch_size=2, window=50).fill(windows=3) > 0.8
    assert hr.from_dataset([], lengths=[]).pack(4, batch_size=2).fill() == 1
    with pytest.raises(hr.PlanError, match=r"FixedBatches doesn't go by lengths.* bucket\(\.\.\.\) and pack"):
        data.batch(4).fill()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.pack(0, batch_size=2), "length is at least 1"),
        (lambda d: d.pack(4, batch_size=2, strategy="worst"), "strategy is one of 'first-fit', 'best-fit', 'concat'"),
        (lambda d: d.pack(4, batch_size=2, overlong="keep"), "overlong is one of 'raise', 'split', 'cut', 'drop'"),
        (lambda d: d.pack(4, batch_size=2, value="x"), "value is a number, got 'x'"),
        (lambda d: d.pack(4, batch_size=2, columns=[]), "columns names one column at least"),
        (lambda d: hr.Loader(d.pack(4, batch_size=2, columns="z")), "pack names column 'z'; the columns are"),
        (lambda d: hr.Loader(d.filter(lambda r: True).take(1).pack(4, batch_size=2)), "pack can't follow take"),
        (lambda d: hr.Loader(d.repeat().pack(4, batch_size=2, window=None)), "pack needs a window"),
    ],
)
def test_mistakes_are_refused(call: Any, message: str) -> None:
    with pytest.raises(hr.PlanError, match=message):
        call(hr.from_arrays({"x": ragged([1, 2])}))


def test_columns_of_different_lengths_are_named() -> None:
    data = hr.from_arrays({"src": ragged([1, 2]), "tgt": ragged([1, 3]), "other": ragged([5, 5])})
    with pytest.raises(hr.DataError, match=r"row 1 .*has 2 items in 'src', 3 in 'tgt'; say which by columns"):
        list(hr.Loader(data.pack(6, batch_size=2, columns=["src", "tgt"])))
    with pytest.raises(hr.DataError, match="gives a column 'segment_ids', and the records have one"):
        list(hr.Loader(hr.from_arrays({"segment_ids": ragged([1])}).pack(6, batch_size=2)))


@pytest.mark.parametrize("strategy", ["first-fit", "best-fit", "concat"])
@pytest.mark.parametrize("kind", ["mapped", "filtered", "stream", "shuffled stream", "filtered stream", "columns"])
def test_rows_of_records_that_were_read_are_those_of_a_plan(kind: str, strategy: Any) -> None:
    lengths = [n * 7 % 11 for n in range(130)]
    items = [[n] * length for n, length in enumerate(lengths)]
    known = hr.from_dataset(items, lengths=lengths)
    found: dict[str, tuple[hr.Dataset, hr.Dataset]] = {
        "mapped": (known.shuffle(seed=3).map(list), known.shuffle(seed=3)),
        "filtered": (known.filter(lambda row: True, block=7), known),
        "stream": (hr.from_iterable(lambda: iter(items)), known),
        "shuffled stream": (hr.from_iterable(items).shuffle(seed=2, window=20), known.shuffle(seed=2, window=20)),
        "filtered stream": (hr.from_iterable(items).filter(lambda row: True), known),
        "columns": (hr.from_arrays(ragged(lengths)).map(lambda r: r), hr.from_arrays(ragged(lengths))),
    }
    how: dict[str, Any] = {"batch_size": 3, "strategy": strategy, "overlong": "cut", "window": 40}
    read, planned = (data.pack(10, **how) for data in found[kind])
    assert [b["tokens"].tolist() for b in hr.Loader(read)] == [b["tokens"].tolist() for b in hr.Loader(planned)]
    splits: list[Any] = ["records", "batches"]
    for split in splits:
        loader = hr.Loader(read, split=split)
        assert hr.verify(loader, events=25, ranks=(1, 2, 5)).epochs


def test_filtered_records_are_packed() -> None:
    data = hr.from_arrays({"x": ragged([3, 4, 1, 2, 5, 1])}).filter(lambda r: len(r["x"]) != 4)
    (batch,) = hr.Loader(data.pack(6, batch_size=9))
    assert [len(row) for row in unpack(batch, "x")] == [3, 1, 2, 5, 1]
    labelled = data.map(lambda r: {"x": r["x"], "n": 5})
    (batch,) = hr.Loader(labelled.pack(6, batch_size=9))
    assert set(batch) == {"x", "segment_ids", "position_ids"}
    with pytest.raises(hr.DataError, match="pack needs column 'n' with rows of some length"):
        list(hr.Loader(labelled.pack(6, batch_size=9, columns="n")))
    with pytest.raises(hr.DataError, match="has 5 items, more than a row of 4"):
        list(hr.Loader(data.pack(4, batch_size=9)))
    with pytest.raises(hr.DataError, match="found lengths of no column"):
        list(hr.Loader(hr.from_dataset(range(5)).pack(4, batch_size=9)))


def test_a_rank_without_a_row_gets_empty_columns() -> None:
    data = hr.from_arrays({"x": ragged([3, 3])}).pack(4, batch_size=2)
    shapes = [next(iter(hr.Loader(data, rank=rank, world_size=3)))["x"].shape for rank in range(3)]
    assert shapes == [(1, 4), (1, 4), (0, 4)]


def test_descriptions_travel() -> None:
    packed = hr.from_arrays({"x": ragged([3, 3, 1])}).pack(4, batch_size=2, columns="x", value=-100)
    again = pickle.loads(pickle.dumps(packed))
    assert repr(again) == repr(packed)
    assert "pack(4, batch_size=2, strategy=first-fit, columns=['x'], overlong=raise, window=16384, value=-100)" in repr(
        packed
    )
    one, two = (next(iter(hr.Loader(data, workers=1))) for data in (again, packed))
    assert one["x"].tolist() == two["x"].tolist() == [[0, 1, 2, 200], [100, 101, 102, -100]]
