"""Profiles as one HTML page that needs nothing beside it."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from headrace.profile.report import Profile
from headrace.profile.timeline import WAIT, colours, duration, timeline

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --text: CanvasText; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1140px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; overflow-wrap: anywhere; } h3 { font-size: 1rem; }
.say { border-left: 4px solid #4c78a8; background: var(--soft); padding: .7rem 1rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0; }
.tiles div { border: 1px solid var(--line); border-radius: 6px; padding: .5rem .9rem; min-width: 8rem; }
.tiles b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
i.bar { display: inline-block; height: .7em; }
svg { width: 100%; min-width: 760px; height: auto; } svg text { font-size: 11px; fill: var(--text); }
.grid { stroke: var(--line); stroke-width: 1; }
.key span { margin-right: 1.1rem; white-space: nowrap; }
.key i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .35em; }
""".strip()


def page(profiles: Sequence[Profile], title: str = "headrace profile") -> str:
    """An HTML page.

    Args:
        profiles: What to show, one after another.
        title: Its heading.
    """
    document = json.dumps([found.to_dict() for found in profiles], ensure_ascii=False).replace("</", "<\\/")
    body = "".join(_section(found) for found in profiles) or "<p>No loader gave a batch.</p>"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{html.escape(title)}</h1>{body}"
        f'<script type="application/json" id="profiles">{document}</script></body></html>\n'
    )


def _section(found: Profile) -> str:
    palette = colours(found.stats.stages)
    parts = [
        f"<h2>{html.escape(found.title)}</h2>",
        f'<p class="say">{html.escape(found.recommendation)}</p>',
        _tiles(found),
        _stages(found, palette),
        _workers(found),
    ]
    if any(found.pieces) or any(found.waits):
        names = "".join(_key(name, colour) for name, colour in palette.items())
        parts.append(f'<h3>When</h3><p class="key">{_key("consumer waits", WAIT)}{names}</p>')
    for number, (pieces, waits) in enumerate(zip(found.pieces, found.waits, strict=False)):
        heading = "" if len(found.pieces) == 1 else f"<p>{'The beginning' if not number else 'The end'}</p>"
        parts.append(f'{heading}<div class="scroll">{timeline(pieces, waits, palette)}</div>')
    return "".join(parts)


def _tiles(found: Profile) -> str:
    stats = found.stats
    shown = [
        ("batches/s", f"{stats.batches_per_second:,.1f}"),
        ("records/s", f"{stats.records_per_second:,.0f}"),
        ("MB/s", f"{stats.bytes_per_second / 1e6:,.1f}"),
        ("waited", f"{stats.wait_share:.0%}"),
        ("queue full", f"{stats.queue_fill:.0%}"),
        ("workers", f"{stats.workers} {stats.mode}" if stats.workers else "none"),
    ]
    shown += [
        (name, f"{rate:,.1f}/s")
        for name, rate in (("loader alone", found.alone), ("step, same batch", found.cached))
        if rate is not None
    ]
    if found.gain is not None and found.gain < 1e3:
        shown.append(("head-room", f"{found.gain:.2f}×"))
    return '<div class="tiles">' + "".join(f"<div><b>{value}</b>{name}</div>" for name, value in shown) + "</div>"


def _stages(found: Profile, palette: dict[str, str]) -> str:
    stats = found.stats
    total = sum(stage.wall for stage in stats.stages.values()) or 1.0
    rows = []
    for name, stage in sorted(stats.stages.items(), key=lambda item: -item[1].wall):
        share = stage.wall / total
        rate = stats.stage_rate(name)
        rows.append(
            f"<tr><td>{html.escape(name)}</td><td>{stage.wall:.3f} s</td><td>{stage.cpu:.3f} s</td>"
            f"<td>{duration(stage.wall / max(stats.batches, 1))}</td><td>{f'{rate:,.0f}' if rate < 1e6 else '–'}</td>"
            f'<td style="text-align:left"><i class="bar" style="width:{200 * share:.0f}px;background:{palette[name]}">'
            f"</i> {share:.0%}</td></tr>"
        )
    head = "<tr><th>stage</th><th>time</th><th>CPU</th><th>a batch</th><th>batches/s alone</th><th>share</th></tr>"
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>' if rows else ""


def _workers(found: Profile) -> str:
    stats = found.stats
    if not stats.per_worker or not stats.wall:
        return ""
    rows = "".join(
        f"<tr><td>worker {number}</td><td>{did.pieces:,}</td><td>{did.wall / stats.wall:.0%}</td>"
        f"<td>{did.cpu:.3f} s</td></tr>"
        for number, did in sorted(stats.per_worker.items())
    )
    head = "<tr><th></th><th>pieces</th><th>busy</th><th>CPU</th></tr>"
    return f'<h3>Workers</h3><div class="scroll"><table>{head}{rows}</table></div>'


def _key(name: str, colour: str) -> str:
    return f'<span><i style="background:{colour}"></i>{html.escape(name)}</span>'
