"""Descriptions that begin with files in CNTK's text format."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from numpy.typing import DTypeLike

from headrace.checks import flag_of, path_of
from headrace.dataset.dataset import Dataset
from headrace.dataset.leaf import SourceNode
from headrace.errors import PlanError
from headrace.formats.columnar import cached
from headrace.formats.ctf import CtfSource
from headrace.formats.ctf_schema import CtfStream
from headrace.formats.files import Paths
from headrace.formats.kept import KeptSequences
from headrace.formats.sequences import SequenceSource
from headrace.formats.sidecar import IndexMode

_log = logging.getLogger("headrace")


def read_ctf(
    files: Paths,
    streams: Mapping[str, CtfStream],
    *,
    skip_ids: bool = False,
    max_errors: int = 0,
    dtype: DTypeLike = "float32",
    require_all: bool = False,
    strict: bool = False,
    index: IndexMode = "auto",
    keep_in_memory: bool = False,
    cache: str | os.PathLike[str] | None = None,
) -> Dataset:
    r"""Reads CNTK's text format: lines of named samples, joined to sequences by the ids they begin with.

    Where the first line begins with `|`, or with `skip_ids`, each line is a record, and a column of it one sample: an
    array of shape `(rows, dim)`, or a `Sparse` column. Otherwise a record is a sequence of samples, and its columns are
    `Ragged`. Each stream may say otherwise (`sequence=`). Files that end in `.gz` or `.zst` are unpacked when opened
    (the latter needs `headrace[zstd]`); of others, an index is kept beside the file.

    Leave files alone while they are read. Each read first looks whether its file was changed, and raises
    `DataChangedError` if so; but a file that is cut short in the middle of a read ends the process (SIGBUS), unless
    the environment says `HEADRACE_MAPPED_MB=0`. Replace files by moving new ones into their place, which is safe.

    Args:
        files: A file, a glob pattern (its files in sorted order), or a list of those.
        streams: The streams to read, by the names of their columns; others in the file are passed over.
        skip_ids: Take each line as a record, whatever it begins with (CNTK's `skipSequenceIds`).
        max_errors: 0 raises at the first malformed record that is read. With more, all records are looked at when the
            file is opened: mistakes up to this number are left out with a warning, with the records that lose their
            only sample of a stream by them; one more is an error.
        dtype: Type of the values, `"float32"` or `"float64"`.
        require_all: Take a sequence without a sample of some stream for malformed, as CNTK does; by default it is of
            length 0 there.
        strict: Refuse files in which an id comes again, apart from its sequence; by default that is a warning, and each
            run of lines is a record.
        index: `"auto"` uses and keeps sidecars, `"memory"` makes the index anew and keeps it in memory, `"rebuild"`
            replaces the sidecar.
        keep_in_memory: Parse each record once and keep it.
        cache: A folder to keep parsed columns in, which is made at once if it isn't there or is of other data, and read
            from then on instead of the text.

    Raises:
        FileNotFoundError: If a file isn't there or a pattern matches none.
        IsADirectoryError: If a path is a directory.
        DataError: If a file is empty, damaged in its packing, begins neither with `|` nor with an id, has repeated ids
            while `strict`, or more mistakes than a `max_errors` above 0. Malformed records raise it when they are read.
        PlanError: If the streams contradict each other, or both `keep_in_memory` and `cache` are given.
        ValueError: If an argument is out of range.

    Example:
        >>> import pathlib, tempfile, headrace as hr
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "train.ctf")
        >>> _ = path.write_text("1 |word 4:1 |tag 0:1\n1 |word 7:1 |tag 2:1\n2 |word 5:1 |tag 1:1\n")
        >>> data = hr.read_ctf(path, {"word": hr.sparse(10), "tag": hr.sparse(3)}).batch(2)
        >>> batch = next(iter(hr.Loader(data)))
        >>> [row.ids().tolist() for row in batch["word"]]
        [[4, 7], [5]]
        >>> folder.cleanup()
    """
    skip_ids = flag_of("read_ctf", "skip_ids", skip_ids)
    require_all = flag_of("read_ctf", "require_all", require_all)
    strict = flag_of("read_ctf", "strict", strict)
    keep_in_memory = flag_of("read_ctf", "keep_in_memory", keep_in_memory)
    cache = None if cache is None else path_of(cache)
    if keep_in_memory and cache is not None:
        raise PlanError("keep_in_memory=True and cache=… are two ways of keeping what is parsed; pass one of them")
    source = CtfSource(
        files,
        streams,
        skip_ids=skip_ids,
        dtype=dtype,
        require_all=require_all,
        strict=strict,
        index=index,
        max_errors=max_errors,
    )
    for warning in source.warnings:
        _log.warning("%s", warning.message)
    kept: SequenceSource = source
    if keep_in_memory:
        kept = KeptSequences(source)
    elif cache is not None:
        kept = cached(source, cache)
    return Dataset(SourceNode(kept))
