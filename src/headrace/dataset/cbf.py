"""Files in CNTK's binary format as the beginning of a description."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.checks import flag_of
from headrace.dataset.dataset import Dataset
from headrace.dataset.leaf import SourceNode
from headrace.dataset.sources import concat
from headrace.errors import DataError
from headrace.formats.cbf import CbfSource
from headrace.formats.files import Paths, find_files
from headrace.formats.kept import KeptSequences


def read_cbf(
    files: Paths,
    *,
    rename: Mapping[str, str] | None = None,
    sequence: bool | None = None,
    keep_in_memory: bool = False,
) -> Dataset:
    """Reads the sequences of files in CNTK's binary format, in any order.

    A record is a dict of the files' streams, which must be the same in all of them. Where every sequence has exactly
    one sample, columns are plain: arrays of shape `(rows, width)`, or `Sparse`; else each is a `Ragged` of samples.

    Args:
        files: A file of version 1 of the format, as CNTK's `ctf2bin` and `write_cbf` make it, a glob pattern (its files
            in sorted order), or a list of those.
        rename: New names of streams, by the name in the files; the others keep theirs.
        sequence: False wants exactly one sample in each sequence, True gives `Ragged` columns even then; None goes by
            the files.
        keep_in_memory: Take each record out of its file once and keep it, as for files that are far away.

    Raises:
        FileNotFoundError: If a file isn't there or a pattern matches none.
        DataError: If a file isn't in the format, contradicts itself (the message names the byte), or has other streams
            than the first.
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
    if rename is not None and not isinstance(rename, Mapping):
        raise TypeError(f"rename is a dict of new names by the names in the file, got {rename!r:.60}")
    keep_in_memory = flag_of("read_cbf", "keep_in_memory", keep_in_memory)
    sequence = None if sequence is None else flag_of("read_cbf", "sequence", sequence)
    sources: list[CbfSource] = []
    try:
        for path in find_files(files):
            sources.append(CbfSource(path, rename=rename, sequence=sequence))
            if sources[-1].streams != sources[0].streams:
                raise DataError(
                    f"{path}: expected the streams of {sources[0].path} ({_names(sources[0])}), found "
                    f"{_names(sources[-1])}; read files of other streams by themselves"
                )
    except BaseException:
        for source in sources:
            source.close()
        raise
    if not all(source.plain for source in sources):  # then none of them is
        for number, source in enumerate(sources):
            if source.plain:
                source.close()
                sources[number] = CbfSource(source.path, rename=rename, sequence=True)
    parts = [Dataset(SourceNode(KeptSequences(source) if keep_in_memory else source)) for source in sources]
    return parts[0] if len(parts) == 1 else concat(*parts)


def _names(source: CbfSource) -> str:
    return ", ".join(f"{s.name!r} {'sparse' if s.sparse else 'dense'} {s.shape[0]} {s.dtype}" for s in source.streams)
