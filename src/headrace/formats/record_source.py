"""Records of TFRecord files, read in any order by an index, or streamed from front to back."""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headrace import _native
from headrace.batch.columns import Bytes
from headrace.checks import one_of
from headrace.errors import DataError
from headrace.formats import sidecar
from headrace.formats.files import FileState, Paths, find_files, open_bytes, state_of
from headrace.formats.files_source import FilesSource
from headrace.formats.packed import spool, unpack
from headrace.formats.record_file import (
    Compression,
    LostBytes,
    check_compression,
    find_compression,
    packing_hint,
    record_error,
    report,
)
from headrace.formats.remote import find_remote, is_remote, size_of
from headrace.formats.sidecar import IndexMode, check_index_mode
from headrace.formats.source import Fingerprint
from headrace.formats.stream import StreamSource
from headrace.formats.tfrecord import RecordReader

Recover: TypeAlias = Literal["raise", "skip"]


def check_recover(recover: object) -> None:
    """Refuses what is no `Recover`.

    Raises:
        ValueError: As said.
    """
    one_of("", "recover", recover, Recover, error=ValueError)


_TYPES: dict[str, type[np.generic]] = {"offsets": np.uint64, "lengths": np.uint64}
_LOST_TYPES: dict[str, type[np.generic]] = {"lost": np.uint64, "reasons": np.uint8}
_REMEDY = "copy or write the file again, or leave out what is damaged: recover='skip'"


@dataclass(frozen=True, slots=True, eq=False)
class _RecordFile:
    path: str
    bytes: _native.FileBytes
    offsets: NDArray[np.uint64]
    lengths: NDArray[np.uint64]
    lost: list[LostBytes]
    sidecar: sidecar.Sidecar | None
    state: FileState


class TFRecordSource(FilesSource):
    """The records of TFRecord files, in the order of the files.

    The index (where records are) is kept beside each plain file as a sidecar; packed files are unpacked and indexed
    each time they are opened. Files may not be written to while they are in use.

    Args:
        files: A path, a glob pattern, or a list of those.
        compression: `""`, `"GZIP"`, `"ZLIB"`, `"ZSTD"`, or `"auto"`: by the first bytes of each file.
        verify: Whether the checksum of a record's data is looked at when it is read.
        recover: `"raise"` refuses damaged files; `"skip"` looks at all checksums first, leaves damaged records out and
            says so in one logged warning a file.
        index: As for `TextSource`.

    Raises:
        OSError: If a file can't be found or opened.
        DataError: If a file is damaged.
        ValueError: If an argument is out of range.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from headrace.formats.record_source import TFRecordSource
        >>> from headrace.formats.tfrecord_writer import TFRecordWriter
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "words.tfrecord")
        >>> with TFRecordWriter(path) as writer:
        ...     writer.write_many([b"mill", b"wheel", b"race"])
        >>> TFRecordSource(path).read(np.array([2, 0])).tolist()
        [b'race', b'mill']
        >>> folder.cleanup()
    """

    kind = "tfrecord"
    _settings = ("_compression", "_verify", "_recover")
    _files: list[_RecordFile]
    _reader: _native.RecordReader | None

    def __init__(
        self,
        files: Paths,
        *,
        compression: str | None = "auto",
        verify: bool = True,
        recover: Recover = "raise",
        index: IndexMode = "auto",
    ) -> None:
        check_index_mode(index)
        check_recover(recover)
        self._compression = _checked(compression)
        self._verify = verify
        self._recover: Recover = recover
        self._index: IndexMode = index
        self._open(find_files(files))

    def _open(self, paths: list[str]) -> None:
        skip = self._recover == "skip"
        files = [_open_file(path, _kind(path, self._compression), self._index, skip) for path in paths]
        self._files = files
        self._reader = _native.RecordReader(
            [file.bytes for file in files],
            [file.offsets for file in files],
            [file.lengths for file in files],
            [file.sidecar.file if file.sidecar else None for file in files],
        )
        self._num_records: int = self._reader.records

    @property
    def num_records(self) -> int:
        """Records of all files."""
        return self._num_records

    @property
    def indexed(self) -> bool:
        """Whether the indexes of all files were there when they were opened."""
        return all(file.sidecar is not None for file in self._files)

    @property
    def lost(self) -> list[LostBytes]:
        """What was left out of the files, with `recover="skip"`."""
        return [lost for file in self._files for lost in file.lost]

    def read(self, records: NDArray[np.int64]) -> Bytes:
        """Reads the data of records.

        Raises:
            IndexError: If a record isn't there.
            DataChangedError: If a file is not what it was when it was opened.
            DataError: If a checksum is wrong, or the index doesn't fit the file.
        """
        return Bytes(*self._opened().read(np.ascontiguousarray(records, np.int64), self._verify))

    def column_names(self) -> list[str]:
        """One column, without a name."""
        return [""]

    def where(self, record: int) -> str:
        """File and number of the record in it, counted from 0."""
        file, row = self._opened().locate(record)
        return f"{self._files[file].path}, record {row}"

    def close(self) -> None:
        """Closes the files."""
        self._reader = None
        self._files = []

    def _opened(self) -> _native.RecordReader:
        self._check_open()
        assert self._reader is not None
        return self._reader


