"""How far a run has come, and what its log says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Progress", "Window"]


@dataclass
class Window:
    """Sums since the last line of the log."""

    steps: int = 0
    seconds: float = 0.0
    loss: float = 0.0  # of all target words
    tgt_words: int = 0
    all_words: int = 0
    norm: float = 0.0


@dataclass
class Progress:
    """What the log goes by; it is saved in checkpoints, so that the log goes on as well."""

    step: int = 0
    epoch: int = 0  # that the last step was of,
    epoch_began: int = 0  # and the step after which it began
    window: Window = field(default_factory=Window)
    curves: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    summary: str = ""  # of the last window

    @classmethod
    def of(cls, saved: dict[str, Any]) -> Progress:
        """Makes it of what a checkpoint holds."""
        return cls(**saved | {"window": Window(**saved["window"])})

    def add(self, curve: str, value: float) -> None:
        """Adds a point to a curve."""
        self.curves.setdefault(curve, []).append((self.step, value))

    def at(self, curve: str, step: int) -> float | None:
        """Returns the value of a curve at a step, if it was measured there."""
        return next((value for place, value in self.curves.get(curve, []) if place == step), None)

    def measured(self, step: int) -> str:
        """Returns what was measured at a step, as in `, dev ppl 8.93, dev bleu 34.1`."""
        found = [(name, self.at(name, step)) for name in sorted(self.curves)]
        return "".join(f", {name.replace('_', ' ', 1)} {value:.2f}" for name, value in found if value is not None)
