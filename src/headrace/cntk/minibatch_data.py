"""One stream of a minibatch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.batch.columns import Ragged
from headrace.batch.convert import to_torch
from headrace.batch.pad import pad
from headrace.batch.sparse import Sparse


@dataclass(frozen=True, slots=True)
class SequencePiece:
    """Where a sequence lies in a minibatch of truncated sequences.

    Attributes:
        slot: Which of the parallel slots it is in.
        begin: The step at which it begins; negative if that was in a minibatch before.
        end: The step before which it ends; beyond the minibatch if it goes on in the next one.
    """

    slot: int
    begin: int
    end: int


class MinibatchData:
    """One stream of a minibatch.

    Args:
        column: The samples of each sequence (of each piece, where sequences are truncated).
        end_of_sweep: Whether the end of a sweep was reached or passed.
        pieces: Where truncated sequences lie; None if whole ones are meant.
        layout: Slots and steps of truncated sequences.
        device: Where `to_torch` puts tensors by default.

    Example:
        >>> import headrace as hr
        >>> from headrace.cntk import MinibatchData
        >>> data = MinibatchData(hr.Ragged.from_rows([[[1.0], [2.0]], [[3.0]]]), end_of_sweep=True)
        >>> data.num_sequences, data.num_samples, data.shape
        (2, 3, (2, 2, 1))
        >>> data.mask.tolist()
        [[2, 1], [2, 0]]
    """

    __slots__ = ("_column", "_device", "_layout", "_rows", "end_of_sweep", "pieces")

    def __init__(
        self,
        column: Ragged,
        end_of_sweep: bool,
        pieces: tuple[SequencePiece, ...] | None = None,
        layout: tuple[int, int] = (0, 0),
        device: Any = None,
    ) -> None:
        self._column = column
        self._rows: tuple[int, int] | None = None
        self.end_of_sweep = end_of_sweep
        self.pieces = pieces
        self._layout = layout
        self._device = device

    @classmethod
    def of(cls, column: Ragged, rows: tuple[int, int], end_of_sweep: bool, device: Any = None) -> MinibatchData:
        """Some neighbouring rows of a column, which are cut out of it when they are first looked at."""
        data = cls(column, end_of_sweep, device=device)
        data._rows = rows
        return data

    @property
    def column(self) -> Ragged:
        """The samples of each sequence (of each piece, where sequences are truncated)."""
        if self._rows is not None:
            begin, end = self._rows
            self._column, self._rows = self._column[begin:end], None
        return self._column

    @property
    def num_samples(self) -> int:
        """Samples that were delivered."""
        if self._rows is not None:
            begin, end = self._rows
            return int(self._column.offsets[end]) - int(self._column.offsets[begin])
        return len(self._column.values)

    @property
    def num_sequences(self) -> int:
        """Sequences, or pieces of truncated ones."""
        if self._rows is not None:
            return self._rows[1] - self._rows[0]
        return len(self._column)

    def __len__(self) -> int:
        return self.num_sequences

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return f"MinibatchData({self.num_sequences} sequences, {self.num_samples} samples, {kind} {self.shape[2:]})"

    @property
    def is_sparse(self) -> bool:
        """Whether the data is sparse. That of truncated sequences comes out dense, as from CNTK."""
        return isinstance(self.column.values, Sparse) and self.pieces is None

    @property
    def shape(self) -> tuple[int, ...]:
        """Sequences, steps of the longest, and the shape of a sample; of truncated ones slots and steps."""
        values = self.column.values
        sample = (values.width,) if isinstance(values, Sparse) else values.shape[1:]
        if self.pieces is not None:
            return (*self._layout, *sample)
        return (len(self.column), int(self.column.lengths.max(initial=0)), *sample)

    @property
    def mask(self) -> NDArray[np.int8]:
        """2 for the first step of a sequence, 1 for a further one, 0 for a gap; shape `(sequences, longest)`."""
        rows, steps = self._cells()
        mask = np.zeros(self.shape[:2], np.int8)
        mask[rows, steps] = 1
        if self.pieces is None:
            mask[self.column.lengths > 0, :1] = 2
        else:
            lengths = self.column.lengths.tolist()
            begun = [p for p, length in zip(self.pieces, lengths, strict=True) if p.begin >= 0 and length]
            mask[[p.slot for p in begun], [p.begin for p in begun]] = 2
        return mask

    @property
    def data(self) -> Any:
        """The samples: an array of `shape` with zeros in gaps; of sparse ones the column, a `Ragged` of `Sparse`."""
        return self.column if self.is_sparse else self.asarray()

    def asarray(self) -> NDArray[Any]:
        """The samples as an array of `shape`, with zeros in the gaps; of sparse ones too, which may be large."""
        values = self.column.values
        if self.pieces is None and not isinstance(values, Sparse):
            return pad(self.column)
        array = np.zeros(self.shape, values.values.dtype if isinstance(values, Sparse) else values.dtype)
        rows, steps = self._cells()
        if isinstance(values, Sparse):
            entries = values.rows()
            np.add.at(array, (rows[entries], steps[entries], values.indices), values.values)
        else:
            array[rows, steps] = values
        return array

    def as_sequences(self, variable: Any = None) -> list[Any]:
        """Each sequence: an array of shape `(steps, ...)`, or a SciPy matrix in CSR form of shape `(steps, dim)`.

        Args:
            variable: Without effect; CNTK needs it for sparse data.

        Raises:
            ImportError: If the data is sparse and SciPy isn't installed; `pip install scipy`.
        """
        if self.is_sparse:
            return [row.to_scipy() for row in self.column]
        if isinstance(self.column.values, Sparse):
            return [row.to_dense() for row in self.column]
        return list(self.column)

    def to_torch(self, device: Any = None) -> Any:
        """The data as a tensor of `shape`; sparse data as a pair of a CSR tensor of all samples and offsets.

        Args:
            device: Where to put it; by default where the minibatch was asked for, else in main memory.

        Raises:
            ImportError: If torch isn't installed; `pip install 'headrace[torch]'`.
        """
        found = to_torch(self.data)
        device = self._device if device is None else device
        if device is None:
            return found
        return type(found)(*(part.to(device) for part in found)) if isinstance(found, tuple) else found.to(device)

    def _cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The row and the step of each sample."""
        lengths = self.column.lengths
        steps = np.arange(self.num_samples) - np.repeat(self.column.offsets[:-1], lengths)
        if self.pieces is None:
            return np.repeat(np.arange(len(lengths)), lengths), steps
        slots = np.array([piece.slot for piece in self.pieces], np.int64)
        begins = np.array([max(piece.begin, 0) for piece in self.pieces], np.int64)
        return np.repeat(slots, lengths), steps + np.repeat(begins, lengths)
