from __future__ import annotations

import json
import logging
import os
import pathlib
import pickle
import re
import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import headrace as hr
from headrace.formats.columnar import CachedSequences, cached
from headrace.formats.kept import KeptSequences
from headrace.formats.sequences import Parsed, ParseWarning, SequenceSource, SequenceStream
from headrace.formats.source import Fingerprint
from headrace.proof import same


class Numbers(SequenceSource):
    """Sequence i has i % 4 samples of value i in each stream; some sequences are malformed."""

    kind = "numbers"

    def __init__(self, count: int = 50, bad: tuple[int, ...] = (), salt: int = 0) -> None:
        self.count, self.bad, self.salt = count, bad, salt
        self.calls: list[int] = []

    @property
    def num_records(self) -> int:
        return self.count

    @property
    def streams(self) -> tuple[SequenceStream, ...]:
        return SequenceStream("a", (2,)), SequenceStream("b", (9,), sparse=True)

    @property
    def sizes(self) -> NDArray[np.uint32]:
        return (np.arange(self.count) % 4).astype(np.uint32)

    @property
    def num_bytes(self) -> int:
        return 100 * self.count

    def keys(self) -> NDArray[np.uint64]:
        return np.arange(self.count, dtype=np.uint64)

    def chunks(self, limit: int) -> NDArray[np.int64]:
        return np.array([0, self.count])

    def parse(self, records: NDArray[np.int64]) -> Parsed:
        self.calls += records.tolist()
        lengths = [0 if i in self.bad else i % 4 for i in records.tolist()]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        values = np.repeat(records.astype(np.float32) + self.salt, lengths)
        sparse = hr.Sparse.from_rows([([int(v) % 9], [v]) for v in values], width=9)
        dense = np.stack([values, -values], axis=1)
        rows = np.flatnonzero(np.isin(records, self.bad)).repeat(2)  # two errors each
        return Parsed(
            {"a": hr.Ragged(dense, offsets), "b": hr.Ragged(sparse, offsets)},
            np.isin(records, self.bad) if len(rows) else None,
            rows,
            lambda i: f"record {records[rows[i]]} is bad, error {i % 2}",
            [ParseWarning("odd", 1, "odd")] if len(records) else (),
        )

    def fingerprint(self) -> Fingerprint:
        return {"records": self.count, "salt": self.salt}

    def where(self, record: int) -> str:
        return f"number {record}"


ORDERS = [[3], [0, 1, 2, 3], [9, 8, 7], [49, 0, 25, 0], list(range(50)), [], [5, 6, 8], [10, 11, 12, 13, 14]]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("block_bytes", [1, 700, 1 << 20])
def test_kept_sequences_are_those_of_the_source(order: list[int], block_bytes: int) -> None:
    kept = KeptSequences(Numbers(), block_bytes=block_bytes)
    for _ in range(2):
        records = np.array(order, np.int64)
        assert same(kept.parse(records).columns, Numbers().parse(records).columns)
        assert same(kept.read(records), Numbers().read(records))


def test_each_record_is_parsed_once() -> None:
    source = Numbers()
    kept = KeptSequences(source, block_bytes=700)
    for _ in range(3):
        kept.parse(np.arange(50))
    assert sorted(source.calls) == list(range(50))


