"""Descriptions over CNTK's text format."""

from __future__ import annotations

import logging
import os
import pathlib
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.proof import same

STREAMS = {"word": hr.sparse(50, alias="w"), "tag": hr.sparse(7, alias="t"), "x": hr.dense(2)}


def words(count: int, bad: tuple[int, ...] = ()) -> bytes:
    """Sequence i has 1 + i % 5 samples; in every third one the last has no tag."""
    lines = []
    for i in range(count):
        length = 1 + i % 5
        for k in range(length):
            tag = "" if i % 3 == 0 and k == length - 1 and k else f" |t {(i + k) % 7}:1"
            lines.append(f"{i} |w {(i * 5 + k) % 50}:1{tag} |x {'?' if i in bad else i} {k}\n")
    return "".join(lines).encode()


@pytest.fixture
def tagged(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "tagged.ctf"
    path.write_bytes(words(40))
    return path


@pytest.fixture
def lined(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "lined.ctf"
    path.write_text("".join(f"|label {i % 3}:1 |x {i} {i * i}\n" for i in range(23)))
    return path


LINED = {"x": hr.dense(2), "label": hr.sparse(3)}


def test_lines_give_plain_columns(lined: pathlib.Path) -> None:
    data = hr.read_ctf(lined, LINED)
    assert len(data) == 23
    batch = next(iter(hr.Loader(data.batch(4))))
    assert batch["x"].tolist() == [[0, 0], [1, 1], [2, 4], [3, 9]]
    assert batch["x"].dtype == np.float32
    assert batch["label"].ids().tolist() == [0, 1, 2, 0]
    assert next(iter(hr.Loader(hr.read_ctf(lined, LINED, dtype="float64").batch(4))))["x"].dtype == np.float64


def test_sequences_give_ragged_columns(tagged: pathlib.Path) -> None:
    batch = next(iter(hr.Loader(hr.read_ctf(tagged, STREAMS).batch(4))))
    assert batch["word"].lengths.tolist() == [1, 2, 3, 4]
    assert batch["tag"].lengths.tolist() == [1, 2, 3, 3]
    assert [row.ids().tolist() for row in batch["word"]] == [[0], [5, 6], [10, 11, 12], [15, 16, 17, 18]]
    assert batch["x"][2].tolist() == [[2, 0], [2, 1], [2, 2]]
    # Only streams that are named are read; lines without one of them are malformed, as in CNTK.
    with pytest.raises(hr.DataError, match=r"line 10, .* expected at least one sample"):
        next(iter(hr.Loader(hr.read_ctf(tagged, {"t": hr.sparse(7)}).batch(4))))


def test_each_record_is_a_dict(tagged: pathlib.Path) -> None:
    record = list(hr.read_ctf(tagged, STREAMS).take(2))[1]
    assert record["x"].tolist() == [[1, 0], [1, 1]]


PLANS = {
    "batch": lambda data: data.batch(7),
    "shuffle": lambda data: data.shuffle(seed=3).batch(7),
    "window": lambda data: data.shuffle(seed=3, window=9).batch(7),
    "repeat": lambda data: data.shuffle(seed=1).repeat(2).batch(9, drop_remainder=True),
    "shard": lambda data: data.shard(3, 1).batch(4),
    "slice": lambda data: data.skip(3).take(20).batch(6),
    "bucket": lambda data: data.shuffle(seed=5).bucket(batch_size=4, width=2),
    "tokens": lambda data: data.bucket(max_tokens=12, width=2, by=["word"]),
    "filter": lambda data: data.filter_length(2, 3, columns=["tag"]).batch(4),
    "concat": lambda data: hr.concat(data, data.take(5)).batch(8),
    "zip": lambda data: hr.zip(a=data, b=data.shuffle(seed=2)).batch(8),
    "map": lambda data: data.map(lambda record: {"n": len(record["word"])}).batch(5),
}


def make(plan: str, data: hr.Dataset) -> Any:
    return PLANS[plan](data)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("plan", PLANS)
def test_every_plan_can_be_resumed_anywhere(plan: str, tagged: pathlib.Path) -> None:
    hr.assert_resumable(make(plan, hr.read_ctf(tagged, STREAMS)), epochs=2)


@pytest.mark.parametrize("plan", PLANS)
def test_kept_and_cached_sequences_are_the_same(plan: str, tagged: pathlib.Path) -> None:
    def batches(**options: Any) -> tuple[Any, Any]:
        loader = hr.Loader(make(plan, hr.read_ctf(tagged, STREAMS, **options)))
        return tuple(loader), loader.state_dict()

    wanted, state = batches()
    for options in ({"keep_in_memory": True}, {"cache": tagged.parent / "cache"}, {"index": "memory"}):
        got, other = batches(**options)
        assert same(got, wanted)
        assert other == state
    assert (tagged.parent / "cache" / "columns.json").exists()


def test_buckets_go_by_the_lengths_of_streams(tagged: pathlib.Path) -> None:
    for batch in hr.Loader(hr.read_ctf(tagged, STREAMS).bucket(batch_size=5, width=1, by=["tag"])):
        assert len(set(batch["tag"].lengths.tolist())) == 1
    kept = hr.read_ctf(tagged, STREAMS).filter_length(3, 3, columns=["tag"])
    lengths = [min(1 + i % 5, 5) - (1 if i % 3 == 0 and i % 5 else 0) for i in range(40)]
    assert len(kept) == sum(length == 3 for length in lengths)
    lines = hr.read_ctf(tagged, {"x": hr.dense(2)}).bucket(batch_size=5, width=1)
    assert all(len(set(batch["x"].lengths.tolist())) == 1 for batch in hr.Loader(lines))


def test_plain_columns_have_no_lengths(lined: pathlib.Path) -> None:
    with pytest.raises(hr.DataError, match="bucket needs columns with rows of some length"):
        list(hr.Loader(hr.read_ctf(lined, LINED).bucket(batch_size=4)))


def test_pad(tagged: pathlib.Path) -> None:
    batch = next(iter(hr.Loader(hr.read_ctf(tagged, {"x": hr.dense(2)}).batch(3).pad())))
    assert batch["x"].shape == (3, 3, 2)
    assert batch["x_len"].tolist() == [1, 2, 3]


def test_ranks_share_the_records(tagged: pathlib.Path) -> None:
    seen = []
    for rank in range(2):
        for batch in hr.Loader(hr.read_ctf(tagged, STREAMS).shuffle(seed=1).batch(8), rank=rank, world_size=2):
            seen += [int(row[0, 0]) for row in batch["x"]]
    assert sorted(seen) == list(range(40))


def test_workers_give_the_same(tagged: pathlib.Path) -> None:
    data = hr.read_ctf(tagged, STREAMS).shuffle(seed=1).batch(3)
    assert same(tuple(hr.Loader(data, workers=3)), tuple(hr.Loader(data)))


def test_torch_and_arrow(tagged: pathlib.Path, lined: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    batch = next(iter(hr.Loader(hr.read_ctf(lined, LINED).batch(4), to="torch")))
    assert torch.equal(batch["x"], torch.tensor([[0.0, 0], [1, 1], [2, 4], [3, 9]]))
    assert batch["label"].to_dense().shape == (4, 3)
    pytest.importorskip("pyarrow")
    table = next(iter(hr.Loader(hr.read_ctf(tagged, STREAMS).batch(4), to="arrow")))
    assert table.num_rows == 4


def test_malformed_records_raise_when_they_are_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.ctf"
    path.write_bytes(words(20, bad=(12,)))
    loader = hr.Loader(hr.read_ctf(path, STREAMS).batch(4))
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    with pytest.raises(hr.DataError, match=r"a\.ctf, line 3\d, .*sequence 12: expected .* of stream 'x'"):
        next(batches)


@pytest.mark.parametrize("way", [{}, {"keep_in_memory": True}, {"cache": "cache"}])
def test_a_budget_for_mistakes(way: Any, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.ctf"
    path.write_bytes(words(20, bad=(2, 3)))
    if "cache" in way:
        way = {"cache": tmp_path / "cache"}
    with caplog.at_level(logging.WARNING, "headrace"):
        data = hr.read_ctf(path, STREAMS, max_errors=7, **way)
    assert "7 mistakes are left out (max_errors=7), and 2 sequences with them" in caplog.text
    assert "no cache" not in caplog.text
    assert len(data) == 18
    hr.assert_resumable(data.shuffle(seed=2).batch(4), epochs=2)
    found = [int(row[0, 0]) for batch in hr.Loader(data.batch(5)) for row in batch["x"]]
    assert found == [i for i in range(20) if i not in (2, 3)]
    with pytest.raises(hr.DataError, match="Reached the maximum number of allowed errors") as info:
        hr.read_ctf(path, STREAMS, max_errors=6)
    assert str(info.value).count("a.ctf, line") == 3


def test_repeated_ids(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.ctf"
    path.write_text("1 |x 1 2\n2 |x 1 2\n1 |x 5 6\n")
    with caplog.at_level(logging.WARNING, "headrace"):
        assert len(hr.read_ctf(path, {"x": hr.dense(2)})) == 3
    assert "1 on lines 1 and 3; each is read as a sequence of its own" in caplog.text
    with pytest.raises(hr.DataError, match="1 on lines 1 and 3; put the lines of a sequence together"):
        hr.read_ctf(path, {"x": hr.dense(2)}, strict=True)


def test_lines_of_a_file_with_ids(tagged: pathlib.Path) -> None:
    data = hr.read_ctf(tagged, {"x": hr.dense(2), "w": hr.sparse(50)}, skip_ids=True)
    assert len(data) == 120
    assert next(iter(hr.Loader(data.batch(3))))["x"].tolist() == [[0, 0], [1, 0], [1, 1]]


def test_ways_of_keeping_exclude_each_other(lined: pathlib.Path) -> None:
    with pytest.raises(hr.PlanError, match="pass one of them"):
        hr.read_ctf(lined, LINED, keep_in_memory=True, cache="cache")
    assert os.listdir(lined.parent) == ["lined.ctf"]


def test_what_was_inferred_can_be_read(tagged: pathlib.Path, lined: pathlib.Path) -> None:
    for path, wanted in ((tagged, 40), (lined, 23)):
        data = hr.read_ctf(path, hr.infer_ctf(path).streams)
        assert sum(len(batch["x"]) for batch in hr.Loader(data.batch(6))) == wanted


def test_a_state_of_other_data_is_refused(lined: pathlib.Path) -> None:
    loader = hr.Loader(hr.read_ctf(lined, LINED).shuffle(seed=1).batch(4))
    next(iter(loader))
    state = loader.state_dict()
    lined.write_text(lined.read_text() + "|x 1 2 |label 1:1\n")
    with pytest.raises(hr.StateError, match="another data"):
        hr.Loader(hr.read_ctf(lined, LINED).shuffle(seed=1).batch(4)).load_state_dict(state)
