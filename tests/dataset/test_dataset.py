from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import headrace as hr
from tests.dataset.helpers import numbers


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
        (lambda d: d.shuffle(window=0), "window is at least 1 record, got 0"),
        (lambda d: d.repeat(0), "count is at least 1, or None"),
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


def test_descriptions_can_be_pickled() -> None:
    data = numbers(10).shuffle(seed=1).skip(2).repeat(2).map(abs).batch(4)
    again = pickle.loads(pickle.dumps(data))
    assert [b.tolist() for b in hr.Loader(again)] == [b.tolist() for b in hr.Loader(data)]
<<<<<<< HEAD
=======


def test_pad_names_the_column_that_cannot_hold_the_value() -> None:
    data = hr.from_arrays({"a": hr.Ragged.from_rows([[1], [2, 3]], dtype=np.uint8)}).batch(2).pad(value=-1)
    with pytest.raises(hr.DataError, match="column 'a': pad: -1 doesn't fit into a column of uint8; choose another"):
        list(hr.Loader(data))


def test_pad_does_not_replace_a_column_by_lengths() -> None:
    data = hr.from_arrays({"p": {"a_len": np.arange(2), "a": hr.Ragged.from_rows([[1], [2, 3]])}}).batch(2)
    message = r"lengths of column 'p\.a' would replace the column 'p\.a_len' that the records have; .* lengths=False"
    with pytest.raises(hr.DataError, match=message):
        list(hr.Loader(data.pad()))
    (batch,) = hr.Loader(data.pad(lengths=False))
    assert batch["p"]["a_len"].tolist() == [0, 1]


def test_bucket_refuses_lengths_beyond_31_bits() -> None:
    data = hr.from_dataset(["a", "b"], lengths=[1, (1 << 32) + 1])
    expected = r"bucket needs lengths in \[0, 2\^31\), got lengths from 1 to 4294967297"
    with pytest.raises(hr.PlanError, match=expected):
        list(hr.Loader(data.bucket(batch_size=2, boundaries=[4])))
    with pytest.raises(hr.PlanError, match=expected):
        list(hr.Loader(data.bucket(batch_size=2, boundaries=[4], by=lambda known: known[""])))


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


def test_tokens_are_separated_as_the_source_says(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.txt").write_text("x y\tz\n")
    vocab = hr.Vocab(["<unk>", "x", "y", "z"])
    text = hr.read_text(tmp_path / "a.txt", separators="\t")
    assert [ids.tolist() for ids in text.tokens(vocab)] == [[0, 3]]
    with pytest.raises(hr.PlanError, match=r"after a map doesn't know that read_text\(separators='\\t'\) is meant"):
        len(text.map(str).tokens({"": vocab}))
    assert [ids.tolist() for ids in text.map(str).tokens({"": vocab}, separators="\t")] == [[0, 3]]
    with pytest.raises(hr.PlanError, match="differs from the source's"):
        len(text.tokens(vocab, separators=" "))
>>>>>>> main
