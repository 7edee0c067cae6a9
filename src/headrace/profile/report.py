"""The outcome of profiling: numbers, words, and what can be saved."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.checks import path_of
from headrace.engine import Stats
from headrace.engine.trace import Span
from headrace.errors import PlanError

_NOTHING = 1.05  # what makes a loop faster by less isn't worth the trouble
_DISTURBED = 1.2


@dataclass(frozen=True, slots=True)
class Profile:
    """What a loop over a loader costs, and what better loading could gain.

    `print` it for a table with a recommendation.

    Attributes:
        title: Which loader it is.
        stats: What the loader reports of the measured batches.
        together: Batches a second of the loop as it is, loader and step; None where a program was only watched.
        alone: Batches a second that the loader gives if nobody works on them; None if that wasn't measured.
        cached: Batches a second that the step takes if it gets the same batch over and over; None likewise.
        pieces: Who carried out which piece when; of a long run its beginning and its end, as two parts.
        waits: When the consumer waited, likewise.

    Example:
        >>> import headrace as hr
        >>> profile = hr.Loader(hr.from_dataset(range(100)).batch(10)).profile(batches=5)
        >>> profile.stats.batches > 0, "batches/s" in str(profile)
        (True, True)
    """

    title: str
    stats: Stats
    together: float | None = None
    alone: float | None = None
    cached: float | None = None
    pieces: list[list[Span]] = field(default_factory=list, repr=False)
    waits: list[list[Span]] = field(default_factory=list, repr=False)

    @property
    def gain(self) -> float | None:
        """How many times as fast the loop would be if loading cost nothing; None if that can't be told.

        Measured where there was a step to run with a batch that is there already; else computed from the waiting.
        """
        if self.cached is not None and self.together:
            return max(1.0, self.cached / self.together)
        working = self.stats.wall - self.stats.waited
        if self.together is None and self.stats.batches and working > 0:
            return self.stats.wall / working
        return None

    @property
    def recommendation(self) -> str:
        """What to change, in words."""
        return " ".join([*self._head_room(), self.stats.verdict()])

    def _head_room(self) -> list[str]:
        gain = self.gain
        if self.cached is None or self.together is None:
            if gain is None or self.stats.bound in ("nothing", "short", "consumer"):
                return []
            return [f"With a loader that costs nothing this loop would be at most {_times(gain)} as fast."]
        assert gain is not None
        if gain < _NOTHING:
            return [f"Loading costs this loop nothing: {self.together:,.1f} batches/s, {self.cached:,.1f} without it."]
        said = [
            f"The loop makes {self.together:,.1f} batches/s, and {self.cached:,.1f} with a batch that is there "
            f"already: better loading can make it up to {_times(gain)} as fast."
        ]
        if self.alone is not None and self.stats.workers:
            if self.alone > _DISTURBED * self.cached and gain > _DISTURBED:
                said.append(
                    f"The loader alone gives {self.alone:,.1f}, more than the step takes: they are in each other's "
                    "way. Leave the step a processor (fewer workers, fewer threads of the framework), and keep Python "
                    "code out of worker threads."
                )
            elif self.alone < self.cached:
                said.append(f"The loader alone gives {self.alone:,.1f}.")
        return said

    def to_dict(self) -> dict[str, Any]:
        """The profile as a document that `json` can write.

        Example:
            >>> import numpy as np
            >>> import headrace as hr
            >>> loader = hr.Loader(hr.from_arrays(np.arange(100)).batch(10))
            >>> found = loader.profile(batches=5).to_dict()
            >>> found["stats"]["batches"], sorted(found["stats"]["stages"])
            (5, ['other', 'plan', 'read'])
        """
        return {
            "title": self.title,
            "together": self.together,
            "alone": self.alone,
            "cached": self.cached,
            "gain": self.gain,
            "recommendation": self.recommendation,
            "stats": self.stats.to_dict(),
            "pieces": [[asdict(span) for span in part] for part in self.pieces],
            "waits": [[asdict(span) for span in part] for part in self.waits],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the profile: `.html` is a page with the timeline, `.png` its picture, `.json` the document.

        Args:
            path: The file; its ending says which.

        Raises:
            PlanError: If the ending is another one.
            ImportError: If a picture is wanted and matplotlib isn't installed.

        Example:
            >>> import pathlib, tempfile
            >>> import numpy as np
            >>> import headrace as hr
            >>> loader = hr.Loader(hr.from_arrays(np.arange(100)).batch(10), workers=1)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     loader.profile(batches=5).save(f"{folder}/profile.html")
            ...     pathlib.Path(folder, "profile.html").read_text()[:15]
            '<!DOCTYPE html>'
        """
        import pathlib  # here, because importing headrace would wait for it

        file = pathlib.Path(path_of(path))
        if file.suffix == ".html":
            from headrace.profile.page import page

            file.write_text(page([self]), encoding="utf-8")
        elif file.suffix == ".png":
            from headrace.profile.picture import picture

            picture(self, file)
        elif file.suffix == ".json":
            file.write_text(json.dumps(self.to_dict(), ensure_ascii=False) + "\n", encoding="utf-8")
        else:
            raise PlanError(f"a profile is saved as .html, .png or .json, got {os.fspath(path)!r}")

    def __str__(self) -> str:
        lines = [self.title, str(self.stats).rpartition("\n")[0]]
        if not self.stats.batches:
            return f"{self.title}\n{self.stats.verdict()}"
        for name, rate in (
            ("loader and step together", self.together),
            ("loader alone", self.alone),
            ("step alone, the same batch over and over", self.cached),
        ):
            if rate is not None:
                lines.append(f"  {name:<42}{rate:>11,.1f} batches/s")
        return "\n".join([*lines, self.recommendation])


def _times(gain: float) -> str:
    return f"{gain:.2f} times" if gain < 10 else f"{gain:,.0f} times"
