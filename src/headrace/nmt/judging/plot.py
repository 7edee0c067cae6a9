"""Pictures of a run: its curves, and what a translation looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["plot_attention", "plot_curves"]

Curve = Sequence[tuple[int, float]]


def plot_attention(
    path: str | Path | IO[bytes], attention: ArrayLike, source: Sequence[str], target: Sequence[str]
) -> None:
    """Draws an attention matrix as a PNG: a row for each target word, a column for each source word.

    Args:
        path: The file to write.
        attention: Weights of shape (target words, source words), or with a last row for eos.
        source: The source words.
        target: The target words.

    Raises:
        ValueError: The matrix has another shape.
    """
    weights = np.asarray(attention)
    if weights.ndim != 2 or weights.shape[1] != len(source) or weights.shape[0] - len(target) not in (0, 1):
        raise ValueError(
            f"expected attention of shape ({len(target)} or {len(target) + 1}, {len(source)}) for {len(target)} target "
            f"and {len(source)} source words, got {weights.shape}"
        )
    rows = [*target, "</s>"][: len(weights)]
    figure = _figure(1.5 + 0.45 * len(source), 1.2 + 0.35 * len(rows))
    axes = figure.add_subplot()
    axes.imshow(weights, cmap="Greys", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(source)), list(source), rotation=45, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xlabel("source")
    axes.xaxis.set_label_position("top")
    axes.set_ylabel("translation")
    axes.tick_params(top=True, bottom=False, labeltop=True, labelbottom=False, length=0)
    figure.savefig(path, dpi=120, bbox_inches="tight", format="png")


def plot_curves(path: str | Path, curves: Mapping[str, Curve], title: str = "") -> None:
    """Draws the curves of a training run as a PNG: perplexities on a logarithmic axis, scores on a second one.

    Args:
        path: The file to write.
        curves: `Result.curves` of a run: points (step, value) by name; `*_ppl` are perplexities, the rest scores.
        title: Goes above.
    """
    figure = _figure(8.0, 4.5)
    axes = figure.add_subplot()
    axes.set_xlabel("step")
    axes.set_ylabel("perplexity")
    axes.set_yscale("log")
    axes.set_title(title)
    axes.grid(visible=True, alpha=0.3)
    scores = [name for name in curves if not name.endswith("_ppl")]
    for name, points in curves.items():
        if name not in scores:
            axes.plot(*_split(points), label=name.replace("_ppl", " perplexity"))
    handles = axes.get_legend_handles_labels()
    if scores:
        right = axes.twinx()
        right.set_ylabel("score")
        right.set_ylim(0.0, 105.0)  # all scores are percentages
        for name in scores:
            right.plot(*_split(curves[name]), label=name.replace("_", " "), linestyle="--", marker=".")
        handles = tuple(a + b for a, b in zip(handles, right.get_legend_handles_labels(), strict=True))
    if handles[0]:
        axes.legend(*handles, loc="center right")
    figure.savefig(path, dpi=120, bbox_inches="tight", format="png")


def _split(points: Curve) -> tuple[list[int], list[float]]:
    return [step for step, _ in points], [value for _, value in points]


def _figure(width: float, height: float) -> Any:
    """Makes a figure that needs no display: nothing of pyplot, which would keep it and may ask for a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # needed by those who draw alone
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure
