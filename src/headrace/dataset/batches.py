"""The fluent surface of batches, and where to find what neither they nor datasets have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.batch.pad import Side
from headrace.checks import flag_of, one_of, whole_of
from headrace.dataset.arguments import check_function, size
from headrace.dataset.batch_ops import MapBatches, Pad, Padding, as_columns
from headrace.dataset.node import BatchNode, steps
from headrace.dataset.program import compile_program

_AFTER_BATCH = "comes after batch(…) or bucket(…)"
_BEFORE_BATCH = "comes before batch(…) or bucket(…)"
ELSEWHERE = {
    "pad": _AFTER_BATCH,
    "padded_batch": "is batch(…, ragged=…).pad(…)",
    "bucket_by_sequence_length": "is bucket(…)",
    "prefetch": "is done by the loader: Loader(workers=…, prefetch=…)",
    "to_torch": "is asked of the loader: Loader(…, to='torch')",
}
"""What users of other libraries look for here, and where it is."""


def elsewhere(kind: object, name: str, hints: Mapping[str, str]) -> AttributeError:
    """The error for a name that a class doesn't have, with a hint where it may be found."""
    hint = f"; {name} {hints[name]}" if name in hints else ""
    return AttributeError(f"{type(kind).__name__} has no {name!r}{hint}", name=name, obj=kind)


class Batches:
    """Batches in an order, described but not read: what a `Loader` takes.

    Made by `Dataset.batch`, `bucket` and `pack`. All methods return new batches and leave these as they are.

    Example:
        >>> import headrace as hr
        >>> batches = hr.from_dataset(range(5)).batch(2)
        >>> batches, len(hr.Loader(batches))
        (dataset() → batch(2), 3)
    """

    def __init__(self, node: BatchNode) -> None:
        self._node = node

    def __repr__(self) -> str:
        return " → ".join(steps(self._node))

    def __getattr__(self, name: str) -> Any:
        raise elsewhere(self, name, dict.fromkeys(_record_methods(), _BEFORE_BATCH) | ELSEWHERE)

    def pad(
        self,
        value: float | Mapping[str, float] = 0,
        *,
        columns: str | Sequence[str] | None = None,
        side: Side = "right",
        multiple_of: int = 1,
        width: int | None = None,
        lengths: bool = True,
    ) -> Batches:
        """Makes arrays of rows of varying length by filling them up.

        The lengths come beside each padded column: for a column `"src"` of a dict as `"src_len"`, elsewhere as a pair
        `(array, lengths)` in its place.

        Args:
            value: What to fill with: one value, or a dict by column (0 for those it doesn't name).
            columns: The columns to pad; None pads every ragged one.
            side: `"right"` fills after a row, `"left"` before it.
            multiple_of: Widths are rounded up to a multiple of this.
            width: Items a row; None takes those of the batch's longest.
            lengths: Whether to give the lengths.

        Raises:
            PlanError: If an argument is out of range, or (when compiled) a column isn't there.

        Example:
            >>> import headrace as hr
            >>> data = hr.from_arrays({"x": hr.Ragged.from_rows([[1, 2], [3]])}).batch(2).pad(value=-1)
            >>> batch = next(iter(hr.Loader(data)))
            >>> batch["x"].tolist(), batch["x_len"].tolist()
            ([[1, 2], [3, -1]], [2, 1])
        """
        one_of("pad", "side", side, Side)
        multiple_of, width = whole_of("pad", "multiple_of", multiple_of, 1), size("pad", "width", width)
        lengths = flag_of("pad", "lengths", lengths)
        return Batches(Pad(self._node, Padding(value, as_columns(columns), side, multiple_of, width, lengths)))

    def map(self, fn: Callable[[Any], Any]) -> Batches:
        """Replaces each batch by what a function makes of it.

        Args:
            fn: Takes a batch as the loader would give it.

        Raises:
            PlanError: If it is no function.

        Example:
            >>> import numpy as np
            >>> import headrace as hr
            >>> data = hr.from_arrays(np.arange(4)).batch(2).map(lambda batch: batch * 10)
            >>> [batch.tolist() for batch in hr.Loader(data)]
            [[0, 10], [20, 30]]
        """
        check_function("map", fn)
        return Batches(MapBatches(self._node, fn))

    def fill(self, epoch: int = 0, *, windows: int | None = None) -> float:
        """How full batches are: the share of their places that items of records take; the rest is padding.

        It is found out from the plan of `pack` or `bucket`; no record is read.

        Args:
            epoch: Of which epoch.
            windows: How many windows to look at; None looks at all (8, if the batches have no end).

        Raises:
            PlanError: If the batches don't go by lengths that an index knows.

        Example:
            >>> import headrace as hr
            >>> data = hr.from_dataset([[1, 2, 3]] * 100, lengths=[3] * 100)
            >>> data.pack(8, batch_size=4).fill(), data.pack(8, batch_size=4, strategy="concat").fill()
            (0.75, 0.986...)
        """
        epoch = whole_of("fill", "epoch", epoch, 0)
        plan = compile_program(self._node).plan
        count = plan.num_windows(epoch)
        most = size("fill", "windows", windows)
        if count is None:
            count = 8 if most is None else most
        filled = places = 0
        for index in range(count if most is None else min(count, most)):
            items, room = plan.places(epoch, index)
            filled, places = filled + items, places + room
        return filled / places if places else 1.0


def _record_methods() -> frozenset[str]:
    from headrace.dataset.dataset import Dataset  # which makes batches, and so imports this module

    return frozenset(dir(Dataset)) - frozenset(dir(Batches))
