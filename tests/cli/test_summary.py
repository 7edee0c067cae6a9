from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import headrace as hr
from headrace.cli.summary import StreamSummary
from headrace.formats.sequences import SequenceStream
from tests.formats.helpers import rows_of, some_block, streams_of


@pytest.mark.parametrize("cuts", [[0, 200], [0, 1, 1, 100, 200], list(range(201))])
def test_parts_add_up_to_the_whole(cuts: list[int]) -> None:
    block = some_block(rows=200)
    for stream in streams_of():
        summary = StreamSummary(stream)
        for start, stop in pairwise(cuts):
            summary.add(rows_of(block, start, stop).columns[stream.name])
        column = block.columns[stream.name]
        values = column.values.values if stream.sparse else column.values
        found = summary.to_json()
        assert (found["sequences"], found["samples"]) == (200, len(column.values))
        assert found["sequences_without_samples"] == int((column.lengths == 0).sum())
        assert (found["lengths"]["least"], found["lengths"]["most"]) == (column.lengths.min(), column.lengths.max())
        assert sum(part["sequences"] for part in found["lengths"]["histogram"]) == 200
        for part in found["lengths"]["histogram"]:
            inside = (column.lengths >= part["from"]) & (column.lengths <= part["to"])
            assert part["sequences"] == int(inside.sum())
        assert (found["values"]["least"], found["values"]["most"]) == (float(values.min()), float(values.max()))
        assert found["values"]["mean"] == pytest.approx(float(values.mean(dtype=np.float64)))
        assert found["values"]["whole"] is False
        if stream.sparse:
            assert found["entries"] == len(values)
            assert found["density"] == pytest.approx(len(values) / len(column.values) / 70_000)
            assert found["samples_without_entries"] == int((np.diff(column.values.offsets) == 0).sum())
            assert found["indices"] == {"least": column.values.indices.min(), "most": column.values.indices.max()}
            assert found["one_hot"] is False
        else:
            assert found["density"] == pytest.approx(float((values != 0).mean()))


def test_one_hot_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    summary = StreamSummary(SequenceStream("y", (5,), sparse=True))
    summary.add(hr.Ragged(hr.Sparse.from_rows([([1], [1]), ([4], [1])], width=5), np.arange(3)))
    assert summary.to_json()["one_hot"] is True
    assert summary.to_json()["values"]["whole"] is True
    summary.show()
    assert capsys.readouterr().out.splitlines() == [
        "y: sparse, 5 wide",
        "  2 sequences; 2 samples",
        "  one-hot, indices from 1 to 4",
        "  values from 1 to 1, 1 on average, all whole",
        "  1 sample in each sequence",
    ]


def test_infinite_values_are_counted_apart() -> None:
    summary = StreamSummary(SequenceStream("x", (2,)))
    summary.add(hr.Ragged(np.array([[np.inf, np.nan], [1, 2]], np.float32), np.array([0, 2])))
    assert summary.to_json()["values"] == {"least": 1.0, "most": 2.0, "mean": 1.5, "whole": True, "infinite": 2}


def test_nothing_is_summed_up_too(capsys: pytest.CaptureFixture[str]) -> None:
    for stream in streams_of():
        summary = StreamSummary(stream)
        found = summary.to_json()
        assert (found["samples"], found["density"], found["values"]["least"]) == (0, None, None)
        assert found["lengths"] == {"least": 0, "most": 0, "histogram": []}
        summary.show()
    assert "0 sequences; 0 samples" in capsys.readouterr().out


def test_the_histogram_covers_the_lengths_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    lengths = np.array([2, 3, 3, 9])
    summary = StreamSummary(SequenceStream("x", (1,)))
    summary.add(hr.Ragged(np.zeros((17, 1)), np.concatenate([[0], np.cumsum(lengths)])))
    summary.show()
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "  samples a sequence: 2 to 9, 4.25 on average",
        "    2–3  3  " + "█" * 40,
        "    4–7  0",
        "    8–9  1  " + "█" * 13,
    ]
