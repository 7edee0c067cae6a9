from __future__ import annotations

import threading

import numpy as np
import pytest
from numpy.typing import NDArray

from headrace.cli.reading import parts
from headrace.formats.sequences import Parsed
from headrace.proof import same
from tests.formats.helpers import Given, some_block, streams_of


class Counted(Given):
    """Counts the parts that were parsed; record `fails` can't be read."""

    count = 0
    fails = -1
    lock = threading.Lock()

    def parse(self, records: NDArray[np.int64]) -> Parsed:
        with self.lock:
            self.count += 1
        if self.fails in records:
            raise OSError("no such record")
        return super().parse(records)


def test_parts_come_in_order_and_are_all() -> None:
    block = some_block(rows=53)
    source = Given(streams_of(), block)
    found = list(parts(source, "reading", block_bytes=700))
    assert [part.first for part in found] == list(range(0, 53, found[0].records))
    assert sum(part.records for part in found) == 53
    for part in found:
        rows = np.arange(part.first, part.first + part.records)
        assert same(part.parsed.columns, dict(block.take(rows).columns))


def test_nothing_has_no_parts() -> None:
    assert list(parts(Given(streams_of(), some_block(rows=3).take(np.empty(0, np.int64))), "reading")) == []


def test_parts_are_read_ahead_by_a_few_alone() -> None:
    source = Counted(streams_of(), some_block(rows=200))
    reader = parts(source, "reading", block_bytes=100)
    for taken in range(1, 21):
        next(reader)
        assert source.count <= taken + 9
    reader.close()
    assert source.count <= 29
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace-in-order")]


def test_errors_come_where_they_belong() -> None:
    source = Counted(streams_of(), some_block(rows=20))
    source.fails = 7
    reader = parts(source, "reading", block_bytes=100)
    assert [next(reader).first for _ in range(7)] == list(range(7))
    with pytest.raises(OSError, match="no such record"):
        next(reader)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace-in-order")]
