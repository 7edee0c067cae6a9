"""Property tests over random pipelines: exactness and resuming, at every position."""

from __future__ import annotations

import itertools
import json
import pathlib
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import headrace as hr
from tests.resume_elsewhere import KINDS, digests


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A text file whose lines begin with their numbers; some have no tokens."""
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    path.write_text("".join(" ".join([str(n)] * (n % 6)) + "\n" for n in range(37)))
    return path


class Made(NamedTuple):
    """A random description, and what may be done with it."""

    data: hr.Dataset
    finite: bool = True  # its number of records is known
    lengths: bool = False  # so are their lengths


def first_number(record: Any) -> np.int64:
    """What a record of any of the sources is reduced to, so that they can be mixed."""
    if isinstance(record, tuple):
        return np.int64(sum(int(first_number(part)) * 100**i for i, part in enumerate(record)))
    if isinstance(record, str):
        return np.int64(record.split(maxsplit=1)[0] if record.strip() else -1)
    return np.int64(record if np.ndim(record) == 0 else (record[0] if len(record) else -1))


def ragged(n: int) -> hr.Dataset:
    return hr.from_arrays(hr.Ragged.from_rows([np.full(i * 7 % 5, i) for i in range(n)], dtype=np.int64))


def make_source(draw: Any, lines: pathlib.Path) -> Made:
    n = draw(st.integers(0, 40))
    match draw(st.sampled_from(["arrays", "dataset", "zip", "shuffled zip", "text", "ragged", "stream"])):
        case "arrays":
            return Made(hr.from_arrays(np.arange(n)))
        case "dataset":
            return Made(hr.from_dataset(range(n)))
        case "zip":
            return Made(hr.zip(hr.from_arrays(np.arange(n)), hr.from_dataset(range(n))))
        case "shuffled zip":
            a = hr.from_arrays(np.arange(n)).shuffle(seed=1)
            return Made(hr.zip(a, ragged(n).shuffle(seed=2, window=5), hr.read_text(lines).repeat(2).take(n)))
        case "text":
            return Made(hr.read_text(lines), lengths=True)
        case "ragged":
            return Made(ragged(n), lengths=True)
        case _:
            return Made(hr.from_iterable(range(n)), finite=False)


def make_steps(draw: Any, made: Made, lines: pathlib.Path) -> Made:
    """Some operations, first those on records as the source gives them, then any."""
    data, finite, lengths = made
    if lengths and draw(st.booleans()):
        data = data.filter_length(min=1, max=draw(st.sampled_from([None, 3])))
    if lengths and draw(st.booleans()):  # stays fit for bucket
        for _ in range(draw(st.integers(0, 3))):
            data = make_step(draw, data, None)
        return Made(data, lengths=True)
    data = data.map(first_number)
    if finite:
        for _ in range(draw(st.integers(0, 4))):
            data = make_step(draw, data, lines)
    elif draw(st.booleans()):
        data = data.map(lambda n, rng: n + 1000 * rng.integers(10), rng=True, seed=1)
    return make_filter(draw, data) if draw(st.booleans()) else Made(data, finite)


def make_filter(draw: Any, data: hr.Dataset) -> Made:
    """A filter or two, and steps that count what they left."""
    keep = draw(st.sampled_from([0, 1, 3, 5]))
    for _ in range(draw(st.integers(1, 2))):
        data = data.filter(lambda n: n * 7 % 5 < keep, block=draw(st.sampled_from([1, 3, 8, 256])))
    small = draw(st.integers(1, 4))
    match draw(st.sampled_from(["all", "take", "skip", "slice", "shard"])):
        case "take":
            data = data.take(small * 3)
        case "skip":
            data = data.skip(small)
        case "slice":
            data = data.skip(1).slice(small, 30, 2)
        case "shard":
            data = data.shard(small, small - 1)
    return Made(data, finite=False)


def make_step(draw: Any, data: hr.Dataset, lines: pathlib.Path | None) -> hr.Dataset:
    """One operation; without `lines` one that leaves the records as they are."""
    order = ["shuffle", "window", "take", "skip", "slice", "shard", "repeat"]
    kind = draw(st.sampled_from(order if lines is None else [*order, "concat", "mix", "map"]))
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
        case "slice":
            return data.slice(small, 30, 2)
        case "shard":
            return data.shard(small, small - 1)
        case "repeat":
            return data.repeat(min(small, 3))
        case "concat" | "mix":
            assert lines is not None
            other = make_source(draw, lines)
            if not other.finite:
                return data
            if kind == "concat":
                return data.concat(other.data.map(first_number))
            stop = draw(st.sampled_from(["first", "all"]))
            if stop == "all" and 0 in (len(data), len(other.data)):
                stop = "first"  # what is empty can't be started again
            return hr.mix(
                [data, other.data.map(first_number)],
                weights=[small, 2],
                seed=draw(st.sampled_from([None, 3])),
                stop=stop,
            )
        case _:
            return data.map(lambda n, rng: n + 1000 * rng.integers(10), rng=True, seed=small)


def make_batches(draw: Any, lines: pathlib.Path) -> tuple[hr.Batches, bool]:
    """A random description to its end, and whether its number of batches is known."""
    made = make_steps(draw, make_source(draw, lines), lines)
    size, drop = draw(st.integers(1, 9)), draw(st.booleans())
    if not made.lengths:
        return made.data.batch(size, drop_remainder=drop), made.finite
    sizes: dict[str, Any] = {"max_tokens": size * 4} if draw(st.booleans()) else {"batch_size": size}
    window = draw(st.sampled_from([None, 7, 20]))
    return made.data.bucket(**sizes, width=2, window=window, drop_remainder=drop), True


@given(st.data())
def test_any_pipeline_resumes_at_any_position(lines: pathlib.Path, data: st.DataObject) -> None:
    batches, _ = make_batches(data.draw, lines)
    note(repr(batches))
    if next(iter(hr.Loader(batches)), None) is not None:
        hr.assert_resumable(batches, epochs=2, workers=(0, 1, 3), max_batches=60)


@given(st.data(), st.integers(2, 4))
def test_any_pipeline_is_the_same_for_any_ranks(lines: pathlib.Path, data: st.DataObject, world: int) -> None:
    batches, finite = make_batches(data.draw, lines)
    note(repr(batches))
    whole = [b.tolist() for b in hr.Loader(batches)]
    parts = [[b.tolist() for b in hr.Loader(batches, rank=r, world_size=world, workers=1)] for r in range(world)]
    if finite:
        assert [len(part) for part in parts] == [len(whole)] * world
        assert len(hr.Loader(batches, rank=world - 1, world_size=world)) == len(whole)
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
    if next(iter(hr.Loader(batches)), None) is not None:
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


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(("position", "before", "after"), [(0, 0, 2), (11, 2, 0), (45, 1, 3)])
def test_a_saved_position_goes_on_in_another_process(
    tmp_path: pathlib.Path, kind: str, position: int, before: int, after: int
) -> None:
    rng = np.random.default_rng(3)
    for side in ("src", "tgt"):
        lines = [" ".join(f"w{n}" for n in rng.integers(0, 20, rng.integers(0, 9))) for _ in range(200)]
        (tmp_path / f"train.{side}").write_text("\n".join(lines) + "\n")
    data = KINDS[kind](tmp_path)
    whole = list(digests(hr.Loader(data), epochs=2))
    assert len(set(whole)) == len(whole) > 45
    loader = hr.Loader(data, workers=before)
    run = digests(loader, epochs=2)
    assert list(itertools.islice(run, position)) == whole[:position]
    assert loader.epoch == (position > 40)
    state = json.dumps(loader.state_dict())
    loader.close()
    script = [sys.executable, str(pathlib.Path(__file__).with_name("resume_elsewhere.py"))]
    done = subprocess.run(
        [*script, kind, str(tmp_path), str(after)], input=state, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == whole[position:]


def test_assert_resumable_finds_what_is_not_resumable() -> None:
    calls = iter(range(10_000))
    with pytest.raises(AssertionError, match="stopped after 1 batches and resumed with 0 workers: batch 1 differs"):
        hr.assert_resumable(hr.from_dataset(range(8)).map(lambda n: next(calls)).batch(2), positions=[1])
