"""Property tests over random pipelines: exactness and resuming, at every position."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr


def make_source(draw: Any) -> hr.Dataset:
    n = draw(st.integers(0, 40))
    kind = draw(st.sampled_from(["arrays", "dataset", "zip"]))
    if kind == "arrays":
        return hr.from_arrays(np.arange(n))
    if kind == "dataset":
        return hr.from_dataset(range(n)).map(np.int64)
    return hr.zip(hr.from_arrays(np.arange(n)), hr.from_arrays(np.arange(n))).map(lambda pair: pair[0])


def make_step(draw: Any, data: hr.Dataset) -> hr.Dataset:
    kind = draw(st.sampled_from(["shuffle", "window", "take", "skip", "shard", "repeat", "concat", "mix", "map"]))
    small = draw(st.integers(1, 7))
    match kind:
        case "shuffle":
            return data.shuffle(seed=small)
        case "window":
            return data.shuffle(seed=small, window=small)
        case "take":
            return data.take(small * 5)
        case "skip":
            return data.skip(small)
        case "shard":
            return data.shard(small, small - 1)
        case "repeat":
            return data.repeat(min(small, 3))
        case "concat":
            return data.concat(make_source(draw))
        case "mix":
            return hr.mix(
                [data, make_source(draw)],
                weights=[small, 2],
                seed=draw(st.sampled_from([None, 3])),
                stop="first",
            )
        case _:
            return data.map(lambda n, rng: n + 1000 * rng.integers(10), rng=True, seed=small)


@st.composite
def pipelines(draw: Any) -> hr.Batches:
    data = make_source(draw)
    for _ in range(draw(st.integers(0, 4))):
        data = make_step(draw, data)
    return data.batch(draw(st.integers(1, 9)), drop_remainder=draw(st.booleans()))


@given(pipelines())
def test_any_pipeline_resumes_at_any_position(data: hr.Batches) -> None:
    hr.assert_resumable(data, epochs=2, workers=(0, 1, 3), max_batches=60)


@given(pipelines(), st.integers(2, 4))
def test_any_pipeline_is_the_same_for_any_ranks(data: hr.Batches, world: int) -> None:
    whole = [b.tolist() for b in hr.Loader(data)]
    parts = [[b.tolist() for b in hr.Loader(data, rank=r, world_size=world, workers=1)] for r in range(world)]
    for i, batch in enumerate(whole):
        assert [parts[k % world][i][k // world] for k in range(len(batch))] == batch


@given(
    lengths=st.lists(st.integers(0, 20), max_size=60),
    size=st.integers(1, 8),
    budget=st.booleans(),
    window=st.sampled_from([None, 7, 20]),
    drop=st.booleans(),
)
def test_any_bucketing_resumes_and_loses_nothing(
    lengths: list[int], size: int, budget: bool, window: int | None, drop: bool
) -> None:
    rows = hr.Ragged.from_rows([np.full(n, n) for n in lengths], dtype=np.int64)
    data = hr.from_arrays({"x": rows, "i": np.arange(len(lengths))}).shuffle(seed=len(lengths))
    sizes: dict[str, Any] = {"max_tokens": size * 10} if budget else {"batch_size": size}
    batches = data.bucket(**sizes, width=4, window=window, drop_remainder=drop).pad(value=-1)
    hr.assert_resumable(batches, epochs=2, max_batches=60)
    seen = sorted(i for batch in hr.Loader(batches) for i in batch["i"].tolist())
    if not drop:
        assert seen == list(range(len(lengths)))
    assert len(set(seen)) == len(seen)


def test_parallel_text_resumes(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(3)
    for side in ("src", "tgt"):
        lines = [" ".join(f"w{n}" for n in rng.integers(0, 20, rng.integers(0, 9))) for _ in range(200)]
        (tmp_path / f"train.{side}").write_text("\n".join(lines) + "\n")
    vocab = hr.build_vocab([tmp_path / "train.src", tmp_path / "train.tgt"])
    pairs = hr.zip(src=hr.read_text(tmp_path / "train.src"), tgt=hr.read_text(tmp_path / "train.tgt"))
    data = (
        pairs.filter_length()
        .shuffle(seed=1)
        .tokens(vocab, max_length=5, bos={"tgt": "<s>"}, eos={"tgt": "</s>"})
        .bucket(batch_size=16, width=2, window=64)
        .pad(value=2)
    )
    hr.assert_resumable(data, epochs=2)


def test_assert_resumable_finds_what_is_not_resumable() -> None:
    calls = iter(range(10_000))
    with pytest.raises(AssertionError, match="stopped after 1 batches and resumed with 0 workers: batch 1 differs"):
        hr.assert_resumable(hr.from_dataset(range(8)).map(lambda n: next(calls)).batch(2), positions=[1])
