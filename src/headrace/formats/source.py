"""What a source is: records in some format, read in any order by their number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace.batch.tree import Tree

Fingerprint: TypeAlias = dict[str, int | str | None]


class Source(ABC):
    """Records in some format.

    Sources are immutable once made, and `read` may be called from several threads at once.
    """

    @property
    @abstractmethod
    def kind(self) -> str:
        """The format's name, as it stands in descriptions. A class attribute will do."""

    @property
    @abstractmethod
    def num_records(self) -> int | None:
        """How many records there are; None for a stream, which ends where it ends."""

    @abstractmethod
    def read(self, records: NDArray[np.int64]) -> Tree:
        """Reads records by number, in the order asked for; numbers may repeat.

        Args:
            records: Record numbers, shape `(n,)`.

        Returns:
            A tree of columns of `n` rows; a stream that has ended gives fewer.

        Raises:
            DataError: If a record can't be read; the message names it.
        """

    @abstractmethod
    def column_names(self) -> list[str] | None:
        """The names of the columns that `read` gives (`""` for a bare one); None where only the data can tell."""

    def lengths(self) -> dict[str, Any] | None:
        """Items of each record, by column, where the index knows them: arrays of shape `(num_records,)`, or what can be
        indexed by record numbers as such an array.
        """
        return None

    @abstractmethod
    def fingerprint(self) -> Fingerprint:
        """What tells this data from other data, whatever its path and time: short, and quick to find out."""

    @abstractmethod
    def where(self, record: int) -> str:
        """Names a record for messages, as a person would look for it: `"train.en, line 18"`."""

    def close(self) -> None:  # noqa: B027  most sources hold nothing that must be given back
        """Gives back files and maps. Reading afterwards is an error."""
