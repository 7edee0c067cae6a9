"""Batches as Python values, which can be compared."""

from __future__ import annotations

from typing import Any


def plain(batch: Any) -> Any:
    """Columns as lists, in the dicts and tuples that they came in."""
    if isinstance(batch, dict):
        return {name: plain(column) for name, column in batch.items()}
    if isinstance(batch, tuple):
        return tuple(plain(column) for column in batch)
    return batch.tolist() if hasattr(batch, "tolist") else list(batch)
