"""What a decoder does, for slim."""

from __future__ import annotations

from typing import Any

__all__ = ["DataDecoder"]


class DataDecoder:
    """Makes named items of a record."""

    def decode(self, data: Any, items: Any) -> list[Any]:
        """The items asked for, in that order."""
        raise NotImplementedError

    def list_items(self) -> list[str]:
        """The names of the items."""
        raise NotImplementedError
