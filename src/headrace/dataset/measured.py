"""Batches of records that have been read, for only then it is known how long they are, or which of them there are."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.dataset.node import BatchReader, BatchRecords, Bucketing, FilteredSlice, LateBatching, Packing, Records
from headrace.errors import PlanError
from headrace.plan import Blocks
from headrace.plan.windowed import check_window

_BLOCK = 1024  # positions that are read as one piece where lengths are measured; no saved position counts them


def measured_batches(
    what: str,
    built: Records,
    reader: BatchReader,
    grouping: Bucketing | Packing,
    *,
    window: int | None,
    drop_remainder: bool,
    is_whole: bool,
    advice: str,
) -> BatchRecords:
    """Batches that are put together as records arrive.

    Args:
        what: The operation, for messages.
        built: The records.
        reader: Makes batches of them.
        grouping: How they come together.
        window: Records that do; None is the whole epoch.
        drop_remainder: Leave out batches that aren't full at the end of a window.
        is_whole: Whether there are no streams among the sources, which may end.
        advice: What to do where windows can't be found.

    Raises:
        PlanError: If it can't be known where a window begins, or none ends.
    """
    sifted = built.sifted or FilteredSlice(_BLOCK, None)
    if sifted.is_slice:
        raise PlanError(
            f"{what} can't follow take, skip, slice or shard of what a filter left: where in it a window begins is "
            f"known only as it is read; {advice}"
        )
    check_window(what, built.plan, window)
    endless = built.plan.length is None and is_whole
    late = LateBatching(built.reader, 0, drop_remainder, sifted, endless, grouping)
    return BatchRecords(Blocks(built.plan, sifted.block, window), reader, late)


def check_columns(says: str, named: Sequence[str], reader: BatchReader) -> None:
    """Refuses columns that there aren't, where the columns are known.

    Raises:
        PlanError: If there is one; `says` begins the message.
    """
    names = reader.column_names()
    for name in named:
        if names is not None and name not in names:
            raise PlanError(f"{says} column {name!r}; the columns are {names}")
