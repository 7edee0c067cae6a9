"""Buckets by lengths that only reading tells, and of what filters leave."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.proof import same

RNG = np.random.default_rng(3)
LENGTHS = RNG.integers(0, 30, 400)
ROWS = hr.Ragged.from_rows([np.full(n, i) for i, n in enumerate(LENGTHS)], dtype=np.int64)


def numbered(lengths: Any = None) -> hr.Dataset:
    """Records 0 … 399, of lengths that an index knows."""
    return hr.from_dataset(range(400), lengths=LENGTHS if lengths is None else lengths)


def lists(data: hr.Batches, **arguments: Any) -> list[list[Any]]:
    return [batch.tolist() for batch in hr.Loader(data, **arguments)]


def kept(n: int) -> bool:
    return n % 3 != 1


def model(order: list[int], window: int, boundaries: list[int], size: int) -> list[list[int]]:
    """The batches of what is kept, window by window of all records."""
    batches = []
    for start in range(0, len(order), window):
        buckets: dict[int, list[int]] = {}
        for n in order[start : start + window]:
            if kept(n):
                bucket = sum(edge <= LENGTHS[n] for edge in boundaries)
                buckets.setdefault(bucket, []).append(n)
                if len(buckets[bucket]) == size:
                    batches.append(buckets.pop(bucket))
        batches += [buckets[bucket] for bucket in sorted(buckets)]
    return batches


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
@pytest.mark.parametrize("window", [None, 1, 90, 400])
def test_what_a_filter_leaves_is_bucketed_window_by_window(block: int, window: int | None) -> None:
    data = numbered().shuffle(seed=2)
    batches = data.filter(kept, block=block).bucket(batch_size=8, boundaries=[5, 12], window=window)
    expected = model(list(data), window or 400, [5, 12], 8)
    for workers in (0, 3):
        assert lists(batches, workers=workers) == expected


@pytest.mark.parametrize("limits", [{"batch_size": 7}, {"max_tokens": 90}, {"batch_size": 5, "drop_remainder": True}])
@pytest.mark.parametrize("window", ["auto", None, 33])
def test_a_filter_that_leaves_all_changes_nothing(limits: dict[str, Any], window: Any) -> None:
    limits = {**limits, "width": 4, "window": window}
    data = hr.from_arrays({"x": ROWS, "n": np.arange(400)}).shuffle(seed=1)
    expected = list(hr.Loader(data.bucket(**limits).pad()))
    batches = data.filter(lambda record: True, block=50).bucket(**limits).pad()
    found = list(hr.Loader(batches, workers=2))
    assert len(found) == len(expected)
    assert all(map(same, found, expected))


def test_rows_are_measured_where_no_index_knows_them() -> None:
    data = hr.from_arrays({"x": ROWS, "n": np.arange(400)})
    planned = [b["n"].tolist() for b in hr.Loader(data.bucket(6, width=5, window=100))]
    as_lists = data.map(lambda r: {"x": r["x"].tolist(), "n": int(r["n"])})
    as_arrays = data.map(lambda r: r)
    stream = hr.from_iterable(lambda: iter(data))
    for other in (as_lists, as_arrays, stream):
        batches = other.bucket(6, width=5, window=100, by="x")
        assert [b["n"].tolist() for b in hr.Loader(batches, workers=2)] == planned
        hr.assert_resumable(batches.pad(), epochs=2)
    with pytest.raises(hr.DataError, match="name the column"):
        list(hr.Loader(as_lists.bucket(6)))
    hr.assert_resumable(as_lists.bucket(6, ragged="x"))


def messages(count: int) -> hr.Dataset:
    encoded = [
        hr.encode_example({"ids": np.arange(i % 7), "n": i, "words": np.array([b"w"] * (i % 3), "S1")})
        for i in range(count)
    ]
    return hr.from_dataset(encoded).parse_example(
        {"ids": hr.VarLen("int64"), "n": hr.FixedLen((), "int64"), "words": hr.VarLen("str")}
    )


def test_features_of_examples_have_lengths() -> None:
    data = messages(100)
    batches = data.bucket(5, width=1, by="ids", window=None).pad(columns="ids")
    seen: list[int] = []
    for batch in hr.Loader(batches, workers=2):
        assert len(set(batch["ids_len"].tolist())) == 1
        seen += batch["n"].tolist()
    assert sorted(seen) == list(range(100))
    hr.assert_resumable(batches, epochs=2)
    hr.assert_resumable(data.filter(lambda r: r["n"] % 2 == 0, block=9).bucket(max_tokens=20, by=("ids", "words")))
    by_both = data.bucket(4, width=1, by=lambda n: n["ids"] * 10 + n["words"], num_buckets=80)
    assert all(
        len({(len(i), len(w)) for i, w in zip(b["ids"], b["words"], strict=True)}) == 1 for b in hr.Loader(by_both)
    )


def test_any_position_can_be_restored_with_other_workers_and_ranks() -> None:
    batches = numbered().shuffle(seed=4).filter(kept, block=16).bucket(batch_size=4, width=3, window=120)
    hr.assert_resumable(batches, epochs=2, workers=(0, 3))
    whole = lists(batches)
    for split in ("records", "batches"):
        loaders = [hr.Loader(batches, rank=rank, world_size=3, split=split) for rank in range(3)]
        runs = [[batch.tolist() for batch in itertools.islice(loader, 5)] for loader in loaders]
        states = [json.dumps(loader.state_dict()) for loader in loaders]
        assert len(set(states)) == 1
        done = 5 if split == "records" else 15
        parts = [n for step in zip(*runs, strict=True) for part in step for n in part]
        assert sorted(parts) == sorted(n for batch in whole[:done] for n in batch)
        rest = hr.Loader(batches, workers=2)
        rest.load_state_dict(json.loads(states[0]))
        assert [batch.tolist() for batch in rest] == whole[done:]


def test_restoring_reads_no_window_but_its_own() -> None:
    seen: list[int] = []

    def see(n: int) -> bool:
        seen.append(n)
        return True

    batches = numbered().filter(see, block=10).bucket(batch_size=4, width=100, window=40)
    loader = hr.Loader(batches)
    assert len(list(itertools.islice(loader, 63))) == 63
    state = loader.state_dict()
    assert (state["window"], state["batch"]) == ([6, 3], 63)
    seen.clear()
    other = hr.Loader(batches)
    other.load_state_dict(state)
    next(iter(other))
    assert min(seen) == 240


def test_a_bucket_without_end_goes_on_and_nothing_left_is_told() -> None:
    data = numbered().repeat().filter(kept, block=32).bucket(batch_size=16, width=10)
    assert len(list(itertools.islice(hr.Loader(data), 100))) == 100
    with pytest.raises(hr.PlanError, match="nothing would ever come"):
        list(hr.Loader(numbered().repeat().filter(lambda n: False).bucket(batch_size=2)))
    assert lists(numbered().filter(lambda n: False).bucket(batch_size=2)) == []
    with pytest.raises(hr.PlanError, match="needs a window"):
        hr.Loader(hr.from_iterable(lambda: iter([[1]])).bucket(batch_size=2, window=None))


def test_what_has_no_length_is_named() -> None:
    data = messages(5)
    with pytest.raises(hr.PlanError, match=r"bucket goes by column 'id'; the columns are \['ids', 'n', 'words'\]"):
        hr.Loader(data.bucket(2, by="id"))
    with pytest.raises(hr.DataError, match=r"bucket needs column 'n' with rows .* of \['ids', 'words'\] in record 0"):
        list(hr.Loader(data.bucket(2, by="n")))
    with pytest.raises(hr.DataError, match=r"found lengths of \['y'\] in record 0"):
        list(hr.Loader(hr.from_dataset([{"x": [1], "y": [1]}, {"y": [2]}]).bucket(2, by="x")))
    with pytest.raises(hr.PlanError, match="must give one integer for each of 5 records"):
        list(hr.Loader(data.bucket(2, by=lambda n: n["ids"] / 2)))  # type: ignore[arg-type, return-value]
    with pytest.raises(hr.PlanError, match=r"got lengths from -8 to 0"):
        list(hr.Loader(data.map(lambda r: r).bucket(2, by=lambda n: n["ids"] * -2 + 0 * n["ids"].max())))


def test_states_that_can_not_be_are_refused() -> None:
    batches = numbered().filter(kept).bucket(batch_size=50, window=100)
    loader = hr.Loader(batches)
    next(iter(loader))
    state = loader.state_dict()
    for window, batch in (([4, 0], 9), ([1 << 30, 0], 9), ([0, 3], 2)):
        with pytest.raises(hr.StateError, match="damaged"):
            hr.Loader(batches).load_state_dict({**state, "window": window, "batch": batch})
    other = hr.Loader(batches)
    other.load_state_dict({**state, "window": [1, 77], "batch": 99})
    with pytest.raises(hr.StateError, match="after batch 77 of window 1, which has fewer"):
        list(other)


@pytest.mark.parametrize(
    "limits",
    [{"batch_size": 8, "width": 4, "window": 100}, {"batch_size": [8, 4], "boundaries": [6]}, {"max_tokens": 64}],
)
def test_chains_of_stops_and_moves_give_what_is_planned(limits: dict[str, Any]) -> None:
    rows = hr.from_arrays({"x": ROWS, "n": np.arange(400)}).shuffle(seed=1)
    hr.verify(rows.filter(lambda record: record["n"] % 2 == 0, block=30).bucket(**limits), events=20)
    hr.verify(rows.map(lambda record: record).bucket(**limits, by="x"), events=20)
