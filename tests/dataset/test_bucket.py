from __future__ import annotations

import numpy as np
import pytest

import headrace as hr


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
    with pytest.raises(hr.DataError, match=r"bucket needs columns with rows .* of no column in record 0"):
        list(hr.Loader(hr.from_dataset([1, 2]).bucket(batch_size=2)))
    data = hr.from_dataset([[1], [2, 2]], lengths=[1, 2])
    assert len(list(hr.Loader(data.bucket(batch_size=2, width=1)))) == 2
    with pytest.raises(hr.DataError, match="one integer for each of 2 records"):
        hr.from_dataset([1, 2], lengths=[1])


def test_bucket_refuses_lengths_beyond_31_bits() -> None:
    data = hr.from_dataset(["a", "b"], lengths=[1, 1 << 30])
    expected = r"bucket needs lengths in \[0, 2\^31\), got lengths from 4 to 4294967296"
    with pytest.raises(hr.PlanError, match=expected):
        list(hr.Loader(data.bucket(batch_size=2, boundaries=[4], by=lambda known: known[""] * 4)))


def test_each_bucket_may_have_a_batch_size() -> None:
    rows = hr.Ragged.from_rows([np.full(n, n) for n in (1, 9, 2, 1, 3, 9, 2)])
    data = hr.from_arrays(rows)
    for batches in (
        data.bucket([3, 2, 1], boundaries=[3, 5]),
        data.bucket(np.array([3, 2, 1]).tolist(), boundaries=(3, 5), window=7),
        data.map(lambda row: row).bucket([3, 2, 1], boundaries=[3, 5], by=""),
    ):
        found = [[row[0] for row in batch] for batch in hr.Loader(batches)]
        assert found == [[9], [1, 2, 1], [9], [2], [3]]
        hr.assert_resumable(batches, epochs=2)
    with pytest.raises(hr.PlanError, match="a batch_size for each of 3 buckets, got 2"):
        data.bucket([3, 2], boundaries=[3, 5])
    with pytest.raises(hr.PlanError, match="batch_size is at least 1, got 0"):
        data.bucket([3, 0], boundaries=[3])
