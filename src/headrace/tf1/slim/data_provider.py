"""What a provider does, for slim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["DataProvider"]


class DataProvider:
    """Gives named items of one record after another."""

    def __init__(self, items_to_tensors: Mapping[str, Any], num_samples: Any):
        self._items = dict(items_to_tensors)
        self._num_samples = num_samples

    def get(self, items: Sequence[str]) -> list[Any]:
        """The tensors of items, all of one record.

        Raises:
            ValueError: For an item that there isn't.
        """
        if not isinstance(items, list | tuple):
            raise ValueError("items must be a list or tuple")
        unknown = [item for item in items if item not in self._items]
        if unknown:
            raise ValueError(f"Items {unknown} are not among those that there are: {self.list_items()}")
        return [self._items[item] for item in items]

    def list_items(self) -> list[str]:
        """The names of the items."""
        return list(self._items)

    def num_samples(self) -> Any:
        """How many records the dataset is said to have."""
        return self._num_samples
