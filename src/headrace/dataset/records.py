"""TFRecord files as the beginning of a description."""

from __future__ import annotations

import os
from collections.abc import Sequence

from headrace.checks import flag_of
from headrace.dataset.dataset import Dataset
from headrace.dataset.leaf import SourceNode
from headrace.formats.record_source import RecordStream, Recover, TFRecordSource, check_recover, names_remote
from headrace.formats.sidecar import IndexMode, check_index_mode


def read_tfrecord(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    compression: str | None = "auto",
    verify: bool = True,
    recover: Recover = "raise",
    stream: bool = False,
    index: IndexMode = "auto",
) -> Dataset:
    """Reads the records of TFRecord files as bytes, in any order.

    Where records are is found in one pass and kept beside each plain file as `<file>.hrindex`; it is checked before use
    and made anew when the file has changed. Packed files are unpacked when opened: into memory, or beyond 64 MiB into a
    temporary file.

    Args:
        files: A file, a glob pattern (its files in sorted order), or a list of those. URLs (`s3://…`, `https://…`, with
            `headrace[remote]` and what fsspec needs for the protocol) are streamed.
        compression: How the files are packed: `""`, `"GZIP"`, `"ZLIB"`, `"ZSTD"`, or `"auto"`, which goes by the first
            bytes of each.
        verify: Look at the checksum of each record's data as it is read. Checksums of lengths are always looked at.
        recover: `"raise"` refuses files that are damaged; `"skip"` looks at all checksums first, leaves out what is
            damaged, goes on with the next whole record, and logs a warning that says what was lost.
        stream: Read the files from front to back without index or unpacking them first; then the number of records
            isn't known, as with `from_iterable`.
        index: `"auto"` uses and keeps sidecars, `"memory"` makes the index anew and keeps it in memory, `"rebuild"`
            replaces the sidecar.

    Raises:
        FileNotFoundError: If a file isn't there or a pattern matches none.
        ImportError: If an URL, or a file packed with Zstandard, needs a package that isn't installed.
        DataError: If a file is damaged: "corrupted record at OFFSET" or "truncated record at OFFSET".
        ValueError: If an argument is out of range.

    Example:
        >>> import pathlib, tempfile, headrace as hr
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "words.tfrecord")
        >>> with hr.TFRecordWriter(path) as writer:
        ...     writer.write_many([b"mill", b"wheel", b"race"])
        >>> list(hr.read_tfrecord(path).shuffle(seed=2))
        [b'wheel', b'mill', b'race']
        >>> folder.cleanup()
    """
    verify, stream = flag_of("read_tfrecord", "verify", verify), flag_of("read_tfrecord", "stream", stream)
    if not stream and not names_remote(files):
        source = TFRecordSource(files, compression=compression, verify=verify, recover=recover, index=index)
        return Dataset(SourceNode(source))
    check_index_mode(index)
    check_recover(recover)
    return Dataset(SourceNode(RecordStream(files, compression=compression, verify=verify, skip=recover == "skip")))