class RecordStream(StreamSource):
    """The records of TFRecord files from front to back, in bounded memory: for packed files too large to unpack.

    Args:
        files: A path, a glob pattern, an URL, or a list of those.
        compression: As for `TFRecordSource`.
        verify: Whether the checksums of data are looked at.
        skip: Leave out what is damaged, and say so in one logged warning a file.
    """

    kind = "tfrecord stream"

    def __init__(
        self, files: Paths, *, compression: str | None = "auto", verify: bool = True, skip: bool = False
    ) -> None:
        self._skip = skip
        self._paths = _find(files)
        self._compression = _checked(compression)
        self._verify = verify
        self._first = [0]  # number of the first record of each file that was come to
        super().__init__(self._records)

    @property
    def paths(self) -> list[str]:
        """The files, in the order of their records."""
        return list(self._paths)

    def _records(self) -> Iterator[bytes]:
        count = 0
        for number, path in enumerate(self._paths):
            for _, record in RecordReader(path, _kind(path, self._compression), verify=self._verify, skip=self._skip):
                yield record
                count += 1
            self._first[number + 1 :] = [count]

    def bearings(self) -> list[int]:
        """Where each file begins that was come to."""
        return self._first

    def take_bearings(self, bearings: list[int]) -> None:
        """Takes over where files begin."""
        self._first = bearings

    def fingerprint(self) -> Fingerprint:
        """Number and sizes of the files; their content isn't looked at."""
        sizes = [size_of(path) for path in self._paths]
        return {"records": None, "files": len(sizes), "bytes": sum(size or 0 for size in sizes)}

    def where(self, record: int) -> str:
        """File and number of the record in it, counted from 0."""
        first = self._first[: len(self._paths)]
        file = bisect.bisect_right(first, record) - 1
        return f"{self._paths[file]}, record {record - first[file]}"


def _find(files: Paths) -> list[str]:
    if isinstance(files, (str, os.PathLike)):
        return find_remote(str(files)) if is_remote(files) else find_files(files)
    if isinstance(files, Sequence) and any(map(is_remote, files)):
        return [path for entry in files for path in _find(entry)]
    return find_files(files)


def names_remote(files: Paths) -> bool:
    """Whether there is an URL among files."""
    if isinstance(files, (str, os.PathLike)):
        return is_remote(files)
    return isinstance(files, Sequence) and any(map(is_remote, files))


def _checked(compression: str | None) -> str:
    return "auto" if isinstance(compression, str) and compression == "auto" else check_compression(compression)


def _kind(path: str, compression: str) -> Compression:
    return find_compression(path) if compression == "auto" else check_compression(compression)


def _open_file(path: str, compression: Compression, index: IndexMode, skip: bool) -> _RecordFile:
    try:
        return _open_packed(path, compression, skip) if compression else _open_plain(path, index, skip)
    except DataError as error:
        if hint := packing_hint(path, compression):
            error.args = (f"{error}{hint}",)
        raise


def _open_packed(path: str, compression: Compression, skip: bool) -> _RecordFile:
    state = state_of(path)
    broken: list[str] = []

    def pieces() -> Iterator[bytes]:
        try:
            yield from unpack(path, compression)
        except DataError as error:
            if not skip:
                raise
            broken.append(str(error))

    content = spool(pieces(), path)
    return _index_file(path, content, skip, state, None, broken)[0]


def _open_plain(path: str, index: IndexMode, skip: bool) -> _RecordFile:
    state = state_of(path)
    if path.endswith((".gz", ".zst")):
        content = _native.FileBytes.open(path)  # a name alone doesn't make it packed
    else:
        content = open_bytes(path)
    if index == "memory":
        return _index_file(path, content, skip, state, None)[0]
    about = {
        "format": "tfrecord",
        "size": content.size,
        "mtime_ns": content.mtime_ns,
        "sample": f"{content.sample():016x}",
        "recover": skip,
    }
    beside = sidecar.sidecar_path(path, "recovered" if skip else "")
    types = _TYPES | (_LOST_TYPES if skip else {})
    if index == "auto" and (found := sidecar.load(beside, about, types)):
        arrays = found.arrays
        if len(arrays["offsets"]) == len(arrays["lengths"]):
            lost = _lost_of(path, arrays["lost"], arrays["reasons"]) if skip else []
            report(path, lost)
            return _RecordFile(path, content, arrays["offsets"], arrays["lengths"], lost, found, state)
    file, arrays = _index_file(path, content, skip, state, beside)
    sidecar.store(beside, about, arrays)
    return file


def _index_file(
    path: str,
    content: _native.FileBytes,
    skip: bool,
    state: FileState,
    beside: str | None,
    broken: Sequence[str] = (),
) -> tuple[_RecordFile, dict[str, NDArray[Any]]]:
    offsets, lengths, fault, stretches = _native.index_records(content, skip)
    if fault[0]:
        raise record_error(path, fault, _REMEDY)
    arrays: dict[str, NDArray[Any]] = {"offsets": offsets, "lengths": lengths}
    lost = [LostBytes(path, *stretch) for stretch in stretches]
    lost += [LostBytes(path, content.size, content.size, reason) for reason in broken]
    if skip and beside:
        arrays["lost"] = np.array([bound for part in lost for bound in (part.begin, part.end)], np.uint64)
        arrays["reasons"] = np.frombuffer("\n".join(part.reason for part in lost).encode(), np.uint8)
    report(path, lost)
    return _RecordFile(path, content, offsets, lengths, lost, None, state), arrays


def _lost_of(path: str, bounds: NDArray[np.uint64], reasons: NDArray[np.uint8]) -> list[LostBytes]:
    pairs = bounds.reshape(-1, 2).tolist()
    if not pairs:
        return []
    texts = reasons.tobytes().decode().split("\n")
    if len(texts) != len(pairs):
        raise DataError(f"the index of {path} contradicts itself; open the file with index='rebuild'")
    return [LostBytes(path, begin, end, text) for (begin, end), text in zip(pairs, texts, strict=True)]
