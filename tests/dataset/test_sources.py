from __future__ import annotations

import os
import pathlib
import pickle
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.formats.arrays import ArraySource


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


def test_lengths_of_arrays_are_computed_once() -> None:
    source = ArraySource({"a": hr.Ragged.from_rows([[1], [2, 3]]), "b": np.zeros(2)})
    first, again = source.lengths(), source.lengths()
    assert first is not None
    assert again is not None
    assert first["a"] is again["a"]
    assert first["a"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        first["a"][0] = 5
    assert ArraySource(np.zeros(2)).lengths() is None


def test_fingerprints_of_small_arrays_see_every_byte() -> None:
    def prints(make: Any) -> int:
        changed = []
        for i in range(0, 1000, 7):
            data = np.zeros(1000, np.int64)
            data[i] = 1
            changed.append(str(ArraySource(make(data)).fingerprint()))
        return len(set(changed))

    assert prints(lambda x: x) == prints(lambda x: {"x": x[::-1]}) == 143
    assert prints(lambda x: hr.Ragged(x, np.arange(1001))) == 143
    assert ArraySource((np.arange(2), np.arange(3)[:2])).fingerprint() != ArraySource(np.arange(2)).fingerprint()


def test_fingerprints_of_large_arrays_stay_what_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """States that are saved hold them, so how rows are sampled must not change."""
    monkeypatch.setattr("headrace.formats.arrays._HASHED_WHOLE", 0)
    data = {
        "seq": hr.Ragged.from_rows([np.arange(i % 5, dtype=np.int32) for i in range(600)]),
        "text": hr.Strings.from_rows([f"line {i}" * (i % 3) for i in range(600)]),
        "x": np.arange(1200).reshape(600, 2),
    }
    assert ArraySource(data).fingerprint() == {"records": 600, "sample": "5a0a7af6de92be8b"}


def test_fingerprints_do_not_depend_on_where_arrays_lie(tmp_path: pathlib.Path) -> None:
    data = np.arange(5000).reshape(1000, 5)
    np.save(tmp_path / "x.npy", data)
    expected = ArraySource(data).fingerprint()
    assert ArraySource(np.load(tmp_path / "x.npy", mmap_mode="r")).fingerprint() == expected
    assert ArraySource(np.asfortranarray(data)).fingerprint() == expected


def test_fingerprints_of_large_arrays_sample_256_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.formats.arrays._HASHED_WHOLE", 1000)
    rows = np.linspace(0, 9_999, 256).astype(int)
    found = {str(ArraySource(np.zeros(10_000)).fingerprint())}
    for row in rows:
        data = np.zeros(10_000)
        data[row] = 1
        found.add(str(ArraySource(data).fingerprint()))
        found.add(str(ArraySource(hr.Ragged(data, np.arange(10_001))).fingerprint()))
    assert len(found) == 1 + 2 * 256
    long = hr.Ragged.from_rows([np.zeros(100_000, np.uint8)])
    assert set(ArraySource(long).fingerprint()) == {"records", "sample"}


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: m[1:], np.asarray, lambda m: {"a": np.zeros(len(m)), "m": m}])
def test_a_memory_map_whose_file_was_cut_is_refused(wrap: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.dat"
    np.arange(10_000).tofile(path)
    data = hr.from_arrays(wrap(np.memmap(path, np.int64, "r", offset=40_000)))
    loader = iter(hr.Loader(data.batch(10)))
    next(loader)
    os.truncate(path, 60_000)
    with pytest.raises(hr.DataChangedError, match=r"x\.dat was cut while it is mapped: .* 80,000 bytes .*, got 60,000"):
        list(loader)


def test_a_ragged_memory_map_whose_file_was_cut_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(10_000))
    source = ArraySource(hr.Ragged(np.load(path, mmap_mode="r"), np.arange(0, 10_001, 10)))
    assert source.read(np.array([999]))[0].tolist() == list(range(9990, 10_000))
    os.truncate(path, 4096)
    for use in (lambda: source.read(np.array([999])), source.lengths, source.fingerprint):
        with pytest.raises(hr.DataChangedError, match=r"x\.npy was cut while it is mapped"):
            use()


def test_a_copy_of_a_memory_map_outlives_the_file(tmp_path: pathlib.Path) -> None:
    np.arange(10_000).tofile(tmp_path / "x.dat")
    copy = np.memmap(tmp_path / "x.dat", np.int64, "r").copy()
    source = ArraySource(copy)
    os.truncate(tmp_path / "x.dat", 0)
    assert source.read(np.array([9_999])).tolist() == [9_999]
    assert pickle.loads(pickle.dumps(source)).read(np.array([9_999])).tolist() == [9_999]
