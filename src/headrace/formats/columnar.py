"""A cache of parsed sequences on disk, read at the speed of a memory map.

A cache is a folder: `columns.json`, and one file of bare little-endian numbers for each array of each stream. It holds
what one source (its fingerprint), read with one set of streams, parses to; it is only ever an optimisation. Making it
reads the source once, in blocks, so memory stays bounded; it is made in a folder beside its place and moved there when
it is complete. Delete the folder to be rid of it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.column import flat_parts
from headrace.batch.columns import Ragged
from headrace.batch.sparse import Sparse
from headrace.errors import DataError
from headrace.formats.atomic import unfinished_path, write_atomic
from headrace.formats.in_order import in_order
from headrace.formats.parsed import take_parsed
from headrace.formats.sequences import Parsed, SequenceSource, SequenceStream, StoredSequences, records_a_block

VERSION = 1
BLOCK_BYTES = 4 << 20
"""Bytes of text that are parsed in one go, on each of a few threads."""
_MANIFEST = "columns.json"
_log = logging.getLogger("headrace")


class CachedSequences(StoredSequences):
    """Sequences read from a columnar cache instead of from their source.

    Use `cached` to make one. Files of the cache must not be written to; each read first looks whether they were.
    """

    def __init__(self, source: SequenceSource, folder: str) -> None:
        super().__init__(source)
        self._folder = folder
        manifest = _manifest(folder)
        if manifest["about"] != _about(source):
            raise DataError("it is of other data, or of other streams")
        self._files: list[_native.FileBytes] = []
        self._parsed = Parsed(
            {stream.name: self._open(stream, number, manifest) for number, stream in enumerate(source.streams)}
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """The source and the folder."""
        return CachedSequences, (self._source, self._folder)

    def _open(self, stream: SequenceStream, number: int, manifest: dict[str, Any]) -> Ragged:
        arrays = []
        for entry in manifest["streams"][number]:
            file = _native.FileBytes.open(os.path.join(self._folder, entry["file"]))
            if file.size != entry["bytes"] or f"{file.sample():016x}" != entry["sample"]:
                raise DataError(f"its file {entry['file']} is not what was written")
            self._files.append(file)
            arrays.append(file.array().view(np.dtype(entry["dtype"])))
        *values, offsets = arrays
        if stream.sparse:
            return Ragged(Sparse(values[0], values[1], values[2], stream.shape[-1]), offsets)
        return Ragged(values[0].reshape(-1, *stream.shape), offsets)

    @property
    def num_bytes(self) -> int:
        """Of the cache."""
        return sum(file.size for file in self._files)

    def parse(self, records: NDArray[np.int64]) -> Parsed:
        """Takes the records out of the cache.

        Raises:
            DataChangedError: If a file of the cache was written to.
            IndexError: If a record isn't there.
        """
        for file in self._files:
            file.check_unchanged()
        return super().parse(records)

    def _take(self, records: NDArray[np.int64]) -> Parsed:
        if not len(records):
            return Parsed({name: column[:0] for name, column in self._parsed.columns.items()})
        return take_parsed(self._parsed, records)

    def lengths(self) -> dict[str, NDArray[Any]]:
        """Samples of each sequence and stream."""
        return {name: column.lengths for name, column in self._parsed.columns.items()}

    def close(self) -> None:
        """Closes the cache and the source."""
        self._files, self._parsed = [], Parsed({})
        super().close()


def cached(source: SequenceSource, folder: str | os.PathLike[str], *, max_bytes: int | None = None) -> SequenceSource:
    """A source that reads from a columnar cache of this one, made first where it isn't there or is of other data.

    Args:
        source: The sequences.
        folder: The cache's folder; its parent must exist.
        max_bytes: The most that the cache may take; by default half of what is free on the disk.

    Returns:
        The cached source; the source itself, with a warning, where no cache can be made: malformed sequences, no room,
        a folder that can't be written.

    Raises:
        DataError: If the folder holds something else than a cache.
    """
    path = os.path.abspath(folder)
    if os.path.lexists(path):
        try:
            return CachedSequences(source, path)
        except (OSError, KeyError, TypeError, ValueError, IndexError) as error:
            _refuse_others(path)
            _log.info("the cache %s is not used: %s; it is made anew", path, error)
    try:
        _make(source, path, max_bytes)
        return CachedSequences(source, path)
    except (OSError, DataError) as error:
        _log.warning("no cache in %s: %s; reading goes on without one", path, error)
        return source


def _refuse_others(path: str) -> None:
    """A folder is replaced only if all that is in it is a cache's."""
    if not os.path.isdir(path):
        raise DataError(f"{path} is no folder; name another one, or one that isn't there yet, for the cache")
    strangers = [name for name in os.listdir(path) if name != _MANIFEST and not name.endswith(".column")]
    if strangers:
        raise DataError(
            f"{path} holds {strangers[0]!r}, which is no part of a cache; name a folder that the cache has to itself"
        )


