"""CNTK's order of sequences, bit for bit: sweep after sweep, in the order of the data or shuffled within a window."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.checks import LARGEST, one_of, whole_of
from headrace.errors import PlanError

Unit = Literal["chunks", "samples"]
MAX_SEED = (1 << 64) - 1
_MANY = 1 << 16


@dataclass(frozen=True, slots=True)
class CntkWindow:
    """How far a shuffle may move a sequence.

    Attributes:
        size: Chunks or samples; of 0 and 1 chunks, sequences stay in their chunk.
        unit: `"chunks"` or `"samples"`.
    """

    size: int
    unit: Unit = "chunks"

    def __post_init__(self) -> None:
        one_of("a window", "its unit", self.unit, Unit)
        # Python's own integers: NumPy's overflow, and don't fit into the JSON of a state.
        object.__setattr__(self, "size", whole_of("a window", "its size", self.size, 0, LARGEST))


class CntkOrder:
    """The order in which CNTK 2.7 reads sequences, sweep after sweep (docs/specs/cntk-order.md).

    A sweep's order follows from the seed, the number of the sweep, the chunks and the window, and is made window by
    window from the sweep's beginning on: going on is quick, going back begins the sweep anew.

    Args:
        chunks: Where chunks begin, and last the number of sequences; int64, ascending from 0.
        samples: Samples of each chunk (windows in samples need them), uint64.
        window: How far sequences move; None keeps the order of the data.
        seed: Sweep `s` is shuffled by `seed + s`, modulo 2^64.

    Raises:
        PlanError: If the chunks don't ascend, `samples` doesn't fit them, or the seed is out of range.

    Example:
        >>> import numpy as np
        >>> from headrace.plan.cntk_order import CntkOrder, CntkWindow
        >>> order = CntkOrder(np.array([0, 4, 8]), np.array([4, 4], np.uint64), CntkWindow(2), seed=1)
        >>> records, homes = order.stretch(sweep=0, start=0, stop=8)
        >>> sorted(records.tolist())
        [0, 1, 2, 3, 4, 5, 6, 7]
    """

    def __init__(
        self, chunks: NDArray[np.int64], samples: NDArray[np.uint64], window: CntkWindow | None, seed: int = 0
    ) -> None:
        self._chunks = np.ascontiguousarray(chunks, np.int64)
        self._samples = np.ascontiguousarray(samples, np.uint64)
        if len(self._chunks) != len(self._samples) + 1 or self._chunks[0] != 0 or (np.diff(self._chunks) <= 0).any():
            raise PlanError("chunks ascend from 0, one more than there are numbers of samples")
        seed = whole_of("an order", "its seed", seed, 0, MAX_SEED)
        self._window = window
        self.seed = seed
        self.length = int(self._chunks[-1])
        self.num_chunks = len(self._samples)
        self.shuffled = window is not None
        self._lock = threading.Lock()
        self._sweep = -1
        self._run: _native.CntkSweep | None = None

    def stretch(self, sweep: int, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sequences at the positions `[start, stop)` of a sweep.

        Returns:
            Their record numbers, and the place of the chunk that each came from in the sweep's order of chunks, both
            int64 of shape `(stop - start,)`.

        Raises:
            IndexError: If the positions are outside the sweep.
        """
        if sweep < 0 or not 0 <= start <= stop <= self.length:
            raise IndexError(f"a sweep has the positions [0, {self.length}), got [{start}, {stop}) of sweep {sweep}")
        if self._window is None:
            records = np.arange(start, stop)
            return records, np.searchsorted(self._chunks, records, side="right") - 1
        with self._lock:
            run = self._run
            if run is None or sweep != self._sweep or start < run.position:
                seed = (self.seed + sweep) & MAX_SEED
                in_samples = self._window.unit == "samples"
                run = _native.CntkSweep(self._chunks, self._samples, self._window.size, in_samples, seed)
                self._run, self._sweep = run, sweep
            while run.position < start:
                run.next(min(start - run.position, _MANY))
            return run.next(stop - start)
