"""Draws who did what when, as SVG: a row for the consumer and one for each worker."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

from headrace.engine.trace import Span

_WIDTH, _LEFT, _ROW, _TOP = 1100, 90, 24, 22
COLOURS = {
    "read": "#4c78a8",
    "fetch": "#4c78a8",
    "parse": "#72b7b2",
    "map": "#f58518",
    "map batches": "#ffb169",
    "filter": "#b279a2",
    "collate": "#54a24b",
    "pad": "#88d27a",
    "tokens": "#eeca3b",
    "other": "#a9a9a9",
}
_MORE = ("#9d755d", "#d67195", "#6b8fb5", "#8f9d3f", "#7a6fb0")
WAIT = "#e45756"


def colours(names: Iterable[str]) -> dict[str, str]:
    """A colour for each stage."""
    found: dict[str, str] = {}
    for name in names:
        if name not in found:
            found[name] = COLOURS.get(name) or _MORE[len(found) % len(_MORE)]
    return found


def segments(span: Span) -> list[tuple[str, float]]:
    """The stages of a piece, and what is left over, so that they fill it."""
    length = span.ended - span.began
    inner = [(name, seconds) for name, seconds in span.stages if seconds > 0]
    total = sum(seconds for _, seconds in inner)
    if total > length > 0:  # stages that were opened in each other
        return [(name, seconds * length / total) for name, seconds in inner]
    return [*inner, ("other", length - total)] if length > total else inner


def rows_of(pieces: Sequence[Span]) -> list[int]:
    """The workers that appear, in order."""
    return sorted({span.worker for span in pieces if span.worker is not None})


def limits(pieces: Sequence[Span], waits: Sequence[Span]) -> tuple[float, float]:
    """When the first of all spans begins and the last one ends."""
    spans = [*pieces, *waits]
    return min(span.began for span in spans), max(span.ended for span in spans)


def ticks(seconds: float, most: int = 10) -> list[float]:
    """Round times from 0 on, at most so many."""
    if seconds <= 0:
        return [0.0]
    least = seconds / most
    scale = 10.0 ** math.floor(math.log10(least))
    step = next(scale * factor for factor in (1, 2, 5, 10) if scale * factor >= least * (1 - 1e-9))
    return [step * i for i in range(int(seconds / step + 1e-9) + 1)]


def timeline(pieces: Sequence[Span], waits: Sequence[Span], palette: dict[str, str]) -> str:
    """An SVG picture of one part of a run.

    Args:
        pieces: What was carried out.
        waits: When the consumer waited.
        palette: A colour for each stage.
    """
    if not pieces and not waits:
        return ""
    workers = rows_of(pieces)
    begin, end = limits(pieces, waits)
    scale = (_WIDTH - _LEFT - 10) / max(end - begin, 1e-9)
    row: dict[int | None, int] = {None: 0}
    row.update({worker: i + 1 for i, worker in enumerate(workers)})
    height = _TOP + _ROW * len(row) + 6

    def bar(number: int, began: float, length: float, colour: str) -> str:
        x, width = _LEFT + (began - begin) * scale, max(0.4, length * scale)
        y = _TOP + _ROW * number + 3
        return f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{_ROW - 6}" fill="{colour}"/>'

    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg">']
    for at in ticks(end - begin):
        x = _LEFT + at * scale
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP - 4}" x2="{x:.1f}" y2="{height - 4}" class="grid"/>')
        parts.append(f'<text x="{x:.1f}" y="12" text-anchor="middle">{duration(at)}</text>')
    for name, number in (("consumer", 0), *((f"worker {worker}", row[worker]) for worker in workers)):
        parts.append(f'<text x="0" y="{_TOP + _ROW * number + 16}">{name}</text>')
    parts += [
        f"<g><title>waits {duration(w.ended - w.began)} for batch {w.number}</title>"
        + bar(0, w.began, w.ended - w.began, WAIT)
        + "</g>"
        for w in waits
    ]
    for span in pieces:
        inner = segments(span)
        title = ", ".join(f"{name} {duration(seconds)}" for name, seconds in inner)
        text = html.escape(f"piece {span.number}: {duration(span.ended - span.began)} ({title})")
        parts.append(f"<g><title>{text}</title>")
        at = span.began
        for name, seconds in inner:
            parts.append(bar(row[span.worker], at, seconds, palette.get(name, COLOURS["other"])))
            at += seconds
        parts.append("</g>")
    return "".join([*parts, "</svg>"])


def duration(seconds: float) -> str:
    """A time for people."""
    if seconds == 0:
        return "0"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s"
