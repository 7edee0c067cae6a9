"""Spans are kept while somebody profiles, and no more of them than a picture can show."""

from __future__ import annotations

import pathlib

import numpy as np

import headrace as hr
from headrace.clock import Clock
from headrace.engine import StatsCollector
from headrace.engine.machine import _pressure, _quota
from headrace.engine.trace import Trace, watch


def test_nothing_is_kept_unless_somebody_watches() -> None:
    assert StatsCollector(1, 1).trace is None


def test_a_loader_made_while_watched_tells_where_and_what_it_did() -> None:
    with watch() as seen:
        loader = hr.Loader(hr.from_arrays(np.arange(12)).batch(4), workers=2)
    outside = hr.Loader(hr.from_arrays(np.arange(4)).batch(4))
    for _ in loader:
        pass
    list(outside)
    ((place, collector),) = seen.found
    assert pathlib.Path(place.rpartition(":")[0]) == pathlib.Path(__file__)
    assert collector.trace is not None
    (pieces,) = collector.trace.pieces.parts()
    assert [span.number for span in pieces] == [0, 1, 2]
    assert all(span.worker in (0, 1) and span.began <= span.ended for span in pieces)
    assert all("read" in dict(span.stages) for span in pieces)
    (waits,) = collector.trace.waits.parts()
    assert len(waits) == 3


def test_blocks_that_are_filtered_are_seen_once() -> None:
    with watch() as seen:
        loader = hr.Loader(hr.from_arrays(np.arange(12)).filter(lambda x: x > 3).batch(4))
    list(loader)
    assert len(seen.found) == 1
    assert loader.stats().records == 8


def test_of_a_long_run_the_beginning_and_the_end_are_kept() -> None:
    trace = Trace(kept=3)
    clock = Clock(1)
    with clock.stage("piece"), clock.stage("read"):
        pass
    for _ in range(10):
        trace.piece(clock.worker, clock.began, clock.ended, clock.seconds)
    first, last = trace.pieces.parts()
    assert [[span.number for span in part] for part in (first, last)] == [[0, 1, 2], [7, 8, 9]]
    assert [name for name, _ in first[0].stages] == ["read"]


def test_whether_processors_are_short(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cpu"
    assert _pressure(path) == 0
    path.write_text("some avg10=94.50 avg60=90.78 avg300=65.48 total=5553710809\nfull avg10=0.00\n")
    assert _pressure(path) == 0.945
    path.write_text("nothing of that kind")
    assert _pressure(path) == 0


def test_a_container_may_pay_for_fewer_processors(tmp_path: pathlib.Path) -> None:
    assert _quota(tmp_path) is None
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    assert _quota(tmp_path) is None
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("250000\n")
    assert _quota(tmp_path) == 2.5
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert _quota(tmp_path) == 1.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert _quota(tmp_path) is None
