"""A profile's timeline as a PNG picture, by matplotlib."""

from __future__ import annotations

import pathlib
import textwrap

from headrace.profile.report import Profile
from headrace.profile.timeline import COLOURS, WAIT, colours, limits, rows_of, segments


def picture(found: Profile, path: pathlib.Path) -> None:
    """Writes the picture.

    Args:
        found: The profile.
        path: The file.

    Raises:
        ImportError: If matplotlib isn't installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError as error:
        raise ImportError("a picture of a profile needs matplotlib: pip install 'headrace[plot]'") from error

    parts = [(p, w) for p, w in zip(found.pieces, found.waits, strict=False) if p or w]
    palette = colours(found.stats.stages)
    rows = max((len(rows_of(pieces)) for pieces, _ in parts), default=0) + 1
    figure = Figure(figsize=(12, 2.0 + max(1, len(parts)) * (0.8 + 0.35 * rows)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle("\n".join(textwrap.wrap(f"{found.title}: {found.recommendation}", 150)), fontsize=9)
    for number, (pieces, waits) in enumerate(parts):
        axes = figure.add_subplot(len(parts), 1, number + 1)
        workers = rows_of(pieces)
        row: dict[int | None, int] = {None: 0}
        row.update({worker: i + 1 for i, worker in enumerate(workers)})
        begin, _ = limits(pieces, waits)
        axes.broken_barh([(w.began - begin, w.ended - w.began) for w in waits], (-0.35, 0.7), color=WAIT)
        for span in pieces:
            at = span.began - begin
            for name, seconds in segments(span):
                colour = palette.get(name, COLOURS["other"])
                axes.broken_barh([(at, seconds)], (row[span.worker] - 0.35, 0.7), color=colour)
                at += seconds
        axes.set_yticks(range(len(row)), ["consumer", *(f"worker {worker}" for worker in workers)])
        axes.invert_yaxis()
        axes.set_xlabel("seconds")
    shown = {"consumer waits": WAIT, **palette}
    figure.legend(
        handles=[Patch(color=colour, label=name) for name, colour in shown.items()], loc="outside lower center", ncols=8
    )
    figure.savefig(path, dpi=120)
