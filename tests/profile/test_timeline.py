"""What is drawn: every piece in its worker's row, at its time, by its stages."""

from __future__ import annotations

import html.parser
import pathlib
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import headrace as hr
from headrace.engine.trace import Span
from headrace.profile.page import page
from headrace.profile.timeline import WAIT, colours, duration, segments, ticks, timeline

SVG = "{http://www.w3.org/2000/svg}"
PIECES = [
    Span(0, 0, 10.0, 11.0, (("read", 0.25), ("map", 0.75))),
    Span(1, 3, 10.5, 12.0, (("read", 0.5),)),
]
WAITS = [Span(0, None, 10.0, 11.0), Span(1, None, 11.5, 12.0)]


def bars(picture: str) -> list[tuple[str, float, float, float]]:
    """Colour, row, begin and length of each bar, in units of the picture's second."""
    found = [rect.attrib for rect in ET.fromstring(picture).iter(f"{SVG}rect")]
    left = min(float(a["x"]) for a in found)
    second = (max(float(a["x"]) + float(a["width"]) for a in found) - left) / 2
    top = min(float(a["y"]) for a in found)
    return [
        (
            a["fill"],
            (float(a["y"]) - top) / 24,
            round((float(a["x"]) - left) / second, 3),
            round(float(a["width"]) / second, 3),
        )
        for a in found
    ]


def test_bars_are_where_they_belong() -> None:
    palette = colours(["read", "map"])
    assert bars(timeline(PIECES, WAITS, palette)) == [
        (WAIT, 0, 0, 1),
        (WAIT, 0, 1.5, 0.5),
        (palette["read"], 1, 0, 0.25),
        (palette["map"], 1, 0.25, 0.75),
        (palette["read"], 2, 0.5, 0.5),
        (colours(["other"])["other"], 2, 1, 1),
    ]


def test_titles_tell_more() -> None:
    root = ET.fromstring(timeline(PIECES, WAITS, {}))
    assert [title.text for title in root.iter(f"{SVG}title")] == [
        "waits 1 s for batch 0",
        "waits 500 ms for batch 1",
        "piece 0: 1 s (read 250 ms, map 750 ms)",
        "piece 1: 1.5 s (read 500 ms, other 1 s)",
    ]
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert [text for text in texts if text and text[0] in "cw"] == ["consumer", "worker 0", "worker 3"]


def test_stages_inside_each_other_still_fill_the_bar() -> None:
    assert segments(Span(0, 0, 0.0, 1.0, (("map", 1.0), ("read", 1.0)))) == [("map", 0.5), ("read", 0.5)]


def test_nothing_to_draw() -> None:
    assert timeline([], [], {}) == ""


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, [0.0]),
        (1.0, [0.1 * i for i in range(11)]),
        (0.0031, [0.0005 * i for i in range(7)]),
        (70.0, [0, 10, 20, 30, 40, 50, 60, 70]),
    ],
)
def test_ticks_are_round(seconds: float, expected: list[float]) -> None:
    assert ticks(seconds) == pytest.approx(expected)


def test_durations() -> None:
    assert [duration(s) for s in (0, 2e-6, 0.0123, 4.5)] == ["0", "2 µs", "12.3 ms", "4.5 s"]


def test_stages_of_any_name_get_colours() -> None:
    assert len(set(colours(["read", "map", "one", "two", "three"]).values())) == 5


class Outside(html.parser.HTMLParser):
    """Whatever a page would fetch, and whether its tags are balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("rect", "line")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_stands_alone(tmp_path: pathlib.Path) -> None:
    def fn(x: float) -> float:
        return x

    loader = hr.Loader(hr.from_arrays(np.arange(40)).map(fn).batch(2), workers=2)
    loader.profile(batches=20, step=len).save(tmp_path / "it.html")
    text = (tmp_path / "it.html").read_text()
    reader = Outside()
    reader.feed(text)
    assert (reader.fetched, reader.open) == ([], [])
    assert "&lt;locals&gt;" in text
    assert "worker 0" in text


def test_a_page_of_long_runs_shows_the_beginning_and_the_end() -> None:
    found = hr.Profile("a < b", hr.Stats(9, 0, 1.0, 0.5, 2, {}, 0.0), pieces=[PIECES, PIECES], waits=[WAITS, WAITS])
    text = page([found])
    assert text.count("<svg") == 2
    assert "The beginning" in text
    assert "a &lt; b" in text
    assert "No loader gave a batch" in page([])


def test_a_picture(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    found = hr.Profile("it", hr.Stats(9, 0, 1.0, 0.5, 2, {}, 0.0), pieces=[PIECES], waits=[WAITS])
    found.save(tmp_path / "it.png")
    assert (tmp_path / "it.png").read_bytes().startswith(b"\x89PNG")