def test_threads_that_want_one_block_parse_it_once() -> None:
    source = Numbers()
    kept = KeptSequences(source, block_bytes=700)
    threads = [threading.Thread(target=kept.parse, args=(np.arange(50),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(source.calls) == list(range(50))


@pytest.mark.parametrize("order", [[7, 20, 7, 3], [20, 7], [6, 7, 8], [20]])
def test_errors_stay_with_their_records(order: list[int]) -> None:
    records = np.array(order)
    kept = KeptSequences(Numbers(bad=(7, 20)), block_bytes=700)
    got, wanted = kept.parse(records), Numbers(bad=(7, 20)).parse(records)
    assert got.error_rows.tolist() == wanted.error_rows.tolist()
    messages = [parsed.explain(i) for parsed in (got, wanted) for i in range(len(wanted.error_rows))]
    assert messages[: len(messages) // 2] == messages[len(messages) // 2 :]
    assert got.dropped is not None
    assert wanted.dropped is not None
    assert got.dropped.tolist() == wanted.dropped.tolist()
    with pytest.raises(hr.DataError, match=f"record {next(i for i in order if i in (7, 20))} is bad"):
        kept.read(records)


def test_kept_sequences_say_what_the_source_says() -> None:
    source = Numbers()
    kept = KeptSequences(source)
    assert (kept.num_records, kept.streams, kept.num_bytes) == (50, source.streams, 5000)
    assert np.array_equal(kept.sizes if kept.sizes is not None else [], source.sizes)
    assert np.array_equal(kept.keys(), source.keys())
    assert kept.chunks(10).tolist() == [0, 50]
    assert kept.column_names() == ["a", "b"]
    assert kept.fingerprint() == source.fingerprint()
    assert kept.where(3) == "number 3"
    copy = pickle.loads(pickle.dumps(kept))
    assert same(copy.read(np.arange(5)), kept.read(np.arange(5)))
    with pytest.raises(IndexError, match="records 0 to 49, got 50"):
        kept.parse(np.array([50]))
    with pytest.raises(IndexError, match="got -1"):
        kept.parse(np.array([-1]))
    kept.close()


@pytest.mark.parametrize("order", ORDERS)
def test_a_cache_gives_what_the_source_gives(order: list[int], tmp_path: pathlib.Path) -> None:
    records = np.array(order, np.int64)
    made = cached(Numbers(), tmp_path / "cache")
    assert isinstance(made, CachedSequences)
    found = cached(Numbers(), tmp_path / "cache")
    for source in (made, found, pickle.loads(pickle.dumps(found))):
        assert same(source.read(records), Numbers().read(records))
    assert found.lengths()["a"].tolist() == [i % 4 for i in range(50)]  # type: ignore[index]
    assert found.fingerprint() == Numbers().fingerprint()
    assert found.where(2) == "number 2"
    assert [p.name for p in tmp_path.iterdir()] == ["cache"]


def test_a_cache_is_written_in_blocks_and_read_without_the_source(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.formats.columnar.BLOCK_BYTES", 700)
    cached(Numbers(), tmp_path / "cache")
    source = Numbers()
    found = cached(source, tmp_path / "cache")
    assert same(found.read(np.arange(50)), Numbers().read(np.arange(50)))
    assert found.num_bytes > 0
    assert source.calls == []
    with pytest.raises(IndexError, match="records 0 to 49"):
        found.parse(np.array([50]))
    found.close()


def test_empty_sources_can_be_cached(tmp_path: pathlib.Path) -> None:
    assert isinstance(cached(Numbers(0), tmp_path / "cache"), CachedSequences)
    assert len(cached(Numbers(0), tmp_path / "cache").read(np.arange(0))["a"]) == 0


def test_a_cache_of_other_data_is_made_anew(tmp_path: pathlib.Path) -> None:
    cached(Numbers(), tmp_path / "cache")
    other = cached(Numbers(salt=5), tmp_path / "cache")
    assert isinstance(other, CachedSequences)
    assert same(other.read(np.arange(9)), Numbers(salt=5).read(np.arange(9)))
    assert [p.name for p in tmp_path.iterdir()] == ["cache"]


def cut(folder: pathlib.Path) -> None:
    path = folder / "0-values.column"
    path.write_bytes(path.read_bytes()[:-8])


def flip(folder: pathlib.Path) -> None:
    path = folder / "1-indices.column"
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)


def lose(folder: pathlib.Path) -> None:
    (folder / "0-offsets.column").unlink()


def other_version(folder: pathlib.Path) -> None:
    path = folder / "columns.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}))


def no_json(folder: pathlib.Path) -> None:
    (folder / "columns.json").write_bytes(b"\xff{")


def no_manifest(folder: pathlib.Path) -> None:
    (folder / "columns.json").unlink()


@pytest.mark.parametrize("damage", [cut, flip, lose, other_version, no_json, no_manifest])
def test_a_damaged_cache_is_made_anew(damage: Any, tmp_path: pathlib.Path) -> None:
    cached(Numbers(), tmp_path / "cache")
    damage(tmp_path / "cache")
    source = cached(Numbers(), tmp_path / "cache")
    assert isinstance(source, CachedSequences)
    assert same(source.read(np.arange(50)), Numbers().read(np.arange(50)))


def test_a_folder_with_other_things_is_left_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    source = Numbers()
    with pytest.raises(hr.DataError, match=r"holds 'mine.txt', which is no part of a cache"):
        cached(source, tmp_path)
    with pytest.raises(hr.DataError, match=r"mine\.txt is no folder"):
        cached(source, tmp_path / "mine.txt")
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
    assert source.calls == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bad": (3,)}, "the data has mistakes.* record 3 is bad"),
        ({}, "more than the 100 bytes"),
    ],
)
def test_without_a_cache_reading_goes_on(
    arguments: dict[str, Any], message: str, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = Numbers(**arguments)
    with caplog.at_level(logging.WARNING, "headrace"):
        assert cached(source, tmp_path / "cache", max_bytes=100 if not arguments else None) is source
    assert list(tmp_path.iterdir()) == []
    assert re.search(message, caplog.text)


def test_a_cache_that_is_written_to_while_it_is_read_is_refused(tmp_path: pathlib.Path) -> None:
    source = cached(Numbers(), tmp_path / "cache")
    flip(tmp_path / "cache")
    cut(tmp_path / "cache")
    with pytest.raises(hr.DataChangedError):
        source.read(np.arange(5))


def test_loaders_resume_over_both(tmp_path: pathlib.Path) -> None:
    from headrace.dataset.dataset import Dataset
    from headrace.dataset.leaf import SourceNode

    for source in (KeptSequences(Numbers()), cached(Numbers(), tmp_path / "cache")):
        hr.assert_resumable(Dataset(SourceNode(source)).shuffle(seed=2).batch(7), epochs=2)


def test_a_cache_that_cannot_be_moved_to_its_place_leaves_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(Numbers(salt=5), tmp_path / "cache")
    rename = os.rename

    def fail(old: str, new: str) -> None:
        if os.path.basename(new) == "cache":
            raise OSError("no")
        rename(old, new)

    monkeypatch.setattr("os.rename", fail)
    source = Numbers()
    assert cached(source, tmp_path / "cache") is source
    assert list(tmp_path.iterdir()) == []
