"""Puts minibatches of truncated sequences together from the sequences that the slots hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from headrace.batch.column import join_rows, offsets_of
from headrace.batch.columns import Ragged
from headrace.cntk.join import Join
from headrace.cntk.minibatch_data import SequencePiece
from headrace.errors import DataError
from headrace.plan.truncated import Held, Slots, TruncatedMinibatch


class HeldSequences:
    """The samples of the sequences that are in slots, by the sequences' numbers on the timeline.

    Args:
        join: What the sequences are of, for messages.
    """

    def __init__(self, join: Join) -> None:
        self._join = join
        self._rows: dict[int, dict[str, Any]] = {}

    def missing(self, state: Slots) -> list[Held]:
        """What slots hold and this doesn't: after a state was restored."""
        return [held for queue in state.queues for held in queue if held.number not in self._rows]

    def add(self, taken: Iterable[Held], columns: dict[str, Ragged], dropped: Any) -> None:
        """Takes in sequences that were parsed, one a row.

        Raises:
            DataError: If the streams of one have different lengths.
        """
        for row, held in enumerate(taken):
            rows = {name: column[row] for name, column in columns.items()}
            lengths = {name: len(samples) for name, samples in rows.items()}
            if not (dropped is not None and dropped[row]) and (
                len(set(lengths.values())) > 1 or max(lengths.values()) > held.size
            ):
                found = ", ".join(f"{length} of {name}" for name, length in lengths.items())
                raise DataError(
                    f"{self._join.where(held.record)}: sequences that are truncated need as many samples of each "
                    f"stream, {held.size} here; found {found}"
                )
            self._rows[held.number] = rows

    def keep(self, state: Slots) -> None:
        """Forgets what no slot holds any more."""
        numbers = {held.number for queue in state.queues for held in queue}
        self._rows = {number: rows for number, rows in self._rows.items() if number in numbers}

    def assemble(self, step: TruncatedMinibatch) -> tuple[dict[str, Ragged], tuple[SequencePiece, ...]]:
        """The streams of a minibatch, a row for each piece; of what was lost to mistakes there is none."""
        columns: dict[str, Ragged] = {}
        for stream in self._join.streams:
            cuts = [
                self._rows[piece.held.number][stream.name][piece.held.done : piece.held.done + piece.count]
                for piece in step.pieces
            ]
            columns[stream.name] = Ragged(join_rows(cuts), offsets_of(np.array([len(cut) for cut in cuts], np.int64)))
        left = np.flatnonzero(np.any([column.lengths > 0 for column in columns.values()], axis=0))
        if len(left) < len(step.pieces):
            columns = {name: column.take(left) for name, column in columns.items()}
        pieces = [step.pieces[i] for i in left.tolist()]
        return columns, tuple(SequencePiece(piece.slot, piece.begin, piece.end) for piece in pieces)
