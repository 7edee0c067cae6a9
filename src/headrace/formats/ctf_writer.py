"""Writes columns as files in CNTK's text format (CTF)."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.sparse import Sparse
from headrace.checks import flag_of, path_of
from headrace.errors import DataError
from headrace.formats.atomic import write_atomic
from headrace.formats.ctf_append import Before, look_before, old_content
from headrace.formats.ctf_schema import check_alias
from headrace.formats.packed import pack
from headrace.formats.samples import Columns, Samples, Streams, batches_of, contiguous, streams_of

_BLOCK = 1 << 18
"""Numbers that are made text in one go."""


def write_ctf(
    path: str | os.PathLike[str],
    data: Columns | Iterable[Columns],
    *,
    streams: Streams = None,
    ids: bool | str | Any = None,
    first_id: int | None = None,
    append: bool = False,
) -> None:
    r"""Writes columns, or batches of columns, as lines of CNTK's text format.

    Rows of arrays, `Sparse` columns and SciPy's matrices are sequences of one sample; rows of a `Ragged` (or lists of
    matrices) are sequences of samples, a line a step. Numbers are written as short as they can be and yet come back the
    same: float32 as float32, float64 as float64, whole numbers without a point. Memory stays bounded by a batch. The
    file appears when it is complete; it is packed if its name ends in `.gz` or `.zst`.

    Args:
        path: The file; one that is there is replaced.
        data: A dict of columns, or an iterable of such batches: a `Loader`, a generator.
        streams: The columns to write, in that order; a dict gives their names (aliases) in the file. By default all.
        ids: Whether lines begin with the number of their sequence: True for running numbers, False for none, which
            takes rows of one sample alone, None for numbers where a column holds sequences. Or the numbers themselves:
            whole numbers, one a row, or the name of a column of the batches that holds them.
        first_id: The first running number: by default 0, or what follows the last id of a file that is added to.
        append: Keep the lines of a file that is there, and add to them. (The file is copied for it, so that it is whole
            at every moment.) Lines with ids can't follow those without, nor the other way round.

    Raises:
        DataError: If a column can't be written, a number is infinite or NaN (the format has no way to write those), a
            row has no sample, a name can't stand in the format, or an id comes twice; the message names column and row.
        OSError: If the file can't be written.
        ImportError: If packing needs a package that isn't installed.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np, headrace as hr
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "train.ctf")
        >>> words = hr.Ragged(hr.Sparse.from_rows([([3], [1]), ([0], [1]), ([7], [1])], width=9), np.array([0, 2, 3]))
        >>> hr.write_ctf(path, {"word": words, "score": np.array([0.5, 2.0])}, streams={"word": "w", "score": "s"})
        >>> path.read_text().split("\n")
        ['0\t|w 3:1 |s 0.5', '0\t|w 0:1', '1\t|w 7:1 |s 2', '']
        >>> folder.cleanup()
    """
    name = path_of(path)
    before = look_before(name) if flag_of("write_ctf", "append", append) else None
    lines: Iterable[Any] = _Writer(streams, ids, first_id, before).lines(data)
    if before is not None:
        lines = itertools.chain(old_content(name, before), lines)
    write_atomic(name, pack(name, lines))


class _Writer:
    """The lines of a file, block by block."""

    def __init__(self, streams: Streams, ids: Any, first_id: int | None, before: Before | None) -> None:
        self.streams = streams
        self.ids = ids
        self.before = before
        if before is not None and ids is None:
            self.ids = before.last_id is not None
        self.next_id = first_id if first_id is not None else 0
        if before is not None and before.last_id is not None and first_id is None:
            self.next_id = before.last_id + 1
        self.rows = 0
        self.kinds: dict[str, tuple[bool, int, bool]] = {}
        self.last = before.last_id if before is not None else None  # the id before

    def lines(self, data: Columns | Iterable[Columns]) -> Iterator[NDArray[np.uint8]]:
        """The text of the whole file, in pieces."""
        whole = isinstance(data, Mapping)
        for batch in batches_of(data):
            yield from self._batch(batch, whole)
        if not self.kinds:
            raise DataError("expected at least one batch, got none: a file without lines is no file of the format")
        if self.rows == 0:
            raise DataError("expected at least one row, got none: a file without lines is no file of the format")

    def _batch(self, batch: Columns, whole: bool) -> Iterator[NDArray[np.uint8]]:
        streams = self.streams
        if isinstance(self.ids, str) and streams is None:
            streams = [name for name in batch if name != self.ids]
        found = streams_of(batch, streams)
        self._check(found)
        count = len(next(iter(found.values())))
        ids = self._ids_of(batch, found, count, whole)
        for start, stop in _blocks(found, count):
            columns = [_column(name, samples.rows(start, stop)) for name, samples in found.items()]
            own = None if ids is None else ids[start:stop]
            yield _native.ctf_lines(columns, own, 0, stop - start, self.rows + start)
        self.rows += count

    def _check(self, found: dict[str, Samples]) -> None:
        kinds = {name: (s.sparse, s.dim, s.sequences) for name, s in found.items()}
        if not self.kinds:
            for name in kinds:
                try:
                    check_alias(name, "a stream's name in the file")
                except ValueError as error:
                    raise DataError(f"{error}; give another one by streams={{column: name}}") from None
            self.kinds = kinds
        elif kinds != self.kinds:
            name = next((n for n in kinds if kinds[n] != self.kinds.get(n)), next(iter(self.kinds.keys() - kinds), ""))
            raise DataError(
                f"column {name!r}: expected {_describe(self.kinds.get(name))} as in the first batch, got "
                f"{_describe(kinds.get(name))}"
            )

    def _ids_of(self, batch: Columns, found: dict[str, Samples], count: int, whole: bool) -> Any:
        ids = self.ids
        if ids is None:
            ids = any(samples.sequences for samples in found.values())
        if self.before is not None and (self.before.last_id is None) != (ids is False):
            have, are = ("no ids", "some") if self.before.last_id is None else ("ids", "none")
            raise DataError(f"the lines of the file have {have}, and those to be added {are}; leave ids=… out")
        if isinstance(ids, (bool, np.bool_)):
            if not ids:
                return None
            if self.next_id < 0 or self.next_id + count > 1 << 64:
                raise DataError(f"ids are numbers of 64 bits from 0 on, got first_id={self.next_id}")
            if count and self.next_id == self.last:
                raise DataError(f"the id {self.last} is that of the file's last sequence; leave first_id=… out")
            self.next_id += count
            return np.arange(self.next_id - count, self.next_id, dtype=np.uint64)
        if isinstance(ids, str):
            if ids not in batch:
                raise DataError(f"ids names the column {ids!r}; there are {', '.join(map(repr, batch))}")
            ids = batch[ids]
        elif not whole:
            raise DataError("ids is one array, and the data comes in batches; put the ids into a column and name it")
        return self._checked(ids, count)

    def _checked(self, ids: Any, count: int) -> NDArray[np.uint64]:
        array = np.asarray(ids)
        if array.shape != (count,) or array.dtype.kind not in "iu" or (count and int(array.min()) < 0):
            raise DataError(
                f"expected {count} ids, whole numbers from 0 on, got {array.dtype} of shape {array.shape}"
                + (f" with {array.min()}" if array.dtype.kind in "iu" and array.size else "")
            )
        if count:
            values, counts = np.unique(array, return_counts=True)
            if counts.max() > 1 or int(array[0]) == self.last:
                twice = int(array[0]) if int(array[0]) == self.last else int(values[counts.argmax()])
                raise DataError(f"the id {twice} comes twice; lines of one id are one sequence, so give each its own")
            self.last = int(array[-1])
        return np.ascontiguousarray(array, np.uint64)


def _describe(kind: tuple[bool, int, bool] | None) -> str:
    if kind is None:
        return "no such column"
    sparse, dim, sequences = kind
    return f"{'sequences of ' if sequences else ''}{'sparse' if sparse else 'dense'} samples of {dim}"


def _blocks(found: dict[str, Samples], count: int) -> Iterator[tuple[int, int]]:
    """Runs of rows with about as many numbers each."""
    if not count:
        return
    total = np.zeros(count + 1, np.int64)
    for samples in found.values():
        if isinstance(samples.values, Sparse):
            total += samples.values.offsets[samples.offsets] + samples.offsets
        else:
            total += samples.offsets * (samples.dim + 1)
    start = 0
    while start < count:
        stop = int(np.searchsorted(total, total[start] + _BLOCK, side="right")) - 1
        stop = min(max(stop, start + 1), count)
        yield start, stop
        start = stop


def _column(name: str, samples: Samples) -> Any:
    samples = contiguous(samples)
    values = samples.values
    if isinstance(values, Sparse):
        return name, values.values, values.width, samples.offsets, (values.indices, values.offsets)
    return name, values.reshape(-1), values.shape[1], samples.offsets, None
