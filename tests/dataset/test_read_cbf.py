"""Several files of CNTK's binary format are read as one."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from numpy.typing import NDArray

import headrace as hr
from headrace.formats.cbf import CbfSource
from headrace.formats.sequences import Parsed


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    for number, lengths in enumerate(([2, 1], [1, 1], [3])):
        rows = [[float(10 * number + k)] * length for k, length in enumerate(lengths)]
        hr.write_cbf(tmp_path / f"{number}.cbf", {"x": hr.Ragged.from_rows(rows)})
    return tmp_path


def samples(data: hr.Dataset) -> list[list[float]]:
    return [np.ravel(record["x"]).tolist() for record in data]


@pytest.mark.parametrize("keep", [False, True])
def test_patterns_and_lists_are_read_in_order(folder: pathlib.Path, keep: bool) -> None:
    expected = [[0, 0], [1], [10], [11], [20, 20, 20]]
    assert samples(hr.read_cbf(folder / "?.cbf", keep_in_memory=keep)) == expected
    assert samples(hr.read_cbf([folder / "2.cbf", str(folder / "[01].cbf")], keep_in_memory=keep)) == (
        expected[4:] + expected[:4]
    )
    data = hr.read_cbf(folder / "?.cbf", rename={"x": "y"}, keep_in_memory=keep).shuffle(seed=1).batch(2)
    batches = list(hr.Loader(data))
    assert sorted(n for batch in batches for n in batch["y"].lengths.tolist()) == [1, 1, 1, 2, 3]
    buckets = hr.Loader(hr.read_cbf(folder / "?.cbf", keep_in_memory=keep).bucket(2, boundaries=[2, 3]))
    assert sorted(len(batch["x"]) for batch in buckets) == [1, 1, 1, 2]


def test_columns_are_plain_only_if_they_are_in_all_files(folder: pathlib.Path) -> None:
    assert isinstance(next(iter(hr.Loader(hr.read_cbf(folder / "1.cbf").batch(2))))["x"], np.ndarray)
    for files in ("[01].cbf", "[12].cbf"):
        assert isinstance(next(iter(hr.Loader(hr.read_cbf(folder / files).batch(3))))["x"], hr.Ragged)
    with pytest.raises(hr.DataError, match=r"0\.cbf, sequence 0 .*expected one sample in each sequence, found 2"):
        hr.read_cbf(folder / "[01].cbf", sequence=False)


def test_what_is_kept_is_not_read_again(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    parse = CbfSource.parse

    def spy(self: CbfSource, records: NDArray[np.int64]) -> Parsed:
        parsed.extend(records.tolist())
        return parse(self, records)

    monkeypatch.setattr(CbfSource, "parse", spy)
    data = hr.read_cbf(folder / "?.cbf", keep_in_memory=True)
    first = samples(data)
    assert sorted(parsed) == [0, 0, 0, 1, 1]
    assert samples(data) == first
    assert len(parsed) == 5
    for _ in range(2):
        samples(hr.read_cbf(folder / "2.cbf"))
    assert len(parsed) == 7


def test_files_of_other_streams_are_refused(folder: pathlib.Path) -> None:
    hr.write_cbf(folder / "9.cbf", {"x": np.ones((1, 2), np.float64)})
    with pytest.raises(
        hr.DataError,
        match=r"9\.cbf: expected the streams of .*0\.cbf \('x' dense 1 float\d\d\), found 'x' dense 2 float64",
    ):
        hr.read_cbf(folder / "*.cbf")
    with pytest.raises(FileNotFoundError, match="the pattern matches nothing"):
        hr.read_cbf(folder / "*.none")
