"""Sums up the streams of a source, part by part: lengths, ranges of values, how sparse they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse
from headrace.cli.output import count, heading, histogram, line, number
from headrace.formats.sequences import SequenceStream

_BINS = 64


class StreamSummary:
    """What is known of one stream so far.

    Example:
        >>> import numpy as np, headrace as hr
        >>> summary = StreamSummary(SequenceStream("x", (2,)))
        >>> summary.add(hr.Ragged(np.array([[0, 1], [2, 3.5]], np.float32), np.array([0, 0, 2])))
        >>> summary.samples, summary.empty, summary.low, summary.high
        (2, 1, 0.0, 3.5)
    """

    def __init__(self, stream: SequenceStream) -> None:
        self.stream = stream
        self.sequences = self.empty = self.samples = 0
        self.shortest, self.longest = -1, 0
        self.bins = np.zeros(_BINS, np.int64)  # of lengths: 0, 1, 2 to 3, 4 to 7 …
        self.values = self.zeros = self.infinite = 0
        self.low, self.high, self.total = np.inf, -np.inf, 0.0
        self.whole = True
        self.first_index, self.last_index = -1, -1
        self.without_entries = 0
        self.one_hot = True

    def add(self, column: Ragged) -> None:
        """Takes more sequences into account."""
        lengths = column.lengths
        if not len(lengths):
            return
        self.sequences += len(lengths)
        self.empty += int((lengths == 0).sum())
        self.samples += len(column.values)
        shortest = int(lengths.min())
        self.shortest = shortest if self.shortest < 0 else min(shortest, self.shortest)
        self.longest = max(self.longest, int(lengths.max()))
        self.bins += np.bincount(np.frexp(lengths.astype(np.float64))[1], minlength=_BINS)
        if isinstance(column.values, Sparse):
            self._add_sparse(column.values)
        else:
            self._add_values(column.values.reshape(-1))

    def _add_sparse(self, samples: Sparse) -> None:
        entries = np.diff(samples.offsets)
        self.without_entries += int((entries == 0).sum())
        self.one_hot &= bool((entries == 1).all()) and bool((samples.values == 1).all())
        if len(samples.indices):
            low, high = int(samples.indices.min()), int(samples.indices.max())
            self.first_index = low if self.first_index < 0 else min(low, self.first_index)
            self.last_index = max(high, self.last_index)
        self._add_values(samples.values)

    def _add_values(self, values: NDArray[Any]) -> None:
        self.values += len(values)
        finite = np.isfinite(values)
        if not finite.all():
            self.infinite += int((~finite).sum())
            values = values[finite]
        if not len(values):
            return
        self.zeros += len(values) - int(np.count_nonzero(values))
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self.total += float(values.sum(dtype=np.float64))
        self.whole = self.whole and bool((values == np.trunc(values)).all())

    @property
    def lengths(self) -> list[tuple[int, int, int]]:
        """The histogram of lengths: shortest and longest of a bin, and how many sequences it has; up to the last."""
        last = int(np.flatnonzero(self.bins)[-1]) if self.bins.any() else -1
        bounds = [(0, 0), *((1 << b, (2 << b) - 1) for b in range(_BINS - 1))]
        return [(*bounds[i], int(self.bins[i])) for i in range(last + 1)]

    @property
    def density(self) -> float | None:
        """The share of numbers that aren't zero (of a sparse stream: that are written down)."""
        numbers = self.samples * int(np.prod(self.stream.shape))
        filled = self.values if self.stream.sparse else self.values - self.zeros
        return filled / numbers if numbers else None

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        finite = self.values - self.infinite
        found: dict[str, Any] = {
            "stream": self.stream.name,
            "format": "sparse" if self.stream.sparse else "dense",
            "dim": int(np.prod(self.stream.shape)),
            "sequences": self.sequences,
            "sequences_without_samples": self.empty,
            "samples": self.samples,
            "lengths": {
                "least": max(0, self.shortest),
                "most": self.longest,
                "histogram": [{"from": a, "to": b, "sequences": n} for a, b, n in self.lengths],
            },
            "values": {
                "least": self.low if finite else None,
                "most": self.high if finite else None,
                "mean": self.total / finite if finite else None,
                "whole": self.whole if finite else None,
                "infinite": self.infinite,
            },
            "density": self.density,
        }
        if self.stream.sparse:
            found["entries"] = self.values
            found["samples_without_entries"] = self.without_entries
            found["indices"] = {"least": self.first_index, "most": self.last_index} if self.first_index >= 0 else None
            found["one_hot"] = self.one_hot and self.samples > 0
        return found

    def show(self) -> None:
        """Prints it."""
        dim = int(np.prod(self.stream.shape))
        heading(f"{self.stream.name}: {'sparse' if self.stream.sparse else 'dense'}, {dim:,} wide")
        without = f", {self.empty:,} of them without a sample" if self.empty else ""
        line(f"  {count(self.sequences, 'sequence')}{without}; {count(self.samples, 'sample')}")
        if not self.samples:
            return
        if self.stream.sparse:
            self._show_entries()
        if self.values > self.infinite:
            whole = ", all whole" if self.whole else ""
            mean = number(self.total / (self.values - self.infinite))
            line(f"  values from {number(self.low)} to {number(self.high)}, {mean} on average{whole}")
        if self.infinite:
            line(f"  {count(self.infinite, 'value')} infinite or not a number")
        if not self.stream.sparse and self.density is not None:
            line(f"  {100 * (1 - self.density):.3g} % of the values are zero")
        if self.shortest == self.longest:
            line(f"  {count(self.longest, 'sample')} in each sequence")
            return
        each = self.samples / self.sequences
        line(f"  samples a sequence: {self.shortest:,} to {self.longest:,}, {each:.3g} on average")
        bins = [(a, min(b, self.longest), n) for a, b, n in self.lengths if b >= self.shortest]
        histogram([(f"{a:,}" if a == b else f"{a:,}–{b:,}", n) for a, b, n in bins], "    ")

    def _show_entries(self) -> None:
        if self.one_hot:
            line(f"  one-hot, indices from {self.first_index:,} to {self.last_index:,}")
            return
        share = "" if self.density is None else f" ({100 * self.density:.3g} %)"
        indices = f"; indices from {self.first_index:,} to {self.last_index:,}" if self.first_index >= 0 else ""
        line(f"  {self.values / self.samples:.3g} entries a sample on average{share}{indices}")
        if self.without_entries:
            line(f"  {count(self.without_entries, 'sample')} without an entry")