def _manifest(folder: str) -> dict[str, Any]:
    with open(os.path.join(folder, _MANIFEST), encoding="utf-8") as file:
        found = json.load(file)
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise DataError(f"it is no cache of version {VERSION}")
    return found


def _about(source: SequenceSource) -> dict[str, Any]:
    streams = [[s.name, list(s.shape), s.sparse, s.dtype.str, s.defines_size] for s in source.streams]
    return {"data": source.fingerprint(), "records": source.num_records, "streams": streams}


def _make(source: SequenceSource, path: str, max_bytes: int | None) -> None:
    import shutil  # here, because importing headrace would wait for it

    if max_bytes is None:
        max_bytes = shutil.disk_usage(os.path.dirname(path)).free // 2
    unfinished = unfinished_path(path)
    old = unfinished + ".old"
    os.mkdir(unfinished)
    try:
        _write(source, unfinished, max_bytes)
        if os.path.isdir(path):
            os.rename(path, old)
        os.rename(unfinished, path)
    finally:
        for left in (unfinished, old):  # what was there before is of other data
            shutil.rmtree(left, ignore_errors=True)


def _write(source: SequenceSource, folder: str, max_bytes: int) -> None:
    written = 0
    names = [
        [f"{number}-{part}.column" for part in ("values", *(("indices", "rows") if stream.sparse else ()), "offsets")]
        for number, stream in enumerate(source.streams)
    ]
    with contextlib.ExitStack() as stack:
        files = [[stack.enter_context(open(os.path.join(folder, name), "wb")) for name in own] for own in names]
        dtypes: list[list[str]] = [[] for _ in files]
        joints = [_Joint() for _ in files]
        for parsed in stack.enter_context(contextlib.closing(_blocks(source))):
            for number, stream in enumerate(source.streams):
                arrays = [np.ascontiguousarray(array) for array in joints[number].arrays(parsed.columns[stream.name])]
                dtypes[number] = [array.dtype.str for array in arrays]
                for file, array in zip(files[number], arrays, strict=True):
                    written += array.nbytes
                    if written > max_bytes:
                        raise DataError(f"it would take more than the {max_bytes:,} bytes that it may (max_bytes=…)")
                    file.write(array.data)
        for file in (f for own in files for f in own):
            file.flush()
            os.fsync(file.fileno())
    entries = [[_entry(folder, *pair) for pair in zip(*own, strict=True)] for own in zip(names, dtypes, strict=True)]
    manifest = {"version": VERSION, "about": _about(source), "streams": entries}
    write_atomic(os.path.join(folder, _MANIFEST), [json.dumps(manifest).encode()])


def _entry(folder: str, name: str, dtype: str) -> dict[str, Any]:
    """What the manifest says of a file."""
    content = _native.FileBytes.open(os.path.join(folder, name))
    return {"file": name, "dtype": dtype, "bytes": content.size, "sample": f"{content.sample():016x}"}


def _blocks(source: SequenceSource) -> Generator[Parsed, None, None]:
    """The whole source, parsed in pieces of bounded size; at least one, so that types are known."""
    count = source.num_records
    size = records_a_block(source, BLOCK_BYTES)

    def parse(start: int) -> Parsed:
        parsed = source.parse(np.arange(start, min(start + size, count)))
        if len(parsed.error_rows):
            raise DataError(f"the data has mistakes, and a cache would hide them: {parsed.explain(0)}")
        return parsed

    return in_order(parse, range(0, max(count, 1), size))


class _Joint:
    """Writes the blocks of a stream one after another: offsets go on from block to block."""

    def __init__(self) -> None:
        self.samples = 0
        self.entries = 0
        self.begun = False

    def arrays(self, column: Ragged) -> list[NDArray[Any]]:
        """A block's arrays as they stand in the whole."""
        own = slice(1 if self.begun else 0, None)  # a block's first offset is the last one's end
        arrays = list(flat_parts(column.values))
        offsets = (column.offsets + self.samples)[own]
        if isinstance(column.values, Sparse):
            arrays[2] = (arrays[2] + self.entries)[own]
            self.entries += len(column.values.values)
        self.samples += len(column.values)
        self.begun = True
        return [*arrays, offsets]
