"""Files in CNTK's binary format as the beginning of a description."""

from __future__ import annotations

import os
from collections.abc import Mapping

from headrace.dataset.dataset import Dataset
from headrace.dataset.leaf import SourceNode
from headrace.formats.cbf import CbfSource


def read_cbf(
    file: str | os.PathLike[str], *, rename: Mapping[str, str] | None = None, sequence: bool | None = None
) -> Dataset:
    """Reads the sequences of a file in CNTK's binary format, in any order.

    A record is a dict of the file's streams. Where every sequence has exactly one sample, columns are plain: arrays of
    shape `(rows, width)`, or `Sparse`; else each is a `Ragged` of samples.

    Args:
        file: A file of version 1 of the format, as CNTK's `ctf2bin` and `write_cbf` make it.
        rename: New names of streams, by the name in the file; the others keep theirs.
        sequence: False wants exactly one sample in each sequence, True gives `Ragged` columns even then; None goes by
            the file.

    Raises:
        FileNotFoundError: If the file isn't there.
        DataError: If it isn't in the format, or contradicts itself; the message names the byte.
        PlanError: If `rename` names a stream that isn't there.

    Example:
        >>> import pathlib, tempfile, headrace as hr
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "train.cbf")
        >>> hr.write_cbf(path, {"x": hr.Ragged.from_rows([[1.0, 2.0], [3.0]])})
        >>> [record["x"].tolist() for record in hr.read_cbf(path)]
        [[[1.0], [2.0]], [[3.0]]]
        >>> folder.cleanup()
    """
    return Dataset(SourceNode(CbfSource(file, rename=rename, sequence=sequence)))
